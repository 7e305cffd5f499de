#include "tuner/range_probes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace loopwright::tuner {
namespace {

const std::vector<Symbol> kOne = {{"n", 1, 8192}}, kTwo = {{"batch", 1, 64}, {"tokens", 1, 4096}};

TEST(RangeProbes, HoldBothEndsAndNeighboursOfTileEdges) {
  const auto probes = choose_range_probes(kOne, 20);
  EXPECT_EQ(probes.front().at("n"), 1);
  EXPECT_EQ(probes.back().at("n"), 8192);
  EXPECT_LE(probes.size(), 20u);
  EXPECT_TRUE(std::any_of(probes.begin(), probes.end(), [](const Bindings& p) { return p.at("n") > 16 && (p.at("n") & (p.at("n") - 1)) != 0; }));
  EXPECT_EQ(choose_range_probes({{"n", 5, 5}}, 10), (std::vector<Bindings>{{{"n", 5}}}));
}

TEST(RangeProbes, OfSeveralSymbolsHoldTheCornersAndAreNoGrid) {
  const auto probes = choose_range_probes(kTwo, 20);
  EXPECT_EQ(probes.size(), 20u);
  for (const std::int64_t batch : {1, 64}) {
    for (const std::int64_t tokens : {1, 4096}) {
      EXPECT_EQ(std::count(probes.begin(), probes.end(), Bindings{{"batch", batch}, {"tokens", tokens}}), 1);
    }
  }
  EXPECT_EQ(choose_range_probes({{"a", 1, 2}, {"b", 7, 7}, {"c", 3, 4}}, 20).size(), 4u) << "all there are";
  EXPECT_LE(choose_range_probes({{"a", 1, 999}, {"b", 1, 999}, {"c", 1, 999}, {"d", 1, 999}}, 20).size(), 20u);
}

TEST(RangeProbes, HeldOutShapesAreNoProbes) {
  for (const auto& symbols : {kOne, kTwo}) {
    const auto probes = choose_range_probes(symbols, 12);
    const auto held = choose_held_out(symbols, probes, 8, 1);
    EXPECT_EQ(held.size(), 8u);
    for (const Bindings& shape : held) {
      EXPECT_EQ(std::count(probes.begin(), probes.end(), shape), 0);
      for (const Symbol& s : symbols) EXPECT_TRUE(shape.at(s.name) >= s.lo && shape.at(s.name) <= s.hi);
    }
    EXPECT_EQ(held, choose_held_out(symbols, probes, 8, 1));
    EXPECT_NE(held, choose_held_out(symbols, probes, 8, 2));
  }
}

TEST(RangeProbes, HeldOutShapesComeFromTheShapesInUse) {
  std::vector<ShapeCount> shapes;
  for (std::int64_t v = 700; v < 720; ++v) shapes.push_back({{{"n", v}}, 1});
  const auto held = choose_held_out(kOne, choose_range_probes(kOne, 12), 8, 1, shapes);
  EXPECT_EQ(std::count_if(held.begin(), held.end(), [](const Bindings& s) { return s.at("n") >= 700 && s.at("n") < 720; }), 6);
}

TEST(RangeProbes, WeightsAreSharesOfTheCalls) {
  const std::vector<Bindings> probes = {{{"n", 1}}, {{"n", 64}}, {{"n", 8192}}};
  const auto even = weigh_probes(kOne, probes);
  EXPECT_NEAR(std::accumulate(even.begin(), even.end(), 0.0), 1, 1e-9);
  EXPECT_NEAR(even[0], 3.0 / 13, 0.01) << "half of the way to 64, of thirteen powers of two";
  EXPECT_NEAR(even[1], 6.5 / 13, 0.01);
  const auto counted = weigh_probes(kOne, probes, {{{{"n", 60}}, 9}, {{{"n", 8000}}, 1}});
  EXPECT_NEAR(counted[1], 0.9 * 0.9 + 0.1 * even[1], 1e-9);
  EXPECT_NEAR(counted[0], 0.1 * even[0], 1e-9) << "what was never counted is not forgotten";
}

TEST(RangeProbes, TypicalShapesAreMedianLargeAndSmall) {
  std::vector<ShapeCount> shapes;
  for (std::int64_t v = 100; v >= 1; --v) shapes.push_back({{{"n", v}}, 1});
  EXPECT_EQ(choose_typical(shapes), (std::vector<Bindings>{{{"n", 51}}, {{"n", 91}}, {{"n", 11}}}));
  shapes.push_back({{{"n", 7}}, 1000});
  EXPECT_EQ(choose_typical(shapes), (std::vector<Bindings>{{{"n", 7}}}));
  EXPECT_TRUE(choose_typical({}).empty());
}

}  // namespace
}  // namespace loopwright::tuner
