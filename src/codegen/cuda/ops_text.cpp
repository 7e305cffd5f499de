#include "src/codegen/cuda/ops_text.h"

#include <bit>
#include <cinttypes>
#include <cmath>
#include <cstdio>

#include "src/ir/arithmetic.h"

namespace loopwright::codegen {
namespace {

using ir::BinaryOp;
using ir::UnaryOp;

bool is_half(DType t) { return t == DType::f16 || t == DType::bf16; }

std::string call(const std::string& function, const std::string& a) { return function + "(" + a + ")"; }
std::string call(const std::string& function, const std::string& a, const std::string& b) {
  return function + "(" + a + ", " + b + ")";
}
std::string infix(const std::string& a, const char* op, const std::string& b) { return "(" + a + " " + op + " " + b + ")"; }

/// The name of CUDA's function without the f of its float version; null when an operation is not one call.
const char* function_of(UnaryOp op) {
  switch (op) {
    case UnaryOp::exp: return "exp";
    case UnaryOp::exp2: return "exp2";
    case UnaryOp::expm1: return "expm1";
    case UnaryOp::log: return "log";
    case UnaryOp::log2: return "log2";
    case UnaryOp::log1p: return "log1p";
    case UnaryOp::sqrt: return "sqrt";
    case UnaryOp::rsqrt: return "rsqrt";
    case UnaryOp::cbrt: return "cbrt";
    case UnaryOp::sin: return "sin";
    case UnaryOp::cos: return "cos";
    case UnaryOp::tan: return "tan";
    case UnaryOp::asin: return "asin";
    case UnaryOp::acos: return "acos";
    case UnaryOp::atan: return "atan";
    case UnaryOp::sinh: return "sinh";
    case UnaryOp::cosh: return "cosh";
    case UnaryOp::tanh: return "tanh";
    case UnaryOp::erf: return "erf";
    case UnaryOp::floor: return "floor";
    case UnaryOp::ceil: return "ceil";
    case UnaryOp::round: return "rint";
    case UnaryOp::trunc: return "trunc";
    case UnaryOp::abs: return "fabs";
    default: return nullptr;
  }
}

/// `t` is f32 or f64.
std::string float_unary(UnaryOp op, DType t, const std::string& a) {
  const bool wide = t == DType::f64;
  if (const char* function = function_of(op)) return call(std::string(function) + (wide ? "" : "f"), a);
  const std::string suffix = wide ? "_f64" : "_f32";
  switch (op) {
    case UnaryOp::neg: return "(-" + a + ")";
    case UnaryOp::sign: return call("lw_sign" + suffix, a);
    case UnaryOp::sigmoid: return call("lw_sigmoid" + suffix, a);
    case UnaryOp::round_tf32: return call("lw_round_tf32", a);
    case UnaryOp::reciprocal: return wide ? infix("1.0", "/", a) : call("__frcp_rn", a);
    case UnaryOp::is_nan: return infix(a, "!=", a);
    case UnaryOp::is_inf: return infix(call(wide ? "fabs" : "fabsf", a), "==", c_number(HUGE_VAL, t));
    default: break;
  }
  throw_bug(__FILE__, __LINE__, "float operation", std::string(ir::name(op)));
}

std::string wrap_int(DType t, const std::string& a) { return "((" + std::string(c_type(t)) + ")" + a + ")"; }

std::string int_unary(UnaryOp op, DType t, const std::string& a) {
  const std::string wide = "(long long)" + a;
  switch (op) {
    case UnaryOp::neg: return wrap_int(t, "(0ull - (unsigned long long)" + a + ")");
    case UnaryOp::abs: return wrap_int(t, "(" + a + " < 0 ? 0ull - (unsigned long long)" + wide + " : (unsigned long long)" + wide + ")");
    case UnaryOp::sign: return wrap_int(t, "((" + a + " > 0) - (" + a + " < 0))");
    case UnaryOp::logical_not: return "(!" + a + ")";
    case UnaryOp::bit_not: return wrap_int(t, "(~" + a + ")");
    default: break;
  }
  throw_bug(__FILE__, __LINE__, "integer operation", std::string(ir::name(op)));
}

const char* compare_sign(BinaryOp op) {
  switch (op) {
    case BinaryOp::eq: return "==";
    case BinaryOp::ne: return "!=";
    case BinaryOp::lt: return "<";
    case BinaryOp::le: return "<=";
    case BinaryOp::gt: return ">";
    case BinaryOp::ge: return ">=";
    default: return nullptr;
  }
}

std::string float_binary(BinaryOp op, DType t, const std::string& a, const std::string& b, bool contract) {
  const bool wide = t == DType::f64;
  const std::string suffix = wide ? "_f64" : "_f32";
  const auto exact = [&](const char* sign, const char* f32, const char* f64) {
    return contract ? infix(a, sign, b) : call(wide ? f64 : f32, a, b);
  };
  const auto function = [&](const std::string& name) { return call(name + (wide ? "" : "f"), a, b); };
  switch (op) {
    case BinaryOp::add: return exact("+", "__fadd_rn", "__dadd_rn");
    case BinaryOp::sub: return exact("-", "__fsub_rn", "__dsub_rn");
    case BinaryOp::mul: return exact("*", "__fmul_rn", "__dmul_rn");
    case BinaryOp::div: return infix(a, "/", b);
    case BinaryOp::floor_div: return call(wide ? "floor" : "floorf", infix(a, "/", b));
    case BinaryOp::mod: return call("lw_mod" + suffix, a, b);
    case BinaryOp::min: return call("lw_min" + suffix, a, b);
    case BinaryOp::max: return call("lw_max" + suffix, a, b);
    case BinaryOp::pow: return function("pow");
    case BinaryOp::atan2: return function("atan2");
    case BinaryOp::fmod: return function("fmod");
    default: break;
  }
  throw_bug(__FILE__, __LINE__, "float operation", std::string(ir::name(op)));
}

std::string int_binary(BinaryOp op, DType t, const std::string& a, const std::string& b) {
  // Sums and products wrap: unsigned arithmetic of the same or a larger width.
  const std::string kind = t == DType::i64 ? "(unsigned long long)" : "(unsigned)";
  const auto wrapping = [&](const char* sign) { return wrap_int(t, infix(kind + a, sign, kind + b)); };
  const std::string bits = std::to_string(size_bytes(t) * 8);
  switch (op) {
    case BinaryOp::add: return wrapping("+");
    case BinaryOp::sub: return wrapping("-");
    case BinaryOp::mul: return wrapping("*");
    case BinaryOp::div: return wrap_int(t, call("lw_div", a, b));
    case BinaryOp::floor_div: return wrap_int(t, call("lw_floor_div", a, b));
    case BinaryOp::mod: return wrap_int(t, call("lw_mod", a, b));
    case BinaryOp::fmod: return wrap_int(t, call("lw_rem", a, b));
    case BinaryOp::pow: return wrap_int(t, call("lw_pow", a, b));
    case BinaryOp::min: return "(" + a + " < " + b + " ? " + a + " : " + b + ")";
    case BinaryOp::max: return "(" + a + " > " + b + " ? " + a + " : " + b + ")";
    case BinaryOp::and_: return t == DType::boolean ? infix(a, "&&", b) : wrap_int(t, infix(a, "&", b));
    case BinaryOp::or_: return t == DType::boolean ? infix(a, "||", b) : wrap_int(t, infix(a, "|", b));
    case BinaryOp::xor_: return t == DType::boolean ? infix(a, "!=", b) : wrap_int(t, infix(a, "^", b));
    case BinaryOp::shl: return wrap_int(t, "lw_shl(" + a + ", " + b + ", " + bits + ")");
    case BinaryOp::shr: return wrap_int(t, "lw_shr(" + a + ", " + b + ", " + bits + ")");
    default: break;
  }
  throw_bug(__FILE__, __LINE__, "integer operation", std::string(ir::name(op)));
}

std::string float_to_int(DType from, DType to, const std::string& a) {
  if (to == DType::boolean) return infix(a, "!=", from == DType::f64 ? "0.0" : "0.0f");
  if (to == DType::i64) return call(from == DType::f64 ? "lw_f64_i64" : "lw_f32_i64", a);
  const bool is_unsigned = to == DType::u8;
  const int bits = size_bytes(to) * 8 - (is_unsigned ? 0 : 1);
  const double highest = std::ldexp(1.0, bits) - 1;
  const double lowest = is_unsigned ? 0 : -std::ldexp(1.0, bits);
  return wrap_int(to, "lw_f64_range((double)" + a + ", " + c_number(lowest, DType::f64) + ", " + c_number(highest, DType::f64) + ")");
}

}  // namespace

std::string_view c_type(DType dtype) {
  switch (dtype) {
    case DType::boolean: return "bool";
    case DType::i8: return "signed char";
    case DType::u8: return "unsigned char";
    case DType::i16: return "short";
    case DType::i32: return "int";
    case DType::i64: return "long long";
    case DType::f16:
    case DType::bf16: return "unsigned short";
    case DType::f32: return "float";
    case DType::f64: return "double";
  }
  throw_bug(__FILE__, __LINE__, "dtype", std::to_string(static_cast<int>(dtype)));
}

std::string c_number(double value, DType dtype) {
  char text[64];
  if (dtype == DType::bf16 || dtype == DType::f16) {
    const unsigned bits = dtype == DType::bf16 ? ir::to_bf16_bits(value) : ir::to_f16_bits(value);
    std::snprintf(text, sizeof text, "(unsigned short)0x%04xu", bits);
    return text;
  }
  if (!std::isfinite(value)) {
    if (dtype == DType::f32) std::snprintf(text, sizeof text, "__uint_as_float(0x%08xu)", std::bit_cast<std::uint32_t>(static_cast<float>(value)));
    else std::snprintf(text, sizeof text, "__longlong_as_double(0x%016" PRIx64 "ll)", std::bit_cast<std::uint64_t>(value));
    return text;
  }
  // Shortest decimal text that is the number, or hexadecimal.
  for (const int digits : {6, 9, 17}) {
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    if (std::strtod(text, nullptr) == value) break;
    std::snprintf(text, sizeof text, "%a", value);
  }
  std::string out = text;
  if (out.find_first_of(".epn") == std::string::npos) out += ".0";
  if (dtype == DType::f32) out += "f";
  return value < 0 || std::signbit(value) ? "(" + out + ")" : out;
}

std::string c_integer(std::int64_t value, DType dtype) {
  if (dtype == DType::boolean) return value ? "true" : "false";
  if (dtype == DType::i64) {
    if (value == INT64_MIN) return "(-0x7fffffffffffffffll - 1)";
    return value < 0 ? "(" + std::to_string(value) + "ll)" : std::to_string(value) + "ll";
  }
  if (value == INT32_MIN) return "(-0x7fffffff - 1)";
  const std::string text = value < 0 ? "(" + std::to_string(value) + ")" : std::to_string(value);
  return dtype == DType::i32 ? text : wrap_int(dtype, text);
}

std::string c_widen(DType t, const std::string& a) { return call(t == DType::bf16 ? "lw_bf16_float" : "lw_f16_float", a); }
std::string c_narrow(DType t, const std::string& a) { return call(t == DType::bf16 ? "lw_float_bf16" : "lw_float_f16", a); }

std::string c_unary(UnaryOp op, DType t, const std::string& a) {
  if (is_half(t)) {
    const std::string single = float_unary(op, DType::f32, c_widen(t, a));
    return op == UnaryOp::is_nan || op == UnaryOp::is_inf ? single : c_narrow(t, single);
  }
  return is_float(t) ? float_unary(op, t, a) : int_unary(op, t, a);
}

std::string c_halves(BinaryOp op, DType t, const std::string& a, const std::string& b) {
  return call((std::string(op == BinaryOp::max ? "lw_max2_" : "lw_min2_") + (t == DType::bf16 ? "bf16" : "f16")).c_str(), a, b);
}

std::string c_binary(BinaryOp op, DType t, const std::string& a, const std::string& b, bool contract) {
  if (is_half(t)) {
    const std::string x = c_widen(t, a), y = c_widen(t, b);
    if (const char* sign = compare_sign(op)) return infix(x, sign, y);
    if (op == BinaryOp::min || op == BinaryOp::max) return "((unsigned short)" + c_halves(op, t, a, b) + ")";
    return c_narrow(t, float_binary(op, DType::f32, x, y, false));
  }
  if (const char* sign = compare_sign(op)) return infix(a, sign, b);
  return is_float(t) ? float_binary(op, t, a, b, contract) : int_binary(op, t, a, b);
}

std::string c_cast(DType from, DType to, const std::string& a) {
  if (from == to) return a;
  if (is_half(from)) return is_half(to) || to != DType::f32 ? c_cast(DType::f32, to, c_widen(from, a)) : c_widen(from, a);
  if (is_half(to)) {
    if (from == DType::f64) return c_narrow(to, call("lw_double_odd", a));
    return c_narrow(to, c_cast(from, DType::f32, a));
  }
  if (is_float(from)) return is_float(to) ? "((" + std::string(c_type(to)) + ")" + a + ")" : float_to_int(from, to, a);
  if (to == DType::boolean) return infix(a, "!=", "0");
  return "((" + std::string(c_type(to)) + ")" + a + ")";
}

}  // namespace loopwright::codegen
