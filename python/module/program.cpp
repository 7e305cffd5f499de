#include "python/module/program.h"

#include <algorithm>

#include "python/module/tensor.h"

namespace loopwright::python {
namespace {

bool is_same(DLDataType a, DLDataType b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

/// Whether row-major dense strides of the shape are those of the plan for every value of the symbols.
bool is_dense(const PlanTensor& tensor, std::size_t symbol_count) {
  // Compared at two points of the symbols: equal polynomials of such a low degree agree there.
  for (const std::int64_t base : {std::int64_t{3}, std::int64_t{1009}}) {
    std::vector<std::int64_t> symbols(symbol_count);
    for (std::size_t s = 0; s < symbol_count; ++s) symbols[s] = base + static_cast<std::int64_t>(7 * s);
    std::int64_t stride = 1;
    for (std::size_t d = tensor.shape.size(); d-- > 0;) {
      if (tensor.strides[d].evaluate(symbols.data()) != stride) return false;
      stride *= tensor.shape[d].evaluate(symbols.data());
    }
  }
  return true;
}

std::string list(const std::int64_t* values, int count) {
  std::string out = "[";
  for (int d = 0; d < count; ++d) out += (d > 0 ? ", " : "") + std::to_string(values[d]);
  return out + "]";
}

}  // namespace

Program::Tensor Program::describe_tensor(const PlanTensor& tensor, std::vector<bool>& known) {
  Tensor t;
  t.dtype = to_dlpack(tensor.dtype);
  t.rank = static_cast<int>(tensor.shape.size());
  t.written = tensor.role != ArgRole::input;
  t.strides = tensor.strides;
  t.dense = is_dense(tensor, known.size());
  for (const SizeExpr& size : tensor.shape) {
    Size s;
    s.expression = size;
    if (size.is_constant()) s.value = size.evaluate(nullptr);
    else s.kind = Size::Kind::expression;
    for (std::size_t symbol = 0; symbol < known.size(); ++symbol) {
      if (size != SizeExpr::symbol(static_cast<int>(symbol))) continue;
      s.kind = known[symbol] ? Size::Kind::symbol : Size::Kind::first;
      s.value = static_cast<std::int64_t>(symbol);
      known[symbol] = true;
    }
    t.has_expressions = t.has_expressions || s.kind == Size::Kind::expression;
    t.shape.push_back(s);
  }
  return t;
}

Result<Program> Program::make(Plan plan, DLDevice device) {
  Program program(std::move(plan), device);
  const PlanSpec& spec = program.spec();
  std::vector<bool> known(spec.symbols.size(), false);
  if (known.size() > kMaxSymbols)
    return Error{ErrorCode::unsupported, "call the plan " + spec.name,
                 std::to_string(known.size()) + " symbols", "", "at most " + std::to_string(kMaxSymbols)};
  for (const PlanTensor& t : spec.tensors) {
    if (t.role != ArgRole::input && t.role != ArgRole::inout) continue;
    program.inputs_.push_back(describe_tensor(t, known));
    program.writes_inputs_ = program.writes_inputs_ || program.inputs_.back().written;
  }
  for (std::size_t s = 0; s < known.size(); ++s)
    if (!known[s])
      return Error{ErrorCode::unsupported, "call the plan " + spec.name,
                   "no input has the symbol " + spec.symbols[s].name + " as a size", "",
                   "an input with a dimension that is the symbol itself"};
  for (const PlanTensor& t : spec.tensors)
    if (t.role == ArgRole::output) program.outputs_.push_back(describe_tensor(t, known));
  return program;
}

bool Program::match(std::size_t input, const DLTensor& tensor, std::int64_t* symbols,
                    Mismatch& mismatch) const {
  const Tensor& expected = inputs_[input];
  const auto refuse = [&](Mismatch::Kind kind, int dimension = 0) {
    mismatch = {kind, static_cast<std::int32_t>(input), dimension};
    return false;
  };
  if (!is_same(tensor.dtype, expected.dtype)) return refuse(Mismatch::Kind::dtype);
  const bool is_host = tensor.device.type == kDLCPU || tensor.device.type == kDLCUDAHost;
  if (device_.type == kDLCPU ? !is_host
                             : tensor.device.type != device_.type || tensor.device.index != device_.index)
    return refuse(Mismatch::Kind::device);
  if (tensor.ndim != expected.rank) return refuse(Mismatch::Kind::rank);
  for (int d = 0; d < expected.rank; ++d) {
    const Size& size = expected.shape[static_cast<std::size_t>(d)];
    const std::int64_t found = tensor.shape[d];
    if (size.kind == Size::Kind::constant) {
      if (found != size.value) return refuse(Mismatch::Kind::size, d);
    } else if (size.kind == Size::Kind::symbol) {
      if (found != symbols[size.value]) return refuse(Mismatch::Kind::size, d);
    } else if (size.kind == Size::Kind::first) {
      const Symbol& symbol = spec().symbols[static_cast<std::size_t>(size.value)];
      if (found < symbol.lo || found > symbol.hi) return refuse(Mismatch::Kind::range, d);
      symbols[size.value] = found;
    }
  }
  if (expected.dense && !strides_fit(expected, tensor, nullptr)) return refuse(Mismatch::Kind::strides);
  return true;
}

bool Program::strides_fit(const Tensor& expected, const DLTensor& tensor, const std::int64_t* symbols) {
  if (tensor.strides == nullptr && expected.dense) return true;
  std::int64_t dense = 1;
  bool fits = true;
  for (int d = expected.rank; d-- > 0;) {
    const std::int64_t found = tensor.strides != nullptr ? tensor.strides[d] : dense;
    const std::int64_t wanted =
        expected.dense ? dense : expected.strides[static_cast<std::size_t>(d)].evaluate(symbols);
    if (tensor.shape[d] == 0) return true;  // no element, no address
    fits = fits && (tensor.shape[d] == 1 || found == wanted);
    dense *= tensor.shape[d];
  }
  return fits || std::find(tensor.shape, tensor.shape + tensor.ndim, 0) != tensor.shape + tensor.ndim;
}

bool Program::match_derived(const DLTensor* const* tensors, const std::int64_t* symbols,
                            Mismatch& mismatch) const {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const Tensor& expected = inputs_[i];
    if (expected.has_expressions)
      for (int d = 0; d < expected.rank; ++d) {
        const Size& size = expected.shape[static_cast<std::size_t>(d)];
        if (size.kind != Size::Kind::expression || size.expression.evaluate(symbols) == tensors[i]->shape[d])
          continue;
        mismatch = {Mismatch::Kind::size, static_cast<std::int32_t>(i), d};
        return false;
      }
    if (expected.dense || strides_fit(expected, *tensors[i], symbols)) continue;
    mismatch = {Mismatch::Kind::strides, static_cast<std::int32_t>(i), 0};
    return false;
  }
  return true;
}

void Program::output_shape(std::size_t output, const std::int64_t* symbols, std::int64_t* shape) const {
  for (const Size& size : outputs_[output].shape)
    *shape++ = size.kind == Size::Kind::constant     ? size.value
               : size.kind == Size::Kind::expression ? size.expression.evaluate(symbols)
                                                     : symbols[size.value];
}

std::string Program::check_output(std::size_t output, const DLTensor& tensor,
                                  const std::int64_t* symbols) const {
  const Tensor& expected = outputs_[output];
  std::int64_t shape[kMaxRank];
  output_shape(output, symbols, shape);
  const bool on_device = device_.type == kDLCPU
                             ? tensor.device.type == kDLCPU || tensor.device.type == kDLCUDAHost
                             : tensor.device.type == device_.type && tensor.device.index == device_.index;
  const bool fits = is_same(tensor.dtype, expected.dtype) && on_device && tensor.ndim == expected.rank &&
                    std::equal(shape, shape + expected.rank, tensor.shape);
  if (fits && strides_fit(expected, tensor, symbols)) return "";
  return "a dense " + describe(expected.dtype) + list(shape, expected.rank) + " on " + describe(device_);
}

std::string Program::shape_text(const PlanTensor& tensor) const {
  std::string out = std::string(name(tensor.dtype)) + "[";
  for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
    std::string text = tensor.shape[d].text();
    for (std::size_t s = 0; s < spec().symbols.size(); ++s)
      if (tensor.shape[d] == SizeExpr::symbol(static_cast<int>(s))) text = spec().symbols[s].name;
    out += (d > 0 ? ", " : "") + text;
  }
  return out + "]";
}

Error Program::explain(const Mismatch& mismatch, const DLTensor* found) const {
  const PlanTensor& tensor = spec().tensors[static_cast<std::size_t>(mismatch.tensor)];
  Error error{ErrorCode::wrong_arguments, "call " + spec().name, "",
              "argument `" + tensor.name + "`: " + shape_text(tensor), ""};
  for (const Symbol& s : spec().symbols)
    error.where += ", " + s.name + " in " + std::to_string(s.lo) + ".." + std::to_string(s.hi);
  if (found == nullptr) return error;
  const std::string shape = "shape " + list(found->shape, found->ndim);
  const std::string dimension = "dimension " + std::to_string(mismatch.dimension) + " of " + shape;
  switch (mismatch.kind) {
    case Mismatch::Kind::dtype:
      error.found = "dtype " + describe(found->dtype);
      error.works = "dtype " + std::string(name(tensor.dtype));
      break;
    case Mismatch::Kind::device:
      error.found = "a tensor on " + describe(found->device);
      error.works = "a tensor on " + describe(device_);
      break;
    case Mismatch::Kind::rank:
      error.found = shape;
      error.works = std::to_string(tensor.shape.size()) + " dimensions";
      break;
    case Mismatch::Kind::range:
      error.code = ErrorCode::out_of_range;
      error.found = dimension + " is outside its range";
      error.works = "a size in the range, or a wider one declared";
      break;
    case Mismatch::Kind::strides:
      error.found = shape + " with strides " +
                    (found->strides != nullptr ? list(found->strides, found->ndim) : "of a dense tensor");
      error.works = "the strides that the graph states: a dense tensor, unless it names others";
      break;
    default:
      error.found = dimension + " is another";
      error.works = "the size that the graph states; one symbol has one value in a call";
  }
  return error;
}

}  // namespace loopwright::python
