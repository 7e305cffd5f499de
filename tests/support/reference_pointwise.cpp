// Element by element ops of the reference.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "tests/support/reference_tensor.h"

namespace loopwright::test {
namespace {

using RealUnary = double (*)(double);
using RealBinary = double (*)(double, double);
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double smaller(double a, double b) { return std::isnan(a) || std::isnan(b) ? kNan : (b < a ? b : a); }
double larger(double a, double b) { return std::isnan(a) || std::isnan(b) ? kNan : (b > a ? b : a); }

const std::map<std::string, RealUnary>& real_unary() {
  static const std::map<std::string, RealUnary> table = {
      {"neg", [](double x) { return -x; }},
      {"abs", [](double x) { return std::fabs(x); }},
      {"sign", [](double x) { return std::isnan(x) ? x
                                     : x > 0       ? 1.0
                                     : x < 0       ? -1.0
                                                   : 0.0; }},
      {"exp", [](double x) { return std::exp(x); }},
      {"exp2", [](double x) { return std::exp2(x); }},
      {"expm1", [](double x) { return std::expm1(x); }},
      {"log", [](double x) { return std::log(x); }},
      {"log2", [](double x) { return std::log2(x); }},
      {"log1p", [](double x) { return std::log1p(x); }},
      {"sqrt", [](double x) { return std::sqrt(x); }},
      {"rsqrt", [](double x) { return 1 / std::sqrt(x); }},
      {"reciprocal", [](double x) { return 1 / x; }},
      {"cbrt", [](double x) { return std::cbrt(x); }},
      {"sin", [](double x) { return std::sin(x); }},
      {"cos", [](double x) { return std::cos(x); }},
      {"tan", [](double x) { return std::tan(x); }},
      {"asin", [](double x) { return std::asin(x); }},
      {"acos", [](double x) { return std::acos(x); }},
      {"atan", [](double x) { return std::atan(x); }},
      {"sinh", [](double x) { return std::sinh(x); }},
      {"cosh", [](double x) { return std::cosh(x); }},
      {"tanh", [](double x) { return std::tanh(x); }},
      {"erf", [](double x) { return std::erf(x); }},
      {"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }},
      {"floor", [](double x) { return std::floor(x); }},
      {"ceil", [](double x) { return std::ceil(x); }},
      {"round", [](double x) { return std::nearbyint(x); }},
      {"trunc", [](double x) { return std::trunc(x); }},
      {"copy", [](double x) { return x; }},
  };
  return table;
}

const std::map<std::string, RealBinary>& real_binary() {
  static const std::map<std::string, RealBinary> table = {
      {"add", [](double a, double b) { return a + b; }},
      {"sub", [](double a, double b) { return a - b; }},
      {"mul", [](double a, double b) { return a * b; }},
      {"div", [](double a, double b) { return a / b; }},
      {"min", smaller},
      {"max", larger},
      {"pow", [](double a, double b) { return std::pow(a, b); }},
      {"atan2", [](double a, double b) { return std::atan2(a, b); }},
      {"fmod", [](double a, double b) { return std::fmod(a, b); }},
  };
  return table;
}

using Wide = __int128;

std::int64_t whole_unary(const std::string& op, std::int64_t x) {
  if (op == "neg") return static_cast<std::int64_t>(-static_cast<Wide>(x));
  if (op == "abs") return static_cast<std::int64_t>(x < 0 ? -static_cast<Wide>(x) : static_cast<Wide>(x));
  if (op == "sign") return (x > 0) - (x < 0);
  if (op == "bit_not") return ~x;
  if (op == "logical_not") return x == 0;
  return x;  // copy
}

/// `bits` is the width of the dtype; `x` and `y` are its values.
std::int64_t shift(const std::string& op, std::int64_t x, std::int64_t y, int bits) {
  if (y < 0 || y >= bits) return op == "shr" && x < 0 ? -1 : 0;
  if (op == "shl") return static_cast<std::int64_t>(static_cast<std::uint64_t>(x) << y);
  return x >> y;
}

std::int64_t whole_binary(const std::string& op, std::int64_t x, std::int64_t y, DType dtype) {
  const Wide a = x, b = y;
  if (op == "add") return static_cast<std::int64_t>(a + b);
  if (op == "sub") return static_cast<std::int64_t>(a - b);
  if (op == "mul")
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(x) * static_cast<std::uint64_t>(y));
  if (op == "div") return y == 0 ? 0 : static_cast<std::int64_t>(a / b);
  if (op == "floor_div" || op == "mod") {
    if (y == 0) return 0;
    Wide quotient = a / b;
    if (a % b != 0 && (a < 0) != (b < 0)) quotient -= 1;
    return static_cast<std::int64_t>(op == "mod" ? a - quotient * b : quotient);
  }
  if (op == "min") return std::min(x, y);
  if (op == "max") return std::max(x, y);
  if (op == "and") return x & y;
  if (op == "or") return x | y;
  if (op == "xor") return x ^ y;
  return shift(op, x, y, size_bytes(dtype) * 8);
}

template <class T>
std::int64_t compare(const std::string& op, T a, T b) {
  if (op == "eq") return a == b;
  if (op == "ne") return a != b;
  if (op == "lt") return a < b;
  if (op == "le") return a <= b;
  if (op == "gt") return a > b;
  return a >= b;
}

bool is_comparison(const std::string& op) {
  return op == "eq" || op == "ne" || op == "lt" || op == "le" || op == "gt" || op == "ge";
}

/// Offset of the element of `t` that meets `index` of a result under NumPy broadcasting.
std::int64_t meet(const Tensor& t, const Sizes& index) {
  std::int64_t offset = 0;
  const std::size_t skip = index.size() - t.shape.size();
  for (std::size_t d = 0; d < t.shape.size(); ++d)
    offset = offset * t.shape[d] + (t.shape[d] == 1 ? 0 : index[skip + d]);
  return offset;
}

double to_real(const Tensor& t, std::int64_t at) {
  return t.holds_reals() ? t.real[at] : static_cast<double>(t.whole[at]);
}

std::int64_t to_whole(DType dtype, double x) {
  if (std::isnan(x)) return 0;
  const double whole = std::trunc(x);
  const int bits = size_bytes(dtype) * 8;
  const double lowest = dtype == DType::u8 ? 0 : -std::ldexp(1.0, bits - 1);
  const double beyond = dtype == DType::u8 ? 256 : std::ldexp(1.0, bits - 1);
  if (whole < lowest) return dtype == DType::u8 ? 0 : std::numeric_limits<std::int64_t>::min() >> (64 - bits);
  if (whole >= beyond)
    return dtype == DType::u8 ? 255 : std::numeric_limits<std::int64_t>::max() >> (64 - bits);
  return static_cast<std::int64_t>(whole);
}

void run_cast(Job& job) {
  const Tensor& x = *job.in[0];
  for (std::int64_t i = 0; i < job.out.count(); ++i) {
    if (job.out.holds_reals()) {
      const double value = to_real(x, i);
      // From an integer there is no float64 without rounding to compare with: the dtype's own value is meant.
      job.out.real[i] = job.round_casts ? round_float(job.out.dtype, value) : value;
    } else if (job.out.dtype == DType::boolean) {
      job.out.whole[i] = to_real(x, i) != 0;
    } else {
      job.out.whole[i] =
          x.holds_reals() ? to_whole(job.out.dtype, x.real[i]) : wrap_to(job.out.dtype, x.whole[i]);
    }
  }
}

void run_select(Job& job) {
  for_each_index(job.out.shape, [&, at = std::int64_t{0}](const Sizes& index) mutable {
    const Tensor& chosen = job.in[0]->whole[meet(*job.in[0], index)] ? *job.in[1] : *job.in[2];
    job.out.copy(at++, chosen, meet(chosen, index));
  });
}

void run_clamp(Job& job) {
  for_each_index(job.out.shape, [&, at = std::int64_t{0}](const Sizes& index) mutable {
    const std::int64_t x = meet(*job.in[0], index), lo = meet(*job.in[1], index),
                       hi = meet(*job.in[2], index);
    if (job.out.holds_reals())
      job.out.real[at] = smaller(larger(job.in[0]->real[x], job.in[1]->real[lo]), job.in[2]->real[hi]);
    else
      job.out.whole[at] = std::min(std::max(job.in[0]->whole[x], job.in[1]->whole[lo]), job.in[2]->whole[hi]);
    ++at;
  });
}

bool run_unary(Job& job) {
  const std::string& op = job.node.op;
  const Tensor& x = *job.in[0];
  if (op == "is_nan" || op == "is_inf") {
    for (std::int64_t i = 0; i < x.count(); ++i)
      job.out.whole[i] = op == "is_nan" ? std::isnan(x.real[i]) : std::isinf(x.real[i]);
    return true;
  }
  const auto function = real_unary().find(op);
  if (function == real_unary().end() && op != "bit_not" && op != "logical_not") return false;
  for (std::int64_t i = 0; i < x.count(); ++i) {
    if (x.holds_reals()) job.out.real[i] = function->second(x.real[i]);
    else job.out.whole[i] = wrap_to(x.dtype, whole_unary(op, x.whole[i]));
  }
  return true;
}

bool run_binary(Job& job) {
  const std::string& op = job.node.op;
  static const std::map<std::string, int> whole_only = {{"floor_div", 1}, {"mod", 1}, {"and", 1}, {"or", 1},
                                                        {"xor", 1},       {"shl", 1}, {"shr", 1}};
  const auto function = real_binary().find(op);
  if (function == real_binary().end() && !whole_only.contains(op) && !is_comparison(op)) return false;
  const Tensor &a = *job.in[0], &b = *job.in[1];
  for_each_index(job.out.shape, [&, at = std::int64_t{0}](const Sizes& index) mutable {
    const std::int64_t i = meet(a, index), j = meet(b, index);
    if (is_comparison(op)) {
      job.out.whole[at] =
          a.holds_reals() ? compare(op, a.real[i], b.real[j]) : compare(op, a.whole[i], b.whole[j]);
    } else if (a.holds_reals()) {
      job.out.real[at] = function->second(a.real[i], b.real[j]);
    } else {
      job.out.whole[at] = wrap_to(a.dtype, whole_binary(op, a.whole[i], b.whole[j], a.dtype));
    }
    ++at;
  });
  return true;
}

}  // namespace

bool run_pointwise(Job& job) {
  const std::string& op = job.node.op;
  if (op == "cast") return run_cast(job), true;
  if (op == "select") return run_select(job), true;
  if (op == "clamp") return run_clamp(job), true;
  if (job.in.size() == 1) return run_unary(job);
  return job.in.size() == 2 && run_binary(job);
}

}  // namespace loopwright::test
