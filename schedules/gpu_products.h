// Matrix products on GPUs: what their two kinds, on tensor cores and in plain arithmetic, share.
#pragma once

#include <string>
#include <vector>

#include "schedules/products.h"

namespace loopwright::schedules {

/// A buffer that is written tile by tile, and the loops over the tile.
struct TileResult {
  std::string buffer;
  std::vector<LoopId> loops;
};

/// What follows a tile: the epilogues, applied to it, or the copy to the result.
std::vector<TileResult> finish_result(Schedule& s, const MatrixProduct& p, const LoopId& tile, Place place);
/// The loops of the nest that begins the sums, the last two of them.
std::vector<LoopId> find_zeroing(const Schedule& s);
/// A block for each tile. Returns the loop over all of them.
LoopId bind_tiles(Schedule& s, const MatrixProduct& p, const std::vector<LoopId>& tiles);

/// What the copy engine and the tensor cores ask of operands, as far as that can be said before any step.
bool suits_tensor_cores(const Schedule& s);
void schedule_tensor_product(Schedule& s, Space& k);

}  // namespace loopwright::schedules
