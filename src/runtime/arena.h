// Where the buffers of a plan lie in its arena: blocks whose lives do not overlap share a slot, for symbolic sizes too.
#pragma once

#include <cstdint>
#include <vector>

#include "loopwright/base.h"
#include "loopwright/shape.h"

namespace loopwright::runtime {

/// Memory that is needed from kernel `first` to kernel `last`, both included.
struct Block {
  SizeExpr bytes;
  int first = 0;
  int last = 0;
};

/// Slots lie one after the other; the size of each is a closed form in the plan's symbols and a multiple of
/// kBlockAlignment, so that an offset is the sum of the sizes before it.
struct ArenaLayout {
  std::vector<SizeExpr> slot_bytes;
  std::vector<std::int32_t> slot_of;  ///< for each block
};

/// Largest first, each into the first slot that is free during its whole life. Sizes are compared at the upper ends of
/// the symbols' ranges, where memory is scarce.
ArenaLayout lay_out(const std::vector<Block>& blocks, const std::vector<Symbol>& symbols);

/// Bytes from the first to behind the last element; never less than needed, for symbols with any value that is not
/// negative. Strides that are negative need a start address elsewhere than at the lowest and do not come here.
SizeExpr span_bytes(const std::vector<SizeExpr>& shape, const std::vector<SizeExpr>& strides, DType dtype);
/// The next multiple of kBlockAlignment.
SizeExpr round_to_block(const SizeExpr& bytes);
/// The larger one, as simple as can be told.
SizeExpr larger_of(const SizeExpr& a, const SizeExpr& b);
/// `expr` with symbol i replaced by symbol `positions[i]`.
SizeExpr move_symbols(const SizeExpr& expr, const std::vector<std::int32_t>& positions);

}  // namespace loopwright::runtime
