#include <gtest/gtest.h>

#include "loopwright/shape.h"

namespace loopwright {
namespace {

TEST(Guard, holds_inside_its_box_and_multiples_only) {
  const Guard g = *Guard::parse("n in 8..64 % 8, m in 1..");
  EXPECT_TRUE(g.holds({{"n", 64}, {"m", 1}}));
  EXPECT_FALSE(g.holds({{"n", 72}, {"m", 1}}));
  EXPECT_FALSE(g.holds({{"n", 12}, {"m", 1}}));
  EXPECT_FALSE(g.holds({{"n", 8}, {"m", 0}}));
  EXPECT_FALSE(g.holds({{"n", 8}}));
  EXPECT_TRUE(Guard{}.holds({}));
}

TEST(Guard, text_reads_back_and_is_canonical) {
  for (const char* text : {"always", "align 16", "tokens in 1..64 % 8, align 16", "tokens % 8",
                           "a in 3.., b in 0..7", "align in 1..2, align 4", "n % 1"})
    EXPECT_EQ(Guard::parse(text)->text(), text);
  EXPECT_EQ(Guard::parse("b % 2, a % 4")->text(), "a % 4, b % 2");
  for (const char* bad : {"", "n", "n %", "n % 0", "n in 1", "align 3", "n % 2 m % 2", "always n"})
    EXPECT_EQ(Guard::parse(bad).error().code, ErrorCode::syntax) << bad;
  EXPECT_EQ(Guard::parse("n % 2, n % 4").error().code, ErrorCode::duplicate_name);
}

TEST(Guard, both_is_the_conjunction) {
  const Guard a = *Guard::parse("n in 2..50 % 4, align 16"),
              b = *Guard::parse("m % 2, n in 10..100 % 6, align 8"), c = Guard::both(a, b);
  EXPECT_EQ(c.text(), "m % 2, n in 10..50 % 12, align 16");
  for (std::int64_t n = 0; n < 110; ++n)
    for (std::int64_t m = 0; m < 3; ++m) {
      const Bindings v{{"n", n}, {"m", m}};
      EXPECT_EQ(c.holds(v), a.holds(v) && b.holds(v));
    }
}

}  // namespace
}  // namespace loopwright
