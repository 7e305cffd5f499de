// Default schedules, compiled for who has no tuned ones.
#pragma once

#include <exception>
#include <map>
#include <string>
#include <vector>

#include "loopwright/runtime.h"
#include "src/driver/build.h"

namespace loopwright::driver {

/// A default schedule as machine code, and what it was made by.
struct Default {
  Variant variant;
  std::string template_name;
  Picks picks;
  std::string trace;
};

/// The default for all sizes, and where it assumes aligned addresses another one behind it that does not: views may begin
/// anywhere.
Result<std::vector<Default>> compile_defaults(const graph::Workload& workload, const Target& target);

/// Ranges of the workload's only symbol, a factor of four wide, for which the templates choose otherwise than for the
/// largest sizes, each with the schedule; none on a CPU, where compiling takes long.
struct RangedDefault {
  Guard guard;
  Scheduled scheduled;
};
std::vector<RangedDefault> schedule_ranges(const Job& job, const Target& target);

/// Default schedules of workloads that differ.
class Defaults {
 public:
  /// Asks for a workload, which outlives this object; equal ones are compiled once.
  void want(const graph::Workload& workload) { by_digest_.try_emplace(workload.digest, Entry{&workload, {}, {}, {}}); }
  /// Compiles on all cores what is wanted.
  void compile(const Target& target);
  /// Of a workload that was wanted, after `compile`: those of ranges first.
  Result<std::vector<Default>> of(const graph::Workload& workload) const;

 private:
  struct Entry {
    const graph::Workload* workload;
    std::optional<Result<std::vector<Default>>> general;
    std::vector<std::optional<Default>> ranged;  ///< nothing where it cannot be built: the general ones serve
    std::exception_ptr thrown;
  };
  std::map<std::string, Entry> by_digest_;
};

}  // namespace loopwright::driver
