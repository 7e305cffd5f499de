// Algebra on index expressions and conditions, with intervals and divisibility.
//
// i64 expressions become sums of products over variables and other factors. Rules that need it are applied only where
// the ranges show that nothing overflows; a variable of unknown range is taken to stay within +-2^31 for that purpose,
// anything read from memory is not. Floats keep every operation but exact identities (x*1, x - 0, casts there and back).
#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "src/ir/kernel.h"
#include "src/ir/linear.h"

namespace loopwright::ir {

/// Inclusive bounds; INT64_MIN and INT64_MAX stand for unknown.
struct Interval {
  std::int64_t lo = INT64_MIN;
  std::int64_t hi = INT64_MAX;
  bool operator==(const Interval&) const = default;
};

/// What is known of variables while walking a kernel: ranges, divisors, and conditions that hold.
class Facts {
 public:
  Facts() = default;
  /// The symbols' ranges and the kernel's guard.
  explicit Facts(const Kernel& k);
  void set_range(const Var& v, Interval range);
  void set_divisor(const Var& v, std::int64_t divisor);
  /// 0 <= v < extent, where the extent may be symbolic: `v < extent` can then be proved too.
  void bind_loop(const Var& v, const Expr& extent);
  /// v is `value` (an i64 Let).
  void bind_let(const Var& v, const Expr& value);
  /// Adds a condition known to hold (the inside of an If). Parts that read memory are left out: it may change.
  void assume(const Expr& condition);
  Interval bounds(const Expr& e) const;
  /// A number that divides every value; 0 for the constant zero.
  std::int64_t divisor(const Expr& e) const;
  /// True only when the bool expression is certainly true (false).
  bool proves(const Expr& condition) const;
  bool refutes(const Expr& condition) const;

  // The rest serves the simplifier.
  Interval bounds(const Linear& sum) const;
  std::int64_t divisor(const Monomial& m, std::int64_t coefficient) const;
  /// True when no part of the sum can leave 64 bits, so that it is a sum of integers and not modulo 2^64.
  bool fits(const Linear& sum) const;
  /// The same for an expression that reads no memory.
  bool is_exact_sum(const Expr& e) const;
  /// True when the sum is certainly below zero, as a sum of integers.
  bool is_negative(const Linear& sum) const;
  /// A bool condition that was assumed, or its negation.
  std::optional<bool> assumed(const Expr& condition) const;

 private:
  Interval factor_bounds(const Expr& e) const;
  std::int64_t factor_divisor(const Expr& e) const;
  void assume_negative(const Linear& sum);
  bool search(const Linear& sum, int depth, int& budget) const;
  bool search_constraints(const Linear& sum, int depth, int& budget) const;
  bool search_factor(const Linear& sum, const Expr& factor, int depth, int& budget) const;
  bool search_loops(const Linear& sum, int depth, int& budget) const;

  std::map<Var, Interval> ranges_;
  std::map<Var, std::int64_t> divisors_;
  std::vector<std::pair<Var, Expr>> loops_;  ///< outermost first, with their extents
  std::map<Var, Expr> values_;               ///< of lets that read no memory
  std::set<Var> data_;                       ///< of other lets: any i64 at all
  std::vector<Linear> negative_;             ///< sums known to be below zero
  std::vector<std::pair<Expr, bool>> assumed_;
};

/// An equal, usually smaller, expression. Terminates; simplify(simplify(e)) is simplify(e).
Expr simplify(const Expr& e, const Facts& facts = {});
/// Simplifies inside out, drops conditions that are proved, empty loops, and loops of extent 1.
Stmt simplify(const Stmt& s, const Facts& facts = {});
Kernel simplify(const Kernel& k);
/// coefficients and rest when `e` = sum(coefficient * var) + rest is affine in the given variables.
struct Affine {
  std::map<Var, std::int64_t> coefficients;
  Expr rest;
};
std::optional<Affine> as_affine(const Expr& e, const std::vector<Var>& vars);

}  // namespace loopwright::ir
