#include "tuner/tolerance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "src/graph/ops.h"
#include "tuner/parallel.h"
#include "tuner/values.h"

namespace loopwright::tuner {
namespace {

/// Two factors that each lose up to 2^-11, of products whose losses are independent: of a sum as of one of them.
constexpr double kTwoFactorsTf32 = 0x1.6a09e667p-11;
const std::set<std::string, std::less<>> kTranscendental = {
    "exp",  "exp2", "expm1", "log",  "log2", "log1p", "sin",  "cos",  "tan",  "asin",  "acos",  "atan", "sinh",
    "cosh", "tanh", "erf",   "pow",  "atan2", "cbrt", "sigmoid", "rsqrt"};
double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::f16: return 0x1p-11;
    case DType::bf16: return 0x1p-8;
    case DType::f32: return 0x1p-24;
    case DType::f64: return 0x1p-53;
    default: return 0;
  }
}

/// What an op may lose of a result near zero; see Tolerance::absolute.
double smallest(DType dtype) {
  switch (dtype) {
    case DType::f16: return 0x1p-24;
    case DType::bf16:
    case DType::f32: return 0x1p-126;
    case DType::f64: return 0x1p-1022;
    default: return 0;
  }
}

double count_elements(const TensorType& type, const Bindings& probe) {
  double count = 1;
  for (const Dim& d : type.shape) {
    const auto value = d.evaluate(probe);
    count *= value.ok() ? static_cast<double>(std::max<std::int64_t>(*value, 1)) : 1.0;
  }
  return count;
}

/// Elements that one result of a reduction or contraction sums up.
double reduction_length(const Graph& graph, const Node& node, graph::OpKind kind, const Bindings& probe) {
  const double results = count_elements(node.type, probe);
  const double first = count_elements(graph.type(node.inputs[0]), probe);
  if (node.op == "matmul_at") return first / count_elements(graph.type(node.inputs[2]), probe);
  if (kind == graph::OpKind::contraction && node.inputs.size() >= 2) {
    return std::sqrt(first * count_elements(graph.type(node.inputs[1]), probe) / results);
  }
  if (kind == graph::OpKind::scan) return std::sqrt(first) + 1;
  if (kind == graph::OpKind::write) return first;
  return first / results;
}

/// What one op adds to the relative and the absolute error.
struct Rounding {
  double relative = 0, absolute = 0;
};

Rounding rounding_of(const Graph& graph, const Node& node, const Bindings& probe) {
  const graph::Op* op = graph::find_op(node.op);
  const DType dtype = node.type.dtype;
  const double u = unit_roundoff(dtype);
  if (op == nullptr) return {};
  using graph::OpKind;
  switch (op->kind) {
    case OpKind::source:
    case OpKind::view:
    case OpKind::gather: return {};
    case OpKind::pointwise: return {kTranscendental.contains(node.op) ? 4 * u : u, smallest(dtype)};
    case OpKind::reduction:
    case OpKind::contraction:
    case OpKind::scan:
    case OpKind::write: break;
  }
  const double root = std::sqrt(std::max(1.0, reduction_length(graph, node, op->kind, probe)));
  const bool is_rounded = op->kind == OpKind::contraction && graph.accuracy() == Accuracy::tf32 && graph.type(node.inputs[0]).dtype == DType::f32;
  return {u + (2 + 2 * root) * unit_roundoff(accumulator(dtype)) + (is_rounded ? kTwoFactorsTf32 : 0), root * smallest(dtype)};
}

}  // namespace

double largest_of(DType dtype) {
  switch (dtype) {
    case DType::f16: return 65504;
    case DType::bf16: return 3.3895e38;
    case DType::f32: return std::numeric_limits<float>::max();
    default: return std::numeric_limits<double>::max();
  }
}

std::string Tolerance::text() const {
  if (is_exact()) return "exact";
  return fmt::format("rel {:.3g} of |ref| + rms, and {:.2g}", relative, absolute);
}

Tolerance find_tolerance(const Graph& graph, Value value, const Bindings& probe) {
  if (!is_float(graph.type(value).dtype)) return {};
  std::set<std::int32_t> seen;
  std::vector<Value> open{value};
  double squares = 0, absolute = 0;
  while (!open.empty()) {
    const Value v = open.back();
    open.pop_back();
    if (v.id < 0 || !seen.insert(v.id).second) continue;
    const Node& node = graph.node(v);
    const Rounding rounding = rounding_of(graph, node, probe);
    squares += rounding.relative * rounding.relative;
    absolute += rounding.absolute;  // the smallest numbers have no squares
    open.insert(open.end(), node.inputs.begin(), node.inputs.end());
  }
  return {kSlack * std::sqrt(squares), kSlack * absolute};
}

namespace {

/// Root of the mean square of what the type can hold.
double find_rms(const std::vector<double>& expected, double limit) {
  const auto count = static_cast<std::int64_t>(expected.size());
  struct Part {
    double squares = 0;
    std::int64_t finite = 0;
  };
  std::vector<Part> parts(static_cast<std::size_t>((count + kPart - 1) / kPart));
  for_each_part(count, [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
    Part sum;
    for (std::int64_t i = begin; i < end; ++i) {
      const double e = expected[i];
      if (std::fabs(e) > limit || std::isnan(e)) continue;
      sum.squares += e * e;
      ++sum.finite;
    }
    parts[part] = sum;
  });
  Part all;
  for (const Part& p : parts) all.squares += p.squares, all.finite += p.finite;
  return all.finite > 0 ? std::sqrt(all.squares / static_cast<double>(all.finite)) : 0;
}

/// Adds what one element says to `result`.
void compare_element(Deviation& result, std::int64_t i, double x, double e, double rms, double overflow, double relative,
                     double allowed) {
  if (e == x || (std::isnan(e) && std::isnan(x))) return;
  // Beyond the largest number of the type, infinity is as right as the last few numbers before it.
  if (std::fabs(e) > overflow && std::fabs(x) >= overflow && std::signbit(x) == std::signbit(e)) return;
  const double distance = std::fabs(x - e);
  const double scale = std::fabs(e) + rms;
  if (std::isfinite(distance)) {
    result.max_abs = std::max(result.max_abs, distance);
    if (distance <= allowed) return;
    result.max_rel = std::max(result.max_rel, scale > 0 ? distance / scale : 1);
    if (distance <= relative * scale + allowed) return;
  }
  if (result.outside++ == 0) result.first = i, result.found = x, result.expected = e;
}

}  // namespace

Deviation compare_output(DType dtype, const void* data, const std::vector<std::int64_t>& positions,
                         const std::vector<double>& expected, const std::vector<double>& doubt, const Tolerance& tolerance) {
  const double limit = largest_of(dtype);
  const double rms = find_rms(expected, limit);
  const double overflow = is_float(dtype) ? limit * (1 - tolerance.relative) : std::numeric_limits<double>::infinity();
  const auto count = static_cast<std::int64_t>(expected.size());
  std::vector<Deviation> parts(static_cast<std::size_t>((count + kPart - 1) / kPart));
  for_each_part(count, [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
    Deviation found;
    for (std::int64_t i = begin; i < end; ++i)
      compare_element(found, i, read_element(dtype, data, positions.empty() ? i : positions[i]), expected[i], rms, overflow,
                      tolerance.relative, tolerance.absolute + (doubt.empty() ? 0 : doubt[i]));
    parts[part] = found;
  });
  Deviation result;
  for (const Deviation& p : parts) {
    if (result.outside == 0 && p.outside > 0) result.first = p.first, result.found = p.found, result.expected = p.expected;
    result.outside += p.outside;
    result.max_abs = std::max(result.max_abs, p.max_abs);
    result.max_rel = std::max(result.max_rel, p.max_rel);
  }
  result.passed = result.outside == 0;
  return result;
}

}  // namespace loopwright::tuner
