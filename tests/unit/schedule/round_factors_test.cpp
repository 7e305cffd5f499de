// Products of f32 factors rounded to tf32: what is lost, by the interpreter. Hardware that cut the bits off instead would lose 2.6 times
// as much, 6.5e-4 of it in one direction on positive data.
#include "src/schedule/steps/round_factors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "src/ir/arithmetic.h"
#include "src/ir/interpret.h"
#include "src/ir/text.h"
#include "src/schedule/trace.h"

namespace loopwright::schedule {
namespace {

constexpr std::int64_t kRows = 24, kColumns = 24, kSummands = 512;

struct Losses {
  double relative = 0;  ///< of the norm
  double bias = 0;      ///< mean of (found - exact) over the sum of |x w|
};

template <class Draw>
Losses find_losses(const Draw& draw) {
  const auto naive =
      ir::parse_kernel(R"(kernel product(x: f32[24, 512] in, w: f32[24, 512] in, y: f32[24, 24] inout)
  level scheduled
  accuracy tf32
  for i in 0..24
    for j in 0..24
      for r in 0..512
        update sum y[i, j] by x[i, r]*w[j, r]
)");
  LW_BUG_IF(!naive.ok(), naive.error().message());
  const auto rounded = replay(*naive, std::string("trace 1\nround_factors r\n"));
  LW_BUG_IF(!rounded.ok(), rounded.error().message());
  std::map<std::string, ir::Array> arguments{{"x", ir::Array::dense(DType::f32, {kRows, kSummands})},
                                             {"w", ir::Array::dense(DType::f32, {kColumns, kSummands})},
                                             {"y", ir::Array::dense(DType::f32, {kRows, kColumns})}};
  for (const char* name : {"x", "w"})
    for (std::int64_t i = 0; i < kRows; ++i)
      for (std::int64_t r = 0; r < kSummands; ++r) arguments[name].set({i, r}, static_cast<float>(draw()));
  EXPECT_TRUE(ir::interpret(*rounded, {}, arguments).ok());
  double difference = 0, size = 0, bias = 0;
  for (std::int64_t i = 0; i < kRows; ++i)
    for (std::int64_t j = 0; j < kColumns; ++j) {
      double exact = 0, all = 0;
      for (std::int64_t r = 0; r < kSummands; ++r) {
        const double product = arguments["x"].get({i, r}) * arguments["w"].get({j, r});
        exact += product, all += std::abs(product);
      }
      const double found = arguments["y"].get({i, j});
      difference += (found - exact) * (found - exact), size += exact * exact, bias += (found - exact) / all;
    }
  return {std::sqrt(difference / size), bias / (kRows * kColumns)};
}

TEST(RoundFactors, lose_what_rounding_to_the_nearest_loses) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> positive(0, 1);
  const Losses of_normal = find_losses([&] { return normal(random); }),
               of_positive = find_losses([&] { return positive(random); });
  EXPECT_GT(of_normal.relative, 2.6e-4);
  EXPECT_LT(of_normal.relative, 3.3e-4);
  EXPECT_GT(of_positive.relative, 1e-5);
  EXPECT_LT(of_positive.relative, 2.5e-5);
  EXPECT_LT(std::abs(of_positive.bias), 5e-6);
}

TEST(RoundFactors, round_halves_to_even_and_leave_what_is_no_number_alone) {
  const auto rounded = [](double v) { return ir::apply_float(ir::UnaryOp::round_tf32, DType::f32, v); };
  EXPECT_EQ(rounded(1 + 0x1p-11), 1);
  EXPECT_EQ(rounded(1 + 0x3p-11), 1 + 0x1p-9);
  EXPECT_EQ(rounded(1 + 0x1p-11 + 0x1p-23), 1 + 0x1p-10);
  EXPECT_EQ(rounded(-1.5), -1.5);
  EXPECT_EQ(rounded(0x1.8p-137), 0x1p-136);
  EXPECT_EQ(rounded(0x1.fffffep127), INFINITY);
  EXPECT_EQ(rounded(0x1.ffcp127), 0x1.ffcp127);
  EXPECT_EQ(rounded(-INFINITY), -INFINITY);
  EXPECT_TRUE(std::isnan(rounded(NAN)));
}

}  // namespace
}  // namespace loopwright::schedule
