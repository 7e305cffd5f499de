// The checked call: tensors are compared with the plan before anything runs.
#include <algorithm>
#include <array>

#include "src/runtime/plan.h"
#include "src/runtime/tensor_bounds.h"

namespace loopwright {
namespace runtime {
namespace {

/// Sizes over symbols as a person reads them: `tokens`, `2880`, `s0 4 mul`.
std::string describe(const SizeExpr& size, const PlanSpec& spec) {
  for (std::size_t i = 0; i < spec.symbols.size(); ++i)
    if (size == SizeExpr::symbol(static_cast<int>(i))) return spec.symbols[i].name;
  return size.text();
}

std::string list(std::span<const std::int64_t> values) {
  std::string out = "[";
  for (const std::int64_t value : values) out += (out.size() > 1 ? ", " : "") + std::to_string(value);
  return out + "]";
}

std::string describe_shape(const PlanTensor& tensor, const PlanSpec& spec) {
  std::string out = std::string(name(tensor.dtype)) + "[";
  for (std::size_t d = 0; d < tensor.shape.size(); ++d)
    out += (d == 0 ? "" : ", ") + describe(tensor.shape[d], spec);
  return out + "]";
}

std::string range_text(const Symbol& symbol) {
  return symbol.name + " in " + std::to_string(symbol.lo) + ".." + std::to_string(symbol.hi);
}

class CallChecker {
 public:
  CallChecker(const Plan::State& state, std::span<const TensorView> tensors)
      : state_(state), spec_(state.spec), tensors_(tensors), symbols_(spec_.symbols.size(), 0) {}

  Status check() {
    LW_CHECK(check_kinds());
    LW_CHECK(solve_symbols());
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      LW_CHECK(check_shape(t));
      LW_CHECK(check_strides(t));
      LW_CHECK(check_memory(t));
    }
    return check_overlaps();
  }
  const std::vector<std::int64_t>& symbols() const { return symbols_; }

 private:
  Error refuse(ErrorCode code, std::size_t t, std::string found, std::string works) const {
    return {code, "run the plan " + spec_.name, std::move(found),
            "tensor " + std::to_string(t) + " `" + spec_.tensors[t].name +
                "`: " + describe_shape(spec_.tensors[t], spec_),
            std::move(works)};
  }

  Status check_kinds() const {
    const auto given = static_cast<std::size_t>(state_.given);
    if (tensors_.size() != given) {
      std::string names;
      for (std::size_t t = 0; t < given; ++t) names += (t == 0 ? "" : ", ") + spec_.tensors[t].name;
      return Error{ErrorCode::wrong_arguments, "run the plan " + spec_.name,
                   std::to_string(tensors_.size()) + " tensors", "",
                   std::to_string(given) + " tensors: " + names};
    }
    for (std::size_t t = 0; t < given; ++t) {
      const TensorView& view = tensors_[t];
      const PlanTensor& tensor = spec_.tensors[t];
      if (view.dtype != tensor.dtype)
        return refuse(ErrorCode::wrong_arguments, t, "dtype " + dtype_text(view.dtype),
                      "dtype " + dtype_text(tensor.dtype));
      if (view.shape.size() != tensor.shape.size())
        return refuse(ErrorCode::wrong_arguments, t, "shape " + list(view.shape),
                      std::to_string(tensor.shape.size()) + " dimensions");
      if (!view.strides.empty() && view.strides.size() != view.shape.size())
        return refuse(ErrorCode::wrong_arguments, t, std::to_string(view.strides.size()) + " strides",
                      "a stride for each dimension, or none for a dense tensor");
      if (std::any_of(view.shape.begin(), view.shape.end(), [](std::int64_t extent) { return extent < 0; }))
        return refuse(ErrorCode::wrong_arguments, t, "shape " + list(view.shape),
                      "sizes that are not negative");
    }
    return Unit{};
  }

  /// The dtype comes from the caller's memory and may be any byte.
  static std::string dtype_text(DType dtype) {
    const int number = static_cast<int>(dtype);
    return number < kDTypeCount ? std::string(name(dtype)) : "number " + std::to_string(number);
  }

  Status solve_symbols() {
    if (!state_.unsolved.empty()) {
      const Symbol& symbol = spec_.symbols[static_cast<std::size_t>(state_.unsolved.front())];
      return Error{ErrorCode::bad_symbol, "run the plan " + spec_.name,
                   "no tensor's shape determines the symbol " + symbol.name, "",
                   "launch, which takes symbol values"};
    }
    for (const SymbolSource& source : state_.sources) {
      const Symbol& symbol = spec_.symbols[static_cast<std::size_t>(source.symbol)];
      const auto tensor = static_cast<std::size_t>(source.tensor);
      const std::int64_t extent = tensors_[tensor].shape[static_cast<std::size_t>(source.dimension)];
      std::int64_t& value = symbols_[static_cast<std::size_t>(source.symbol)];
      value = source.direct ? extent : solve(source, symbol, extent);
      if (value < symbol.lo || value > symbol.hi || (!source.direct && evaluate(source) != extent))
        return refuse(ErrorCode::out_of_range, tensor,
                      "dimension " + std::to_string(source.dimension) + " is " + std::to_string(extent),
                      range_text(symbol));
    }
    return Unit{};
  }

  std::int64_t evaluate(const SymbolSource& source) const {
    return spec_.tensors[static_cast<std::size_t>(source.tensor)]
        .shape[static_cast<std::size_t>(source.dimension)]
        .evaluate(symbols_.data());
  }

  /// The symbol's value for which the dimension has this extent, by bisection: sizes are monotone in each symbol. The
  /// caller checks the answer.
  std::int64_t solve(const SymbolSource& source, const Symbol& symbol, std::int64_t extent) {
    std::int64_t& value = symbols_[static_cast<std::size_t>(source.symbol)];
    value = symbol.lo;
    const std::int64_t at_lo = evaluate(source);
    value = symbol.hi;
    const bool falling = at_lo > evaluate(source);
    std::int64_t lo = symbol.lo, hi = symbol.hi;
    while (lo < hi) {
      value = lo + (hi - lo) / 2;
      const std::int64_t found = evaluate(source);
      if (falling ? found <= extent : found >= extent) hi = value;
      else lo = value + 1;
    }
    return lo;
  }

  Status check_shape(std::size_t t) const {
    const TensorView& view = tensors_[t];
    for (std::size_t d = 0; d < view.shape.size(); ++d) {
      const SizeExpr& size = spec_.tensors[t].shape[d];
      const std::int64_t expected = size.evaluate(symbols_.data());
      if (view.shape[d] == expected) continue;
      std::string works = "dimension " + std::to_string(d) + " = " + std::to_string(expected);
      if (!size.is_constant()) works += " (" + describe(size, spec_) + at_symbols() + ")";
      return refuse(ErrorCode::wrong_arguments, t, "shape " + list(view.shape), works);
    }
    return Unit{};
  }

  std::string at_symbols() const {
    std::string out;
    for (std::size_t s = 0; s < symbols_.size(); ++s)
      out += (s == 0 ? " at " : ", ") + spec_.symbols[s].name + " = " + std::to_string(symbols_[s]);
    return out;
  }

  /// Strides of dimensions with at most one element do not matter, nor any of a tensor without elements.
  Status check_strides(std::size_t t) {
    const TensorView& view = tensors_[t];
    const std::size_t rank = view.shape.size();
    strides_.assign(view.strides.begin(), view.strides.end());
    if (view.strides.empty()) {
      strides_.assign(rank, 1);
      for (std::size_t d = rank; d-- > 1;)
        if (__builtin_mul_overflow(strides_[d], view.shape[d], &strides_[d - 1])) strides_[d - 1] = INT64_MAX;
    }
    if (std::find(view.shape.begin(), view.shape.end(), 0) != view.shape.end()) return Unit{};
    for (std::size_t d = 0; d < rank; ++d) {
      const std::int64_t expected = spec_.tensors[t].strides[d].evaluate(symbols_.data());
      if (view.shape[d] > 1 && strides_[d] != expected)
        return refuse(ErrorCode::wrong_arguments, t,
                      "strides " + list(strides_) + " for shape " + list(view.shape),
                      "stride " + std::to_string(expected) + " of dimension " + std::to_string(d) +
                          ": a copy with the strides that the graph states, or a graph with these strides");
    }
    return Unit{};
  }

  Status check_memory(std::size_t t) {
    const TensorView& view = tensors_[t];
    const ByteBounds bounds = find_bounds(view.shape.data(), strides_.data(), view.shape.size(), view.dtype);
    const auto address = reinterpret_cast<std::uintptr_t>(view.data);
    spans_.push_back({0, 0});
    if (bounds.empty()) return Unit{};
    if (bounds.saturated())
      return refuse(ErrorCode::size_overflow, t,
                    "shape " + list(view.shape) + ", more bytes than 64 bits can count", "a smaller tensor");
    if (view.data == nullptr)
      return refuse(ErrorCode::wrong_arguments, t, "a null pointer", "memory for " + list(view.shape));
    const auto element = static_cast<std::uintptr_t>(size_bytes(view.dtype));
    if (address % element != 0)
      return refuse(ErrorCode::misaligned, t,
                    "an address that ends in " + std::to_string(address % 64) + " modulo 64",
                    "an address that is a multiple of " + std::to_string(element) + " bytes");
    spans_.back() = {address + static_cast<std::uintptr_t>(bounds.low),
                     address + static_cast<std::uintptr_t>(bounds.high)};
    if (const Status usable = state_.device->check_memory(spans_.back()[0], bounds.high - bounds.low);
        !usable.ok())
      return refuse(usable.error().code, t, usable.error().found, usable.error().works);
    return Unit{};
  }

  /// What is written may overlap nothing else; what is only read may overlap freely.
  Status check_overlaps() const {
    for (std::size_t a = 0; a < spans_.size(); ++a) {
      if (spec_.tensors[a].role == ArgRole::input || spans_[a][0] == spans_[a][1]) continue;
      for (std::size_t b = 0; b < spans_.size(); ++b) {
        if (a == b || spans_[b][0] == spans_[b][1] || spans_[a][0] >= spans_[b][1] ||
            spans_[b][0] >= spans_[a][1])
          continue;
        const auto shared = std::min(spans_[a][1], spans_[b][1]) - std::max(spans_[a][0], spans_[b][0]);
        return refuse(
            ErrorCode::aliasing, a,
            "it is written and shares " + std::to_string(shared) + " bytes with `" + spec_.tensors[b].name +
                "`",
            "memory of its own; an input that is to be updated in place is declared so in the graph");
      }
    }
    return Unit{};
  }

  const Plan::State& state_;
  const PlanSpec& spec_;
  std::span<const TensorView> tensors_;
  std::vector<std::int64_t> symbols_;
  std::vector<std::int64_t> strides_;                 ///< of the tensor being checked
  std::vector<std::array<std::uintptr_t, 2>> spans_;  ///< first byte and behind the last, equal when empty
};

Error explain_failure(const Plan::State& state, ErrorCode code, const std::vector<std::int64_t>& symbols) {
  std::string sizes;
  for (std::size_t s = 0; s < symbols.size(); ++s)
    sizes += (s == 0 ? "" : ", ") + state.spec.symbols[s].name + " = " + std::to_string(symbols[s]);
  Error error{code, "run the plan " + state.spec.name, "", sizes.empty() ? "" : "at " + sizes, ""};
  if (code == ErrorCode::no_variant) {
    error.found = "a kernel without a variant for these sizes and addresses";
    error.works =
        "sizes within the tuned ranges (see explain), OnMiss::fallback with a general variant, or "
        "OnMiss::jit";
  } else if (code == ErrorCode::out_of_memory) {
    error.found = "no memory for an arena of " + std::to_string(state.place_slots(symbols.data(), nullptr)) +
                  " bytes and scratch";
    error.works = "smaller sizes";
  } else {
    error.found = "the device refused the launch";
  }
  if (const std::string words = state.device->describe_failure();
      !words.empty() && code != ErrorCode::no_variant)
    error.found += ": " + words;
  return error;
}

}  // namespace
}  // namespace runtime

Status Plan::run(std::span<const TensorView> tensors, void* stream) const {
  runtime::CallChecker checker(*state_, tensors);
  LW_CHECK(checker.check());
  std::vector<void*> pointers;
  for (const TensorView& view : tensors) pointers.push_back(view.data);
  ErrorCode code = launch(pointers.data(), checker.symbols().data(), stream);
  if (code == ErrorCode::ok) code = state_->device->wait(stream);
  if (code == ErrorCode::ok) return Unit{};
  return runtime::explain_failure(*state_, code, checker.symbols());
}

}  // namespace loopwright
