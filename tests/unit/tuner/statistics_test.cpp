#include "tuner/statistics.h"

#include <gtest/gtest.h>

#include <random>

namespace loopwright::tuner {
namespace {

std::vector<double> draw(std::mt19937_64& random, double median, double spread, int count) {
  std::normal_distribution<double> normal(0, spread);
  std::vector<double> samples;
  for (int i = 0; i < count; ++i) samples.push_back(median * (1 + std::abs(normal(random))));
  return samples;
}

TEST(Statistics, MedianIgnoresAnInterruption) {
  const Summary s = summarise({100, 101, 99, 100, 102, 100, 5000});
  EXPECT_DOUBLE_EQ(s.median, 100);
  EXPECT_EQ(s.n, 6);
  EXPECT_LT(s.p90, 103);
}

TEST(Statistics, FewSamplesGiveTheWholeRangeAsInterval) {
  const Summary s = summarise({3, 1, 2});
  EXPECT_EQ(s.low, 1);
  EXPECT_EQ(s.high, 3);
  EXPECT_EQ(summarise({}).n, 0);
}

TEST(Statistics, IntervalHoldsTheTrueMedianAboutNineTimesInTen) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> uniform(0, 2);  // median 1
  int held = 0;
  constexpr int kTrials = 2000;
  for (int t = 0; t < kTrials; ++t) {
    std::vector<double> samples;
    for (int i = 0; i < 15; ++i) samples.push_back(uniform(random));
    const Summary s = summarise(samples);
    held += s.low <= 1 && 1 <= s.high ? 1 : 0;
  }
  EXPECT_GT(held, kTrials * 85 / 100);
  EXPECT_LT(held, kTrials * 99 / 100);
}

TEST(Statistics, RaceStopsForAClearLoserAndGoesOnWhenLevel) {
  const RaceRule rule;
  const Summary best = summarise({100, 101, 102});
  EXPECT_FALSE(needs_more(summarise({150, 151, 152}), best, rule));
  EXPECT_TRUE(needs_more(summarise({101, 102, 103}), best, rule));
  EXPECT_FALSE(needs_more(summarise(std::vector<double>(15, 101.0)), best, rule));
}

TEST(Statistics, FasterOfTwoDistributionsWinsTheFinals) {
  std::mt19937_64 random(11);
  int right = 0;
  constexpr int kTrials = 300;
  for (int t = 0; t < kTrials; ++t) {
    const std::vector<Finalist> finalists = {{summarise(draw(random, 105, 0.01, 9)), 0, "a", true},
                                             {summarise(draw(random, 100, 0.01, 9)), 0, "b", false}};
    right += choose_winner(finalists) == 1 ? 1 : 0;
  }
  EXPECT_GT(right, kTrials * 95 / 100);
}

TEST(Statistics, TiesGoToTheDefaultThenToTheSmallerLossThenToTheDigest) {
  const Summary same = summarise({100, 100.5, 101, 100, 100.2});
  EXPECT_EQ(choose_winner({{same, 0, "b"}, {same, 0, "a"}}), 1);
  EXPECT_EQ(choose_winner({{same, 0, "a"}, {same, 0, "b", true}}), 1);
  EXPECT_EQ(choose_winner({{same, 0.2, "a"}, {same, 0.05, "b"}}), 1);
  EXPECT_EQ(choose_winner({{Summary{}, 0, "a"}}), -1);
}

TEST(Statistics, TwoRunsOnLevelCandidatesAgree) {
  std::mt19937_64 random(3);
  int agree = 0;
  constexpr int kTrials = 200;
  for (int t = 0; t < kTrials; ++t) {
    const auto run = [&] {
      return choose_winner({{summarise(draw(random, 100, 0.004, 15)), 0, "c"},
                            {summarise(draw(random, 100.1, 0.004, 15)), 0, "a"},
                            {summarise(draw(random, 120, 0.004, 15)), 0, "b"}});
    };
    agree += run() == run() ? 1 : 0;
  }
  EXPECT_GT(agree, kTrials * 90 / 100);
}

}  // namespace
}  // namespace loopwright::tuner
