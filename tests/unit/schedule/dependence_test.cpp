// Which loops carry a dependence.
#include "src/schedule/dependence.h"

#include <gtest/gtest.h>

#include "src/ir/text.h"
#include "src/schedule/site.h"

namespace loopwright::schedule {
namespace {

/// `body` with x and y of 100 x 100 and a vector v, all read and written.
ir::Kernel kernel(const std::string& body) {
  auto k = ir::parse_kernel(
      "kernel k(x: f32[100, 100] in, p: i64[100] in, v: f32[10000] inout, y: f32[100, 100] inout)\n"
      "  symbol m in 0..64\n  symbol n in 0..64\n  level naive\n" +
      body);
  LW_BUG_IF(!k.ok(), k.error().message());
  return *k;
}

bool carries(const std::string& body, const std::string& loop) {
  const ir::Kernel k = kernel(body);
  const auto site = find_loop(k, loop);
  LW_BUG_IF(!site, "no loop");
  return find_carried(site->stmt(), facts_before(k, *site)).has_value();
}

TEST(Dependence, distinct_elements_are_independent) {
  EXPECT_FALSE(carries("  for i in 0..n\n    v[i] = 1.0f32\n", "i"));
  EXPECT_FALSE(carries("  for i in 0..n\n    v[3*i + 7] = v[3*i + 7] + 1.0f32\n", "i"));
  EXPECT_FALSE(carries("  for i in 0..n\n    for j in 0..m\n      y[j, i] = x[i, j]\n", "i"));
}

TEST(Dependence, the_same_element_is_not) {
  EXPECT_TRUE(carries("  for i in 0..n\n    v[0] = 1.0f32\n", "i"));
  EXPECT_TRUE(carries("  for i in 0..n\n    update sum v[5] by 1.0f32\n", "i"));
  EXPECT_TRUE(carries("  for i in 0..n\n    for j in 0..m\n      update sum v[j] by x[i, j]\n", "i"));
  EXPECT_FALSE(carries("  for i in 0..n\n    for j in 0..m\n      update sum v[j] by x[i, j]\n", "j"));
}

TEST(Dependence, a_single_iteration_has_no_other_to_conflict_with) {
  EXPECT_FALSE(carries("  for i in 0..1\n    v[0] = 1.0f32\n", "i"));
  EXPECT_TRUE(carries("  for i in 0..2\n    v[0] = 1.0f32\n", "i"));
}

TEST(Dependence, shifted_accesses_conflict) {
  EXPECT_TRUE(carries("  for i in 0..n\n    v[i + 1] = v[i]\n", "i"));
  EXPECT_FALSE(carries("  for i in 0..n\n    v[2*i + 1] = v[2*i]\n", "i"));
  EXPECT_FALSE(carries("  for i in 0..50\n    v[i + 50] = v[i]\n", "i"));
  EXPECT_TRUE(carries("  for i in 0..51\n    v[i + 50] = v[i]\n", "i"));
}

TEST(Dependence, digits_of_a_split_are_distinct_in_any_order) {
  EXPECT_FALSE(carries("  for a in 0..9\n    for b in 0..8\n      v[a*8 + b] = 1.0f32\n", "a"));
  EXPECT_FALSE(carries("  for b in 0..8\n    for a in 0..9\n      v[a*8 + b] = 1.0f32\n", "b"));
  EXPECT_FALSE(carries(
      "  for b in 0..4\n    for c in 0..5\n      for a in 0..9\n        v[a*20 + b*5 + c] = 1.0f32\n", "b"));
  EXPECT_TRUE(carries("  for b in 0..9\n    for a in 0..9\n      v[a*8 + b] = 1.0f32\n", "b"));
  EXPECT_TRUE(carries("  for a in 0..9\n    for b in 0..9\n      v[a*8 + b] = 1.0f32\n", "a"));
}

TEST(Dependence, quotient_and_remainder_identify_the_iteration) {
  EXPECT_FALSE(carries("  for f in 0..n*7\n    y[floor_div(f, 7), mod(f, 7)] = 1.0f32\n", "f"));
  EXPECT_FALSE(carries("  for f in 0..n*m\n    y[floor_div(f, m), mod(f, m)] = 1.0f32\n", "f"));
  EXPECT_FALSE(
      carries("  for g in 0..20\n    for h in 0..8\n      if g*8 + h < n*2\n        y[floor_div(g*8 + h, 2), "
              "mod(g*8 + h, 2)] = 1.0f32\n",
              "g"));
  EXPECT_TRUE(carries("  for f in 0..n*7\n    y[floor_div(f, 7), mod(f, 6)] = 1.0f32\n", "f"));
  EXPECT_TRUE(carries("  for f in 0..n*7\n    y[0, mod(f, 7)] = 1.0f32\n", "f"));
}

TEST(Dependence, one_dimension_that_settles_it_is_enough) {
  EXPECT_FALSE(carries("  for i in 0..n\n    for j in 0..m\n      y[i, p[j]] = 1.0f32\n", "i"));
  EXPECT_TRUE(carries("  for i in 0..n\n    y[p[i], 0] = 1.0f32\n", "i"));
  EXPECT_FALSE(carries("  for i in 0..n\n    y[i, 0] = y[i, p[i]]\n", "i"));
}

TEST(Dependence, an_index_from_memory_that_changes_says_nothing) {
  EXPECT_FALSE(carries("  for i in 0..n\n    v[p[0] + i] = 1.0f32\n", "i"));
  const auto k = ir::parse_kernel(
      "kernel k(q: i64[100] inout)\n  level naive\n  for i in 0..50\n    q[q[99] + i] = i\n");
  ASSERT_TRUE(k.ok()) << k.error().message();
  const auto site = find_loop(*k, "i");
  EXPECT_TRUE(find_carried(site->stmt(), facts_before(*k, *site)).has_value());
}

TEST(Dependence, memory_of_the_iteration_does_not_count) {
  EXPECT_FALSE(
      carries("  for i in 0..n\n    alloc t: f32[1] registers\n    t[0] = x[i, 0]\n    v[i] = t[0]\n", "i"));
}

TEST(Dependence, reads_alone_never_conflict) {
  EXPECT_FALSE(carries("  for i in 0..n\n    v[i] = x[0, 0] + x[p[i], p[0]]\n", "i"));
}

}  // namespace
}  // namespace loopwright::schedule
