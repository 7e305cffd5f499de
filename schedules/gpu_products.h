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
/// The loops of the nest that begins a sum, the last two of them.
std::vector<LoopId> find_zeroing(const Schedule& s, const std::string& sum);
/// The buffers that the tile's products sum into now.
std::vector<std::string> list_sums(const Schedule& s, const std::vector<MatrixProduct>& products);
/// A block for each tile, whose rows (the first of the loops) are those of one group where the product has groups. Returns the
/// loop over all of them. `ahead`: another launch in front looks for the tiles of groups.
LoopId bind_tiles(Schedule& s, const MatrixProduct& p, const std::vector<LoopId>& tiles, std::int64_t rows, bool ahead = false);

/// Extents of a product.
struct ProductSize {
  std::int64_t rows = 0, columns = 0, summands = 0, batch = 1;
  bool is_ragged = false;  ///< rows are the mean of groups, of which `batch` counts them
};
/// Tiles of so many rows that a product has, roughly where rows are in groups.
std::int64_t count_row_tiles(const ProductSize& size, std::int64_t tile);
/// The sizes that a default schedule is chosen for, the largest first: the one that there is, or, where extents are symbols,
/// the largest and those down to a quarter of it.
std::vector<ProductSize> sample_sizes(const Schedule& s, const MatrixProduct& p);

inline std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
/// The domain of a pick whose default is `value`.
std::vector<std::int64_t> put_first(std::int64_t value, std::vector<std::int64_t> domain);

/// What the copy engine and the tensor cores ask of operands, as far as that can be said before any step.
bool suits_tensor_cores(const Schedule& s);
void schedule_tensor_product(Schedule& s, Space& k);
/// The same for f32 operands, as parts of them; whether that is quicker than plain arithmetic, by estimates.
bool suits_parts(const Schedule& s);
bool gains_by_parts(const Schedule& s);
double estimate_product_of_parts(const Schedule& s, const std::vector<ProductSize>& sizes);
void schedule_product_of_parts(Schedule& s, Space& k);
void schedule_plain_product(Schedule& s, Space& k);
/// Products with one side of at most 64 (a symbol: 128), by single warps on the tensor cores of any GPU that has them; whether that is
/// the quickest way, by estimates.
bool suits_thin(const Schedule& s);
bool gains_by_thin(const Schedule& s);
void schedule_thin_product(Schedule& s, Space& k);
/// Clock cycles of the best tile in plain arithmetic, roughly: the geometric mean over the sizes.
double estimate_plain_product(const Schedule& s, const std::vector<ProductSize>& sizes);

}  // namespace loopwright::schedules
