#include "loopwright/target.h"

#include <gtest/gtest.h>

namespace loopwright {
namespace {

TEST(Target, text_reads_back) {
  for (const char* text :
       {"cpu:znver3:+avx2,+fma", "cpu:x86-64", "cuda:sm_90a", "cpu:x86-64-v4:+avx512f,+sse4.2"}) {
    const auto target = Target::parse(text);
    ASSERT_TRUE(target.ok()) << target.error().message();
    EXPECT_EQ(target->text(), text);
  }
}

TEST(Target, features_are_sorted_and_single) {
  const auto target = Target::parse("cpu:znver3:+fma,+avx2,+fma");
  ASSERT_TRUE(target.ok());
  EXPECT_EQ(target->text(), "cpu:znver3:+avx2,+fma");
  EXPECT_TRUE(target->has("fma"));
  EXPECT_FALSE(target->has("avx512f"));
}

TEST(Target, limits_follow_from_the_features) {
  EXPECT_EQ(Target::parse("cpu:a")->vector_bytes, 16);
  EXPECT_EQ(Target::parse("cpu:a:+avx2")->lanes(DType::f32), 8);
  EXPECT_EQ(Target::parse("cpu:a:+avx512f")->lanes(DType::f64), 8);
  EXPECT_EQ(Target::parse("cuda:sm_90a")->max_threads_per_block, 1024);
}

TEST(Target, limits_of_a_gpu_follow_from_its_architecture) {
  EXPECT_EQ(Target::parse("cuda:sm_90a")->capability, 90);
  EXPECT_EQ(Target::parse("cuda:sm_90a")->l1_bytes, 227 << 10);
  EXPECT_EQ(Target::parse("cuda:sm_86")->l1_bytes, 99 << 10);
  EXPECT_EQ(Target::parse("cuda:sm_80")->workers, 108);
  EXPECT_EQ(Target::parse("cuda:sm_89")->max_threads_per_sm, 1536);
  EXPECT_EQ(Target::parse("cuda:sm_70").error().code, ErrorCode::unsupported_target);
}

TEST(Target, malformed_text_is_an_error) {
  for (const char* text :
       {"", "cpu", "gpu:x", "cpu:", "cpu:a:avx2", "cpu:a:+", "cpu:a b", "cpu:a:+x:y", "cpu:a:"})
    EXPECT_FALSE(Target::parse(text).ok()) << text;
}

}  // namespace
}  // namespace loopwright
