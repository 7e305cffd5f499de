// Integer expressions as sums of products, and a structural order of expressions. Used by simplify and facts.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "src/ir/nodes.h"

namespace loopwright::ir {

/// A total order: negative, zero or positive. Zero exactly when `same`. Variables come first, by number.
int compare(const Expr& a, const Expr& b);

/// Factors of a product, sorted by `compare`; none of them is a sum, a product or a literal. Empty for the constant.
using Monomial = std::vector<Expr>;
struct MonomialLess {
  bool operator()(const Monomial& a, const Monomial& b) const;
};

/// Sum of coefficient * monomial in 64-bit wrapping arithmetic. No coefficient is zero.
class Linear {
 public:
  Linear() = default;
  explicit Linear(std::int64_t constant) { add(Monomial{}, constant); }
  /// `e` of dtype i64; add, sub, mul and neg are taken apart, anything else is a factor.
  static Linear from(const Expr& e);

  void add(const Monomial& m, std::int64_t coefficient);
  void add(const Linear& other, std::int64_t factor = 1);
  Linear times(std::int64_t factor) const;
  Linear times(const Linear& other) const;
  std::int64_t constant() const { return coefficient(Monomial{}); }
  std::int64_t coefficient(const Monomial& m) const;
  bool is_constant() const { return terms_.empty() || (terms_.size() == 1 && terms_.begin()->first.empty()); }
  /// True for one factor alone, which no arithmetic here can make overflow.
  bool is_atom() const;
  /// Every distinct factor.
  std::vector<Expr> factors() const;
  /// Terms in order, the first one positive where there is one, the constant last.
  Expr expr() const;

  const std::map<Monomial, std::int64_t, MonomialLess>& terms() const { return terms_; }
  bool operator==(const Linear& other) const;

 private:
  std::map<Monomial, std::int64_t, MonomialLess> terms_;
};

/// Product of sorted factors.
Expr product(const Monomial& m);
Monomial without(const Monomial& m, const Expr& factor);

}  // namespace loopwright::ir
