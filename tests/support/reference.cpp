#include "tests/support/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "src/graph/naive_kernel.h"
#include "src/ir/text.h"
#include "src/ir/verify.h"
#include "tests/support/graph_data.h"
#include "tests/support/reference_tensor.h"

namespace loopwright::test {

// ---------------------------------------------------------------- tensors

Tensor::Tensor(DType d, Sizes s) : dtype(d), shape(std::move(s)) {
  if (holds_reals()) real.assign(static_cast<std::size_t>(count()), 0);
  else whole.assign(static_cast<std::size_t>(count()), 0);
}

std::int64_t Tensor::count() const {
  std::int64_t out = 1;
  for (std::int64_t size : shape) out *= size;
  return out;
}

std::int64_t Tensor::offset(const Sizes& index) const {
  std::int64_t out = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) out = out * shape[d] + index[d];
  return out;
}

void Tensor::copy(std::int64_t to, const Tensor& from, std::int64_t at) {
  if (holds_reals()) real.at(to) = from.real.at(at);
  else whole.at(to) = from.whole.at(at);
}

const Attribute* Job::find(const std::string& name) const {
  for (const NamedAttribute& attribute : node.attributes)
    if (attribute.name == name) return &attribute.value;
  return nullptr;
}
std::int64_t Job::integer(const std::string& name, std::int64_t otherwise) const {
  const Attribute* value = find(name);
  return value ? std::get<std::int64_t>(*value) : otherwise;
}
bool Job::flag(const std::string& name) const {
  const Attribute* value = find(name);
  return value && std::get<bool>(*value);
}
Sizes Job::integers(const std::string& name) const {
  const Attribute* value = find(name);
  return value ? std::get<std::vector<std::int64_t>>(*value) : Sizes{};
}
Sizes Job::dims(const std::string& name) const {
  Sizes out;
  if (const Attribute* value = find(name))
    for (const Dim& dim : std::get<std::vector<Dim>>(*value)) out.push_back(dim.evaluate(bindings).value());
  return out;
}

void for_each_index(const Sizes& shape, const std::function<void(const Sizes&)>& f) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return;
  Sizes index(shape.size(), 0);
  while (true) {
    f(index);
    std::size_t d = shape.size();
    while (d > 0 && ++index[d - 1] == shape[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

std::int64_t wrap_to(DType dtype, std::int64_t value) {
  switch (dtype) {
    case DType::boolean: return value != 0;
    case DType::i8: return static_cast<std::int8_t>(value);
    case DType::u8: return static_cast<std::uint8_t>(value);
    case DType::i16: return static_cast<std::int16_t>(value);
    case DType::i32: return static_cast<std::int32_t>(value);
    default: return value;
  }
}

/// Nearest value with `digits` bits of significand and exponents from `least` (subnormals below) to `most`; ties to even.
static double round_digits(double value, int digits, int least, int most) {
  if (value == 0 || !std::isfinite(value)) return value;
  int exponent = 0;
  std::frexp(value, &exponent);  // |value| in [2^(exponent-1), 2^exponent)
  const int unit = std::max(exponent, least + 1) - digits;
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -unit)), unit);
  return std::fabs(rounded) >= std::ldexp(1.0, most + 1) ? std::copysign(HUGE_VAL, value) : rounded;
}

double round_float(DType dtype, double value) {
  switch (dtype) {
    case DType::f16: return round_digits(value, 11, -14, 15);
    case DType::bf16: return round_digits(value, 8, -126, 127);
    case DType::f32: return static_cast<float>(value);
    default: return value;
  }
}

// ---------------------------------------------------------------- graphs

namespace {

Sizes shape_of(const TensorType& type, const Bindings& bindings) {
  Sizes out;
  for (const Dim& dim : type.shape) out.push_back(dim.evaluate(bindings).value());
  return out;
}

Tensor from_array(const ir::Array& array) {
  Tensor out(array.dtype, array.shape);
  for_each_index(array.shape, [&, at = std::size_t{0}](const Sizes& index) mutable {
    if (out.holds_reals()) out.real[at++] = array.get(index);
    else out.whole[at++] = array.get_int(index);
  });
  return out;
}

ir::Array to_array(const Tensor& tensor, Rounding rounding) {
  const DType dtype = tensor.holds_reals() && rounding == Rounding::none ? DType::f64 : tensor.dtype;
  ir::Array out = ir::Array::dense(dtype, tensor.shape);
  for_each_index(tensor.shape, [&, at = std::size_t{0}](const Sizes& index) mutable {
    if (tensor.holds_reals()) out.set(index, tensor.real[at++]);
    else out.set_int(index, tensor.whole[at++]);
  });
  return out;
}

}  // namespace

std::map<std::string, ir::Array> reference_outputs(const Graph& g, const Bindings& bindings,
                                                   const std::map<std::string, ir::Array>& inputs,
                                                   Rounding rounding) {
  std::vector<Tensor> values;
  for (const Node& node : g.nodes()) {
    if (node.op == "input") {
      const ir::Array& array = inputs.at(node.name);
      LW_BUG_IF(array.shape != shape_of(node.type, bindings) || array.dtype != node.type.dtype,
                "input " + node.name + " of another type");
      values.push_back(from_array(array));
      continue;
    }
    Job job{node,
            {},
            bindings,
            Tensor(node.type.dtype, shape_of(node.type, bindings)),
            rounding != Rounding::none};
    for (Value v : node.inputs) job.in.push_back(&values[v.id]);
    const bool known = run_pointwise(job) || run_movement(job) || run_reduction(job);
    LW_BUG_IF(!known, "the reference has no op " + node.op);
    if (rounding == Rounding::every_value)
      for (double& x : job.out.real) x = round_float(node.type.dtype, x);
    values.push_back(std::move(job.out));
  }
  std::map<std::string, ir::Array> out;
  for (const Graph::Output& output : g.outputs())
    out[output.name] = to_array(values[output.value.id], rounding);
  for (const Graph::Update& update : g.updates())
    out[g.node(update.input).name] = to_array(values[update.value.id], rounding);
  return out;
}

// ---------------------------------------------------------------- comparing

Allowance tolerance_for(DType dtype, std::int64_t reduction_length) {
  auto unit = [](DType d) {
    return d == DType::f16 ? 0x1p-11 : d == DType::bf16 ? 0x1p-8 : d == DType::f32 ? 0x1p-24 : 0x1p-53;
  };
  if (!is_float(dtype)) return {};
  const double carried = unit(accumulator(dtype)) * static_cast<double>(8 + reduction_length);
  return {carried + unit(dtype) * 0x1p-6, carried + 2 * unit(dtype)};
}

std::string describe_difference(const ir::Array& got, const ir::Array& want, Allowance tolerance) {
  std::ostringstream out;
  if (got.shape != want.shape) return "shapes differ";
  double worst = 0;
  std::int64_t wrong = 0;
  for_each_index(got.shape, [&](const Sizes& index) {
    double excess = 0;
    double a = 0, b = 0;
    if (is_float(got.dtype) || is_float(want.dtype)) {
      a = got.get(index), b = want.get(index);
      if (std::isnan(a) != std::isnan(b) || (std::isinf(b) && a != b)) excess = HUGE_VAL;
      else if (std::isfinite(b))
        excess = std::fabs(a - b) / (tolerance.absolute + tolerance.relative * std::fabs(b) + 1e-300);
    } else {
      a = static_cast<double>(got.get_int(index)), b = static_cast<double>(want.get_int(index));
      excess = got.get_int(index) == want.get_int(index) ? 0 : HUGE_VAL;
    }
    if (excess <= 1) return;
    ++wrong;
    if (excess <= worst) return;
    worst = excess;
    out.str("");
    out.precision(17);
    out << "at [";
    for (std::size_t d = 0; d < index.size(); ++d) out << (d ? "," : "") << index[d];
    out << "]: got " << a << ", want " << b << ", " << excess << " times the tolerance";
  });
  if (wrong == 0) return "";
  out << "; " << wrong << " of " << got.element_count() << " elements wrong";
  return out.str();
}

std::string check_naive_kernel(const Graph& g, const Bindings& bindings, std::uint64_t seed,
                               Allowance tolerance, Rounding rounding) {
  const Result<ir::Kernel> kernel = graph::naive_kernel(g);
  if (!kernel.ok()) return kernel.error().message();
  if (const Status status = ir::verify(*kernel); !status.ok()) return status.error().message();
  const std::string text = ir::print(*kernel);
  const Result<ir::Kernel> again = ir::parse_kernel(text);
  if (!again.ok()) return again.error().message();
  if (ir::print(*again) != text) return "the kernel's text changes when it is read back";
  const auto inputs = random_inputs(g, bindings, seed);
  auto arguments = kernel_arguments(g, bindings, inputs);
  if (const Status status = ir::interpret(*kernel, bindings, arguments); !status.ok())
    return status.error().message();
  for (const auto& [name, want] : reference_outputs(g, bindings, inputs, rounding)) {
    const std::string difference =
        describe_difference(arguments.at(name), want, is_float(want.dtype) ? tolerance : Allowance{});
    if (!difference.empty()) return name + " " + difference + "\n" + g.text() + text;
  }
  return "";
}

}  // namespace loopwright::test
