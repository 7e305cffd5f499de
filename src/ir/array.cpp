#include <cstring>

#include "src/ir/arithmetic.h"
#include "src/ir/interpret.h"

namespace loopwright::ir {
namespace {

template <class T>
T read_bytes(const std::uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}
template <class T>
void write_bytes(std::uint8_t* bytes, T value) {
  std::memcpy(bytes, &value, sizeof value);
}

std::size_t byte_offset(const Array& a, const std::vector<std::int64_t>& index) {
  LW_BUG_IF(index.size() != a.shape.size(), "an index of rank " + std::to_string(index.size()));
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < index.size(); ++d) {
    LW_BUG_IF(index[d] < 0 || index[d] >= a.shape[d],
              "index " + std::to_string(index[d]) + " of " + std::to_string(a.shape[d]));
    offset += index[d] * a.strides[d];
  }
  return static_cast<std::size_t>(offset) * static_cast<std::size_t>(size_bytes(a.dtype));
}

}  // namespace

std::int64_t load_integer(DType dtype, const std::uint8_t* bytes) {
  switch (dtype) {
    case DType::boolean: return *bytes != 0;
    case DType::i8: return static_cast<std::int8_t>(*bytes);
    case DType::u8: return *bytes;
    case DType::i16: return read_bytes<std::int16_t>(bytes);
    case DType::i32: return read_bytes<std::int32_t>(bytes);
    case DType::i64: return read_bytes<std::int64_t>(bytes);
    default: return cast_to_int(DType::i64, load_element(dtype, bytes));
  }
}

void store_integer(DType dtype, std::uint8_t* bytes, std::int64_t value) {
  switch (dtype) {
    case DType::boolean: *bytes = value != 0; return;
    case DType::i8:
    case DType::u8: *bytes = static_cast<std::uint8_t>(value); return;
    case DType::i16: write_bytes(bytes, static_cast<std::int16_t>(value)); return;
    case DType::i32: write_bytes(bytes, static_cast<std::int32_t>(value)); return;
    case DType::i64: write_bytes(bytes, value); return;
    default: store_element(dtype, bytes, cast_to_float(dtype, value)); return;
  }
}

double load_element(DType dtype, const std::uint8_t* bytes) {
  switch (dtype) {
    case DType::f16: return from_f16_bits(read_bytes<std::uint16_t>(bytes));
    case DType::bf16: return from_bf16_bits(read_bytes<std::uint16_t>(bytes));
    case DType::f32: return read_bytes<float>(bytes);
    case DType::f64: return read_bytes<double>(bytes);
    default: return static_cast<double>(load_integer(dtype, bytes));
  }
}

void store_element(DType dtype, std::uint8_t* bytes, double value) {
  switch (dtype) {
    case DType::f16: write_bytes(bytes, to_f16_bits(value)); return;
    case DType::bf16: write_bytes(bytes, to_bf16_bits(value)); return;
    case DType::f32: write_bytes(bytes, static_cast<float>(value)); return;
    case DType::f64: write_bytes(bytes, value); return;
    default: store_integer(dtype, bytes, cast_to_int(dtype, value)); return;
  }
}

Array Array::dense(DType dtype, std::vector<std::int64_t> shape) {
  Array out;
  out.dtype = dtype;
  out.shape = std::move(shape);
  out.strides.assign(out.shape.size(), 1);
  for (std::size_t d = out.shape.size(); d-- > 1;) out.strides[d - 1] = out.strides[d] * out.shape[d];
  out.data.assign(static_cast<std::size_t>(out.element_count()) * static_cast<std::size_t>(size_bytes(dtype)),
                  0);
  return out;
}

std::int64_t Array::element_count() const {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

double Array::get(const std::vector<std::int64_t>& index) const {
  return load_element(dtype, data.data() + byte_offset(*this, index));
}
void Array::set(const std::vector<std::int64_t>& index, double value) {
  store_element(dtype, data.data() + byte_offset(*this, index), value);
}
std::int64_t Array::get_int(const std::vector<std::int64_t>& index) const {
  return load_integer(dtype, data.data() + byte_offset(*this, index));
}
void Array::set_int(const std::vector<std::int64_t>& index, std::int64_t value) {
  store_integer(dtype, data.data() + byte_offset(*this, index), value);
}

}  // namespace loopwright::ir
