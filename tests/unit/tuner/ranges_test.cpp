#include "tuner/ranges.h"

#include <gtest/gtest.h>

#include <cmath>

namespace loopwright::tuner {
namespace {

constexpr std::int64_t kLo = 1, kHi = 8192;

std::vector<RangeCandidate> make_candidates(int count) {
  std::vector<RangeCandidate> candidates;
  for (int i = 0; i < count; ++i) candidates.push_back({.digest = std::to_string(i), .guard = {"n", kLo, kHi, 1}});
  return candidates;
}

TEST(Ranges, ProbesHoldBothEndsAndNeighboursOfTileEdges) {
  const auto probes = choose_range_probes(kLo, kHi, 20);
  EXPECT_EQ(probes.front(), kLo);
  EXPECT_EQ(probes.back(), kHi);
  EXPECT_LE(probes.size(), 20u);
  EXPECT_TRUE(std::any_of(probes.begin(), probes.end(), [](std::int64_t v) { return v > 16 && (v & (v - 1)) != 0; }));
  EXPECT_EQ(choose_range_probes(5, 5, 10), std::vector<std::int64_t>{5});
}

TEST(Ranges, ARangeBelowAnotherIsJudgedByTheCallsItGets) {
  auto candidates = make_candidates(2);
  candidates[1].lies_over = true;  // takes aligned addresses only, and is ten times as fast
  const RangeCost cost = [](int c, std::int64_t) { return RangeTime(c == 1 ? 100 : 1000); };
  const auto ranges = split_ranges(kLo, kHi, candidates, {kLo, 64, kHi}, {7, 100, 3000}, cost, {});
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0].candidate, 1);
  EXPECT_EQ(ranges[1].candidate, 0);
  for (const ServedRange& r : ranges) {
    EXPECT_EQ(r.held_out, 3);
    EXPECT_DOUBLE_EQ(r.worst_loss, 0);
  }
}

TEST(Ranges, HeldOutValuesAreNoProbes) {
  const auto probes = choose_range_probes(kLo, kHi, 12);
  const auto held = choose_held_out(kLo, kHi, probes, 8, 1);
  EXPECT_GE(held.size(), 6u);
  for (const std::int64_t v : held) EXPECT_EQ(std::count(probes.begin(), probes.end(), v), 0);
}

TEST(Ranges, OneWinnerEverywhereIsOneRange) {
  const auto cost = [](int c, std::int64_t v) { return (c == 1 ? 1.0 : 1.2) * static_cast<double>(v); };
  const auto ranges = split_ranges(kLo, kHi, make_candidates(3), choose_range_probes(kLo, kHi, 12), {3, 100}, cost, {});
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_EQ(ranges[0].candidate, 1);
  EXPECT_EQ(ranges[0].lo, kLo);
  EXPECT_EQ(ranges[0].hi, kHi);
  EXPECT_EQ(ranges[0].held_out, 2);
}

/// Fixed cost against slope: one is best below 300, the other above.
double crossing_cost(int c, std::int64_t v) {
  return c == 0 ? 10 + 1.0 * static_cast<double>(v) : 160 + 0.5 * static_cast<double>(v);
}

TEST(Ranges, SplitIsFoundNearTheCrossingAndLossesAreBounded) {
  const auto probes = choose_range_probes(kLo, kHi, 14);
  const auto held = choose_held_out(kLo, kHi, probes, 16, 5);
  const auto ranges = split_ranges(kLo, kHi, make_candidates(2), probes, held, crossing_cost, {.refine_steps = 6});
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0].candidate, 0);
  EXPECT_EQ(ranges[1].candidate, 1);
  EXPECT_EQ(ranges[0].hi + 1, ranges[1].lo);
  EXPECT_GT(ranges[1].lo, 150);
  EXPECT_LT(ranges[1].lo, 600);
  for (const ServedRange& r : ranges) {
    EXPECT_LE(r.mean_loss, r.worst_loss);
    EXPECT_LT(r.worst_loss, 0.05);
  }
}

TEST(Ranges, SmallDifferencesDoNotSplit) {
  const auto cost = [](int c, std::int64_t v) { return static_cast<double>(v) * ((v < 100) == (c == 0) ? 1.0 : 1.03); };
  EXPECT_EQ(split_ranges(kLo, kHi, make_candidates(2), choose_range_probes(kLo, kHi, 12), {}, cost, {}).size(), 1u);
}

TEST(Ranges, NoVariantServesWhereItLosesToTheBaseline) {
  // The second is 4 % slower than the baseline at small sizes: within the split loss, but not within the baseline's.
  const auto cost = [](int c, std::int64_t v) { return static_cast<double>(v) * (c == 0 ? 1.0 : v < 100 ? 1.04 : 0.5); };
  const auto ranges = split_ranges(kLo, kHi, make_candidates(2), choose_range_probes(kLo, kHi, 12), {}, cost,
                                   {.baseline = 0, .baseline_loss = 0.02});
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0].candidate, 0);
  EXPECT_EQ(ranges[1].candidate, 1);
}

TEST(Ranges, WhereTheIntervalsOverlapTheDoubtIsTheBaselines) {
  // 4 % slower than the baseline below 100, with intervals that say nothing, and twice as fast above.
  const auto cost = [](int c, std::int64_t v) {
    const double ns = 100 * (c == 0 ? 1.0 : v < 100 ? 1.04 : 0.5);
    return RangeTime(ns, ns * 0.9, ns * 1.1);
  };
  const auto ranges = split_ranges(kLo, kHi, make_candidates(2), choose_range_probes(kLo, kHi, 12), {}, cost, {.baseline = 0});
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0].candidate, 0);
  EXPECT_EQ(ranges[1].candidate, 1);
}

TEST(Ranges, NoiseSplitsNothingAndLeavesTheBaseline) {
  const auto cost = [](int c, std::int64_t v) {
    const double wave = std::sin(static_cast<double>(v * 7 + c * 13));
    return RangeTime(100 * (1 + 0.1 * wave), 85, 115);
  };
  const auto ranges = split_ranges(kLo, kHi, make_candidates(3), choose_range_probes(kLo, kHi, 12), {}, cost, {.baseline = 2});
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_EQ(ranges[0].candidate, 2);
}

TEST(Ranges, ACandidateThatNeedsMultiplesLiesOverTheGeneralOne) {
  auto candidates = make_candidates(2);
  candidates[1].guard.multiple_of = 8;
  const auto cost = [](int c, std::int64_t v) { return static_cast<double>(v) * (c == 1 ? 0.7 : 1.0); };
  const auto ranges = split_ranges(kLo, kHi, candidates, choose_range_probes(kLo, kHi, 12), {24, 25}, cost, {});
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0].candidate, 1);
  EXPECT_EQ(ranges[0].multiple_of, 8);
  EXPECT_EQ(ranges[0].held_out, 1);
  EXPECT_EQ(ranges[1].candidate, 0);
  EXPECT_EQ(ranges[1].held_out, 2);
  EXPECT_DOUBLE_EQ(ranges[1].worst_loss, 0) << "at 24 the other one serves, at 25 nobody is faster";
}

TEST(Ranges, RangesCoverEveryValueOnceWhateverTheCosts) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const auto cost = [seed](int c, std::int64_t v) {
      const double wave = std::sin(static_cast<double>(seed * 7 + c * 13) + std::log(static_cast<double>(v)) * (1 + c));
      return static_cast<double>(v) * (1.3 + 0.3 * wave);
    };
    const auto ranges = split_ranges(kLo, kHi, make_candidates(4), choose_range_probes(kLo, kHi, 12), {}, cost, {});
    std::int64_t next = kLo;
    for (const ServedRange& r : ranges) {
      EXPECT_EQ(r.lo, next);
      EXPECT_GE(r.hi, r.lo);
      next = r.hi + 1;
    }
    EXPECT_EQ(next, kHi + 1);
  }
}

}  // namespace
}  // namespace loopwright::tuner
