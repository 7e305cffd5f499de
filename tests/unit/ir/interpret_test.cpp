#include "src/ir/interpret.h"

#include <gtest/gtest.h>

#include <cmath>

#include "src/ir/text.h"

namespace loopwright::ir {
namespace {

Kernel parsed(const std::string& text) {
  auto k = parse_kernel(text);
  if (!k.ok()) throw std::runtime_error(k.error().message());
  return *k;
}

/// `y: f32[8] out`, `x: f32[8] in` holding 0, 1, ... 7, and symbol n = 8.
Status run(const std::string& body, std::map<std::string, Array>& args,
           const InterpretOptions& options = {}) {
  args["x"] = Array::dense(DType::f32, {8});
  args["y"] = Array::dense(DType::f32, {8});
  args["j"] = Array::dense(DType::i64, {8});
  for (std::int64_t i = 0; i < 8; ++i) args["x"].set({i}, static_cast<double>(i));
  return interpret(
      parsed("kernel k(x: f32[n] in, y: f32[n] out, j: i64[8] out)\n  symbol n in 1..8\n  level scheduled\n" +
             body),
      {{"n", 8}}, args, options);
}

ErrorCode code_of(const std::string& body, const InterpretOptions& options = {}) {
  std::map<std::string, Array> args;
  const Status s = run(body, args, options);
  return s.ok() ? ErrorCode::ok : s.error().code;
}

TEST(Interpret, computes_a_softmax_with_online_state) {
  std::map<std::string, Array> args;
  ASSERT_TRUE(run(R"(  alloc m: f32[1] registers
  alloc s: f32[1] registers
  m[0] = -inf_f32
  s[0] = 0.0f32
  for r in 0..n
    update log_sum_exp (m, s)[0] by (x[r], 1.0f32)
  for i in 0..n parallel
    y[i] = exp(x[i] - m[0]) / s[0]
)",
                  args)
                  .ok());
  double total = 0;
  for (int i = 0; i < 8; ++i) total += std::exp(i - 7.0);
  for (std::int64_t i = 0; i < 8; ++i)
    EXPECT_NEAR(args["y"].get({i}), std::exp(static_cast<double>(i) - 7) / total, 1e-7);
}

TEST(Interpret, argmax_keeps_the_smaller_index_of_ties) {
  std::map<std::string, Array> args;
  ASSERT_TRUE(run(R"(  j[0] = 9223372036854775807
  y[0] = -inf_f32
  for r in 0..n
    update argmax (y, j)[0] by (floor(x[n - 1 - r] / 4.0f32), n - 1 - r)
)",
                  args)
                  .ok());
  EXPECT_EQ(args["y"].get({0}), 1);
  EXPECT_EQ(args["j"].get_int({0}), 4);
}

TEST(Interpret, i64_is_exact) {
  std::map<std::string, Array> args;
  ASSERT_TRUE(run("  j[0] = 9007199254740993 + n*0\n  j[1] = 9223372036854775807 + (n - 7)\n  j[2] = "
                  "floor_div(-7, n)\n  j[3] = mod(-7, n)\n  j[4] = (0 - n - 1) / n\n",
                  args)
                  .ok());
  EXPECT_EQ(args["j"].get_int({0}), 9007199254740993);
  EXPECT_EQ(args["j"].get_int({1}), INT64_MIN);
  EXPECT_EQ(args["j"].get_int({2}), -1);
  EXPECT_EQ(args["j"].get_int({3}), 1);
  EXPECT_EQ(args["j"].get_int({4}), -1);
}

TEST(Interpret, rounds_each_node_to_its_dtype) {
  std::map<std::string, Array> args;
  // 256 + 1 is a tie in bf16 and goes to even; the f32 sum of 2^24 and 1 loses the one before the subtraction.
  ASSERT_TRUE(run("  y[0] = f32(bf16(x[1]*256.0f32) + bf16(x[1]))\n  y[1] = x[1]*16777216.0f32 + x[1] - "
                  "16777216.0f32\n  y[2] = f32(f16(x[1]*70000.0f32))\n",
                  args)
                  .ok());
  EXPECT_EQ(args["y"].get({0}), 256);
  EXPECT_EQ(args["y"].get({1}), 0);
  EXPECT_EQ(args["y"].get({2}), HUGE_VAL);
}

TEST(Interpret, the_side_not_taken_is_not_evaluated) {
  EXPECT_EQ(
      code_of(
          "  for i in 0..9\n    if i < n and x[i] >= 0.0f32\n      y[i] = select(i > 0, x[i - 1], 0.0f32)\n"),
      ErrorCode::ok);
}

TEST(Interpret, an_index_outside_its_buffer_is_found_with_its_place) {
  std::map<std::string, Array> args;
  const Status s = run("  for i in 0..n\n    y[i] = x[i + 1]\n", args);
  ASSERT_FALSE(s.ok());
  EXPECT_EQ(s.error().code, ErrorCode::out_of_bounds);
  EXPECT_NE(s.error().found.find("index 8 of dimension 0 of `x` is outside 0..8"), std::string::npos)
      << s.error().message();
  EXPECT_NE(s.error().found.find("i = 7"), std::string::npos) << s.error().message();
  EXPECT_NE(s.error().where.find(">     y[i] = x[i + 1]"), std::string::npos) << s.error().message();
}

TEST(Interpret, an_uninitialised_read_is_found) {
  EXPECT_EQ(code_of("  alloc t: f32[8] shared\n  t[0] = 1.0f32\n  y[0] = t[1]\n"),
            ErrorCode::nondeterministic);
  EXPECT_EQ(code_of("  update sum y[0] by x[0]\n"), ErrorCode::nondeterministic);
  EXPECT_EQ(code_of("  for i in 0..2\n    alloc t: f32[1] registers\n    if i == 0\n      t[0] = 1.0f32\n    "
                    "y[i] = t[0]\n"),
            ErrorCode::nondeterministic);
}

struct RaceCase {
  const char* name;
  const char* body;
  bool races;
};
class Races : public ::testing::TestWithParam<RaceCase> {};
TEST_P(Races, are_found_and_nothing_else) {
  EXPECT_EQ(code_of(GetParam().body), GetParam().races ? ErrorCode::nondeterministic : ErrorCode::ok);
}
INSTANTIATE_TEST_SUITE_P(
    Interpret, Races,
    ::testing::Values(
        RaceCase{"same_element", "  for i in 0..n parallel\n    y[0] = x[i]\n", true},
        RaceCase{"serial_same_element", "  for i in 0..n\n    y[0] = x[i]\n", false},
        RaceCase{"reduction", "  y[0] = 0.0f32\n  for i in 0..n vectorize\n    update sum y[0] by x[i]\n",
                 true},
        RaceCase{
            "reduction_per_element",
            "  for i in 0..n parallel\n    y[i] = 0.0f32\n    for r in 0..n\n      update sum y[i] by x[r]\n",
            false},
        RaceCase{"read_of_neighbour",
                 "  for i in 0..n\n    y[i] = 0.0f32\n  for i in 0..n - 1 parallel\n    y[i] = y[i + 1]\n",
                 true},
        RaceCase{"read_by_earlier_iterations",
                 "  y[7] = 0.0f32\n  for i in 0..7 parallel\n    y[i] = y[7]\n    if i == 6\n      y[7] = "
                 "1.0f32\n",
                 true},
        RaceCase{"read_by_all_written_after",
                 "  y[7] = 0.0f32\n  for i in 0..7 parallel\n    y[i] = y[7]\n  y[7] = 1.0f32\n", false},
        RaceCase{"read_by_all_written_in_next_loop",
                 "  y[7] = 0.0f32\n  for i in 0..7 parallel\n    y[i] = y[7]\n  for i in 0..1 parallel\n    "
                 "y[7] = 1.0f32\n",
                 false},
        RaceCase{"outer_iteration_after_inner_loop",
                 "  for o in 0..2 parallel\n    for i in 0..2 vectorize\n      y[i + 4] = x[i]\n", true},
        RaceCase{
            "private_buffer",
            "  for i in 0..n parallel\n    alloc t: f32[1] registers\n    t[0] = x[i]\n    y[i] = t[0]\n",
            false},
        RaceCase{"shared_buffer",
                 "  alloc t: f32[1] shared\n  for i in 0..n parallel\n    t[0] = x[i]\n    y[i] = t[0]\n",
                 true},
        RaceCase{"inner_lanes_then_serial_read",
                 "  for o in 0..2 parallel\n    alloc t: f32[4] shared\n    for i in 0..4 vectorize\n      "
                 "t[i] = x[o*4 + i]\n    for i in 0..4 vectorize\n      y[o*4 + i] = t[3 - i]\n",
                 false}),
    [](const auto& info) { return info.param.name; });

TEST(Interpret, stops_after_the_given_number_of_statements) {
  InterpretOptions options;
  options.max_steps = 1000;
  EXPECT_EQ(code_of("  for i in 0..1000000\n    y[0] = 1.0f32\n", options), ErrorCode::timeout);
}

TEST(Interpret, empty_and_negative_extents_run_nothing) {
  EXPECT_EQ(
      code_of(
          "  for i in 0..n - 9\n    y[100] = 1.0f32\n  for i in 0..n - 8 parallel\n    y[100] = 1.0f32\n"),
      ErrorCode::ok);
}

TEST(Interpret, wrong_arguments_are_named) {
  const Kernel k = parsed(
      "kernel k(x: i64[n, 4] strides [8, 2] in, y: i64[n] out)\n  symbol n in 0..8\n  assume n % 2\n  level "
      "naive\n  nothing\n");
  std::map<std::string, Array> args;
  EXPECT_EQ(interpret(k, {}, args).error().code, ErrorCode::wrong_arguments);
  EXPECT_EQ(interpret(k, {{"n", 9}}, args).error().code, ErrorCode::out_of_range);
  EXPECT_EQ(interpret(k, {{"n", 3}}, args).error().code, ErrorCode::wrong_arguments);
  EXPECT_EQ(interpret(k, {{"n", 2}}, args).error().code, ErrorCode::wrong_arguments);
  args["x"] = Array::dense(DType::i64, {2, 4});
  args["y"] = Array::dense(DType::i64, {2});
  EXPECT_NE(interpret(k, {{"n", 2}}, args).error().found.find("strides [4, 1]"), std::string::npos);
  args["x"].strides = {8, 2};
  args["x"].data.resize(15 * 8);
  EXPECT_TRUE(interpret(k, {{"n", 2}}, args).ok());
}

TEST(Elements, every_f16_and_bf16_pattern_round_trips) {
  for (const DType t : {DType::f16, DType::bf16}) {
    for (int bits = 0; bits < 65536; ++bits) {
      const auto in = static_cast<std::uint16_t>(bits);
      const double value = load_element(t, reinterpret_cast<const std::uint8_t*>(&in));
      std::uint16_t out = 0;
      store_element(t, reinterpret_cast<std::uint8_t*>(&out), value);
      if (std::isnan(value)) continue;
      ASSERT_EQ(out, in) << name(t);
    }
  }
}

TEST(Elements, halfway_values_go_to_even) {
  std::uint16_t out = 0;
  auto* bytes = reinterpret_cast<std::uint8_t*>(&out);
  store_element(DType::f16, bytes, 1.0 + 0x1p-11);
  EXPECT_EQ(out, 0x3c00);
  store_element(DType::f16, bytes, 1.0 + 0x1p-11 + 0x1p-40);  // a float in between would lose the last bit
  EXPECT_EQ(out, 0x3c01);
  store_element(DType::f16, bytes, 65519.99);
  EXPECT_EQ(out, 0x7bff);
  store_element(DType::f16, bytes, 65520.0);
  EXPECT_EQ(out, 0x7c00);
  store_element(DType::f16, bytes, -0x1p-25);
  EXPECT_EQ(out, 0x8000);
  store_element(DType::bf16, bytes, 1.0 + 3 * 0x1p-8);
  EXPECT_EQ(out, 0x3f82);
}

}  // namespace
}  // namespace loopwright::ir
