// A plan with the tensors it takes and gives, and whether the tensors of a call fit it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loopwright/runtime.h"
#include "python/module/dlpack.h"

namespace loopwright::python {

/// Symbols of a plan: their values are on the stack of a call.
inline constexpr std::size_t kMaxSymbols = 32;

/// What does not fit, without text: most misses lead to another program, not to a message.
struct Mismatch {
  enum class Kind : std::uint8_t { none, guard, dtype, device, rank, size, range, strides, grad };
  Kind kind = Kind::none;
  std::int32_t tensor = 0;
  std::int32_t dimension = 0;
};

class Program {
 public:
  /// unsupported for a symbol that no input has as a size.
  static Result<Program> make(Plan plan, DLDevice device);

  const Plan& plan() const { return plan_; }
  DLDevice device() const { return device_; }
  const PlanSpec& spec() const { return plan_.spec(); }
  std::size_t input_count() const { return inputs_.size(); }
  std::size_t output_count() const { return outputs_.size(); }
  /// Inputs that the call writes.
  bool is_written(std::size_t input) const { return inputs_[input].written; }
  bool writes_inputs() const { return writes_inputs_; }

  /// Dtype, device, rank and strides of one input against the plan, and sizes that are symbols into `symbols`.
  bool match(std::size_t input, const DLTensor& tensor, std::int64_t* symbols, Mismatch& mismatch) const;
  /// Sizes and strides that follow from all symbols; after `match` of every input.
  bool match_derived(const DLTensor* const* tensors, const std::int64_t* symbols, Mismatch& mismatch) const;

  int output_rank(std::size_t output) const { return outputs_[output].rank; }
  DLDataType output_dtype(std::size_t output) const { return outputs_[output].dtype; }
  void output_shape(std::size_t output, const std::int64_t* symbols, std::int64_t* shape) const;
  /// An output given by the caller; empty when it fits, else what was wanted.
  std::string check_output(std::size_t output, const DLTensor& tensor, const std::int64_t* symbols) const;

  /// Error with the four parts for a mismatch.
  Error explain(const Mismatch& mismatch, const DLTensor* tensor) const;

 private:
  struct Size {
    enum class Kind : std::uint8_t { constant, first, symbol, expression } kind = Kind::constant;
    std::int64_t value = 0;  ///< the constant, or the symbol's position
    SizeExpr expression;
  };
  struct Tensor {
    DLDataType dtype{};
    int rank = 0;
    bool written = false;
    bool has_expressions = false;
    std::vector<Size> shape;
    std::vector<SizeExpr> strides;
    bool dense = true;  ///< strides follow from the shape
  };
  static Tensor describe_tensor(const PlanTensor& tensor, std::vector<bool>& known);
  static bool strides_fit(const Tensor& expected, const DLTensor& tensor, const std::int64_t* symbols);
  std::string shape_text(const PlanTensor& tensor) const;
  Program(Plan plan, DLDevice device) : plan_(std::move(plan)), device_(device) {}

  Plan plan_;
  DLDevice device_;
  std::vector<Tensor> inputs_, outputs_;
  bool writes_inputs_ = false;
};

}  // namespace loopwright::python
