#include "src/graph/ops.h"

#include "src/graph/composites.h"
#include "src/graph/definitions.h"
#include "src/graph/shape_rules.h"

namespace loopwright::graph {
namespace {

using ir::BinaryOp;
using ir::Expr;
using ir::Monoid;
using ir::UnaryOp;
using Operands = std::vector<Expr>;

constexpr unsigned bit(DType dtype) { return 1u << static_cast<unsigned>(dtype); }
constexpr unsigned kBool = bit(DType::boolean);
constexpr unsigned kInt =
    bit(DType::i8) | bit(DType::u8) | bit(DType::i16) | bit(DType::i32) | bit(DType::i64);
constexpr unsigned kFloat = bit(DType::f16) | bit(DType::bf16) | bit(DType::f32) | bit(DType::f64);
constexpr unsigned kNumber = kInt | kFloat;
constexpr unsigned kAny = kNumber | kBool;

// ---- attributes
AttributeSpec axis() { return {"axis", AttributeType::integer, true, {}}; }
AttributeSpec axes(bool required) {
  return {"axes", AttributeType::integers, required,
          required ? std::optional<Attribute>{} : Attribute(std::vector<std::int64_t>{})};
}
AttributeSpec flag(const char* name) { return {name, AttributeType::flag, false, Attribute(false)}; }
AttributeSpec sizes(const char* name) { return {name, AttributeType::dims, true, {}}; }
AttributeSpec dtype() { return {"dtype", AttributeType::dtype, true, {}}; }
AttributeSpec out() { return {"out", AttributeType::dtype, false, {}}; }
AttributeSpec integer(const char* name, std::int64_t fallback) {
  return {name, AttributeType::integer, false, Attribute(fallback)};
}
std::vector<AttributeSpec> reduced() { return {axes(false), flag("keepdim")}; }
std::vector<AttributeSpec> reduced_out() { return {axes(false), flag("keepdim"), out()}; }

// ---- rows
Op unary(UnaryOp op, unsigned dtypes, std::string meaning, ResultDType result = ResultDType::same) {
  return {{std::string(ir::name(op)), "T", {}},
          OpKind::pointwise,
          dtypes,
          result,
          broadcast_shapes,
          Pointwise{[op](const Call&, const Operands& x) { return ir::unary(op, x[0]); }},
          std::move(meaning)};
}
Op binary(BinaryOp op, unsigned dtypes, std::string meaning, ResultDType result = ResultDType::same) {
  return {{std::string(ir::name(op)), "TT", {}},
          OpKind::pointwise,
          dtypes,
          result,
          broadcast_shapes,
          Pointwise{[op](const Call&, const Operands& x) { return ir::binary(op, x[0], x[1]); }},
          std::move(meaning)};
}
Op compare(BinaryOp op, unsigned dtypes, std::string meaning) {
  return binary(op, dtypes, std::move(meaning), ResultDType::boolean);
}
Op view(Signature signature, std::function<Status(Call&)> shape,
        std::function<Expr(const Call&, const Read&, const Index&)> value, std::string meaning,
        OpKind kind = OpKind::view) {
  return {std::move(signature), kind, kAny, ResultDType::same, std::move(shape), Indexed{std::move(value)},
          std::move(meaning)};
}
/// One value a reduced element, combined in the accumulator's dtype (`wide`) or the operand's.
Op fold(const char* name, Monoid monoid, unsigned dtypes, bool wide, std::string meaning) {
  return {{name, "T", wide ? reduced_out() : reduced()},
          OpKind::reduction,
          dtypes,
          wide ? ResultDType::accumulated : ResultDType::same,
          reduce_shape,
          Reduction{[monoid, wide](const Call& call) {
            const DType type = call.operands[0].dtype;
            return reduce_axes(call, monoid, wide ? accumulator(type) : type);
          }},
          std::move(meaning)};
}
Op arg_fold(const char* name, Monoid monoid, std::string meaning) {
  return {{name, "T", reduced()},
          OpKind::reduction,
          kNumber,
          ResultDType::index,
          arg_reduce_shape,
          Reduction{[monoid](const Call& call) { return define_arg_reduce(call, monoid); }},
          std::move(meaning)};
}

std::vector<Op> unary_rows() {
  return {
      unary(UnaryOp::neg, kNumber, "-x; integers wrap"),
      unary(UnaryOp::abs, kNumber, "|x|; integers wrap"),
      unary(UnaryOp::sign, kNumber, "-1, 0 or 1; NaN stays"),
      unary(UnaryOp::logical_not, kBool, "not x"),
      unary(UnaryOp::bit_not, kInt, "every bit turned"),
      unary(UnaryOp::exp, kFloat, "e to the x"),
      unary(UnaryOp::exp2, kFloat, "2 to the x"),
      unary(UnaryOp::expm1, kFloat, "exp(x) - 1"),
      unary(UnaryOp::log, kFloat, "natural logarithm"),
      unary(UnaryOp::log2, kFloat, "logarithm to base 2"),
      unary(UnaryOp::log1p, kFloat, "log(1 + x)"),
      unary(UnaryOp::sqrt, kFloat, "square root"),
      unary(UnaryOp::rsqrt, kFloat, "1 / sqrt(x)"),
      unary(UnaryOp::reciprocal, kFloat, "1 / x"),
      unary(UnaryOp::cbrt, kFloat, "cube root"),
      unary(UnaryOp::sin, kFloat, "sine"),
      unary(UnaryOp::cos, kFloat, "cosine"),
      unary(UnaryOp::tan, kFloat, "tangent"),
      unary(UnaryOp::asin, kFloat, "arc sine"),
      unary(UnaryOp::acos, kFloat, "arc cosine"),
      unary(UnaryOp::atan, kFloat, "arc tangent"),
      unary(UnaryOp::sinh, kFloat, "hyperbolic sine"),
      unary(UnaryOp::cosh, kFloat, "hyperbolic cosine"),
      unary(UnaryOp::tanh, kFloat, "hyperbolic tangent"),
      unary(UnaryOp::erf, kFloat, "error function"),
      unary(UnaryOp::sigmoid, kFloat, "1 / (1 + exp(-x))"),
      unary(UnaryOp::floor, kFloat, "toward minus infinity"),
      unary(UnaryOp::ceil, kFloat, "toward plus infinity"),
      unary(UnaryOp::round, kFloat, "to the nearest, ties to even"),
      unary(UnaryOp::trunc, kFloat, "toward zero"),
      unary(UnaryOp::is_nan, kFloat, "is not a number", ResultDType::boolean),
      unary(UnaryOp::is_inf, kFloat, "is infinite", ResultDType::boolean),
  };
}

std::vector<Op> binary_rows() {
  return {
      binary(BinaryOp::add, kNumber, "a + b; integers wrap"),
      binary(BinaryOp::sub, kNumber, "a - b; integers wrap"),
      binary(BinaryOp::mul, kNumber, "a * b; integers wrap"),
      binary(BinaryOp::div, kNumber, "a / b; integers toward zero, 0 when b is 0"),
      binary(BinaryOp::floor_div, kInt, "a / b toward minus infinity, 0 when b is 0"),
      binary(BinaryOp::mod, kInt, "a - floor_div(a, b) * b, 0 when b is 0"),
      binary(BinaryOp::min, kNumber, "the smaller; NaN when either is"),
      binary(BinaryOp::max, kNumber, "the larger; NaN when either is"),
      binary(BinaryOp::pow, kFloat, "a to the b"),
      binary(BinaryOp::atan2, kFloat, "angle of the point (b, a)"),
      binary(BinaryOp::fmod, kFloat, "remainder with the sign of a"),
      binary(BinaryOp::and_, kInt | kBool, "bitwise, or logical for bool"),
      binary(BinaryOp::or_, kInt | kBool, "bitwise, or logical for bool"),
      binary(BinaryOp::xor_, kInt | kBool, "bitwise, or logical for bool"),
      binary(BinaryOp::shl, kInt, "a shifted left by b bits; 0 when b is negative or the width or more"),
      binary(BinaryOp::shr, kInt,
             "a shifted right by b bits, keeping the sign; 0 or -1 when b is out of range"),
      compare(BinaryOp::eq, kAny, "a = b"),
      compare(BinaryOp::ne, kAny, "a is not b"),
      compare(BinaryOp::lt, kNumber, "a < b"),
      compare(BinaryOp::le, kNumber, "a <= b"),
      compare(BinaryOp::gt, kNumber, "a > b"),
      compare(BinaryOp::ge, kNumber, "a >= b"),
  };
}

std::vector<Op> other_pointwise_rows() {
  return {
      {{"select", "BTT", {}},
       OpKind::pointwise,
       kAny,
       ResultDType::same,
       broadcast_shapes,
       Pointwise{[](const Call&, const Operands& x) { return ir::select(x[0], x[1], x[2]); }},
       "operand 1 where operand 0 holds, else operand 2"},
      {{"clamp", "TTT", {}},
       OpKind::pointwise,
       kNumber,
       ResultDType::same,
       broadcast_shapes,
       Pointwise{[](const Call&, const Operands& x) { return ir::min(ir::max(x[0], x[1]), x[2]); }},
       "min(max(x, low), high)"},
      {{"cast", "T", {dtype()}},
       OpKind::pointwise,
       kAny,
       ResultDType::attribute,
       broadcast_shapes,
       Pointwise{[](const Call& call, const Operands& x) { return ir::cast(x[0], call.result.dtype); }},
       "to another dtype; float to integer truncates and saturates, NaN gives 0"},
      {{"copy", "T", {}},
       OpKind::pointwise,
       kAny,
       ResultDType::same,
       broadcast_shapes,
       Pointwise{[](const Call&, const Operands& x) { return x[0]; }},
       "x under another name"},
      {{"constant", "", {{"value", AttributeType::number, true, {}}, dtype()}},
       OpKind::source,
       kAny,
       ResultDType::attribute,
       scalar_shape,
       Indexed{[](const Call& call, const Read&, const Index&) {
         const Attribute& value = call.attributes.find("value")->second;
         if (const auto* whole = std::get_if<std::int64_t>(&value))
           return ir::int_imm(*whole, call.result.dtype);
         return ir::constant(std::get<double>(value), call.result.dtype);
       }},
       "a scalar; broadcast makes it larger"},
      {{"iota", "", {sizes("shape"), axis(), dtype(), integer("start", 0), integer("step", 1)}},
       OpKind::source,
       kAny & ~kBool,
       ResultDType::attribute,
       attribute_shape,
       Indexed{define_iota},
       "start + step * index along axis"},
  };
}

std::vector<Op> view_rows() {
  return {
      view({"reshape", "T", {sizes("shape")}}, reshape_shape, define_reshape,
           "the same elements in row-major order; one size may be -1"),
      view({"permute", "T", {axes(true)}}, permute_shape, define_permute,
           "axis i of the result is axis axes[i] of x"),
      view({"broadcast", "T", {sizes("shape")}}, broadcast_to_shape, define_broadcast,
           "repeated along axes of size 1"),
      view({"slice",
            "T",
            {axes(true),
             sizes("start"),
             sizes("stop"),
             {"step", AttributeType::integers, false, Attribute(std::vector<std::int64_t>{})}}},
           slice_shape, define_slice,
           "start to stop (excluded) by step along each of axes; constants below 0 count from the end"),
      view({"concat", "T*", {axis()}}, concat_shape, define_concat,
           "operands one after the other along axis"),
      view({"pad", "TT", {sizes("low"), sizes("high")}}, pad_shape, define_pad,
           "operand 1 (a scalar) before and after operand 0 along each axis"),
      view({"flip", "T", {axes(true)}}, same_shape_axes, define_flip, "turned around along axes"),
      view({"gather", "TI", {axis()}}, gather_shape, define_gather,
           "x[.., index[i..], ..]: indices replace the position along axis; out of range = nearest end, "
           "never wrapped",
           OpKind::gather),
      view({"embedding", "TI", {}}, embedding_shape, define_embedding,
           "rows of operand 0 chosen by operand 1; out of range = nearest end", OpKind::gather),
      view({"index_select", "TI", {axis()}}, index_select_shape, define_index_select,
           "slices along axis chosen by a one-axis index; out of range = nearest end", OpKind::gather),
  };
}

std::vector<Op> reduction_rows() {
  std::vector<AttributeSpec> variance = reduced_out();
  variance.push_back(integer("correction", 1));
  return {
      fold("sum", Monoid::sum, kAny, true, "sum over axes (all when absent); bool counts into i64"),
      {{"mean", "T", reduced_out()},
       OpKind::reduction,
       kFloat,
       ResultDType::accumulated,
       reduce_shape,
       Reduction{define_mean},
       "sum / number of elements"},
      fold("product", Monoid::product, kNumber, true, "product over axes"),
      fold("reduce_max", Monoid::max, kNumber, false, "largest over axes; NaN wins"),
      fold("reduce_min", Monoid::min, kNumber, false, "smallest over axes; NaN wins"),
      arg_fold("argmax", Monoid::argmax,
               "row-major position of the largest within axes; first of equals; NaN wins"),
      arg_fold("argmin", Monoid::argmin,
               "row-major position of the smallest within axes; first of equals; NaN wins"),
      fold("any", Monoid::any, kBool, false, "or over axes"),
      fold("all", Monoid::all, kBool, false, "and over axes"),
      {{"variance", "T", variance},
       OpKind::reduction,
       kFloat,
       ResultDType::accumulated,
       reduce_shape,
       Reduction{define_variance},
       "sum of (x - mean)^2 / max(number of elements - correction, 0)"},
      {{"matmul", "TT", {flag("transpose_a"), flag("transpose_b"), out()}},
       OpKind::contraction,
       kNumber,
       ResultDType::accumulated,
       matmul_shape,
       Reduction{define_matmul},
       "product of the last two axes, leading axes broadcast"},
      {{"group_of", "I", {sizes("shape")}},
       OpKind::source,
       bit(DType::i64),
       ResultDType::index,
       group_of_shape,
       Reduction{define_group_of},
       "for each r below the size: the first position e with offsets[e] > r, or the number of offsets where there is none"},
      {{"matmul_at", "TTI", {flag("transpose_b"), out()}},
       OpKind::contraction,
       kNumber,
       ResultDType::accumulated,
       matmul_at_shape,
       Reduction{define_matmul_at},
       "row r of x times the matrix w[index[r]]; 0 where that is out of range"},
      {{"cumulative_sum", "T", {axis(), out()}},
       OpKind::scan,
       kNumber,
       ResultDType::accumulated,
       same_shape_axes,
       Scan{},
       "running sum along axis"},
  };
}

std::vector<Op> write_rows() {
  return {
      {{"scatter", "TIT", {axis(), {"reduce", AttributeType::word, false, Attribute(std::string("none"))}}},
       OpKind::write,
       kNumber | kBool,
       ResultDType::same,
       scatter_shape,
       Write{1, define_scatter},
       "x with source[i..] written (or added: reduce=add) at index[i..] along axis, in row-major order; "
       "out of range = skipped"},
      {{"slice_update", "TTI", {axis()}},
       OpKind::write,
       kAny,
       ResultDType::same,
       slice_update_shape,
       Write{1, define_slice_update},
       "x with part written from a start given by a scalar tensor along axis; positions outside x are "
       "skipped"},
  };
}

}  // namespace

const std::vector<Op>& op_table() {
  static const std::vector<Op> table = [] {
    std::vector<Op> rows;
    for (auto part :
         {unary_rows(), binary_rows(), other_pointwise_rows(), view_rows(), reduction_rows(), write_rows()})
      rows.insert(rows.end(), part.begin(), part.end());
    return rows;
  }();
  return table;
}

const Op* find_op(std::string_view name) {
  static const auto by_name = [] {
    std::map<std::string, const Op*, std::less<>> map;
    for (const Op& op : op_table()) map[op.signature.name] = &op;
    return map;
  }();
  auto found = by_name.find(name);
  return found == by_name.end() ? nullptr : found->second;
}

}  // namespace loopwright::graph
