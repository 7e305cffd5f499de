// Proofs that a sum of integers is negative: by ranges, by assumed conditions, and by replacing loop variables, minima
// and quotients by their bounds.
#include <algorithm>

#include "src/ir/rewrite.h"
#include "src/ir/simplify.h"

namespace loopwright::ir {

bool Facts::proves(const Expr& condition) const {
  const Expr e = simplify(condition, *this);
  return as_int(e) == 1;
}

bool Facts::refutes(const Expr& condition) const {
  const Expr e = simplify(condition, *this);
  return as_int(e) == 0;
}

bool Facts::is_negative(const Linear& sum) const {
  int budget = 120;
  return search(sum, 10, budget);
}

namespace {

/// `sum` with `factor` replaced by `value` in products that hold it once; empty when it occurs otherwise.
std::optional<Linear> replace_factor(const Linear& sum, const Expr& factor, const Linear& value) {
  Linear out;
  for (const auto& [m, c] : sum.terms()) {
    const auto count =
        std::count_if(m.begin(), m.end(), [&](const Expr& f) { return compare(f, factor) == 0; });
    if (count == 0) {
      out.add(m, c);
      continue;
    }
    if (count > 1) return std::nullopt;
    Linear rest;
    rest.add(without(m, factor), c);
    out.add(rest.times(value));
  }
  return out;
}

bool has_variable(const Expr& factor, const Var& v) { return !as<VarRef>(factor) && uses(factor, v); }

}  // namespace

/// +1 when `sum` never decreases as `factor` grows, -1 when it never increases, 0 when neither is known.
static int direction_of(const Facts& facts, const Linear& sum, const Expr& factor) {
  bool up = true, down = true;
  for (const auto& [m, c] : sum.terms()) {
    if (std::none_of(m.begin(), m.end(), [&](const Expr& f) { return compare(f, factor) == 0; })) continue;
    Linear slope;
    slope.add(without(m, factor), c);
    const Interval i = facts.bounds(slope);
    up &= i.lo >= 0;
    down &= i.hi <= 0;
  }
  return up ? 1 : down ? -1 : 0;
}

bool Facts::search(const Linear& sum, int depth, int& budget) const {
  if (--budget < 0 || !fits(sum)) return false;
  const Interval i = bounds(sum);
  if (i.hi < 0) return true;
  if (i.lo >= 0 || depth == 0) return false;
  for (const Expr& f : sum.factors()) {
    if (const auto* ref = as<VarRef>(f)) {
      const auto value = values_.find(ref->var);
      if (value == values_.end()) continue;
      const auto replaced = replace_factor(sum, f, Linear::from(value->second));
      return replaced && search(*replaced, depth - 1, budget);
    }
  }
  if (search_constraints(sum, depth, budget)) return true;
  for (const Expr& f : sum.factors()) {
    const auto* b = as<Binary>(f);
    if (b && (b->op == BinaryOp::min || b->op == BinaryOp::max)) return search_factor(sum, f, depth, budget);
  }
  if (search_loops(sum, depth, budget)) return true;
  for (const Expr& f : sum.factors()) {
    const auto* b = as<Binary>(f);
    if (b && b->op == BinaryOp::floor_div && search_factor(sum, f, depth, budget)) return true;
  }
  return false;
}

bool Facts::search_constraints(const Linear& sum, int depth, int& budget) const {
  for (const Linear& known : negative_) {
    // known <= -1, so sum = (sum - k*known) + k*known <= (sum - k*known) - k for any k > 0 that cancels a term.
    for (const auto& [m, c] : known.terms()) {
      if (m.empty()) continue;
      const std::int64_t mine = sum.coefficient(m);
      if (mine == 0 || (mine < 0) != (c < 0) || mine % c != 0) continue;
      const std::int64_t k = mine / c;
      Linear rest = sum;
      rest.add(known, -k);
      rest.add(Monomial{}, -k);
      if (search(rest, depth - 1, budget)) return true;
    }
  }
  return false;
}

bool Facts::search_factor(const Linear& sum, const Expr& factor, int depth, int& budget) const {
  const auto& b = *as<Binary>(factor);
  const int direction = direction_of(*this, sum, factor);
  if (direction == 0) return false;
  const auto with = [&](const Linear& base, const Linear& value) {
    const auto replaced = replace_factor(base, factor, value);
    return replaced && search(*replaced, depth - 1, budget);
  };
  if (b.op != BinaryOp::floor_div) {
    // A min is at most either side, so one of them suffices upward; downward the sum must be negative for both.
    const bool any = (b.op == BinaryOp::min) == (direction > 0);
    const Linear x = Linear::from(b.a), y = Linear::from(b.b);
    if (!is_exact_sum(b.a) || !is_exact_sum(b.b)) return false;
    return any ? with(sum, x) || with(sum, y) : with(sum, x) && with(sum, y);
  }
  const auto c = as_int(b.b);
  if (!c || *c <= 0 || *c > (std::int64_t{1} << 31) || !is_exact_sum(b.a)) return false;
  // x - c + 1 <= c * floor_div(x, c) <= x; the sum is scaled by c so that no division is left.
  Linear bound = Linear::from(b.a);
  if (direction < 0 && divisor(b.a) % *c != 0) bound.add(Monomial{}, 1 - *c);
  Linear scaled;
  for (const auto& [m, k] : sum.terms()) {
    const bool holds =
        std::any_of(m.begin(), m.end(), [&](const Expr& f) { return compare(f, factor) == 0; });
    std::int64_t grown = 0;
    if (!holds && __builtin_mul_overflow(k, *c, &grown)) return false;
    scaled.add(m, holds ? k : grown);
  }
  return with(scaled, bound);
}

bool Facts::search_loops(const Linear& sum, int depth, int& budget) const {
  const std::vector<Expr> factors = sum.factors();
  for (std::size_t n = loops_.size(); n-- > 0;) {
    const auto& [v, extent] = loops_[n];
    const Expr factor = var(v);
    if (std::none_of(factors.begin(), factors.end(), [&](const Expr& f) { return compare(f, factor) == 0; }))
      continue;
    if (std::any_of(factors.begin(), factors.end(),
                    [&, &v = v](const Expr& f) { return has_variable(f, v); }))
      return false;
    const int direction = direction_of(*this, sum, factor);
    if (direction == 0) return false;
    Linear value(0);
    if (direction > 0) {
      value = Linear::from(extent);
      value.add(Monomial{}, -1);
    }
    const auto replaced = replace_factor(sum, factor, value);
    return replaced && search(*replaced, depth - 1, budget);
  }
  return false;
}

}  // namespace loopwright::ir
