// Rules for i64: sums, division, remainder, min and max.
#include <algorithm>
#include <numeric>

#include "src/ir/arithmetic.h"
#include "src/ir/simplify_expr.h"

namespace loopwright::ir {
namespace {

std::int64_t gcd_of(std::int64_t a, std::int64_t b) {
  return a == INT64_MIN || b == INT64_MIN ? 1 : std::gcd(a, b);
}

/// Greatest common divisor of all coefficients but the constant's; 0 without terms.
std::int64_t content(const Linear& sum) {
  std::int64_t out = 0;
  for (const auto& [m, c] : sum.terms())
    if (!m.empty()) out = gcd_of(out, c);
  return out;
}

/// The two parts of k*c * floor_div(x, c) + k * mod(x, c), when `mod_factor` is such a remainder.
std::optional<Linear> merge_remainder(const Linear& sum, const Expr& mod_factor) {
  const auto* b = as<Binary>(mod_factor);
  if (!b || b->op != BinaryOp::mod) return std::nullopt;
  const auto c = as_int(b->b);
  if (!c || *c <= 0) return std::nullopt;
  const Expr quotient = floor_div(b->a, b->b);
  for (const auto& [m, k] : sum.terms()) {
    const Monomial others = without(m, mod_factor);
    if (others.size() + 1 != m.size()) continue;
    Monomial partner = others;
    partner.push_back(quotient);
    std::sort(partner.begin(), partner.end(), [](const Expr& x, const Expr& y) { return compare(x, y) < 0; });
    std::int64_t wanted = 0;
    if (__builtin_mul_overflow(k, *c, &wanted) || sum.coefficient(partner) != wanted) continue;
    Linear out = sum, rest;
    out.add(m, -k);
    out.add(partner, -wanted);
    rest.add(others, k);
    out.add(rest.times(Linear::from(b->a)));
    return out;
  }
  return std::nullopt;
}

}  // namespace

bool ExprSimplifier::is_exact(const Expr& e) const {
  const Linear sum = Linear::from(e);
  return sum.is_atom() || facts_->fits(sum);
}

std::optional<std::int64_t> ExprSimplifier::single_value(const Expr& e) const {
  if (as_int(e)) return as_int(e);
  const Interval i = facts_->bounds(e);
  return i.lo == i.hi ? std::optional(i.lo) : std::nullopt;
}

bool ExprSimplifier::in_range(const Linear& sum, const Linear& end) const {
  Linear below = sum.times(-1);  // sum >= 0
  below.add(Monomial{}, -1);
  if (!facts_->is_negative(below)) return false;
  Linear above = sum;
  above.add(end, -1);
  return facts_->is_negative(above);
}

Expr ExprSimplifier::normal(Linear sum) {
  bool changed = true;
  while (changed) {
    changed = false;
    for (const Expr& f : sum.factors()) {
      if (auto merged = merge_remainder(sum, f)) {
        sum = std::move(*merged);
        changed = true;
        break;
      }
    }
  }
  return sum.expr();
}

Expr ExprSimplifier::index_sum(const Expr& e) { return normal(Linear::from(e)); }

// ---------------------------------------------------------------- division

Expr ExprSimplifier::divide(const Expr& a, const Expr& b) {
  if (as_int(a) == 0) return a;
  if (as_int(b) == 1) return a;
  const Linear sum = Linear::from(a);
  if (is_exact(a)) {
    const auto c = as_int(b);
    if (c && *c > 0) return divide_constant(sum, *c);
    if (!c && facts_->bounds(b).lo > 0 && is_exact(b)) return divide_symbolic(sum, b);
  }
  return floor_div(a, b);
}

Expr ExprSimplifier::divide_constant(const Linear& sum, std::int64_t c) {
  Linear whole, known, rest;  // multiples of c by coefficient, by known divisors, and the others
  for (const auto& [m, k] : sum.terms()) {
    if (m.empty()) {
      whole.add(m, floor_div_int(k, c));
      rest.add(m, mod_int(k, c));
    } else if (k % c == 0) {
      whole.add(m, k / c);
    } else if (facts_->divisor(m, k) % c == 0) {
      known.add(m, k);
    } else {
      whole.add(m, k / c);
      rest.add(m, k % c);
    }
  }
  Linear out = whole;
  if (!known.terms().empty()) {
    const std::int64_t g = gcd_of(content(known), c);
    Linear reduced;
    for (const auto& [m, k] : known.terms()) reduced.add(m, k / g);
    // Term by term, since each is a multiple: equal terms of different sums then meet.
    for (const auto& [m, k] : reduced.terms()) {
      Linear one;
      one.add(m, k < 0 ? -k : k);
      out.add(Monomial{floor_div(one.expr(), int_imm(c / g))}, k < 0 ? -1 : 1);
    }
  }
  const Interval range = facts_->bounds(rest);
  const bool finite = range.lo != INT64_MIN && range.hi != INT64_MAX;
  if (finite && floor_div_int(range.lo, c) == floor_div_int(range.hi, c)) {
    out.add(Monomial{}, floor_div_int(range.lo, c));
    return normal(out);
  }
  if (in_range(rest, Linear(c))) return normal(out);
  const std::int64_t g = gcd_of(content(rest), c);
  Linear reduced;
  for (const auto& [m, k] : rest.terms()) reduced.add(m, m.empty() ? floor_div_int(k, g) : k / g);
  const std::int64_t divisor = c / g;
  if (divisor == 1) {
    out.add(reduced);
    return normal(out);
  }
  if (reduced.is_atom()) {
    const auto* inner = as<Binary>(reduced.terms().begin()->first[0]);
    const auto d = inner && inner->op == BinaryOp::floor_div ? as_int(inner->b) : std::nullopt;
    std::int64_t both = 0;
    if (d && *d > 0 && !__builtin_mul_overflow(*d, divisor, &both)) {
      out.add(Linear::from(divide(inner->a, int_imm(both))));
      return normal(out);
    }
  }
  out.add(Monomial{floor_div(reduced.expr(), int_imm(divisor))}, 1);
  return normal(out);
}

Expr ExprSimplifier::divide_symbolic(const Linear& sum, const Expr& b) {
  const Linear divisor = Linear::from(b);
  if (divisor.terms().size() != 1) return compare(sum.expr(), b) == 0 ? int_imm(1) : floor_div(sum.expr(), b);
  const auto& [head, scale] = *divisor.terms().begin();
  Linear whole, rest;
  for (const auto& [m, k] : sum.terms()) {
    Monomial left = m;
    bool divides = k % scale == 0;
    for (const Expr& f : head) {
      const Monomial smaller = without(left, f);
      divides = divides && smaller.size() < left.size();
      left = smaller;
    }
    if (divides) whole.add(left, k / scale);
    else rest.add(m, k);
  }
  if (rest.terms().empty() || in_range(rest, divisor)) return normal(whole);
  whole.add(Monomial{floor_div(rest.expr(), b)}, 1);
  return normal(whole);
}

// ---------------------------------------------------------------- remainder

Expr ExprSimplifier::modulo(const Expr& a, const Expr& b) {
  if (as_int(a) == 0 || as_int(b) == 1) return int_imm(0);
  const auto c = as_int(b);
  if (is_exact(a)) {
    if (c && *c > 0) return modulo_constant(Linear::from(a), *c);
    if (!c && facts_->bounds(b).lo > 0 && is_exact(b)) return modulo_symbolic(Linear::from(a), b);
  }
  return mod(a, b);
}

Expr ExprSimplifier::modulo_constant(const Linear& sum, std::int64_t c) {
  Linear rest;
  for (const auto& [m, k] : sum.terms()) {
    if (facts_->divisor(m, k) % c == 0) continue;
    // As in a division, so that quotient and remainder of one sum meet again.
    const std::int64_t reduced = m.empty() ? mod_int(k, c) : k % c;
    const auto* inner = m.size() == 1 ? as<Binary>(m[0]) : nullptr;
    const auto d = inner && inner->op == BinaryOp::mod ? as_int(inner->b) : std::nullopt;
    if (d && *d > 0 && *d % c == 0 && is_exact(inner->a)) rest.add(Linear::from(inner->a), reduced);
    else rest.add(m, reduced);
  }
  if (!facts_->fits(rest)) rest = sum;
  const Interval range = facts_->bounds(rest);
  const bool finite = range.lo != INT64_MIN && range.hi != INT64_MAX;
  if (finite && floor_div_int(range.lo, c) == floor_div_int(range.hi, c)) {
    rest.add(Monomial{}, -floor_div_int(range.lo, c) * c);
    return normal(rest);
  }
  if (in_range(rest, Linear(c))) return normal(rest);
  const std::int64_t g = gcd_of(content(rest), c);
  if (g > 1) {
    // mod(g*x + g*q + r, g*d) = g*mod(x + q, d) + r for 0 <= r < g.
    Linear reduced;
    for (const auto& [m, k] : rest.terms()) reduced.add(m, m.empty() ? floor_div_int(k, g) : k / g);
    Linear out;
    out.add(Linear::from(modulo(reduced.expr(), int_imm(c / g))), g);
    out.add(Monomial{}, mod_int(rest.constant(), g));
    return normal(out);
  }
  return mod(rest.expr(), int_imm(c));
}

Expr ExprSimplifier::modulo_symbolic(const Linear& sum, const Expr& b) {
  const Linear divisor = Linear::from(b);
  if (divisor.terms().size() != 1) return compare(sum.expr(), b) == 0 ? int_imm(0) : mod(sum.expr(), b);
  const auto& [head, scale] = *divisor.terms().begin();
  Linear rest;
  for (const auto& [m, k] : sum.terms()) {
    Monomial left = m;
    bool divides = k % scale == 0;
    for (const Expr& f : head) {
      const Monomial smaller = without(left, f);
      divides &= smaller.size() != left.size();
      left = smaller;
    }
    if (!divides) rest.add(m, k);
  }
  if (rest.terms().empty() || in_range(rest, divisor)) return normal(rest);
  return mod(rest.expr(), b);
}

// ---------------------------------------------------------------- min and max

Expr ExprSimplifier::extreme(BinaryOp op, const Expr& a, const Expr& b) {
  if (compare(a, b) == 0) return a;
  const bool is_min = op == BinaryOp::min;
  if (is_exact(a) && is_exact(b)) {
    Linear above = Linear::from(a);  // a - b
    above.add(Linear::from(b), -1);
    const auto at_most_zero = [&](Linear sum) {
      sum.add(Monomial{}, -1);
      return facts_->is_negative(sum);
    };
    if (at_most_zero(above)) return is_min ? a : b;
    if (at_most_zero(above.times(-1))) return is_min ? b : a;
  }
  // min(min(x, y), x) and its like.
  for (const auto& [outer, other] : {std::pair(a, b), std::pair(b, a)}) {
    const auto* inner = as<Binary>(outer);
    if (inner && inner->op == op && (compare(inner->a, other) == 0 || compare(inner->b, other) == 0))
      return outer;
  }
  return compare(a, b) < 0 ? binary(op, a, b) : binary(op, b, a);
}

}  // namespace loopwright::ir
