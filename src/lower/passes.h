// From a scheduled kernel to an emittable one: a list of passes, each of which keeps the meaning.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "loopwright/target.h"
#include "src/ir/kernel.h"

namespace loopwright::lower {

/// What one pass did.
struct PassRecord {
  std::string name;
  ir::Level before = ir::Level::scheduled;
  ir::Level after = ir::Level::scheduled;
  bool changed = false;
  std::int64_t time_ns = 0;
};

struct LowerOptions {
  Target target{};
#ifdef NDEBUG
  bool verify_each = false;
#else
  bool verify_each = true;  ///< a pass that breaks its level is a Bug that names it
#endif
  /// Called after each pass with the kernel it left.
  std::function<void(const PassRecord&, const ir::Kernel&)> observe{};
  std::int64_t max_statements = 20000;              ///< resource_exceeded beyond
  std::int64_t max_register_bytes = 64 << 10;       ///< of the stack, in all register buffers
  std::int64_t max_scratch_bytes = std::int64_t{256} << 20;  ///< of constant-sized scratch of one worker
};

struct Pass {
  const char* name;
  ir::Level before, after;
  Result<ir::Kernel> (*run)(const ir::Kernel& kernel, const LowerOptions& options);
};
/// In the order in which they run.
const std::vector<Pass>& passes();

/// A naive or scheduled kernel to an emittable one. resource_exceeded when it cannot fit the target.
Result<ir::Kernel> lower(const ir::Kernel& scheduled, const LowerOptions& options);
/// The same, stopped after the last pass that leaves `level`.
Result<ir::Kernel> lower_to(const ir::Kernel& scheduled, ir::Level level, const LowerOptions& options);

}  // namespace loopwright::lower
