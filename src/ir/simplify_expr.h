// The expression rules behind simplify().
#pragma once

#include <unordered_map>

#include "src/ir/simplify.h"

namespace loopwright::ir {

class ExprSimplifier {
 public:
  explicit ExprSimplifier(const Facts& facts) : facts_(&facts) {}
  Expr run(const Expr& e);

 private:
  Expr node(const Expr& e);
  Expr index_sum(const Expr& e);
  Expr normal(Linear sum);
  Expr divide(const Expr& a, const Expr& b);
  Expr divide_constant(const Linear& sum, std::int64_t c);
  Expr divide_symbolic(const Linear& sum, const Expr& b);
  Expr modulo(const Expr& a, const Expr& b);
  Expr modulo_constant(const Linear& sum, std::int64_t c);
  Expr modulo_symbolic(const Linear& sum, const Expr& b);
  Expr extreme(BinaryOp op, const Expr& a, const Expr& b);
  Expr less(const Expr& a, const Expr& b);
  Expr equal(const Expr& a, const Expr& b, bool is_equal);
  Expr comparison(BinaryOp op, const Expr& a, const Expr& b);
  Expr connect(const Binary& x);
  Expr choose(const Select& x);
  Expr negate(const Expr& a);
  Expr convert(const Expr& a, DType to);
  Expr arithmetic(BinaryOp op, const Expr& a, const Expr& b);
  /// Runs `e` with one more condition known.
  Expr under(const Expr& condition, bool holds, const Expr& e);

  bool is_exact(const Expr& e) const;
  bool in_range(const Linear& sum, const Linear& end) const;
  std::optional<std::int64_t> single_value(const Expr& e) const;

  const Facts* facts_;
  /// Key and value: the key is kept alive, or its address could name another node later.
  std::unordered_map<const ExprNode*, std::pair<Expr, Expr>> memo_;
};

}  // namespace loopwright::ir
