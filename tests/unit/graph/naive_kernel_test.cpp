// The names and nests that schedules rely on, and writing in place.
#include "src/graph/naive_kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/ir/text.h"
#include "tests/support/graph_data.h"
#include "tests/support/reference.h"

namespace loopwright {
namespace {

using testing::HasSubstr;
using testing::Not;

Graph parsed_with_n(const std::string& body) {
  Result<Graph> g = Graph::parse("graph g\nsymbol n in 0..512\n" + body);
  EXPECT_TRUE(g.ok()) << (g.ok() ? "" : g.error().message());
  return std::move(*g);
}

std::string kernel_text(const std::string& body) {
  return ir::print(graph::naive_kernel(parsed_with_n(body)).value());
}

TEST(NaiveKernel, nests_and_names_of_a_product) {
  EXPECT_EQ(
      kernel_text("input a: bf16[n, 4]\ninput b: bf16[4, 8]\noutput y = matmul(a, b)\n"),
      "kernel g(a: bf16[n, 4] in, b: bf16[4, 8] in, y: bf16[n, 8] out)\n"
      "  symbol n in 0..512\n"
      "  level naive\n"
      "  alloc y_acc: f32[n, 8] global\n"
      "  for y_acc_init_0 in 0..n\n"
      "    for y_acc_init_1 in 0..8\n"
      "      y_acc[y_acc_init_0, y_acc_init_1] = 0.0f32\n"
      "  for y_acc_0 in 0..n\n"
      "    for y_acc_1 in 0..8\n"
      "      for y_acc_r0 in 0..4\n"
      "        update sum y_acc[y_acc_0, y_acc_1] by f32(a[y_acc_0, y_acc_r0])*f32(b[y_acc_r0, y_acc_1])\n"
      "  for y_0 in 0..n\n"
      "    for y_1 in 0..8\n"
      "      y[y_0, y_1] = bf16(y_acc[y_0, y_1])\n");
}

TEST(NaiveKernel, a_direct_reduction_writes_its_own_buffer) {
  const std::string text = kernel_text("input x: f32[n, 4]\noutput y = sum(x, axes=[1])\n");
  EXPECT_THAT(text, HasSubstr("for y_init_0 in 0..n"));
  EXPECT_THAT(text, HasSubstr("update sum y[y_0] by x[y_0, y_r0]"));
  EXPECT_THAT(text, Not(HasSubstr("alloc")));
}

TEST(NaiveKernel, tuple_states_have_numbered_buffers) {
  const std::string text = kernel_text("input x: f32[n, 4]\noutput y = argmax(x, axes=[1], keepdim=true)\n");
  EXPECT_THAT(text, HasSubstr("alloc y_acc0: f32[n, 1]"));
  EXPECT_THAT(text, HasSubstr("alloc y_acc1: i32[n, 1]"));
}

TEST(NaiveKernel, places_take_64_bits_where_32_do_not_hold_them) {
  const std::string text = kernel_text("input x: f32[n, 65536, 65536]\noutput y = argmax(x, axes=[1, 2])\n");
  EXPECT_THAT(text, HasSubstr("alloc y_acc1: i64[n]"));
}

TEST(NaiveKernel, generated_names_avoid_values) {
  EXPECT_EQ(
      test::check_naive_kernel(
          parsed_with_n("input x: bf16[3, 4]\ny_acc = neg(x)\noutput y = sum(y_acc, axes=[1])\noutput y_acc\n"),
          {{"n", 1}}, 1, test::tolerance_for(DType::bf16, 4)),
      "");
}

TEST(NaiveKernel, values_nobody_needs_are_left_out) {
  EXPECT_THAT(kernel_text("input x: f32[n, 4]\ndead = exp(x)\noutput y = neg(x)\n"), Not(HasSubstr("dead")));
}

TEST(NaiveKernel, a_cache_write_touches_only_its_part) {
  const std::string text = kernel_text(
      "input c: f32[64, 4]\ninput p: f32[n, 4]\ninput at: i64[]\nnew = slice_update(c, p, at, "
      "axis=0)\nupdate c = new\n");
  EXPECT_THAT(text, HasSubstr("c: f32[64, 4] inout"));
  EXPECT_THAT(text, Not(HasSubstr("alloc")));
  EXPECT_THAT(text, Not(HasSubstr("0..64")));
}

struct InPlace {
  const char* body;
  bool in_place;
};

TEST(NaiveKernel, updates_are_right_whether_in_place_or_not) {
  const std::vector<InPlace> cases = {
      {"c2 = slice_update(c, p, at, axis=0)\nupdate c = c2\n", true},
      {"c2 = slice_update(c, p, at, axis=0)\nupdate c = c2\noutput y = exp(c2)\n", true},
      {"c2 = scatter(c, i, p, axis=0)\nupdate c = c2\n", true},
      {"c2 = scatter(c, i, p, axis=0, reduce=add)\nupdate c = c2\n", true},
      {"c2 = slice_update(c, p, at, axis=0)\nupdate c = c2\noutput c2\n", false},
      {"c2 = slice_update(c, p, at, axis=0)\nupdate c = c2\noutput old = sum(c)\n", false},
      {"c2 = slice_update(neg(c), p, at, axis=0)\nupdate c = c2\n", false},
      {"c2 = slice_update(d, p, at, axis=0)\nupdate c = c2\n", false},
      {"c2 = slice_update(c, p, at, axis=0)\nupdate c = c2\nupdate d = c2\n", true},
      {"c2 = slice_update(c, p, at, axis=0)\nupdate c = c2\nupdate d = c\n", false},
      {"update c = d\nupdate d = c\n", false},
      {"c2 = add(c, flip(c, [0]))\nupdate c = c2\n", false},
      {"update c = broadcast(constant(3, f32), [6, 4])\n", false},
  };
  for (const InPlace& c : cases) {
    const Graph g = parsed_with_n(std::string("input c: f32[6, 4]\ninput d: f32[6, 4]\ninput p: f32[n, 4]\ninput "
                                       "at: i64[]\ninput i: i64[n, 4]\n") +
                           c.body);
    EXPECT_EQ(graph::is_written_in_place(g, g.updates()[0]), c.in_place) << c.body;
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      const auto n = static_cast<std::int64_t>(seed % 4);
      EXPECT_EQ(test::check_naive_kernel(g, {{"n", n}}, seed, test::tolerance_for(DType::f32, 24)), "")
          << c.body;
    }
  }
}

}  // namespace
}  // namespace loopwright
