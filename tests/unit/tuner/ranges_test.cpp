#include "tuner/ranges.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "tuner/range_probes.h"

namespace loopwright::tuner {
namespace {

constexpr std::int64_t kLo = 1, kHi = 8192;
const std::vector<Symbol> kTokens = {{"n", kLo, kHi}};

/// Of one symbol.
using Curve = std::function<RangeTime(int c, std::int64_t value)>;

RangeProblem make_problem(std::vector<Symbol> symbols, int candidates, int probes, RangeCost cost, RangeRule rule = {}) {
  RangeProblem p{.symbols = std::move(symbols), .cost = std::move(cost), .rule = rule};
  for (int i = 0; i < candidates; ++i) p.candidates.push_back({.digest = std::to_string(i)});
  p.probes = choose_range_probes(p.symbols, probes);
  p.weights = weigh_probes(p.symbols, p.probes);
  return p;
}
RangeProblem make_line(int candidates, const Curve& curve, RangeRule rule = {}) {
  return make_problem(kTokens, candidates, 12, [curve](int c, const Bindings& shape) { return curve(c, shape.at("n")); }, rule);
}
void hold_out(RangeProblem& p, std::initializer_list<std::int64_t> values) {
  for (const std::int64_t v : values) p.held_out.push_back({{"n", v}});
}
std::int64_t lo_of(const ServedRange& r) { return r.guard.symbols.front().lo; }
std::int64_t hi_of(const ServedRange& r) { return r.guard.symbols.front().hi; }

TEST(Ranges, ARangeBelowAnotherIsJudgedByTheCallsItGets) {
  auto problem = make_line(2, [](int c, std::int64_t) { return RangeTime(c == 1 ? 100 : 1000); });
  problem.candidates[1].guard.alignment_bytes = 16;  // takes aligned addresses only, and is ten times as fast
  hold_out(problem, {7, 100, 3000});
  const auto ranges = split_ranges(problem);
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0].candidate, 1);
  EXPECT_EQ(ranges[0].guard.alignment_bytes, 16);
  EXPECT_EQ(ranges[1].candidate, 0);
  for (const ServedRange& r : ranges) {
    EXPECT_EQ(r.held_out, 3);
    EXPECT_DOUBLE_EQ(r.worst_loss, 0);
  }
}

TEST(Ranges, OneWinnerEverywhereIsOneRange) {
  auto problem = make_line(3, [](int c, std::int64_t v) { return (c == 1 ? 1.0 : 1.2) * static_cast<double>(v); });
  hold_out(problem, {3, 100});
  const auto ranges = split_ranges(problem);
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_EQ(ranges[0].candidate, 1);
  EXPECT_EQ(lo_of(ranges[0]), kLo);
  EXPECT_EQ(hi_of(ranges[0]), kHi);
  EXPECT_EQ(ranges[0].held_out, 2);
}

/// Fixed cost against slope: one is best below 300, the other above.
double crossing_cost(int c, std::int64_t v) {
  return c == 0 ? 10 + 1.0 * static_cast<double>(v) : 160 + 0.5 * static_cast<double>(v);
}

TEST(Ranges, SplitIsFoundNearTheCrossingAndLossesAreBounded) {
  auto problem = make_line(2, crossing_cost, {.refine_steps = 6});
  problem.held_out = choose_held_out(kTokens, problem.probes, 16, 5);
  const auto ranges = split_ranges(problem);
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0].candidate, 0);
  EXPECT_EQ(ranges[1].candidate, 1);
  EXPECT_EQ(hi_of(ranges[0]) + 1, lo_of(ranges[1]));
  EXPECT_GT(lo_of(ranges[1]), 150);
  EXPECT_LT(lo_of(ranges[1]), 600);
  for (const ServedRange& r : ranges) {
    EXPECT_LE(r.mean_loss, r.worst_loss);
    EXPECT_LT(r.worst_loss, 0.05);
  }
}

TEST(Ranges, SmallDifferencesDoNotSplit) {
  const auto curve = [](int c, std::int64_t v) { return static_cast<double>(v) * ((v < 100) == (c == 0) ? 1.0 : 1.01); };
  EXPECT_EQ(split_ranges(make_line(2, curve)).size(), 1u);
}

TEST(Ranges, NoVariantServesWhereItLosesToTheBaseline) {
  // The second is 4 % slower than the baseline at small sizes: worth no range by itself, but not within the baseline's.
  const auto curve = [](int c, std::int64_t v) { return static_cast<double>(v) * (c == 0 ? 1.0 : v < 10 ? 1.04 : 0.5); };
  const auto ranges = split_ranges(make_line(2, curve, {.baseline = 0, .baseline_loss = 0.02}));
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0].candidate, 0);
  EXPECT_EQ(ranges[1].candidate, 1);
}

TEST(Ranges, WhereTheIntervalsOverlapTheDoubtIsTheBaselines) {
  // 4 % slower than the baseline below 100, with intervals that say nothing, and twice as fast above.
  const auto curve = [](int c, std::int64_t v) {
    const double ns = 100 * (c == 0 ? 1.0 : v < 100 ? 1.04 : 0.5);
    return RangeTime(ns, ns * 0.9, ns * 1.1);
  };
  const auto ranges = split_ranges(make_line(2, curve, {.baseline = 0}));
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0].candidate, 0);
  EXPECT_EQ(ranges[1].candidate, 1);
}

TEST(Ranges, NoiseSplitsNothingAndLeavesTheBaseline) {
  const auto curve = [](int c, std::int64_t v) {
    const double wave = std::sin(static_cast<double>(v * 7 + c * 13));
    return RangeTime(100 * (1 + 0.1 * wave), 85, 115);
  };
  const auto ranges = split_ranges(make_line(3, curve, {.baseline = 2}));
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_EQ(ranges[0].candidate, 2);
}

TEST(Ranges, ACandidateThatNeedsMultiplesLiesOverTheGeneralOne) {
  auto problem = make_line(2, [](int c, std::int64_t v) { return static_cast<double>(v) * (c == 1 ? 0.7 : 1.0); });
  problem.candidates[1].guard.symbols = {{"n", 0, INT64_MAX, 8}};
  hold_out(problem, {24, 25});
  const auto ranges = split_ranges(problem);
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0].candidate, 1);
  EXPECT_EQ(ranges[0].guard.symbols.front().multiple_of, 8);
  EXPECT_EQ(ranges[0].held_out, 1);
  EXPECT_EQ(ranges[1].candidate, 0);
  EXPECT_EQ(ranges[1].held_out, 2);
  EXPECT_DOUBLE_EQ(ranges[1].worst_loss, 0) << "at 24 the other one serves, at 25 nobody is faster";
}

/// On a GPU the fast candidates take aligned addresses only; they share the sizes out among themselves.
TEST(Ranges, CandidatesThatNeedAlignmentAreCutIntoRangesToo) {
  const auto time = [](int c, std::int64_t v) { return RangeTime(c == 0 ? 10000 : c == 1 ? 100 : v < 600 ? 80 : 140); };
  for (const int baseline : {-1, 1}) {
    auto problem = make_line(3, time, {.baseline = baseline});
    problem.candidates[1].guard.alignment_bytes = problem.candidates[2].guard.alignment_bytes = 16;
    hold_out(problem, {3, 450, 700, 3000});
    const auto ranges = split_ranges(problem);
    ASSERT_EQ(ranges.size(), 3u);
    const bool first_is_low = lo_of(ranges[0]) == kLo;
    const ServedRange& low = ranges[first_is_low ? 0 : 1];
    const ServedRange& high = ranges[first_is_low ? 1 : 0];
    EXPECT_EQ(low.candidate, 2);
    EXPECT_EQ(high.candidate, 1);
    EXPECT_EQ(hi_of(low) + 1, lo_of(high));
    for (const ServedRange* r : {&low, &high}) EXPECT_EQ(r->guard.alignment_bytes, 16);
    EXPECT_EQ(ranges[2].candidate, 0);
    EXPECT_EQ(lo_of(ranges[2]), kLo);
    EXPECT_EQ(hi_of(ranges[2]), kHi);
  }
}

TEST(Ranges, AnAlignedBaselineStaysWhereOthersAreHardlyFaster) {
  auto problem = make_line(3, [](int c, std::int64_t) { return RangeTime(c == 0 ? 10000 : c == 1 ? 100 : 99.5); }, {.baseline = 1});
  problem.candidates[1].guard.alignment_bytes = problem.candidates[2].guard.alignment_bytes = 16;
  const auto ranges = split_ranges(problem);
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0].candidate, 1);
}

TEST(Ranges, HeldOutShapesThatLoseMoreThanASplitIsWorthAreTold) {
  auto problem = make_line(2, [](int c, std::int64_t v) { return RangeTime(c == 1 && v == 777 ? 80 : c == 1 ? 101 : 100); });
  hold_out(problem, {3, 777, 3000});
  EXPECT_EQ(list_losing(problem, split_ranges(problem)), (std::vector<Bindings>{{{"n", 777}}}));
}

/// As many variants as there are powers of four, each far the best around its own.
double many_best(int c, std::int64_t v) {
  return static_cast<double>(v) * (1 + 0.2 * std::abs(std::log2(static_cast<double>(v)) / 2 - c));
}

TEST(Ranges, NoMoreVariantsServeThanAreAllowed) {
  for (const int most : {1, 2, 4}) {
    const auto ranges = split_ranges(make_line(7, many_best, {.most_variants = most}));
    std::set<int> variants;
    for (const ServedRange& r : ranges) variants.insert(r.candidate);
    EXPECT_LE(static_cast<int>(variants.size()), most);
    EXPECT_EQ(hi_of(ranges.back()), kHi);
  }
  EXPECT_GE(split_ranges(make_line(7, many_best, {.most_variants = 7})).size(), 5u) << "all that pay may serve";
}

TEST(Ranges, TheOneVariantAllowedIsTheOneForTheShapesInUse) {
  auto problem = make_line(7, many_best, {.most_variants = 1});
  problem.weights = weigh_probes(kTokens, problem.probes, {{{{"n", 4000}}, 100}, {{{"n", 16}}, 3}});
  EXPECT_EQ(split_ranges(problem).front().candidate, 6) << "made for 4096";
  problem.weights = weigh_probes(kTokens, problem.probes, {{{{"n", 4000}}, 3}, {{{"n", 16}}, 100}});
  EXPECT_EQ(split_ranges(problem).front().candidate, 2) << "made for 16";
}

TEST(Ranges, ABoxOfTwoSymbolsIsCutWhereTheWinnersChange) {
  // The second wins where there are many rows, the third where there are few rows and many columns.
  const std::vector<Symbol> box = {{"rows", 1, 1024}, {"columns", 1, 4096}};
  const auto cost = [](int c, const Bindings& shape) {
    const int best = shape.at("rows") >= 64 ? 1 : shape.at("columns") >= 512 ? 2 : 0;
    return RangeTime(c == best ? 100 : 150);
  };
  auto problem = make_problem(box, 3, 20, cost, {.refine_steps = 8});
  problem.held_out = choose_held_out(box, problem.probes, 40, 1);
  const auto ranges = split_ranges(problem);
  ASSERT_EQ(ranges.size(), 3u);
  double lost = 0;
  for (const ServedRange& r : ranges) lost += r.mean_loss * static_cast<double>(r.held_out);
  EXPECT_LT(lost / 40, 0.05) << "one range would lose 0.3 in the mean";
}

/// A product of rows x columns in tiles: whole tiles are computed, large ones use each value more often, and workers are
/// idle while the last wave of tiles is not full.
RangeTime tiled_time(int c, double rows, double columns) {
  const double heights[] = {16, 32, 64, 128, 64, 128}, widths[] = {32, 64, 64, 128, 256, 256};
  const double tiles = std::ceil(rows / heights[c]) * std::ceil(columns / widths[c]);
  const double tile_ns = 20 + heights[c] * widths[c] * (0.02 + 0.3 * (1 / heights[c] + 1 / widths[c]));
  return 500 + std::ceil(tiles / 16) * tile_ns;
}

/// What serving by `serve` loses against the best at each of some 200 shapes that were not measured, from small to large.
std::vector<double> list_losses(const RangeProblem& problem, const std::function<int(const Bindings&)>& serve) {
  std::vector<double> losses;
  for (const Bindings& shape : choose_held_out(problem.symbols, problem.probes, 200, 7)) {
    double best = kInfinity;
    for (int c = 0; c < static_cast<int>(problem.candidates.size()); ++c) best = std::min(best, problem.cost(c, shape).median);
    losses.push_back(problem.cost(serve(shape), shape).median / best - 1);
  }
  std::sort(losses.begin(), losses.end());
  return losses;
}
double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return sum / static_cast<double>(values.size());
}

TEST(Ranges, LossesAtShapesThatNobodyMeasuredAreSmall) {
  const std::vector<Symbol> plane = {{"batch", 1, 256}, {"tokens", 1, 2048}};
  for (const auto& box : {kTokens, plane}) {
    const bool is_line = box.size() == 1;
    const auto cost = [is_line](int c, const Bindings& s) {
      return is_line ? tiled_time(c, static_cast<double>(s.at("n")), 2048) : tiled_time(c, static_cast<double>(s.at("tokens")), 4 * static_cast<double>(s.at("batch")));
    };
    const auto problem = make_problem(box, 6, is_line ? 12 : 20, cost, {.baseline = 2});
    const auto ranges = split_ranges(problem);
    const auto losses = list_losses(problem, [&](const Bindings& shape) {
      return std::find_if(ranges.begin(), ranges.end(), [&](const ServedRange& r) { return r.guard.holds(shape); })->candidate;
    });
    double alone = kInfinity;
    for (int c = 0; c < 6; ++c) alone = std::min(alone, mean_of(list_losses(problem, [c](const Bindings&) { return c; })));
    EXPECT_LE(mean_of(losses), 0.03);
    EXPECT_LT(mean_of(losses), 0.5 * alone) << "what the best single one loses";
    EXPECT_LE(losses[losses.size() * 95 / 100], is_line ? 0.08 : 0.16) << "where a wave ends there are steps between any two probes";
    EXPECT_LE(losses.back(), is_line ? 0.15 : 0.30);
  }
}

/// Ranges that serve this shape, none of which lies over others.
int count_serving(const std::vector<ServedRange>& ranges, const Bindings& shape, const std::vector<RangeCandidate>& candidates) {
  int count = 0;
  for (const ServedRange& r : ranges) count += candidates[r.candidate].guard.symbols.empty() && r.guard.holds(shape) ? 1 : 0;
  return count;
}

TEST(Ranges, EveryPointOfTheBoxIsInOneRangeWhateverTheCosts) {
  const std::vector<std::vector<Symbol>> boxes = {
      {{"n", 1, 600}}, {{"b", 1, 40}, {"t", 3, 50}}, {{"z", 2, 12}, {"a", 1, 9}, {"m", 5, 17}}, {{"b", 0, 7}, {"t", 4, 4}}};
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    const std::vector<Symbol>& box = boxes[seed % boxes.size()];
    const auto cost = [seed](int c, const Bindings& shape) {
      double angle = static_cast<double>(seed * 7 + static_cast<std::uint64_t>(c) * 13);
      for (const auto& [name, value] : shape) angle += std::log(static_cast<double>(value + 1)) * (1 + c) * (name[0] % 3 + 1);
      return RangeTime(1.3 + 0.3 * std::sin(angle));
    };
    auto problem = make_problem(box, 5, 16, cost, {.baseline = static_cast<int>(seed % 3) - 1});
    problem.candidates[4].guard.symbols = {{box[0].name, 0, INT64_MAX, 4}};
    const auto ranges = split_ranges(problem);
    Bindings shape;
    const std::function<void(std::size_t)> visit = [&](std::size_t axis) {
      if (axis == box.size()) {
        ASSERT_EQ(count_serving(ranges, shape, problem.candidates), 1) << "seed " << seed;
        return;
      }
      for (std::int64_t v = box[axis].lo; v <= box[axis].hi; ++v) shape[box[axis].name] = v, visit(axis + 1);
    };
    visit(0);
    // Around every border: the first whose guard holds is one whose code takes the shape, and outside the box nobody serves.
    for (const ServedRange& r : ranges) {
      for (const SymbolGuard& g : r.guard.symbols) {
        for (const std::int64_t v : {g.lo - 1, g.lo, g.lo + 1, g.hi - 1, g.hi, g.hi + 1}) {
          Bindings at;
          for (const SymbolGuard& other : r.guard.symbols) at[other.name] = other.lo;
          at[g.name] = v;
          const auto first = std::find_if(ranges.begin(), ranges.end(), [&](const ServedRange& o) { return o.guard.holds(at); });
          const Symbol& symbol = *std::find_if(box.begin(), box.end(), [&](const Symbol& s) { return s.name == g.name; });
          ASSERT_EQ(first != ranges.end(), v >= symbol.lo && v <= symbol.hi);
          if (first != ranges.end()) {
            ASSERT_TRUE(problem.candidates[first->candidate].guard.holds(at));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace loopwright::tuner
