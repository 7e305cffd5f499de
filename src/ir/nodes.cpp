#include "src/ir/nodes.h"

#include <array>
#include <atomic>
#include <bit>
#include <cmath>

#include "src/ir/arithmetic.h"

namespace loopwright::ir {
namespace {

constexpr std::array<std::string_view, 33> kUnaryNames = {
    "neg",  "abs",   "sign",  "logical_not", "bit_not",    "exp",       "exp2", "expm1",   "log",
    "log2", "log1p", "sqrt",  "rsqrt",       "reciprocal", "cbrt",      "sin",  "cos",     "tan",
    "asin", "acos",  "atan",  "sinh",        "cosh",       "tanh",      "erf",  "sigmoid", "floor",
    "ceil", "round", "trunc", "is_nan",      "is_inf",     "round_tf32"};
static_assert(kUnaryNames.size() == static_cast<std::size_t>(UnaryOp::round_tf32) + 1);

constexpr std::array<std::string_view, 22> kBinaryNames = {
    "add", "sub", "mul", "div", "floor_div", "mod", "min", "max", "pow", "atan2", "fmod",
    "and", "or",  "xor", "shl", "shr",       "eq",  "ne",  "lt",  "le",  "gt",    "ge"};
static_assert(kBinaryNames.size() == static_cast<std::size_t>(BinaryOp::ge) + 1);

template <class Names>
std::optional<std::size_t> index_of(const Names& names, std::string_view text) {
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == text) return i;
  return std::nullopt;
}

Expr make(decltype(ExprNode::v) v, DType dtype) {
  return std::make_shared<const ExprNode>(ExprNode{std::move(v), dtype});
}
Stmt make(decltype(StmtNode::v) v) { return std::make_shared<const StmtNode>(StmtNode{std::move(v)}); }

bool is_literal(const Expr& e) { return as<IntImm>(e) || as<FloatImm>(e); }

Expr fold(UnaryOp op, const Expr& a) {
  if (const auto* i = as<IntImm>(a)) return int_imm(apply_int(op, a->dtype, i->value), a->dtype);
  const double value = as<FloatImm>(a)->value;
  if (op == UnaryOp::is_nan || op == UnaryOp::is_inf) return int_imm(test_float(op, value), DType::boolean);
  return float_imm(apply_float(op, a->dtype, value), a->dtype);
}

Expr fold(BinaryOp op, const Expr& a, const Expr& b) {
  const DType t = a->dtype;
  if (is_float(t)) {
    const double x = as<FloatImm>(a)->value, y = as<FloatImm>(b)->value;
    return is_compare(op) ? int_imm(compare_float(op, x, y), DType::boolean)
                          : float_imm(apply_float(op, t, x, y), t);
  }
  return int_imm(apply_int(op, t, as<IntImm>(a)->value, as<IntImm>(b)->value),
                 is_compare(op) ? DType::boolean : t);
}

void check_index(const Buffer& buffer, const std::vector<Expr>& index) {
  LW_BUG_IF(buffer == nullptr, "no buffer");
  LW_BUG_IF(index.size() != buffer->shape.size(), "buffer " + buffer->name + " has rank " +
                                                      std::to_string(buffer->shape.size()) + ", index has " +
                                                      std::to_string(index.size()));
  for (const Expr& i : index)
    LW_BUG_IF(i->dtype != DType::i64, "an index of " + buffer->name + " is " + std::string(name(i->dtype)));
}

struct Same {
  bool all(const std::vector<Expr>& a, const std::vector<Expr>& b) const {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i)
      if (!same(a[i], b[i])) return false;
    return true;
  }
  bool operator()(const IntImm& a, const IntImm& b) const { return a.value == b.value; }
  bool operator()(const FloatImm& a, const FloatImm& b) const {
    return std::bit_cast<std::uint64_t>(a.value) == std::bit_cast<std::uint64_t>(b.value);
  }
  bool operator()(const VarRef& a, const VarRef& b) const { return a.var == b.var; }
  bool operator()(const Unary& a, const Unary& b) const { return a.op == b.op && same(a.a, b.a); }
  bool operator()(const Binary& a, const Binary& b) const {
    return a.op == b.op && same(a.a, b.a) && same(a.b, b.b);
  }
  bool operator()(const Select& a, const Select& b) const {
    return same(a.condition, b.condition) && same(a.a, b.a) && same(a.b, b.b);
  }
  bool operator()(const Cast& a, const Cast& b) const { return same(a.a, b.a); }
  bool operator()(const Load& a, const Load& b) const {
    return a.buffer == b.buffer && all(a.index, b.index);
  }
};

}  // namespace

Var fresh_var(std::string hint) {
  static std::atomic<std::uint32_t> next{1};
  return Var{next.fetch_add(1, std::memory_order_relaxed), std::move(hint)};
}

std::string_view name(UnaryOp op) { return kUnaryNames.at(static_cast<std::size_t>(op)); }
std::string_view name(BinaryOp op) { return kBinaryNames.at(static_cast<std::size_t>(op)); }

std::optional<UnaryOp> parse_unary_op(std::string_view text) {
  const auto i = index_of(kUnaryNames, text);
  return i ? std::optional(static_cast<UnaryOp>(*i)) : std::nullopt;
}
std::optional<BinaryOp> parse_binary_op(std::string_view text) {
  const auto i = index_of(kBinaryNames, text);
  return i ? std::optional(static_cast<BinaryOp>(*i)) : std::nullopt;
}

// ---------------------------------------------------------------- expressions

Expr int_imm(std::int64_t value, DType dtype) {
  LW_BUG_IF(is_float(dtype), "an integer literal of " + std::string(name(dtype)));
  LW_BUG_IF(wrap(dtype, value) != value,
            std::to_string(value) + " is not a value of " + std::string(name(dtype)));
  return make(IntImm{value}, dtype);
}

Expr float_imm(double value, DType dtype) {
  LW_BUG_IF(!is_float(dtype), "a float literal of " + std::string(name(dtype)));
  // One NaN only, so that folding does not depend on how a NaN came about.
  return make(FloatImm{std::isnan(value) ? std::nan("") : round_to(dtype, value)}, dtype);
}

Expr constant(double value, DType dtype) {
  return is_float(dtype) ? float_imm(value, dtype) : int_imm(cast_to_int(dtype, value), dtype);
}

Expr var(const Var& v, DType dtype) { return make(VarRef{v}, dtype); }

Expr unary(UnaryOp op, Expr a) {
  const auto dtype = result_dtype(op, a->dtype);
  LW_BUG_IF(!dtype, std::string(name(op)) + " of " + std::string(name(a->dtype)));
  if (is_literal(a)) return fold(op, a);
  return make(Unary{op, std::move(a)}, *dtype);
}

Expr binary(BinaryOp op, Expr a, Expr b) {
  const auto dtype = result_dtype(op, a->dtype, b->dtype);
  LW_BUG_IF(!dtype, std::string(name(op)) + " of " + std::string(name(a->dtype)) + " and " +
                        std::string(name(b->dtype)));
  if (is_literal(a) && is_literal(b)) return fold(op, a, b);
  return make(Binary{op, std::move(a), std::move(b)}, *dtype);
}

Expr select(Expr condition, Expr a, Expr b) {
  LW_BUG_IF(condition->dtype != DType::boolean, "a select on " + std::string(name(condition->dtype)));
  LW_BUG_IF(a->dtype != b->dtype,
            "select between " + std::string(name(a->dtype)) + " and " + std::string(name(b->dtype)));
  if (const auto known = as_int(condition)) return *known ? a : b;
  const DType dtype = a->dtype;
  return make(Select{std::move(condition), std::move(a), std::move(b)}, dtype);
}

Expr cast(Expr a, DType dtype) {
  if (a->dtype == dtype) return a;
  if (const auto* i = as<IntImm>(a))
    return is_float(dtype) ? float_imm(cast_to_float(dtype, i->value), dtype)
                           : int_imm(wrap(dtype, i->value), dtype);
  if (const auto* f = as<FloatImm>(a))
    return is_float(dtype) ? float_imm(f->value, dtype) : int_imm(cast_to_int(dtype, f->value), dtype);
  return make(Cast{std::move(a)}, dtype);
}

Expr load(Buffer buffer, std::vector<Expr> index) {
  check_index(buffer, index);
  const DType dtype = buffer->dtype;
  return make(Load{std::move(buffer), std::move(index)}, dtype);
}

Expr operator+(Expr a, Expr b) { return binary(BinaryOp::add, std::move(a), std::move(b)); }
Expr operator-(Expr a, Expr b) { return binary(BinaryOp::sub, std::move(a), std::move(b)); }
Expr operator*(Expr a, Expr b) { return binary(BinaryOp::mul, std::move(a), std::move(b)); }
Expr floor_div(Expr a, Expr b) { return binary(BinaryOp::floor_div, std::move(a), std::move(b)); }
Expr mod(Expr a, Expr b) { return binary(BinaryOp::mod, std::move(a), std::move(b)); }
Expr ceil_div(Expr a, Expr b) {
  Expr shift = b - int_imm(1, b->dtype);
  return floor_div(std::move(a) + std::move(shift), std::move(b));
}
Expr min(Expr a, Expr b) { return binary(BinaryOp::min, std::move(a), std::move(b)); }
Expr max(Expr a, Expr b) { return binary(BinaryOp::max, std::move(a), std::move(b)); }
Expr lt(Expr a, Expr b) { return binary(BinaryOp::lt, std::move(a), std::move(b)); }
Expr logical_and(Expr a, Expr b) { return binary(BinaryOp::and_, std::move(a), std::move(b)); }

std::optional<std::int64_t> as_int(const Expr& e) {
  const auto* i = as<IntImm>(e);
  return i ? std::optional(i->value) : std::nullopt;
}

bool same(const Expr& a, const Expr& b) {
  if (a == b) return true;
  if (a->dtype != b->dtype || a->v.index() != b->v.index()) return false;
  return std::visit([&b](const auto& x) { return Same{}(x, std::get<std::decay_t<decltype(x)>>(b->v)); },
                    a->v);
}

// ---------------------------------------------------------------- statements

Stmt loop(Var v, Expr extent, Stmt body, LoopKind kind) {
  LW_BUG_IF(extent->dtype != DType::i64,
            "the extent of loop " + v.hint + " is " + std::string(name(extent->dtype)));
  LW_BUG_IF(body == nullptr, "loop " + v.hint + " has no body");
  return make(Loop{std::move(v), std::move(extent), kind, std::move(body)});
}

Stmt store(Buffer buffer, std::vector<Expr> index, Expr value) {
  check_index(buffer, index);
  LW_BUG_IF(value->dtype != buffer->dtype,
            "a " + std::string(name(value->dtype)) + " stored to " + buffer->name);
  return make(Store{std::move(buffer), std::move(index), std::move(value)});
}

Stmt update(Monoid monoid, std::vector<Buffer> buffers, std::vector<Expr> index, std::vector<Expr> values) {
  LW_BUG_IF(buffers.empty() || buffers.size() != values.size(),
            "an update with unequal numbers of buffers and values");
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    check_index(buffers[i], index);
    LW_BUG_IF(values[i]->dtype != buffers[i]->dtype,
              "a " + std::string(name(values[i]->dtype)) + " combined into " + buffers[i]->name);
  }
  return make(Update{monoid, std::move(buffers), std::move(index), std::move(values)});
}

Stmt if_then(Expr condition, Stmt then) {
  LW_BUG_IF(condition->dtype != DType::boolean, "an if on " + std::string(name(condition->dtype)));
  LW_BUG_IF(then == nullptr, "an if without a body");
  return make(If{std::move(condition), std::move(then)});
}

Stmt let(Var v, Expr value, Stmt body) {
  LW_BUG_IF(body == nullptr, "let " + v.hint + " has no body");
  return make(Let{std::move(v), std::move(value), std::move(body)});
}

Stmt alloc(Buffer buffer, Stmt body) {
  LW_BUG_IF(buffer == nullptr || body == nullptr, "an alloc without buffer or body");
  return make(Alloc{std::move(buffer), std::move(body)});
}

Stmt seq(std::vector<Stmt> items) {
  std::vector<Stmt> flat;
  for (Stmt& item : items) {
    LW_BUG_IF(item == nullptr, "an empty statement pointer in a sequence");
    if (const auto* inner = as<Seq>(item)) flat.insert(flat.end(), inner->items.begin(), inner->items.end());
    else flat.push_back(std::move(item));
  }
  if (flat.size() == 1) return flat[0];
  return make(Seq{std::move(flat)});
}

}  // namespace loopwright::ir
