#include "src/runtime/tensor_bounds.h"

namespace loopwright::runtime {
namespace {

std::int64_t saturate_add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return b < 0 ? INT64_MIN : INT64_MAX;
  return sum;
}

std::int64_t saturate_mul(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return (a < 0) != (b < 0) ? INT64_MIN : INT64_MAX;
  return product;
}

struct ElementBounds {
  std::int64_t low = 0, high = 0;  ///< offsets of the outermost elements
  void add(std::int64_t extent, std::int64_t stride) {
    const std::int64_t reach = saturate_mul(extent - 1, stride);
    std::int64_t& side = reach < 0 ? low : high;
    side = saturate_add(side, reach);
  }
  ByteBounds bytes(DType dtype) const {
    const std::int64_t size = size_bytes(dtype);
    return {saturate_mul(low, size), saturate_mul(saturate_add(high, 1), size)};
  }
};

}  // namespace

ByteBounds find_bounds(const std::int64_t* shape, const std::int64_t* strides, std::size_t rank,
                       DType dtype) {
  ElementBounds bounds;
  for (std::size_t d = 0; d < rank; ++d) {
    if (shape[d] <= 0) return {};
    bounds.add(shape[d], strides[d]);
  }
  return bounds.bytes(dtype);
}

ByteBounds find_bounds(const std::vector<SizeExpr>& shape, const std::vector<SizeExpr>& strides, DType dtype,
                       const std::int64_t* symbols) {
  ElementBounds bounds;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const std::int64_t extent = shape[d].evaluate(symbols);
    if (extent <= 0) return {};
    bounds.add(extent, strides[d].evaluate(symbols));
  }
  return bounds.bytes(dtype);
}

}  // namespace loopwright::runtime
