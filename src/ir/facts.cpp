#include <algorithm>
#include <numeric>

#include "src/ir/arithmetic.h"
#include "src/ir/rewrite.h"
#include "src/ir/simplify.h"

namespace loopwright::ir {
namespace {

using Wide = __int128;
constexpr Wide kInfinite = Wide{1} << 100;
/// What a variable without a range is taken to stay within when overflow is asked about.
constexpr std::int64_t kAssumedMagnitude = std::int64_t{1} << 31;

struct WideRange {
  Wide lo = -kInfinite, hi = kInfinite;
};

Wide clamp(Wide x) { return std::clamp(x, -kInfinite, kInfinite); }

Wide multiply(Wide a, Wide b) {
  if (a == 0 || b == 0) return 0;
  const Wide magnitude_a = a < 0 ? -a : a, magnitude_b = b < 0 ? -b : b;
  if (magnitude_a > kInfinite / magnitude_b) return (a < 0) != (b < 0) ? -kInfinite : kInfinite;
  return a * b;
}

WideRange multiply(const WideRange& a, const WideRange& b) {
  const Wide p[] = {multiply(a.lo, b.lo), multiply(a.lo, b.hi), multiply(a.hi, b.lo), multiply(a.hi, b.hi)};
  return {*std::min_element(p, p + 4), *std::max_element(p, p + 4)};
}

WideRange widen(const Interval& i) {
  return {i.lo == INT64_MIN ? -kInfinite : Wide{i.lo}, i.hi == INT64_MAX ? kInfinite : Wide{i.hi}};
}

/// Bounds beyond 64 bits are unknown.
Interval narrow(const WideRange& r) {
  Interval out;
  if (r.lo > Wide{INT64_MIN} && r.lo <= Wide{INT64_MAX}) out.lo = static_cast<std::int64_t>(r.lo);
  if (r.hi < Wide{INT64_MAX} && r.hi >= Wide{INT64_MIN}) out.hi = static_cast<std::int64_t>(r.hi);
  return out;
}

bool is_finite(const Interval& i) { return i.lo != INT64_MIN && i.hi != INT64_MAX; }
Interval unite(const Interval& a, const Interval& b) { return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)}; }
Interval meet(const Interval& a, const Interval& b) { return {std::max(a.lo, b.lo), std::min(a.hi, b.hi)}; }

Interval dtype_interval(DType t) {
  switch (t) {
    case DType::boolean: return {0, 1};
    case DType::i8: return {-128, 127};
    case DType::u8: return {0, 255};
    case DType::i16: return {-32768, 32767};
    case DType::i32: return {INT32_MIN, INT32_MAX};
    default: return {};
  }
}

Interval floor_div_bounds(const Interval& a, const Interval& b) {
  if (b.lo <= 0) return {};
  const auto divided = [&](std::int64_t value, bool low) {
    if (value == INT64_MIN || value == INT64_MAX) return value;
    // The quotient of a number >= 0 is smallest for the largest divisor; of a negative one for the smallest.
    const bool by_largest = (value >= 0) == low;
    if (by_largest && b.hi == INT64_MAX) return value >= 0 ? std::int64_t{0} : std::int64_t{-1};
    return floor_div_int(value, by_largest ? b.hi : b.lo);
  };
  return {divided(a.lo, true), divided(a.hi, false)};
}

Interval mod_bounds(const Interval& a, const Interval& b) {
  if (b.lo <= 0) return {};
  const std::int64_t top = b.hi == INT64_MAX ? INT64_MAX : b.hi - 1;
  if (a.lo >= 0 && a.hi < b.lo) return a;
  return {0, a.lo >= 0 ? std::min(top, a.hi) : top};
}

std::int64_t gcd(std::int64_t a, std::int64_t b) {
  return a == INT64_MIN || b == INT64_MIN ? 1 : std::gcd(a, b);
}

}  // namespace

// ---------------------------------------------------------------- what is known

Facts::Facts(const Kernel& k) {
  for (const SymbolParam& s : k.symbols) {
    Interval range{s.symbol.lo, s.symbol.hi};
    std::int64_t multiple = 1;
    for (const SymbolGuard& g : k.guard.symbols) {
      if (g.name != s.symbol.name) continue;
      range = meet(range, {g.lo, g.hi});
      multiple = g.multiple_of;
    }
    set_range(s.var, range);
    set_divisor(s.var, multiple);
  }
}

void Facts::set_range(const Var& v, Interval range) {
  const auto it = ranges_.try_emplace(v).first;
  it->second = meet(it->second, range);
  const auto d = divisors_.find(v);
  if (d != divisors_.end()) set_divisor(v, d->second);
}

void Facts::set_divisor(const Var& v, std::int64_t divisor) {
  if (divisor <= 1) return;
  divisors_[v] = divisor;
  Interval& range = ranges_[v];
  if (range.lo != INT64_MIN && range.lo < INT64_MAX - divisor)
    range.lo = -floor_div_int(-range.lo, divisor) * divisor;
  if (range.hi != INT64_MAX && range.hi > INT64_MIN + divisor)
    range.hi = floor_div_int(range.hi, divisor) * divisor;
}

void Facts::bind_loop(const Var& v, const Expr& extent) {
  const Interval e = bounds(extent);
  set_range(v, {0, e.hi == INT64_MAX ? INT64_MAX : std::max<std::int64_t>(e.hi - 1, 0)});
  if (is_exact_sum(extent)) loops_.emplace_back(v, extent);
}

void Facts::bind_let(const Var& v, const Expr& value) {
  set_range(v, bounds(value));
  set_divisor(v, divisor(value));
  if (is_exact_sum(value)) values_[v] = value;
  else data_.insert(v);
}

void Facts::assume_negative(const Linear& sum) {
  if (!fits(sum)) return;
  negative_.push_back(sum);
  // k*v + c < 0 bounds v itself.
  Linear rest = sum;
  rest.add(Monomial{}, -sum.constant());
  if (rest.terms().size() != 1) return;
  const auto& [m, k] = *rest.terms().begin();
  const auto* ref = m.size() == 1 ? as<VarRef>(m[0]) : nullptr;
  if (!ref) return;
  const std::int64_t c = sum.constant();
  if (k > 0) set_range(ref->var, {INT64_MIN, floor_div_int(-c - 1, k)});
  if (k < 0) set_range(ref->var, {-floor_div_int(-c - 1, -k), INT64_MAX});
}

void Facts::assume(const Expr& condition) {
  const auto* b = as<Binary>(condition);
  if (b && b->op == BinaryOp::and_ && condition->dtype == DType::boolean) {
    assume(b->a);
    assume(b->b);
    return;
  }
  if (has_load(condition)) return;
  assumed_.emplace_back(condition, true);
  const auto* u = as<Unary>(condition);
  if (u && u->op == UnaryOp::logical_not) {
    assumed_.emplace_back(u->a, false);
    const auto* inner = as<Binary>(u->a);
    if (inner && inner->op == BinaryOp::or_) {
      assume(unary(UnaryOp::logical_not, inner->a));
      assume(unary(UnaryOp::logical_not, inner->b));
    } else if (inner && is_compare(inner->op) && inner->a->dtype == DType::i64) {
      constexpr BinaryOp kOpposite[] = {BinaryOp::ne, BinaryOp::eq, BinaryOp::ge,
                                        BinaryOp::gt, BinaryOp::le, BinaryOp::lt};
      assume(binary(kOpposite[static_cast<int>(inner->op) - static_cast<int>(BinaryOp::eq)], inner->a,
                    inner->b));
    }
    return;
  }
  if (!b || !is_compare(b->op) || b->a->dtype != DType::i64) return;
  if (!is_exact_sum(b->a) || !is_exact_sum(b->b)) return;
  const Linear left = Linear::from(b->a), right = Linear::from(b->b);
  Linear below = left;  // left - right
  below.add(right, -1);
  Linear above = below.times(-1);
  const auto less = [&](Linear sum, bool strict) {
    if (!strict) sum.add(Monomial{}, -1);
    assume_negative(sum);
  };
  if (b->op == BinaryOp::lt || b->op == BinaryOp::le || b->op == BinaryOp::eq)
    less(below, b->op == BinaryOp::lt);
  if (b->op == BinaryOp::gt || b->op == BinaryOp::ge || b->op == BinaryOp::eq)
    less(above, b->op == BinaryOp::gt);
}

std::optional<bool> Facts::assumed(const Expr& condition) const {
  for (const auto& [known, holds] : assumed_)
    if (same(known, condition)) return holds;
  return std::nullopt;
}

// ---------------------------------------------------------------- intervals and divisors

Interval Facts::factor_bounds(const Expr& e) const {
  if (const auto* ref = as<VarRef>(e)) {
    const auto it = ranges_.find(ref->var);
    return it == ranges_.end() ? dtype_interval(e->dtype) : it->second;
  }
  if (const auto value = as_int(e)) return {*value, *value};
  if (const auto* s = as<Select>(e)) return unite(bounds(s->a), bounds(s->b));
  if (const auto* c = as<Cast>(e)) {
    if (e->dtype == DType::i64 && !is_float(c->a->dtype))
      return c->a->dtype == DType::boolean ? Interval{0, 1} : meet(dtype_interval(c->a->dtype), bounds(c->a));
    return dtype_interval(e->dtype);
  }
  const auto* b = as<Binary>(e);
  if (!b || e->dtype != DType::i64) return dtype_interval(e->dtype);
  const Interval x = bounds(b->a), y = bounds(b->b);
  switch (b->op) {
    case BinaryOp::min: return {std::min(x.lo, y.lo), std::min(x.hi, y.hi)};
    case BinaryOp::max: return {std::max(x.lo, y.lo), std::max(x.hi, y.hi)};
    case BinaryOp::floor_div: return floor_div_bounds(x, y);
    case BinaryOp::mod: return mod_bounds(x, y);
    case BinaryOp::mul: return narrow(multiply(widen(x), widen(y)));
    default: return {};
  }
}

Interval Facts::bounds(const Linear& sum) const {
  WideRange total{0, 0};
  for (const auto& [m, c] : sum.terms()) {
    WideRange term{c, c};
    for (const Expr& f : m) term = multiply(term, widen(factor_bounds(f)));
    total = {clamp(total.lo + term.lo), clamp(total.hi + term.hi)};
  }
  return narrow(total);
}

Interval Facts::bounds(const Expr& e) const {
  if (e->dtype != DType::i64)
    return is_float(e->dtype) ? Interval{} : as_int(e) ? Interval{*as_int(e), *as_int(e)} : factor_bounds(e);
  const Linear sum = Linear::from(e);
  // A sum that may wrap around can be anything.
  return sum.is_atom() || fits(sum) ? bounds(sum) : Interval{};
}

std::int64_t Facts::factor_divisor(const Expr& e) const {
  if (const auto* ref = as<VarRef>(e)) {
    const auto it = divisors_.find(ref->var);
    return it == divisors_.end() ? 1 : it->second;
  }
  if (const auto* s = as<Select>(e)) return gcd(divisor(s->a), divisor(s->b));
  const auto* b = as<Binary>(e);
  if (!b || e->dtype != DType::i64) return 1;
  const auto c = as_int(b->b);
  if (b->op == BinaryOp::min || b->op == BinaryOp::max) return gcd(divisor(b->a), divisor(b->b));
  if (b->op == BinaryOp::mod && c && *c > 0) return gcd(divisor(b->a), *c);
  if (b->op == BinaryOp::floor_div && c && *c > 0 && divisor(b->a) % *c == 0) return divisor(b->a) / *c;
  return 1;
}

std::int64_t Facts::divisor(const Monomial& m, std::int64_t coefficient) const {
  if (coefficient == INT64_MIN) return 1;
  std::int64_t out = coefficient < 0 ? -coefficient : coefficient;
  for (const Expr& f : m) {
    std::int64_t grown = 0;
    if (__builtin_mul_overflow(out, factor_divisor(f), &grown)) return out;
    out = grown;
  }
  return out;
}

std::int64_t Facts::divisor(const Expr& e) const {
  if (e->dtype != DType::i64) return 1;
  const Linear sum = Linear::from(e);
  if (!sum.is_atom() && !fits(sum)) return 1;
  std::int64_t out = 0;
  for (const auto& [m, c] : sum.terms()) out = gcd(out, divisor(m, c));
  return out;
}

bool Facts::is_exact_sum(const Expr& e) const {
  if (has_load(e)) return false;
  const Linear sum = Linear::from(e);
  return sum.is_atom() || fits(sum);
}

bool Facts::fits(const Linear& sum) const {
  Wide total = 0;
  for (const auto& [m, c] : sum.terms()) {
    Wide term = c < 0 ? -Wide{c} : Wide{c};
    for (const Expr& f : m) {
      const Interval i = factor_bounds(f);
      Wide magnitude = kInfinite;
      if (is_finite(i))
        magnitude = std::max(i.lo < 0 ? -Wide{i.lo} : Wide{i.lo}, i.hi < 0 ? -Wide{i.hi} : Wide{i.hi});
      else if (const auto* ref = as<VarRef>(f); ref && data_.contains(ref->var))
        magnitude = kInfinite;
      else if (ref && !values_.contains(ref->var))
        magnitude = kAssumedMagnitude;
      else if (f->dtype == DType::i64 && !has_load(f) && !as<Cast>(f)) magnitude = kAssumedMagnitude;
      term = multiply(term, magnitude);
    }
    total = clamp(total + term);
  }
  return total <= Wide{INT64_MAX};
}

}  // namespace loopwright::ir
