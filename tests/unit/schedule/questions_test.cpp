// What a schedule's author sees of a kernel.
#include <gtest/gtest.h>

#include "loopwright/schedule.h"
#include "src/ir/text.h"

namespace loopwright {
namespace {

constexpr const char* kProduct =
    R"(kernel mm(a: f32[m, 64] in, b: f32[64, n] in, bias: f32[n] in, y: f32[m, n] out)
  symbol m in 1..40
  symbol n in 0..100
  level naive
  alloc acc: f32[m, n] global
  for z_0 in 0..m
    for z_1 in 0..n
      acc[z_0, z_1] = 0.0f32
  for i in 0..m
    for j in 0..n
      for r in 0..64
        update sum acc[i, j] by a[i, r]*b[r, j]
  for y_0 in 0..m
    for y_1 in 0..n
      y[y_0, y_1] = acc[y_0, y_1] + bias[y_1]
)";

Schedule product() {
  auto k = ir::parse_kernel(kProduct);
  LW_BUG_IF(!k.ok(), k.error().message());
  return Schedule(*k, Target{});
}

std::string names(const std::vector<LoopId>& loops) {
  std::string out;
  for (const LoopId& l : loops) out += (out.empty() ? "" : " ") + l.name;
  return out;
}

TEST(Questions, nests_say_what_each_does) {
  const Schedule s = product();
  const std::vector<NestInfo> nests = s.nests();
  ASSERT_EQ(nests.size(), 3u);
  EXPECT_TRUE(nests[0].is_init);
  EXPECT_FALSE(nests[0].is_update);
  EXPECT_TRUE(nests[1].is_update);
  EXPECT_EQ(nests[1].monoid, "sum");
  EXPECT_EQ(names(nests[1].spatial), "i j");
  EXPECT_EQ(names(nests[1].reduction), "r");
  ASSERT_EQ(nests[1].reads.size(), 2u);
  EXPECT_EQ(nests[1].reads[1].buffer, "b");
  EXPECT_EQ(nests[1].reads[1].dims, (std::vector<std::string>{"r", "j"}));
  EXPECT_TRUE(nests[1].is_product);
  EXPECT_TRUE(nests[2].writes_output);
  EXPECT_FALSE(nests[2].is_init);
  EXPECT_FALSE(nests[2].is_product);
}

TEST(Questions, products_are_of_elements_as_they_are_or_cast) {
  const auto is_product = [](const std::string& factor) {
    auto k = ir::parse_kernel("kernel dot(a: bf16[64] in, b: f32[64] in, y: f32[1] out)\n  level naive\n  y[0] = 0.0f32\n  for r in 0..64\n    update sum y[0] by " + factor + "*b[r]\n");
    LW_BUG_IF(!k.ok(), k.error().message());
    return Schedule(*k, Target{}).nests().back().is_product;
  };
  EXPECT_TRUE(is_product("f32(a[r])"));
  EXPECT_FALSE(is_product("exp(f32(a[r]))"));
  EXPECT_FALSE(is_product("2.0f32"));
}

TEST(Questions, a_copy_takes_steps_of_its_own) {
  const Schedule s = product();
  Schedule other = s.copy();
  other.split({"r"}, {16});
  EXPECT_TRUE(other.ok());
  EXPECT_EQ(names(s.loops("acc")), "i j r");
  EXPECT_EQ(names(other.loops("acc")), "i j r_o r_i");
  EXPECT_EQ(other.trace(), "trace 1\nsplit r by 16 tail guard -> r_o r_i\n");
}

TEST(Questions, reads_that_are_not_plain_have_no_loop) {
  Schedule s = product();
  s.split({"r"}, {16});
  EXPECT_EQ(s.nests()[1].reads[0].dims, (std::vector<std::string>{"i", ""}));
}

TEST(Questions, loops_are_those_of_the_updating_nest) {
  const Schedule s = product();
  EXPECT_EQ(names(s.loops("acc")), "i j r");
  EXPECT_EQ(names(s.loops("y")), "y_0 y_1");
  EXPECT_TRUE(s.loops("a").empty());
}

TEST(Questions, loops_around_an_allocation_do_not_belong_to_its_nests) {
  Schedule s = product();
  s.compute_at("acc", {"y_0"}, Place::shared);
  ASSERT_TRUE(s.ok()) << s.error().message();
  EXPECT_EQ(names(s.loops("acc")), "i j r");
  EXPECT_EQ(names(s.loops("y")), "y_0 y_1");
  EXPECT_EQ(names(s.children({"y_0"})), "z_0 i y_1");
}

TEST(Questions, extents_and_shapes) {
  const Schedule s = product();
  EXPECT_EQ(s.max_extent({"i"}), 40);
  EXPECT_EQ(s.constant_extent({"r"}), 64);
  EXPECT_EQ(s.constant_extent({"i"}), std::nullopt);
  EXPECT_EQ(names(s.children({})), "z_0 i y_0");
  const BufferShape a = s.buffer("a");
  ASSERT_EQ(a.shape.size(), 2u);
  EXPECT_EQ(a.shape[0].text(), "m");
  EXPECT_EQ(a.shape[1].constant(), 64);
  EXPECT_TRUE(a.is_param);
  EXPECT_TRUE(a.is_dense);
  EXPECT_FALSE(s.buffer("acc").is_param);
}

TEST(Questions, a_rejection_empties_every_answer) {
  Schedule s = product();
  s.unroll({"i"});
  ASSERT_FALSE(s.ok());
  EXPECT_EQ(s.error().code, ErrorCode::illegal_unroll);
  EXPECT_NE(s.error().where.find("step 1"), std::string::npos) << s.error().message();
  EXPECT_TRUE(s.nests().empty());
  EXPECT_TRUE(s.loops("acc").empty());
  EXPECT_TRUE(s.split({"j"}, {4}).empty());
  EXPECT_EQ(s.trace(), "trace 1\n");
}

TEST(Schedule, attempt_keeps_nothing_of_what_is_rejected) {
  Schedule s = product();
  const std::string before = s.trace();
  EXPECT_FALSE(s.attempt([](Schedule& t) {
    t.split({"i"}, {4});
    t.unroll({"j"});
  }));
  EXPECT_TRUE(s.ok());
  EXPECT_EQ(s.trace(), before);
  EXPECT_TRUE(s.attempt([](Schedule& t) { t.split({"i"}, {4}); }));
  EXPECT_EQ(names(s.loops("acc")), "i_o i_i j r");
}

TEST(Schedule, a_requirement_stops_the_template) {
  Schedule s = product();
  s.reject("too many rows");
  s.split({"i"}, {4});
  ASSERT_FALSE(s.ok());
  EXPECT_EQ(s.error().code, ErrorCode::requirement_failed);
  EXPECT_EQ(s.error().found, "too many rows");
}

TEST(Schedule, loops_that_share_a_hint_get_names_of_their_own) {
  auto k = ir::parse_kernel(kProduct);
  ASSERT_TRUE(k.ok());
  const ir::Var i = ir::fresh_var("i");
  ir::Kernel twice = *k;
  const ir::Buffer y = k->params[3].buffer;
  twice.body =
      ir::seq({k->body, ir::loop(i, y->shape[0], ir::loop(ir::fresh_var("j"), ir::int_imm(0), ir::seq({})))});
  const Schedule s(twice, Target{});
  EXPECT_EQ(s.max_extent({"i_2"}), 40);
}

}  // namespace
}  // namespace loopwright
