#include "src/ir/arithmetic.h"

#include <bit>
#include <cmath>
#include <limits>

namespace loopwright::ir {

std::int64_t wrapping_add(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
std::int64_t wrapping_mul(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

namespace {

std::int64_t wrapping_sub(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
}
std::int64_t truncated_div(std::int64_t a, std::int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return wrapping_sub(0, a);
  return a / b;
}

std::int64_t truncated_rem(std::int64_t a, std::int64_t b) {
  if (b == 0 || b == -1) return 0;
  return a % b;
}

std::int64_t power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) {
    if (base == 1) return 1;
    if (base == -1) return exponent % 2 == 0 ? 1 : -1;
    return 0;
  }
  std::int64_t out = 1;
  for (; exponent > 0; exponent >>= 1) {
    if (exponent & 1) out = wrapping_mul(out, base);
    base = wrapping_mul(base, base);
  }
  return out;
}

std::int64_t shift_left(DType t, std::int64_t a, std::int64_t count) {
  if (count < 0 || count >= size_bytes(t) * 8) return 0;
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) << count);
}

std::int64_t shift_right(DType t, std::int64_t a, std::int64_t count) {
  if (count < 0 || count >= size_bytes(t) * 8) return a < 0 ? -1 : 0;
  return a >> count;
}

/// NaN when either side is; -0 is below +0, so that the result does not depend on the order.
double minimum(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}
double maximum(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}

double floored_mod(double a, double b) {
  const double r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/// Rounds to `bits` of significand with the smallest exponent of `min_exponent` for the last place.
double round_bits(double value, int bits, int min_exponent) {
  if (value == 0 || !std::isfinite(value)) return value;
  int exponent = 0;
  std::frexp(value, &exponent);
  const int last_place = std::max(exponent - bits, min_exponent);
  return std::ldexp(std::nearbyint(std::ldexp(value, -last_place)), last_place);
}

}  // namespace

bool is_compare(BinaryOp op) { return op >= BinaryOp::eq && op <= BinaryOp::ge; }

std::optional<DType> result_dtype(UnaryOp op, DType a) {
  switch (op) {
    case UnaryOp::neg:
    case UnaryOp::abs:
    case UnaryOp::sign: return a == DType::boolean ? std::nullopt : std::optional(a);
    case UnaryOp::logical_not: return a == DType::boolean ? std::optional(a) : std::nullopt;
    case UnaryOp::bit_not: return is_integer(a) ? std::optional(a) : std::nullopt;
    case UnaryOp::is_nan:
    case UnaryOp::is_inf: return is_float(a) ? std::optional(DType::boolean) : std::nullopt;
    case UnaryOp::round_tf32: return a == DType::f32 ? std::optional(a) : std::nullopt;
    default: return is_float(a) ? std::optional(a) : std::nullopt;
  }
}

std::optional<DType> result_dtype(BinaryOp op, DType a, DType b) {
  if (a != b) return std::nullopt;
  if (is_compare(op)) return DType::boolean;
  switch (op) {
    case BinaryOp::min:
    case BinaryOp::max: return a;
    case BinaryOp::atan2: return is_float(a) ? std::optional(a) : std::nullopt;
    case BinaryOp::and_:
    case BinaryOp::or_:
    case BinaryOp::xor_: return is_float(a) ? std::nullopt : std::optional(a);
    case BinaryOp::shl:
    case BinaryOp::shr: return is_integer(a) ? std::optional(a) : std::nullopt;
    default: return a == DType::boolean ? std::nullopt : std::optional(a);
  }
}

std::int64_t wrap(DType dtype, std::int64_t value) {
  switch (dtype) {
    case DType::boolean: return value != 0;
    case DType::i8: return static_cast<std::int8_t>(value);
    case DType::u8: return static_cast<std::uint8_t>(value);
    case DType::i16: return static_cast<std::int16_t>(value);
    case DType::i32: return static_cast<std::int32_t>(value);
    default: return value;
  }
}

double round_to(DType dtype, double value) {
  switch (dtype) {
    case DType::f32: return static_cast<float>(value);
    case DType::f16: {
      const double rounded = round_bits(value, 11, -24);
      return std::abs(rounded) > 65504.0 ? std::copysign(HUGE_VAL, rounded) : rounded;
    }
    case DType::bf16: {
      const double rounded = round_bits(value, 8, -133);
      return std::abs(rounded) > 0x1.fep127 ? std::copysign(HUGE_VAL, rounded) : rounded;
    }
    default: return value;
  }
}

std::uint16_t to_bf16_bits(double value) {
  if (std::isnan(value)) return 0x7fc0;
  return static_cast<std::uint16_t>(
      std::bit_cast<std::uint32_t>(static_cast<float>(round_to(DType::bf16, value))) >> 16);
}

double from_bf16_bits(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

std::uint16_t to_f16_bits(double value) {
  if (std::isnan(value)) return 0x7e00;
  const double rounded = round_to(DType::f16, value);
  const auto sign = static_cast<std::uint16_t>(std::signbit(rounded) ? 0x8000 : 0);
  const double magnitude = std::abs(rounded);
  if (std::isinf(magnitude)) return sign | 0x7c00;
  if (magnitude < 0x1p-14) return static_cast<std::uint16_t>(sign | static_cast<int>(magnitude * 0x1p24));
  int exponent = 0;
  const double fraction = std::frexp(magnitude, &exponent);  // in [0.5, 1)
  const int significand = static_cast<int>(fraction * 2048) - 1024;
  return static_cast<std::uint16_t>(sign | (exponent + 14) << 10 | significand);
}

double from_f16_bits(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int significand = bits & 1023;
  double magnitude = 0;
  if (exponent == 31) magnitude = significand == 0 ? HUGE_VAL : std::numeric_limits<double>::quiet_NaN();
  else if (exponent == 0) magnitude = significand * 0x1p-24;
  else magnitude = std::ldexp(1024 + significand, exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

std::int64_t floor_div_int(std::int64_t a, std::int64_t b) {
  const std::int64_t q = truncated_div(a, b);
  return b != 0 && b != -1 && a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

std::int64_t mod_int(std::int64_t a, std::int64_t b) {
  const std::int64_t r = truncated_rem(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

std::int64_t apply_int(UnaryOp op, DType t, std::int64_t a) {
  switch (op) {
    case UnaryOp::neg: return wrap(t, wrapping_sub(0, a));
    case UnaryOp::abs: return wrap(t, a < 0 ? wrapping_sub(0, a) : a);
    case UnaryOp::sign: return (a > 0) - (a < 0);
    case UnaryOp::logical_not: return a == 0;
    case UnaryOp::bit_not: return wrap(t, ~a);
    default: break;
  }
  throw_bug(__FILE__, __LINE__, "integer operation", std::string(name(op)));
}

std::int64_t apply_int(BinaryOp op, DType t, std::int64_t a, std::int64_t b) {
  switch (op) {
    case BinaryOp::add: return wrap(t, wrapping_add(a, b));
    case BinaryOp::sub: return wrap(t, wrapping_sub(a, b));
    case BinaryOp::mul: return wrap(t, wrapping_mul(a, b));
    case BinaryOp::div: return wrap(t, truncated_div(a, b));
    case BinaryOp::floor_div: return wrap(t, floor_div_int(a, b));
    case BinaryOp::mod: return mod_int(a, b);
    case BinaryOp::min: return a < b ? a : b;
    case BinaryOp::max: return a > b ? a : b;
    case BinaryOp::pow: return wrap(t, power(a, b));
    case BinaryOp::fmod: return truncated_rem(a, b);
    case BinaryOp::and_: return a & b;
    case BinaryOp::or_: return a | b;
    case BinaryOp::xor_: return a ^ b;
    case BinaryOp::shl: return wrap(t, shift_left(t, a, b));
    case BinaryOp::shr: return wrap(t, shift_right(t, a, b));
    default: break;
  }
  if (is_compare(op)) return compare_int(op, a, b);
  throw_bug(__FILE__, __LINE__, "integer operation", std::string(name(op)));
}

namespace {

/// The operation in double, before rounding to the dtype.
double apply_double(UnaryOp op, double a) {
  switch (op) {
    case UnaryOp::neg: return -a;
    case UnaryOp::abs: return std::abs(a);
    case UnaryOp::sign: return std::isnan(a) || a == 0 ? a : std::copysign(1.0, a);
    case UnaryOp::exp: return std::exp(a);
    case UnaryOp::exp2: return std::exp2(a);
    case UnaryOp::expm1: return std::expm1(a);
    case UnaryOp::log: return std::log(a);
    case UnaryOp::log2: return std::log2(a);
    case UnaryOp::log1p: return std::log1p(a);
    case UnaryOp::sqrt: return std::sqrt(a);
    case UnaryOp::rsqrt: return 1 / std::sqrt(a);
    case UnaryOp::reciprocal: return 1 / a;
    case UnaryOp::cbrt: return std::cbrt(a);
    case UnaryOp::sin: return std::sin(a);
    case UnaryOp::cos: return std::cos(a);
    case UnaryOp::tan: return std::tan(a);
    case UnaryOp::asin: return std::asin(a);
    case UnaryOp::acos: return std::acos(a);
    case UnaryOp::atan: return std::atan(a);
    case UnaryOp::sinh: return std::sinh(a);
    case UnaryOp::cosh: return std::cosh(a);
    case UnaryOp::tanh: return std::tanh(a);
    case UnaryOp::erf: return std::erf(a);
    case UnaryOp::sigmoid: return 1 / (1 + std::exp(-a));
    case UnaryOp::floor: return std::floor(a);
    case UnaryOp::ceil: return std::ceil(a);
    case UnaryOp::round: return std::nearbyint(a);
    case UnaryOp::trunc: return std::trunc(a);
    case UnaryOp::round_tf32: return round_bits(a, 11, -136);  // what is too large becomes infinite as an f32
    case UnaryOp::logical_not:
    case UnaryOp::bit_not:
    case UnaryOp::is_nan:
    case UnaryOp::is_inf: break;
  }
  throw_bug(__FILE__, __LINE__, "float operation", std::string(name(op)));
}

/// f16 and bf16 are computed in f32 first.
double round_result(DType t, double value) {
  if (t == DType::f64) return value;
  const float single = static_cast<float>(value);
  return t == DType::f32 ? single : round_to(t, single);
}

}  // namespace

double apply_float(UnaryOp op, DType t, double a) { return round_result(t, apply_double(op, a)); }

double apply_float(BinaryOp op, DType t, double a, double b) {
  switch (op) {
    case BinaryOp::add: return round_result(t, a + b);
    case BinaryOp::sub: return round_result(t, a - b);
    case BinaryOp::mul: return round_result(t, a * b);
    case BinaryOp::div: return round_result(t, a / b);
    case BinaryOp::floor_div: return std::floor(round_result(t, a / b));
    case BinaryOp::mod: return round_result(t, floored_mod(a, b));
    case BinaryOp::min: return minimum(a, b);
    case BinaryOp::max: return maximum(a, b);
    case BinaryOp::pow: return round_result(t, std::pow(a, b));
    case BinaryOp::atan2: return round_result(t, std::atan2(a, b));
    case BinaryOp::fmod: return round_result(t, std::fmod(a, b));
    default: break;
  }
  throw_bug(__FILE__, __LINE__, "float operation", std::string(name(op)));
}

bool test_float(UnaryOp op, double a) {
  LW_BUG_IF(op != UnaryOp::is_nan && op != UnaryOp::is_inf, std::string(name(op)));
  return op == UnaryOp::is_nan ? std::isnan(a) : std::isinf(a);
}

namespace {
template <class T>
bool compare(BinaryOp op, T a, T b) {
  switch (op) {
    case BinaryOp::eq: return a == b;
    case BinaryOp::ne: return a != b;
    case BinaryOp::lt: return a < b;
    case BinaryOp::le: return a <= b;
    case BinaryOp::gt: return a > b;
    case BinaryOp::ge: return a >= b;
    default: break;
  }
  throw_bug(__FILE__, __LINE__, "comparison", std::string(name(op)));
}
}  // namespace

bool compare_int(BinaryOp op, std::int64_t a, std::int64_t b) { return compare(op, a, b); }
bool compare_float(BinaryOp op, double a, double b) { return compare(op, a, b); }

std::int64_t cast_to_int(DType to, double value) {
  if (to == DType::boolean) return value != 0;
  if (std::isnan(value)) return 0;
  const bool is_unsigned = to == DType::u8;
  const int bits = size_bytes(to) * 8 - (is_unsigned ? 0 : 1);
  const double limit = std::ldexp(1.0, bits);
  const std::int64_t highest = bits == 63 ? INT64_MAX : (std::int64_t{1} << bits) - 1;
  const std::int64_t lowest = is_unsigned ? 0 : -highest - 1;
  const double whole = std::trunc(value);
  if (whole >= limit) return highest;
  if (whole <= static_cast<double>(lowest)) return lowest;
  return static_cast<std::int64_t>(whole);
}

double cast_to_float(DType to, std::int64_t value) {
  if (to == DType::f64) return static_cast<double>(value);
  return round_to(to, static_cast<float>(value));
}

}  // namespace loopwright::ir
