// From a kernel's body to the launches that run one after the other.
#pragma once

#include <optional>
#include <vector>

#include "src/ir/kernel.h"

namespace loopwright::codegen {

/// One launch: iterations [0, extent) of `parallel_var`, or `body` once.
struct LaunchBody {
  std::optional<ir::Var> parallel_var;
  ir::Expr extent;         ///< over symbols only
  ir::Stmt body;           ///< of the parallel loop, with what surrounded it (Let, If) inside
};

struct LaunchPlan {
  std::vector<LaunchBody> launches;
  std::vector<ir::Buffer> workspaces;  ///< allocated outside every launch; their shapes are over symbols only
};

/// Each outermost parallel loop becomes a launch; what lies between two of them becomes a launch of extent 1.
/// Parallel loops below a serial loop, or whose extent is not known before the launch, run serially.
Result<LaunchPlan> plan_launches(const ir::Kernel& kernel);

}  // namespace loopwright::codegen
