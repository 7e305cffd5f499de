#include "src/ir/kernel.h"

#include <gtest/gtest.h>

#include "src/ir/rewrite.h"
#include "src/ir/simplify.h"
#include "src/ir/text.h"

namespace loopwright::ir {
namespace {

const std::vector<SymbolParam> kSymbols = {{{"n", 0, 100}, fresh_var("n")}, {{"m", 0, 100}, fresh_var("m")}};

TEST(Sizes, of_a_dimension_and_its_expression_agree) {
  const Dim n = Dim::symbol("n"), m = Dim::symbol("m");
  for (const Dim& d : {n * m * 3 - n * 2 + 1, Dim(0), Dim(0) - m - 4, n * n - m, Dim(7) - n}) {
    const Expr e = to_expr(d, kSymbols);
    const auto size = to_size_expr(e, kSymbols);
    ASSERT_TRUE(size) << print(e);
    const std::int64_t values[] = {5, 9};
    EXPECT_EQ(size->evaluate(values), *d.evaluate({{"n", 5}, {"m", 9}})) << print(e);
    EXPECT_EQ(as_int(substitute(e, {{kSymbols[0].var, int_imm(5)}, {kSymbols[1].var, int_imm(9)}})),
              *d.evaluate({{"n", 5}, {"m", 9}}));
  }
  EXPECT_THROW(to_expr(Dim::symbol("k"), kSymbols), Bug);
}

TEST(Sizes, only_integer_arithmetic_over_symbols_has_a_closed_form) {
  const Expr n = var(kSymbols[0].var);
  EXPECT_EQ(to_size_expr(ceil_div(n, int_imm(8)), kSymbols)->text(), "s0 7 add 8 floor_div");
  EXPECT_FALSE(to_size_expr(var(fresh_var("i")) + n, kSymbols));
  EXPECT_FALSE(to_size_expr(select(lt(n, int_imm(3)), n, int_imm(3)), kSymbols));
  Expr deep = n;
  for (int i = 0; i < 40; ++i) deep = mod(int_imm(100), deep);
  EXPECT_FALSE(to_size_expr(deep, kSymbols));
}

}  // namespace
}  // namespace loopwright::ir
