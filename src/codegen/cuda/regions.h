// From a kernel's body to the grids that are launched one after the other.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "src/ir/kernel.h"

namespace loopwright::codegen {

struct GridLoop {
  ir::Var var;
  ir::Expr extent;  ///< over symbols only
};

/// What the block that finishes last does.
struct LastBlock {
  ir::Var var;
  ir::Expr extent;
  ir::Stmt body;
  bool per_column = false;  ///< one for each block of grid x, by the last of those with that x; else one block does all
};

/// One launch.
struct Region {
  std::array<std::optional<GridLoop>, 3> grid;  ///< by axis
  ir::Stmt body;                                ///< of the grid loops, with what surrounded it (Let, If) inside
  std::optional<LastBlock> last;
  bool has_grid() const { return grid[0] || grid[1] || grid[2]; }
};

struct RegionPlan {
  std::vector<Region> regions;
  std::vector<ir::Buffer> workspaces;  ///< allocated outside every launch; their shapes are over symbols only
};

/// Each outermost nest of grid loops becomes a launch; what follows it is done by the last of its blocks, and what nothing
/// precedes becomes a launch of one block.
/// compile_failed when a last_block loop does not follow a grid.
Result<RegionPlan> plan_regions(const ir::Kernel& kernel);

}  // namespace loopwright::codegen
