#include "tuner/values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "src/graph/naive_kernel.h"
#include "tuner/case.h"
#include "tuner/probes.h"
#include "tuner/tolerance.h"

namespace loopwright::tuner {
namespace {

TEST(Values, ElementsOfEveryDtypeReadBackRounded) {
  std::uint8_t memory[8];
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    write_element(dtype, memory, 0, -1.5);
    EXPECT_EQ(read_element(dtype, memory, 0), -1.5) << name(dtype);
  }
  write_element(DType::f16, memory, 0, 1.0 + 0x1p-11);
  EXPECT_EQ(read_element(DType::f16, memory, 0), 1.0) << "ties go to even";
  write_element(DType::f16, memory, 0, 65519);
  EXPECT_EQ(read_element(DType::f16, memory, 0), 65504);
  write_element(DType::f16, memory, 0, 0x1p-24);
  EXPECT_EQ(read_element(DType::f16, memory, 0), 0x1p-24) << "subnormal";
  write_element(DType::bf16, memory, 0, 1.0 + 0x1p-8);
  EXPECT_EQ(read_element(DType::bf16, memory, 0), 1.0);
  write_element(DType::i8, memory, 0, -7);
  EXPECT_EQ(read_element(DType::i8, memory, 0), -7);
}

TEST(Values, NormalDrawsHaveTheStatedMean) {
  std::vector<float> data(20000);
  fill_random(DType::f32, data.data(), static_cast<std::int64_t>(data.size()), Draw::normal, 3);
  double sum = 0, squares = 0;
  for (const float x : data) sum += x, squares += x * x;
  const double mean = sum / 20000;
  EXPECT_NEAR(mean, 0.25, 0.05);
  EXPECT_NEAR(std::sqrt(squares / 20000 - mean * mean), 1, 0.05);
  fill_random(DType::f32, data.data(), 20000, Draw::positive, 3);
  for (const float x : data) EXPECT_TRUE(x >= 0.125f && x < 1.0f);
}

TEST(Values, IndexInputsStayInsideWhatTheyIndex) {
  Graph g("lookup");
  const Dim n = *g.symbol("n", 1, 100);
  const Value table = *g.input("table", {.dtype = DType::f32, .shape = {50, 8}});
  const Value ids = *g.input("ids", {.dtype = DType::i64, .shape = {n}});
  const Value other = *g.input("other", {.dtype = DType::i64, .shape = {n}});
  const auto rows = g.apply("embedding", {table, ids});
  ASSERT_TRUE(rows.ok()) << rows.error().message();
  ASSERT_TRUE(g.output("rows", *rows).ok());
  ASSERT_TRUE(g.output("sum", *g.binary("add", other, other)).ok());
  const auto naive = graph::naive_kernel(g);
  ASSERT_TRUE(naive.ok());
  const auto ranges = find_index_ranges(*naive, {{"n", 10}});
  ASSERT_TRUE(ranges.contains("ids"));
  EXPECT_EQ(ranges.at("ids").lo, 0);
  EXPECT_EQ(ranges.at("ids").hi, 50);
  EXPECT_FALSE(ranges.contains("other"));
}

TEST(Values, OffsetsOfGroupsAreInOrderAndEndAtTheLastRow) {
  Graph g("experts");
  const Dim n = *g.symbol("n", 1, 1000);
  const Value ends = *g.input("ends", {.dtype = DType::i32, .shape = {64}});
  const Value group = *g.apply("group_of", {ends}, {{"shape", std::vector<Dim>{n}}});
  ASSERT_TRUE(g.output("group", group).ok());
  const auto ranges = find_index_ranges(*graph::naive_kernel(g), {{"n", 256}});
  ASSERT_TRUE(ranges.contains("ends"));
  const IntegerRange range = ranges.at("ends");
  EXPECT_TRUE(range.ends);
  std::vector<std::int32_t> data(64);
  fill_random(DType::i32, data.data(), 64, Draw::normal, 5, &range);
  EXPECT_EQ(data.back(), 256);
  EXPECT_TRUE(std::is_sorted(data.begin(), data.end()));
  EXPECT_GE(data.front(), 0);
  std::set<int> counts;
  for (std::size_t i = 1; i < data.size(); ++i) counts.insert(data[i] - data[i - 1]);
  EXPECT_GE(counts.size(), 5u) << "groups of different sizes";
  EXPECT_LE(*counts.rbegin(), 9) << "twice the mean, rounded";
}

TEST(Values, PoisonsDiffer) {
  std::uint8_t a[4], b[4];
  fill_poison(DType::f32, a, 4, false);
  fill_poison(DType::f32, b, 4, true);
  EXPECT_TRUE(std::isnan(read_element(DType::f32, a, 0)));
  EXPECT_NE(a[0], b[0]);
}

TEST(Tolerance, GrowsWithTheReductionAndIsExactForIntegers) {
  const auto make = [](std::int64_t k) {
    Graph g("sum");
    const Value x = *g.input("x", {.dtype = DType::f32, .shape = {4, k}});
    const Value y = *g.reduce("sum", x, {1}, false);
    return find_tolerance(g, y, {}).relative;
  };
  EXPECT_GT(make(4096), 3 * make(16));
  EXPECT_LT(make(4096), 1e-3);
  Graph g("ints");
  const Value x = *g.input("x", {.dtype = DType::i32, .shape = {4}});
  EXPECT_EQ(find_tolerance(g, *g.binary("add", x, x), {}).text(), "exact");
}

TEST(Tolerance, OfTf32TakesItsRoundingOfF32ProductsAndNoMore) {
  const auto make = [](DType dtype, Accuracy accuracy) {
    Graph g("product");
    g.allow(accuracy);
    const Value x = *g.input("x", {.dtype = dtype, .shape = {4, 4096}}),
                w = *g.input("w", {.dtype = dtype, .shape = {4096, 4}});
    return find_tolerance(g, *g.matmul(x, w), {});
  };
  const std::vector<double> exact(16, 1000);
  const auto passes = [&](float found, Accuracy accuracy) {
    std::vector<float> values(16, 1000);
    values[7] = found;
    return compare_output(DType::f32, values.data(), {}, exact, {}, make(DType::f32, accuracy)).passed;
  };
  EXPECT_TRUE(passes(1001, Accuracy::tf32));
  EXPECT_FALSE(passes(1001, Accuracy::strict));
  EXPECT_FALSE(passes(1020, Accuracy::tf32));
  EXPECT_EQ(make(DType::bf16, Accuracy::tf32).relative, make(DType::bf16, Accuracy::strict).relative);
}

TEST(Tolerance, WhatTheTypeCannotTellFromZeroPassesAndNormalNumbersAreHeldToIt) {
  Graph g("tiny");
  const Value x = *g.input("x", {.dtype = DType::f32, .shape = {4}});
  const Tolerance tolerance = find_tolerance(g, *g.unary("exp", x), {});
  const std::vector<double> tiny(4, std::exp(-120));
  std::vector<float> found(4, 0);
  EXPECT_TRUE(compare_output(DType::f32, found.data(), {}, tiny, {}, tolerance).passed);
  EXPECT_EQ(compare_output(DType::f32, found.data(), {}, tiny, {}, tolerance).max_rel, 0);
  found[2] = 1e-35f;
  EXPECT_FALSE(compare_output(DType::f32, found.data(), {}, tiny, {}, tolerance).passed);
  const std::vector<double> small(4, 1e-35);
  found.assign(4, 1e-35f);
  EXPECT_TRUE(compare_output(DType::f32, found.data(), {}, small, {}, tolerance).passed);
  found[1] = 0;
  EXPECT_FALSE(compare_output(DType::f32, found.data(), {}, small, {}, tolerance).passed);
}

TEST(Tolerance, AnElementInDoubtMayDifferByItsDoubtAndNoOther) {
  const std::vector<double> expected(100, 7);
  std::vector<double> doubt(100, 0);
  doubt[3] = 1;
  std::vector<std::int64_t> found(100, 7);
  found[3] = 8;
  EXPECT_TRUE(compare_output(DType::i64, found.data(), {}, expected, doubt, {}).passed);
  found[3] = 9;
  EXPECT_FALSE(compare_output(DType::i64, found.data(), {}, expected, doubt, {}).passed);
  found[3] = 7, found[5] = 8;
  EXPECT_FALSE(compare_output(DType::i64, found.data(), {}, expected, doubt, {}).passed);
}

TEST(Tolerance, ATileOfWrongElementsFailsAndRoundingPasses) {
  std::vector<double> expected(1000);
  std::vector<float> found(1000);
  for (int i = 0; i < 1000; ++i) expected[i] = std::sin(i), found[i] = static_cast<float>(expected[i]);
  const Tolerance tolerance{.relative = 1e-6};
  EXPECT_TRUE(compare_output(DType::f32, found.data(), {}, expected, {}, tolerance).passed);
  for (int i = 40; i < 48; ++i) found[i] += 0.01f;
  const Deviation d = compare_output(DType::f32, found.data(), {}, expected, {}, tolerance);
  EXPECT_FALSE(d.passed);
  EXPECT_EQ(d.outside, 8);
  EXPECT_EQ(d.first, 40);
  found.assign(1000, NAN);
  EXPECT_FALSE(compare_output(DType::f32, found.data(), {}, expected, {}, tolerance).passed);
}

TEST(Tolerance, OverflowOfTheTypeIsNoError) {
  std::vector<double> expected{1e6, 1.0};
  std::uint8_t memory[4];
  write_element(DType::f16, memory, 0, INFINITY);
  write_element(DType::f16, memory, 1, 1.0);
  EXPECT_TRUE(compare_output(DType::f16, memory, {}, expected, {}, {.relative = 1e-3}).passed);
  write_element(DType::f16, memory, 0, -INFINITY);
  EXPECT_FALSE(compare_output(DType::f16, memory, {}, expected, {}, {.relative = 1e-3}).passed);
}

TEST(Case, BuffersLieBetweenKnownBytesAndForbiddenPages) {
  std::uint64_t next = 0;
  const GuardedBuffer exact = place_buffer(next, 12, 4, Placement::exact);
  EXPECT_EQ(exact.data + exact.bytes, exact.zone_after);
  EXPECT_GE(exact.data - exact.front, kCanaryBytes);
  const GuardedBuffer aligned = place_buffer(next, 12, 4, Placement::aligned);
  EXPECT_EQ(aligned.data % 64, 0u);
  EXPECT_GE(aligned.zone_before, exact.zone_after);
  Arena arena;
  ASSERT_TRUE(arena.create(64 << 20));
  paint_canaries(arena, aligned);
  EXPECT_FALSE(find_broken_canary(arena, aligned).has_value());
  *arena.at(aligned.data + 12) = 0;
  EXPECT_EQ(find_broken_canary(arena, aligned), 12);
  *arena.at(aligned.data - 1) = 0;
  EXPECT_EQ(find_broken_canary(arena, aligned), -1);
}

TEST(Case, PositionsFollowStrides) {
  EXPECT_TRUE(list_positions({3, 4}, {4, 1}).empty());
  EXPECT_EQ(list_positions({2, 2}, {1, 2}), (std::vector<std::int64_t>{0, 2, 1, 3}));
  EXPECT_EQ(count_span({400, 400}, {800, 2}), 399 * 800 + 399 * 2 + 1);
  EXPECT_EQ(count_span({0, 4}, {4, 1}), 0);
}

TEST(Probes, LowestValueIsVerifiedAndTheMainProbeComesLast) {
  const ProbePlan plan = plan_probes({{"tokens", 1, 8192}}, {});
  EXPECT_EQ(plan.search.size(), 3u);
  EXPECT_EQ(plan.verify.front().at("tokens"), 1);
  EXPECT_EQ(plan.verify.back(), plan.search.front());
  const ProbePlan asked = plan_probes({{"tokens", 1, 8192}}, {{{"tokens", 4096}}});
  EXPECT_EQ(asked.search.front().at("tokens"), 4096);
  EXPECT_EQ(plan_probes({}, {}).search.size(), 1u);
  const auto two = plan_probes({{"batch", 1, 4096}, {"tokens", 1, 4096}}, {}).search;
  ASSERT_EQ(two.size(), 5u);
  EXPECT_EQ(two[0], (Bindings{{"batch", 16}, {"tokens", 16}}));
  EXPECT_EQ(two[3], (Bindings{{"batch", 2048}, {"tokens", 1}}));
  EXPECT_EQ(two[4], (Bindings{{"batch", 1}, {"tokens", 2048}}));
  EXPECT_EQ(plan_probes({{"a", 5, 5}}, {}).verify.size(), 1u);
}

}  // namespace
}  // namespace loopwright::tuner
