// Which box of a buffer a loop body uses.
#include "src/schedule/region.h"

#include <gtest/gtest.h>

#include "src/ir/text.h"
#include "src/schedule/site.h"

namespace loopwright::schedule {
namespace {

/// The region of x[90, n] that the body of loop `at` reads.
std::string region(const std::string& body, bool* exact = nullptr) {
  auto k = ir::parse_kernel(
      "kernel k(x: f32[90, n] in, p: i64[90] in, y: f32[100000] out)\n  symbol n in 1..64\n  level naive\n" +
      body);
  LW_BUG_IF(!k.ok(), k.error().message());
  const auto site = find_loop(*k, "at");
  const ir::Facts facts = facts_inside(*k, *site);
  const Region r = region_of(collect_accesses(site->loop().body), {k->params[0].buffer}, facts, true);
  if (exact) *exact = r[0].exact && r[1].exact;
  std::string out = text(r);
  for (const Range& d : r) out += d.whole ? " whole" : d.exceeds ? " exceeds" : " inside";
  return out;
}

TEST(Region, loops_inside_span_and_loops_outside_place) {
  bool exact = false;
  EXPECT_EQ(
      region("  for at in 0..9\n    for i in 0..10\n      for j in 0..n\n        y[0] = x[at*10 + i, j]\n",
             &exact),
      "[at*10 .. +10, 0 .. +n] inside whole");
  EXPECT_TRUE(exact);
}

TEST(Region, a_guarded_tile_keeps_its_constant_extent) {
  bool exact = false;
  EXPECT_EQ(
      region("  for at in 0..12\n    for i in 0..8\n      if at*8 + i < 90\n        y[0] = x[at*8 + i, 0]\n",
             &exact),
      "[at*8 .. +8, 0 .. +1] exceeds inside");
  EXPECT_TRUE(exact);
}

TEST(Region, a_guard_bounds_what_tiles_inside_overshoot) {
  EXPECT_EQ(region("  for at in 0..90\n    for a in 0..floor_div(n + 7, 8)\n      for b in 0..8\n        if "
                   "a*8 + b < n\n          y[0] = x[at, a*8 + b]\n"),
            "[at .. +1, 0 .. +n] inside whole");
}

TEST(Region, neighbours_join_into_one_box) {
  EXPECT_EQ(
      region("  for at in 0..11\n    for i in 0..8\n      y[0] = x[at*8 + i, 0] + x[at*8 + i + 2, 0]\n"),
      "[at*8 .. +10, 0 .. +1] inside inside");
}

TEST(Region, steps_leave_gaps) {
  bool exact = true;
  EXPECT_EQ(region("  for at in 0..9\n    for i in 0..5\n      y[0] = x[at*10 + i*2, 0]\n", &exact),
            "[at*10 .. +9, 0 .. +1] inside inside");
  EXPECT_FALSE(exact);
}

TEST(Region, the_same_loop_in_two_dimensions_is_a_diagonal) {
  bool exact = true;
  EXPECT_EQ(region("  for at in 0..2\n    for i in 0..n\n      y[0] = x[i, i]\n", &exact),
            "[0 .. +n, 0 .. +n] inside whole");
  EXPECT_FALSE(exact);
}

TEST(Region, reversed_and_data_dependent_indices) {
  EXPECT_EQ(region("  for at in 0..9\n    for i in 0..10\n      y[0] = x[89 - at*10 - i, 0]\n"),
            "[80 - at*10 .. +10, 0 .. +1] inside inside");
  EXPECT_EQ(region("  for at in 0..9\n    for i in 0..10\n      y[0] = x[p[i], 0]\n"),
            "[0 .. +90, 0 .. +1] whole inside");
}

TEST(Region, a_part_that_may_point_below_the_buffer_takes_all_of_it) {
  EXPECT_EQ(region("  for at in 0..9\n    for i in 0..10\n      y[0] = select(2 <= at*10 + i, x[at*10 + i - "
                   "2, 0], 0.0f32)\n"),
            "[0 .. +90, 0 .. +1] whole inside");
}

TEST(Region, unrelated_places_take_all_of_the_dimension) {
  EXPECT_EQ(region("  for at in 0..9\n    y[0] = x[at, 0] + x[p[0], 0]\n"),
            "[0 .. +90, 0 .. +1] whole inside");
  EXPECT_EQ(region("  for at in 0..9\n    y[0] = x[at, 0] + x[at*3, 0]\n"),
            "[0 .. +90, 0 .. +1] whole inside");
}

}  // namespace
}  // namespace loopwright::schedule
