// What a database knows of the kernels that are timed.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "db/query.h"
#include "loopwright/runtime.h"
#include "src/runtime/cuda_device.h"

namespace loopwright::bench {

class Database {
 public:
  static Result<Database> open(const std::string& path);
  /// The largest relative error found when the variant with this label (Plan::Choice) was verified; negative when the
  /// database has no verification of it.
  double find_error(const std::string& workload, const std::string& label) const;
  /// Shapes at which the tuner measured a workload, by its own symbols.
  std::set<Bindings> probes_of(const std::string& workload) const;
  /// Plans of one kernel, one for each candidate of it whose code the database has: what its variants were chosen from.
  Result<std::vector<Plan>> rivals_of(const PlanSpec& spec, const std::shared_ptr<const runtime::Device>& device) const;

 private:
  explicit Database(db::Query query) : query_(std::move(query)) {}
  db::Query query_;
};

}  // namespace loopwright::bench
