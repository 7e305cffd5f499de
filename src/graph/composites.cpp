#include "src/graph/composites.h"

#include <cmath>

namespace loopwright::graph {
namespace {

constexpr unsigned kFloats =
    1u << static_cast<unsigned>(DType::f16) | 1u << static_cast<unsigned>(DType::bf16) |
    1u << static_cast<unsigned>(DType::f32) | 1u << static_cast<unsigned>(DType::f64);

/// Adds ops one after the other and remembers the first error, so that a composite reads as its formula.
class Formula {
 public:
  Formula(Graph& g, std::string name) : g_(g), name_(std::move(name)) {}

  Value op(const std::string& op, std::vector<Value> inputs, std::vector<NamedAttribute> attributes = {},
           const std::string& name = "") {
    if (error_) return {};
    Result<Value> made = g_.apply(op, inputs, std::move(attributes), name);
    if (made.ok()) return *made;
    error_ = made.error();
    return {};
  }
  /// A constant in the dtype of `like`.
  Value number(double value, Value like) {
    if (error_) return {};
    return op("constant", {}, {{"value", value}, {"dtype", g_.type(like).dtype}});
  }
  /// `x` in the dtype of arithmetic: f32 for f16 and bf16.
  Value widen(Value x) { return error_ ? Value{} : cast(x, accumulator(g_.type(x).dtype)); }
  Value cast(Value x, DType dtype) {
    if (error_ || g_.type(x).dtype == dtype) return x;
    return op("cast", {x}, {{"dtype", dtype}});
  }
  Value like(Value x, Value other) { return error_ ? Value{} : cast(x, g_.type(other).dtype); }
  Value rows(const std::string& reduction, Value x, std::int64_t axis) {
    return op(reduction, {x}, {{"axes", std::vector<std::int64_t>{axis}}, {"keepdim", true}});
  }
  /// The last op, in `dtype`, under the composite's name.
  Result<Value> finish(const std::string& last, std::vector<Value> inputs, DType dtype) {
    if (error_) return *error_;
    if (g_.type(inputs[0]).dtype == dtype) return done(op(last, std::move(inputs), {}, name_));
    return done(op("cast", {op(last, std::move(inputs))}, {{"dtype", dtype}}, name_));
  }

  /// An op as it is, under the composite's name.
  Result<Value> take(const std::string& last, std::vector<Value> inputs, std::vector<NamedAttribute> attributes) {
    if (error_) return *error_;
    return done(op(last, std::move(inputs), std::move(attributes), name_));
  }

 private:
  Result<Value> done(Value v) const { return error_ ? Result<Value>(*error_) : Result<Value>(v); }
  Graph& g_;
  std::string name_;
  std::optional<Error> error_;
};

Result<Value> expand_softmax(Graph& g, const Call& call, const std::vector<Value>& in,
                             const std::string& name) {
  Formula f(g, name);
  const std::int64_t axis = call.integer("axis");
  const DType dtype = g.type(in[0]).dtype;
  Value x = f.widen(in[0]);
  Value e = f.op("exp", {f.op("sub", {x, f.rows("reduce_max", x, axis)})});
  return f.finish("div", {e, f.rows("sum", e, axis)}, dtype);
}

Result<Value> expand_log_softmax(Graph& g, const Call& call, const std::vector<Value>& in,
                                 const std::string& name) {
  Formula f(g, name);
  const std::int64_t axis = call.integer("axis");
  const DType dtype = g.type(in[0]).dtype;
  Value x = f.widen(in[0]);
  Value shifted = f.op("sub", {x, f.rows("reduce_max", x, axis)});
  return f.finish("sub", {shifted, f.op("log", {f.rows("sum", f.op("exp", {shifted}), axis)})}, dtype);
}

/// x scaled by weight and shifted by bias (either may be absent), back in the dtype of `from`. `scale` is the factor
/// that makes a row of unit size.
Result<Value> scale_and_shift(Formula& f, Value x, Value scale, Value weight, Value bias, DType dtype) {
  const bool has_weight = weight.id != -1, has_bias = bias.id != -1;
  if (!has_weight && !has_bias) return f.finish("mul", {x, scale}, dtype);
  Value y = f.op("mul", {x, scale});
  if (has_weight && !has_bias) return f.finish("mul", {y, f.like(weight, y)}, dtype);
  if (has_weight) y = f.op("mul", {y, f.like(weight, y)});
  return f.finish("add", {y, f.like(bias, y)}, dtype);
}

Result<Value> expand_layer_norm(Graph& g, const Call& call, const std::vector<Value>& in,
                                const std::string& name) {
  Formula f(g, name);
  const DType dtype = g.type(in[0]).dtype;
  Value x = f.widen(in[0]);
  Value d = f.op("sub", {x, f.rows("mean", x, -1)});
  Value variance = f.rows("mean", f.op("mul", {d, d}), -1);
  Value scale = f.op("rsqrt", {f.op("add", {variance, f.number(call.number("eps"), x)})});
  return scale_and_shift(f, d, scale, in[1], in[2], dtype);
}

Result<Value> expand_rms_norm(Graph& g, const Call& call, const std::vector<Value>& in,
                              const std::string& name) {
  Formula f(g, name);
  const DType dtype = g.type(in[0]).dtype;
  Value x = f.widen(in[0]);
  Value mean = f.rows("mean", f.op("mul", {x, x}), -1);
  Value scale = f.op("rsqrt", {f.op("add", {mean, f.number(call.number("eps"), x)})});
  return scale_and_shift(f, x, scale, in[1], Value{}, dtype);
}

Result<Value> expand_gelu(Graph& g, const Call&, const std::vector<Value>& in, const std::string& name) {
  Formula f(g, name);
  const DType dtype = g.type(in[0]).dtype;
  Value x = f.widen(in[0]);
  Value half = f.op("mul", {x, f.number(0.5, x)});
  Value erf = f.op("erf", {f.op("mul", {x, f.number(std::sqrt(0.5), x)})});
  return f.finish("mul", {half, f.op("add", {erf, f.number(1, x)})}, dtype);
}

Result<Value> expand_gelu_tanh(Graph& g, const Call&, const std::vector<Value>& in, const std::string& name) {
  Formula f(g, name);
  const DType dtype = g.type(in[0]).dtype;
  Value x = f.widen(in[0]);
  // (1 + tanh(a)) / 2 is sigmoid(2 a), which costs less and loses nothing where tanh is near -1.
  Value cube = f.op("mul", {f.op("mul", {x, x}), x});
  Value inner = f.op("add", {x, f.op("mul", {cube, f.number(0.044715, x)})});
  Value doubled = f.op("mul", {inner, f.number(2 * std::sqrt(2 / std::acos(-1.0)), x)});
  return f.finish("mul", {x, f.op("sigmoid", {doubled})}, dtype);
}

Result<Value> expand_silu(Graph& g, const Call&, const std::vector<Value>& in, const std::string& name) {
  Formula f(g, name);
  const DType dtype = g.type(in[0]).dtype;
  Value x = f.widen(in[0]);
  return f.finish("mul", {x, f.op("sigmoid", {x})}, dtype);
}

Result<Value> expand_linear(Graph& g, const Call& call, const std::vector<Value>& in,
                            const std::string& name) {
  if (call.operands[0].rank() < 2)
    return call.error(ErrorCode::shape_mismatch,
                      "`" + call.names[0] + "` of rank " + std::to_string(call.operands[0].rank()),
                      "an operand of rank 2 or more");
  const DType dtype = g.type(in[0]).dtype;
  const std::vector<NamedAttribute> plain{{"transpose_b", true}};
  if (in[2].id == -1) return g.apply("matmul", {in[0], in[1]}, plain, name);
  Formula f(g, name);
  std::vector<NamedAttribute> wide = plain;
  // One rounding at the end: the bias is added before the product is rounded to a 16-bit type.
  if (accumulator(dtype) != dtype && is_float(dtype)) wide.push_back({"out", accumulator(dtype)});
  Value y = f.op("matmul", {in[0], in[1]}, wide);
  return f.finish("add", {y, f.like(in[2], y)}, dtype);
}

Result<Value> expand_grouped_matmul(Graph& g, const Call& call, const std::vector<Value>& in, const std::string& name) {
  const Value x = in[0], w = in[1], offsets = in[2];
  if (call.operands[0].rank() != 2 || call.operands[1].rank() != 3 || call.operands[2].rank() != 1)
    return call.error(ErrorCode::shape_mismatch, "operands of the ranks " + std::to_string(call.operands[0].rank()) + ", " + std::to_string(call.operands[1].rank()) + " and " + std::to_string(call.operands[2].rank()),
                      "rows [rows, k], matrices [groups, k, n] and offsets [groups]");
  if (call.operands[1].shape[0] != call.operands[2].shape[0])
    return call.error(ErrorCode::shape_mismatch, call.operands[1].shape[0].text() + " matrices and " + call.operands[2].shape[0].text() + " offsets", "an offset for each matrix");
  Formula f(g, name);
  const Value group = f.op("group_of", {offsets}, {{"shape", std::vector<Dim>{call.operands[0].shape[0]}}});
  std::vector<NamedAttribute> attributes{{"transpose_b", call.flag("transpose_b")}};
  if (call.has("out")) attributes.push_back({"out", call.dtype("out")});
  return f.take("matmul_at", {x, w, group}, attributes);
}

Composite row(const char* name, const char* operands, std::vector<AttributeSpec> attributes,
              Result<Value> (*expand)(Graph&, const Call&, const std::vector<Value>&, const std::string&),
              unsigned dtypes = kFloats) {
  Op op;
  op.signature = {name, operands, std::move(attributes)};
  op.dtypes = dtypes;
  return {std::move(op), expand};
}

}  // namespace

const std::vector<Composite>& composite_table() {
  const AttributeSpec axis{"axis", AttributeType::integer, false, Attribute(std::int64_t{-1})};
  const AttributeSpec eps{"eps", AttributeType::number, false, Attribute(1e-5)};
  static const std::vector<Composite> table = {
      row("softmax", "T", {axis}, expand_softmax),
      row("log_softmax", "T", {axis}, expand_log_softmax),
      row("layer_norm", "TF?F?", {eps}, expand_layer_norm),
      row("rms_norm", "TF?", {eps}, expand_rms_norm),
      row("gelu", "T", {}, expand_gelu),
      row("gelu_tanh", "T", {}, expand_gelu_tanh),
      row("silu", "T", {}, expand_silu),
      row("linear", "TTT?", {}, expand_linear, ~1u),
      row("grouped_matmul", "TTI", {{"transpose_b", AttributeType::flag, false, Attribute(false)}, {"out", AttributeType::dtype, false, {}}}, expand_grouped_matmul, ~1u),
  };
  return table;
}

const Composite* find_composite(std::string_view name) {
  for (const Composite& composite : composite_table())
    if (composite.op.signature.name == name) return &composite;
  return nullptr;
}

Result<Value> expand_composite(Graph& g, const Composite& composite, std::vector<Value> inputs,
                               const std::vector<NamedAttribute>& attributes, const std::string& name) {
  LW_TRY(Call call, check_call(g, composite.op, inputs, attributes));
  inputs.resize(composite.op.signature.max_operands());
  return composite.expand(g, call, inputs, name);
}

}  // namespace loopwright::graph
