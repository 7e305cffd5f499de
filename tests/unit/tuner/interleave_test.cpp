#include "tuner/interleave.h"

#include <gtest/gtest.h>

namespace loopwright::tuner {
namespace {

TEST(Interleave, EveryContenderGivesOneSampleARound) {
  std::vector<int> order;
  std::vector<std::function<double()>> contenders;
  for (int c = 0; c < 3; ++c)
    contenders.emplace_back([&order, c] {
      order.push_back(c);
      return 100.0 * (c + 1);
    });
  const std::vector<Timing> times = interleave_samples(contenders, 20, 7);
  ASSERT_EQ(times.size(), 3u);
  for (int c = 0; c < 3; ++c) {
    EXPECT_EQ(times[c].samples, 20);
    EXPECT_EQ(times[c].median_ns, 100.0 * (c + 1));
  }
  int led_by_first = 0;
  for (std::size_t r = 0; r < 20; ++r) {
    EXPECT_EQ(order[3 * r] + order[3 * r + 1] + order[3 * r + 2], 3) << "round " << r;
    led_by_first += order[3 * r] == 0;
  }
  EXPECT_GT(led_by_first, 0);
  EXPECT_LT(led_by_first, 20) << "the order within a round is random";
}

TEST(Interleave, ABudgetAllowsFewerRoundsButNeverLessThanFive) {
  const InterleaveOptions options{.rounds = 21, .budget_s = 10};
  EXPECT_EQ(count_rounds(0, options), 21);
  EXPECT_EQ(count_rounds(1, options), 10);
  EXPECT_EQ(count_rounds(100, options), 5);
}

}  // namespace
}  // namespace loopwright::tuner
