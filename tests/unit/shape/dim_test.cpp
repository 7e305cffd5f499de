#include <gtest/gtest.h>

#include <random>

#include "loopwright/shape.h"

namespace loopwright {
namespace {

const Dim n = Dim::symbol("n"), m = Dim::symbol("m");

TEST(Dim, equal_polynomials_are_equal_and_print_alike) {
  EXPECT_EQ((n + 1) * (n - 1), n * n - 1);
  EXPECT_EQ(((n + m) * (n + m)).text(), "m*m + 2*m*n + n*n");
  EXPECT_EQ((n * 4 + 2).text(), "4*n + 2");
  EXPECT_EQ((Dim(0) - n * 3 - 1).text(), "-3*n - 1");
  EXPECT_EQ((n - n).text(), "0");
  EXPECT_TRUE((n - n).is_constant());
}

TEST(Dim, text_reads_back) {
  for (const Dim& d : {n * m * 7 - n + 12, Dim(0), Dim(INT64_MIN), Dim(0) - m, n * n * n})
    EXPECT_EQ(*Dim::parse(d.text()), d) << d.text();
  EXPECT_EQ(*Dim::parse("-(n - 2)*-3"), (n - 2) * 3);
  for (const char* bad : {"", "n +", "n m", "2n", "(n", "n/2", "1.5"})
    EXPECT_EQ(Dim::parse(bad).error().code, ErrorCode::syntax) << bad;
  EXPECT_EQ(Dim::parse("9223372036854775807*2").error().code, ErrorCode::size_overflow);
  EXPECT_EQ(Dim::parse(std::string(5000, '(')).error().code, ErrorCode::syntax);
}

TEST(Dim, overflow_is_kept_and_reported) {
  Dim d = n * INT64_MAX + n;
  EXPECT_TRUE(d.overflowed());
  EXPECT_TRUE((d - d).overflowed());
  EXPECT_EQ(d.evaluate({{"n", 1}}).error().code, ErrorCode::size_overflow);
  EXPECT_EQ((n * n).evaluate({{"n", std::int64_t{1} << 40}}).error().code, ErrorCode::size_overflow);
  EXPECT_EQ((n * n).bounds({{"n", 0, std::int64_t{1} << 40}}).error().code, ErrorCode::size_overflow);
  EXPECT_EQ(n.evaluate({}).error().code, ErrorCode::unknown_name);
}

TEST(Dim, bounds_hold_for_every_value) {
  const Dim d = n * m * 2 - n * 5 + 3;
  const auto b = *d.bounds({{"n", 1, 6}, {"m", 0, 4}});
  for (std::int64_t i = 1; i <= 6; ++i)
    for (std::int64_t j = 0; j <= 4; ++j) {
      const std::int64_t v = *d.evaluate({{"n", i}, {"m", j}});
      EXPECT_TRUE(b.lo <= v && v <= b.hi);
    }
}

TEST(Dim, divisors) {
  EXPECT_EQ((n * 12 + 8).known_divisor(), 4);
  EXPECT_EQ(Dim(0).known_divisor(), 0);
  EXPECT_EQ(*(n * m * 6 + m * 4).divide_exactly(m * 2), n * 3 + 2);
  EXPECT_EQ(*(n * n - m * m).divide_exactly(n - m), n + m);
  EXPECT_FALSE((n * 3).divide_exactly(Dim(2)));
  EXPECT_FALSE(n.divide_exactly(Dim(0)));
}

TEST(Dim, a_product_divides_by_each_factor) {
  std::mt19937 rng(3);
  const auto random = [&] {
    Dim d = static_cast<int>(rng() % 5);
    for (int t = 0; t < 3; ++t)
      d = d + Dim(static_cast<int>(rng() % 7) - 3) * (rng() % 2 ? n : m) * (rng() % 2 ? n : Dim(1));
    return d;
  };
  for (int i = 0; i < 500; ++i) {
    const Dim a = random(), b = random();
    if (b == Dim(0)) continue;
    const auto q = (a * b).divide_exactly(b);
    ASSERT_TRUE(q) << a.text() << " times " << b.text();
    EXPECT_EQ(*q, a);
  }
}

TEST(Dim, renaming_can_merge_symbols) { EXPECT_EQ((n + m).rename({{"m", "n"}}), n * 2); }

}  // namespace
}  // namespace loopwright
