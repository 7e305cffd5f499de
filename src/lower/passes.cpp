#include "src/lower/passes.h"

#include <chrono>

#include "src/ir/simplify.h"
#include "src/ir/verify.h"
#include "src/lower/check_resources.h"
#include "src/lower/expand_unroll.h"
#include "src/lower/expand_updates.h"
#include "src/lower/flatten_indices.h"
#include "src/lower/partition_loops.h"
#include "src/lower/place_buffers.h"
#include "src/lower/separate_lanes.h"
#include "src/lower/settle_loops.h"

namespace loopwright::lower {
namespace {

using ir::Level;

Result<ir::Kernel> simplify_kernel(const ir::Kernel& kernel, const LowerOptions&) { return ir::simplify(kernel); }

}  // namespace

const std::vector<Pass>& passes() {
  static const std::vector<Pass> list = {
      {"settle_loops", Level::scheduled, Level::scheduled, settle_loops},
      {"expand_unroll", Level::scheduled, Level::scheduled, expand_unroll},
      {"simplify", Level::scheduled, Level::scheduled, simplify_kernel},
      {"partition_loops", Level::scheduled, Level::scheduled, partition_loops},
      {"simplify", Level::scheduled, Level::scheduled, simplify_kernel},
      {"separate_lanes", Level::scheduled, Level::scheduled, separate_lanes},
      {"simplify", Level::scheduled, Level::scheduled, simplify_kernel},
      {"expand_updates", Level::scheduled, Level::scheduled, expand_updates},
      {"flatten_indices", Level::scheduled, Level::flat, flatten_indices},
      {"simplify", Level::flat, Level::flat, simplify_kernel},
      {"place_buffers", Level::flat, Level::flat, place_buffers},
      {"check_resources", Level::flat, Level::emittable, check_resources},
  };
  return list;
}

namespace {

Result<ir::Kernel> run_passes(ir::Kernel kernel, std::size_t count, const LowerOptions& options) {
  if (kernel.level == Level::naive) kernel.level = Level::scheduled;  // a naive kernel is a scheduled one without steps
  for (std::size_t i = 0; i < count; ++i) {
    const Pass& pass = passes()[i];
    LW_BUG_IF(kernel.level != pass.before, std::string(pass.name) + " was given a kernel at level " + std::string(ir::name(kernel.level)));
    const ir::Stmt before = kernel.body;
    const auto start = std::chrono::steady_clock::now();
    LW_TRY(kernel, pass.run(kernel, options));
    kernel.level = pass.after;
    const auto time = std::chrono::steady_clock::now() - start;
    if (options.verify_each) {
      const Status status = ir::verify(kernel);
      LW_BUG_IF(!status.ok(), std::string("after pass ") + pass.name + ": " + status.error().message());
    }
    if (options.observe) {
      const std::int64_t time_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
      options.observe({pass.name, pass.before, pass.after, kernel.body != before, time_ns}, kernel);
    }
  }
  return kernel;
}

}  // namespace

Result<ir::Kernel> lower(const ir::Kernel& scheduled, const LowerOptions& options) {
  return run_passes(scheduled, passes().size(), options);
}

Result<ir::Kernel> lower_to(const ir::Kernel& scheduled, ir::Level level, const LowerOptions& options) {
  if (level < Level::scheduled) return scheduled;
  std::size_t count = passes().size();
  while (count > 0 && passes()[count - 1].after != level) --count;
  return run_passes(scheduled, count, options);
}

}  // namespace loopwright::lower
