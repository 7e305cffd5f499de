// Building graphs of tensor operations.
//
// A graph is functional: every op makes a new tensor. Writing into an input (a key/value cache) is said at the end:
// `update(input, value)` states that after a run the input's memory holds the value. Composite builders (softmax,
// layer_norm, ...) expand into primitive ops at once; a graph holds primitives only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "loopwright/base.h"
#include "loopwright/shape.h"

namespace loopwright {

/// A tensor of a graph, valid for the graph that made it.
struct Value {
  std::int32_t id = -1;
  bool operator==(const Value&) const = default;
};

/// dtype and shape; `strides` (elements, one a dimension) only for inputs that are views, empty = dense row-major.
/// Views may overlap (stride 0 too) for reading; an updated input must not overlap itself.
struct TensorType {
  DType dtype = DType::f32;
  std::vector<Dim> shape;
  std::vector<Dim> strides;
  int rank() const { return static_cast<int>(shape.size()); }
  bool operator==(const TensorType&) const = default;
  std::string text() const;  ///< `f32[tokens, 2880]`, with ` strides [..]` when not dense
};

/// A named argument of an op: axes, sizes, a dtype, a number.
using Attribute =
    std::variant<std::int64_t, double, bool, std::string, DType, std::vector<std::int64_t>, std::vector<Dim>>;
struct NamedAttribute {
  std::string name;
  Attribute value;
  bool operator==(const NamedAttribute&) const = default;
};

/// One op: `op` is a name of the op table (docs/lw.md lists it). Inputs of the graph are nodes with op "input".
struct Node {
  std::string op;
  std::vector<Value> inputs;
  std::vector<NamedAttribute> attributes;  ///< sorted by name, defaults left out
  TensorType type;
  std::string
      name;  ///< unique in the graph, among symbols too; [A-Za-z_][A-Za-z0-9_]*, not a word of the text format
};

/// A graph under construction or finished; cheap to move, copyable.
class Graph {
 public:
  /// Characters that a name cannot hold become `_`.
  explicit Graph(std::string name = "graph");

  // ---- building. Every builder infers dtype and shape and returns an Error (dtype_mismatch, shape_mismatch,
  // wrong_arity, bad_attribute, size_overflow, unknown_op, duplicate_name) that names the op and its operands.
  Result<Dim> symbol(const std::string& name, std::int64_t lo, std::int64_t hi);
  Result<Value> input(const std::string& name, TensorType type);
  /// Any op of the table by name, or a composite (softmax, gelu, ...). `name` of the result may be empty (one is made
  /// up). Operands that may be absent have id -1.
  Result<Value> apply(const std::string& op, const std::vector<Value>& inputs,
                      std::vector<NamedAttribute> attributes = {}, const std::string& name = "");
  /// A scalar constant (rank 0) of any dtype.
  Result<Value> constant(double value, DType dtype);
  Result<Value> cast(Value x, DType dtype);
  /// Binary ops broadcast like NumPy, but never change a dtype: mixed dtypes are an error.
  Result<Value> binary(const std::string& op, Value a, Value b);
  Result<Value> unary(const std::string& op, Value x);
  Result<Value> reduce(const std::string& op, Value x, std::vector<std::int64_t> axes, bool keepdim);
  Result<Value> matmul(Value a, Value b, bool transpose_a = false, bool transpose_b = false);
  /// x · weightᵀ + bias; bias may be absent (id -1).
  Result<Value> linear(Value x, Value weight, Value bias = {});
  Result<Value> softmax(Value x, std::int64_t axis);
  Result<Value> log_softmax(Value x, std::int64_t axis);
  /// Over the last axis; weight and bias may be absent. Arithmetic in f32 for f16 and bf16 inputs.
  Result<Value> layer_norm(Value x, Value weight, Value bias, double eps);
  Result<Value> rms_norm(Value x, Value weight, double eps);
  Result<Value> gelu(Value x, bool tanh_approximation);
  Result<Value> silu(Value x);
  /// The value gets that name: one with a made-up name is renamed, for any other a `copy` is added, so that
  /// `output.name` is always the name of `output.value`, which is never an input.
  Status output(const std::string& name, Value value);
  /// After a run the memory of `input` holds `value` (same dtype and shape; a `copy` when it is an input itself).
  Status update(Value input, Value value);
  /// What the graph's user accepts; `strict` until it is said.
  void allow(Accuracy accuracy) { accuracy_ = accuracy; }

  // ---- reading
  const std::string& name() const { return name_; }
  Accuracy accuracy() const { return accuracy_; }
  const std::vector<Symbol>& symbols() const { return symbols_; }
  const std::vector<Node>& nodes() const { return nodes_; }  ///< topological order; Value::id is the position
  const Node& node(Value v) const;
  const TensorType& type(Value v) const { return node(v).type; }
  struct Output {
    std::string name;
    Value value;
  };
  const std::vector<Output>& outputs() const { return outputs_; }
  struct Update {
    Value input, value;
  };
  const std::vector<Update>& updates() const { return updates_; }
  std::vector<Value> inputs() const;  ///< in order of declaration
  std::optional<Value> find(std::string_view name) const;

  /// Canonical .lw text; parses back to an equal graph.
  std::string text() const;
  /// Errors carry `file:line:column` and what was expected.
  static Result<Graph> parse(std::string_view text, const std::string& file = "graph");
  static Result<Graph> load(const std::string& path);
  bool operator==(const Graph& other) const { return text() == other.text(); }

 private:
  std::string name_;
  Accuracy accuracy_ = Accuracy::strict;
  std::vector<Symbol> symbols_;
  std::vector<Node> nodes_;
  std::vector<Output> outputs_;
  std::vector<Update> updates_;
  std::map<std::string, Value, std::less<>> by_name_;
  std::set<std::int32_t> made_up_;  ///< values whose name nobody chose

  Result<Value> add_node(Node node);
  Status check_name(const std::string& name, const std::string& asked) const;
  std::string make_up_name(std::size_t number) const;
  void claim_name(const std::string& name, Value v);
};

}  // namespace loopwright
