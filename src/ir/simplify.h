// Algebra on index expressions and conditions, with intervals and divisibility.
#pragma once

#include <map>

#include "src/ir/kernel.h"

namespace loopwright::ir {

/// Inclusive bounds; INT64_MIN and INT64_MAX stand for unknown.
struct Interval {
  std::int64_t lo = INT64_MIN;
  std::int64_t hi = INT64_MAX;
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
  /// Adds a condition known to hold (the inside of an If).
  void assume(const Expr& condition);
  Interval bounds(const Expr& e) const;
  std::int64_t divisor(const Expr& e) const;
  /// True only when the bool expression is certainly true (false).
  bool proves(const Expr& condition) const;
  bool refutes(const Expr& condition) const;

 private:
  std::map<Var, Interval> ranges_;
  std::map<Var, std::int64_t> divisors_;
  std::map<Var, Expr> extents_;
  std::vector<Expr> assumed_;
  friend class Simplifier;
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
