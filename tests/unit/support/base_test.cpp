#include "loopwright/base.h"

#include <gtest/gtest.h>

namespace loopwright {
namespace {

TEST(DTypes, names_read_back) {
  for (int i = 0; i < kDTypeCount; ++i)
    EXPECT_EQ(parse_dtype(name(static_cast<DType>(i))), static_cast<DType>(i));
  EXPECT_FALSE(parse_dtype("f31"));
  EXPECT_EQ(size_bytes(DType::bf16), 2);
}

TEST(DTypes, sums_are_carried_in_wider_types) {
  EXPECT_EQ(accumulator(DType::bf16), DType::f32);
  EXPECT_EQ(accumulator(DType::f64), DType::f64);
  EXPECT_EQ(accumulator(DType::boolean), DType::i64);
  EXPECT_EQ(accumulator(DType::i8), DType::i64);
}

TEST(ErrorCodes, names_read_back_and_are_distinct) {
  int count = 0;
  for (int n = 0; n < 1000; ++n) {
    const auto code = static_cast<ErrorCode>(n);
    std::string_view text;
    try {
      text = name(code);
    } catch (const Bug&) {
      continue;
    }
    EXPECT_EQ(parse_error_code(text), code);
    ++count;
  }
  EXPECT_EQ(count, 65);
}

TEST(Errors, message_has_its_four_parts_in_order) {
  Error e{ErrorCode::not_divisible, "split i by 3", "the extent is 8", "line 4:3", "a factor of 8"};
  EXPECT_EQ(e.message(), "not_divisible: split i by 3: the extent is 8\n  line 4:3\n  works: a factor of 8");
  EXPECT_EQ(std::move(e).with_context("step 6 of 9").where, "step 6 of 9\nline 4:3");
}

TEST(Results, wrong_use_is_a_bug) {
  const Result<int> good = 3;
  const Result<int> bad = Error{ErrorCode::io, "read", "nothing", "", ""};
  EXPECT_EQ(*good, 3);
  EXPECT_THROW((void)good.error(), Bug);
  EXPECT_THROW((void)bad.value(), Bug);
}

Result<int> doubled(Result<int> in) {
  LW_TRY(const int value, in);
  return 2 * value;
}

TEST(Results, try_passes_errors_on) {
  EXPECT_EQ(*doubled(4), 8);
  EXPECT_EQ(doubled(Error{ErrorCode::busy, "", "", "", ""}).error().code, ErrorCode::busy);
}

}  // namespace
}  // namespace loopwright
