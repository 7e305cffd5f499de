#include "tuner/parallel.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tuner/tolerance.h"
#include "tuner/values.h"

namespace loopwright::tuner {
namespace {

TEST(Parallel, EveryElementBelongsToOnePart) {
  for (const std::int64_t count : {std::int64_t{0}, std::int64_t{1}, kPart - 1, kPart, kPart + 1, 5 * kPart + 3}) {
    std::vector<std::uint8_t> seen(static_cast<std::size_t>(count), 0);
    for_each_part(count, [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
      EXPECT_EQ(begin, part * kPart);
      for (std::int64_t i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
    });
    for (const std::uint8_t times : seen) ASSERT_EQ(times, 1);
  }
}

TEST(Parallel, OneWrongElementBehindTheFirstPartIsFound) {
  const std::int64_t count = 3 * kPart + 5, wrong = 2 * kPart + 7;
  std::vector<float> data(static_cast<std::size_t>(count));
  fill_random(DType::f32, data.data(), count, Draw::normal, 3);
  const std::vector<double> expected(data.begin(), data.end());
  EXPECT_TRUE(compare_output(DType::f32, data.data(), {}, expected, {}, {.relative = 1e-6}).passed);
  EXPECT_NE(data[0], data[kPart]);  // parts have sequences of their own
  std::vector<float> other = data;
  other[wrong] += 1;
  other[wrong + 1] = NAN;
  const Deviation d = compare_output(DType::f32, other.data(), {}, expected, {}, {.relative = 1e-6});
  EXPECT_FALSE(d.passed);
  EXPECT_EQ(d.outside, 2);
  EXPECT_EQ(d.first, wrong);
  EXPECT_FALSE(equal_parts(data.data(), other.data(), data.size() * sizeof(float)));
  copy_parts(other.data(), data.data(), data.size() * sizeof(float));
  EXPECT_TRUE(equal_parts(data.data(), other.data(), data.size() * sizeof(float)));
}

}  // namespace
}  // namespace loopwright::tuner
