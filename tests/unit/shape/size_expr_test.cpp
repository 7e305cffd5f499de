#include <gtest/gtest.h>

#include "loopwright/shape.h"

namespace loopwright {
namespace {

using Op = SizeExpr::Op;

TEST(SizeExpr, computes_each_operation) {
  const std::int64_t values[] = {-7, 2};
  const auto run = [&](Op op) {
    return SizeExpr::apply(op, SizeExpr::symbol(0), SizeExpr::symbol(1)).evaluate(values);
  };
  EXPECT_EQ(run(Op::add), -5);
  EXPECT_EQ(run(Op::sub), -9);
  EXPECT_EQ(run(Op::mul), -14);
  EXPECT_EQ(run(Op::floor_div), -4);
  EXPECT_EQ(run(Op::ceil_div), -3);
  EXPECT_EQ(run(Op::mod), 1);
  EXPECT_EQ(run(Op::min), -7);
  EXPECT_EQ(run(Op::max), 2);
}

TEST(SizeExpr, division_by_zero_is_zero_and_overflow_saturates) {
  const std::int64_t values[] = {INT64_MAX, 0, INT64_MIN, -1};
  const auto run = [&](Op op, int a, int b) {
    return SizeExpr::apply(op, SizeExpr::symbol(a), SizeExpr::symbol(b)).evaluate(values);
  };
  for (const Op op : {Op::floor_div, Op::ceil_div, Op::mod}) EXPECT_EQ(run(op, 0, 1), 0);
  EXPECT_EQ(run(Op::add, 0, 0), INT64_MAX);
  EXPECT_EQ(run(Op::mul, 0, 2), INT64_MIN);
  EXPECT_EQ(run(Op::sub, 2, 0), INT64_MIN);
  EXPECT_EQ(run(Op::floor_div, 2, 3), INT64_MAX);
}

TEST(SizeExpr, text_reads_back) {
  const SizeExpr e = SizeExpr::apply(
      Op::ceil_div, SizeExpr::apply(Op::add, SizeExpr::symbol(1), SizeExpr(-3)), SizeExpr(64));
  EXPECT_EQ(e.text(), "s1 -3 add 64 ceil_div");
  EXPECT_EQ(*SizeExpr::parse(e.text()), e);
  EXPECT_EQ(e.symbol_count(), 2);
  for (const char* bad : {"", "add", "1 add", "1 2", "s", "sx", "s0 constant", "1 2 power", "s99999999999"})
    EXPECT_EQ(SizeExpr::parse(bad).error().code, ErrorCode::syntax) << bad;
  std::string deep;
  for (int i = 0; i < 33; ++i) deep += "s0 ";
  for (int i = 0; i < 32; ++i) deep += "add ";
  EXPECT_EQ(SizeExpr::parse(deep).error().code, ErrorCode::syntax);
}

TEST(SizeExpr, constants_fold) {
  EXPECT_EQ(SizeExpr::apply(Op::mul, SizeExpr(6), SizeExpr(7)), SizeExpr(42));
  EXPECT_EQ(SizeExpr::apply(Op::add, SizeExpr::symbol(0), SizeExpr(0)), SizeExpr::symbol(0));
}

TEST(SizeExpr, agrees_with_the_dimension_it_comes_from) {
  const Dim d = Dim::symbol("n") * Dim::symbol("n") * 3 - Dim::symbol("m") * 2 + 11;
  const auto e = SizeExpr::from(d, {"m", "n"});
  ASSERT_TRUE(e.ok());
  for (std::int64_t n = 0; n < 5; ++n)
    for (std::int64_t m = 0; m < 5; ++m) {
      const std::int64_t values[] = {m, n};
      EXPECT_EQ(e->evaluate(values), *d.evaluate({{"n", n}, {"m", m}}));
    }
  EXPECT_EQ(SizeExpr::from(d, {"n"}).error().code, ErrorCode::unknown_name);
}

}  // namespace
}  // namespace loopwright
