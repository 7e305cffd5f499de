// Which bytes around its address a strided tensor touches.
#pragma once

#include <cstdint>
#include <vector>

#include "loopwright/shape.h"

namespace loopwright::runtime {

/// Bytes [low, high) relative to the address of element zero; empty when the tensor has no element. Saturates, so that a
/// tensor too large for 64 bits is seen to touch everything.
struct ByteBounds {
  std::int64_t low = 0;
  std::int64_t high = 0;
  bool empty() const { return high <= low; }
  bool saturated() const { return high == INT64_MAX || low == INT64_MIN; }
};

ByteBounds find_bounds(const std::int64_t* shape, const std::int64_t* strides, std::size_t rank, DType dtype);
/// The same with sizes as expressions over `symbols`.
ByteBounds find_bounds(const std::vector<SizeExpr>& shape, const std::vector<SizeExpr>& strides, DType dtype,
                       const std::int64_t* symbols);

}  // namespace loopwright::runtime
