#include "src/ir/simplify_expr.h"

#include <cmath>
#include <numeric>

#include "src/ir/arithmetic.h"
#include "src/ir/rewrite.h"

namespace loopwright::ir {
namespace {

constexpr DType kBool = DType::boolean;
Expr truth(bool value) { return int_imm(value, kBool); }
bool is_int(const Expr& e, std::int64_t value) { return as_int(e) == value; }
bool is_real(const Expr& e, double value) {
  const auto* f = as<FloatImm>(e);
  return f && f->value == value && std::signbit(f->value) == std::signbit(value);
}

/// True when every value of `from` has its own image in `to`, and the cast back finds it.
bool is_widening(DType from, DType to) {
  if (is_float(from) && is_float(to))
    return to == DType::f64 || (to == DType::f32 && from != DType::f64) || from == to;
  if (is_float(from)) return false;
  if (from == kBool) return true;
  if (is_float(to)) {
    const int bits = size_bytes(from) * 8;
    return (to == DType::f64 && bits <= 32) || (to == DType::f32 && bits <= 16) ||
           (to == DType::f16 && bits == 8) || (to == DType::bf16 && bits == 8);
  }
  if (to == kBool) return false;
  if (from == DType::u8) return size_bytes(to) > 1 || to == DType::u8;
  return to != DType::u8 && size_bytes(to) >= size_bytes(from);
}

}  // namespace

Expr ExprSimplifier::run(const Expr& e) {
  if (const auto it = memo_.find(e.get()); it != memo_.end()) return it->second.second;
  Expr out = node(e);
  if (out->dtype == DType::i64 && !as_int(out)) {
    if (const auto value = single_value(out)) out = int_imm(*value);
  }
  memo_.emplace(e.get(), std::pair(e, out));
  return out;
}

Expr ExprSimplifier::under(const Expr& condition, bool holds, const Expr& e) {
  if (as<IntImm>(e) || as<FloatImm>(e) || as<VarRef>(e)) return run(e);
  Facts inner = *facts_;
  inner.assume(holds ? condition : negate(condition));
  return ExprSimplifier(inner).run(e);
}

Expr ExprSimplifier::node(const Expr& e) {
  return std::visit(on{[&](const IntImm&) { return e; }, [&](const FloatImm&) { return e; },
                       [&](const VarRef& x) {
                         const auto known = e->dtype == kBool ? facts_->assumed(e) : std::nullopt;
                         (void)x;
                         return known ? truth(*known) : e;
                       },
                       [&](const Unary& x) {
                         const Expr a = run(x.a);
                         if (x.op == UnaryOp::logical_not) return negate(a);
                         const auto* inner = as<Unary>(a);
                         if (x.op == UnaryOp::neg && e->dtype == DType::i64) return index_sum(unary(x.op, a));
                         if (x.op == UnaryOp::neg && inner && inner->op == UnaryOp::neg) return inner->a;
                         return unary(x.op, a);
                       },
                       [&](const Binary& x) {
                         if (e->dtype == kBool && (x.op == BinaryOp::and_ || x.op == BinaryOp::or_))
                           return connect(x);
                         const Expr a = run(x.a), b = run(x.b);
                         return is_compare(x.op) ? comparison(x.op, a, b) : arithmetic(x.op, a, b);
                       },
                       [&](const Select& x) { return choose(x); },
                       [&](const Cast& x) { return convert(run(x.a), e->dtype); },
                       [&](const Load& x) {
                         std::vector<Expr> index;
                         for (const Expr& i : x.index) index.push_back(run(i));
                         const bool unchanged = index == x.index;
                         return unchanged ? e : load(x.buffer, std::move(index));
                       }},
                    e->v);
}

// ---------------------------------------------------------------- arithmetic

Expr ExprSimplifier::arithmetic(BinaryOp op, const Expr& a, const Expr& b) {
  const DType t = a->dtype;
  if (t == DType::i64) {
    switch (op) {
      case BinaryOp::add:
      case BinaryOp::sub:
      case BinaryOp::mul: return index_sum(binary(op, a, b));
      case BinaryOp::floor_div: return divide(a, b);
      case BinaryOp::div:
        if (facts_->bounds(a).lo >= 0 && facts_->bounds(b).lo > 0) return divide(a, b);
        break;
      case BinaryOp::fmod:
        if (facts_->bounds(a).lo >= 0 && facts_->bounds(b).lo > 0) return modulo(a, b);
        break;
      case BinaryOp::mod: return modulo(a, b);
      case BinaryOp::min:
      case BinaryOp::max: return extreme(op, a, b);
      default: break;
    }
    return binary(op, a, b);
  }
  if (is_float(t)) {
    // x + 0 is not x for -0; these are exact for every x.
    if (op == BinaryOp::mul && is_real(b, 1)) return a;
    if (op == BinaryOp::mul && is_real(a, 1)) return b;
    if (op == BinaryOp::div && is_real(b, 1)) return a;
    if (op == BinaryOp::sub && is_real(b, 0)) return a;
    if (op == BinaryOp::add && is_real(b, -0.0)) return a;
    if (op == BinaryOp::add && is_real(a, -0.0)) return b;
  } else {
    if ((op == BinaryOp::add || op == BinaryOp::sub) && is_int(b, 0)) return a;
    if (op == BinaryOp::add && is_int(a, 0)) return b;
    if (op == BinaryOp::mul && is_int(b, 1)) return a;
    if (op == BinaryOp::mul && is_int(a, 1)) return b;
    if (op == BinaryOp::mul && (is_int(a, 0) || is_int(b, 0))) return int_imm(0, t);
    if ((op == BinaryOp::div || op == BinaryOp::floor_div) && is_int(b, 1)) return a;
  }
  if ((op == BinaryOp::min || op == BinaryOp::max) && same(a, b)) return a;
  return binary(op, a, b);
}

Expr ExprSimplifier::convert(const Expr& a, DType to) {
  if (a->dtype == to) return a;
  if (const auto* inner = as<Cast>(a); inner && is_widening(inner->a->dtype, a->dtype)) {
    // There and back, or one widening after another.
    if (inner->a->dtype == to) return inner->a;
    if (is_widening(a->dtype, to)) return cast(inner->a, to);
  }
  return cast(a, to);
}

// ---------------------------------------------------------------- conditions

Expr ExprSimplifier::less(const Expr& a, const Expr& b) {
  const Linear left = Linear::from(a), right = Linear::from(b);
  if (!is_exact(a) || !is_exact(b)) return compare(a, b) == 0 ? truth(false) : lt(a, b);
  Linear d = left;  // a - b < 0
  d.add(right, -1);
  if (!facts_->fits(d)) return lt(a, b);
  if (facts_->is_negative(d)) return truth(true);
  Linear reverse = d.times(-1);  // b - a <= 0
  reverse.add(Monomial{}, -1);
  if (facts_->is_negative(reverse)) return truth(false);
  // All terms are multiples of g, so the constant may be rounded down to one.
  std::int64_t g = 0, common = 0;
  for (const auto& [m, c] : d.terms()) {
    if (m.empty()) continue;
    g = std::gcd(g, facts_->divisor(m, c));
    common = c == INT64_MIN ? 1 : std::gcd(common, c);
  }
  const std::int64_t k = d.constant();
  if (g > 1) d.add(Monomial{}, floor_div_int(k, g) * g - k);
  if (common > 1 && d.constant() % common == 0) {
    Linear reduced;
    for (const auto& [m, c] : d.terms()) reduced.add(m, c / common);
    d = reduced;
  }
  Linear positive, negative;
  for (const auto& [m, c] : d.terms()) (c > 0 ? positive : negative).add(m, c);
  if (!facts_->fits(positive) || !facts_->fits(negative.times(-1))) return lt(a, b);
  const Expr x = positive.expr(), y = negative.times(-1).expr();
  const Expr out = lt(x, y);
  if (const auto known = facts_->assumed(out)) return truth(*known);
  return out;
}

Expr ExprSimplifier::equal(const Expr& a, const Expr& b, bool is_equal) {
  if (compare(a, b) == 0) return truth(is_equal);
  const BinaryOp op = is_equal ? BinaryOp::eq : BinaryOp::ne;
  if (!is_exact(a) || !is_exact(b)) return binary(op, a, b);
  Linear d = Linear::from(a);
  d.add(Linear::from(b), -1);
  if (!facts_->fits(d)) return binary(op, a, b);
  if (facts_->is_negative(d) || facts_->is_negative(d.times(-1))) return truth(!is_equal);
  std::int64_t g = 0, common = 0;
  for (const auto& [m, c] : d.terms()) {
    if (m.empty()) continue;
    g = std::gcd(g, facts_->divisor(m, c));
    common = c == INT64_MIN ? 1 : std::gcd(common, c);
  }
  if (g > 0 && d.constant() % g != 0) return truth(!is_equal);
  if (g == 0) return truth((d.constant() == 0) == is_equal);
  if (common > 1 && d.constant() % common == 0) {
    Linear reduced;
    for (const auto& [m, c] : d.terms()) reduced.add(m, c / common);
    d = reduced;
  }
  if (d.terms().begin()->second < 0) d = d.times(-1);
  Linear positive, negative;
  for (const auto& [m, c] : d.terms()) (c > 0 ? positive : negative).add(m, c);
  if (!facts_->fits(positive) || !facts_->fits(negative.times(-1))) return binary(op, a, b);
  const Expr out = binary(op, positive.expr(), negative.times(-1).expr());
  if (const auto known = facts_->assumed(out)) return truth(*known);
  return out;
}

Expr ExprSimplifier::comparison(BinaryOp op, const Expr& a, const Expr& b) {
  if (a->dtype == DType::i64) {
    // Up to one more than the largest value; where that would wrap, the comparison stays as it is.
    const Expr next = b + int_imm(1), next_a = a + int_imm(1);
    switch (op) {
      case BinaryOp::lt: return less(a, b);
      case BinaryOp::gt: return less(b, a);
      case BinaryOp::le:
        return is_exact(b) && facts_->fits(Linear::from(next)) ? less(a, run(next)) : binary(op, a, b);
      case BinaryOp::ge:
        return is_exact(a) && facts_->fits(Linear::from(next_a)) ? less(b, run(next_a)) : binary(op, a, b);
      default: return equal(a, b, op == BinaryOp::eq);
    }
  }
  if (!is_float(a->dtype) && compare(a, b) == 0)
    return truth(op == BinaryOp::eq || op == BinaryOp::le || op == BinaryOp::ge);
  if (a->dtype == kBool && op == BinaryOp::eq && is_int(b, 1)) return a;
  if (a->dtype == kBool && op == BinaryOp::eq && is_int(b, 0)) return negate(a);
  return binary(op, a, b);
}

Expr ExprSimplifier::negate(const Expr& a) {
  if (const auto value = as_int(a)) return truth(*value == 0);
  if (const auto* u = as<Unary>(a); u && u->op == UnaryOp::logical_not) return u->a;
  const auto* b = as<Binary>(a);
  if (b && b->a->dtype == DType::i64) {
    if (b->op == BinaryOp::lt) return comparison(BinaryOp::le, b->b, b->a);
    if (b->op == BinaryOp::le) return comparison(BinaryOp::lt, b->b, b->a);
    if (b->op == BinaryOp::gt) return comparison(BinaryOp::le, b->a, b->b);
    if (b->op == BinaryOp::ge) return comparison(BinaryOp::lt, b->a, b->b);
    if (b->op == BinaryOp::eq) return comparison(BinaryOp::ne, b->a, b->b);
    if (b->op == BinaryOp::ne) return comparison(BinaryOp::eq, b->a, b->b);
  }
  if (const auto known = facts_->assumed(a)) return truth(!*known);
  return unary(UnaryOp::logical_not, a);
}

Expr ExprSimplifier::connect(const Binary& x) {
  const bool is_and = x.op == BinaryOp::and_;
  const Expr a = run(x.a);
  if (const auto value = as_int(a)) return (*value != 0) == is_and ? run(x.b) : truth(!is_and);
  if (const auto known = facts_->assumed(a)) return *known == is_and ? run(x.b) : truth(!is_and);
  // The second side is looked at only when the first did not decide.
  const Expr b = under(a, is_and, x.b);
  if (const auto value = as_int(b)) return (*value != 0) == is_and ? a : truth(!is_and);
  if (!has_load(b)) {
    // The first side may follow from the second: i < 8 and i < 4.
    const Expr again = under(b, is_and, a);
    if (is_int(again, is_and ? 1 : 0)) return b;
  }
  return binary(x.op, a, b);
}

Expr ExprSimplifier::choose(const Select& x) {
  const Expr condition = run(x.condition);
  if (const auto value = as_int(condition)) return run(*value ? x.a : x.b);
  if (const auto known = facts_->assumed(condition)) return run(*known ? x.a : x.b);
  const Expr a = under(condition, true, x.a), b = under(condition, false, x.b);
  if (same(a, b)) return a;
  if (is_int(a, 1) && is_int(b, 0) && a->dtype == kBool) return condition;
  if (is_int(a, 0) && is_int(b, 1) && a->dtype == kBool) return negate(condition);
  return select(condition, a, b);
}

}  // namespace loopwright::ir
