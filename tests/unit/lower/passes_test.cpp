#include "src/lower/passes.h"

#include <gtest/gtest.h>

#include "src/ir/rewrite.h"
#include "src/ir/text.h"
#include "tests/unit/lower/same_meaning.h"

namespace loopwright {
namespace {

using test::check_every_pass;

ir::Kernel lowered(const std::string& text, const lower::LowerOptions& options = {}) {
  auto kernel = ir::parse_kernel(text);
  if (!kernel.ok()) throw std::runtime_error(kernel.error().message());
  auto result = lower::lower(*kernel, options);
  if (!result.ok()) throw std::runtime_error(result.error().message());
  return *result;
}

template <class Node>
int count(const ir::Kernel& k) {
  int n = 0;
  ir::walk(k.body, [&](const ir::Stmt& s) { n += ir::as<Node>(s) != nullptr; }, [](const ir::Expr&) {});
  return n;
}

const char* const kMatmul = R"(kernel matmul(a: f32[m, k] in, b: f32[k, n] in, c: f32[m, n] out)
  symbol m in 1..64
  symbol n in 1..64
  symbol k in 1..64
  level scheduled
  for io in 0..floor_div(m + 3, 4) parallel
    for jo in 0..floor_div(n + 7, 8)
      alloc acc: f32[4, 8] registers
      for i in 0..4 unroll
        for j in 0..8 vectorize
          acc[i, j] = 0.0f32
      for r in 0..k
        for i_1 in 0..4 unroll
          for j_1 in 0..8 vectorize
            if io*4 + i_1 < m and jo*8 + j_1 < n
              update sum acc[i_1, j_1] by a[io*4 + i_1, r]*b[r, jo*8 + j_1]
      for i_2 in 0..4 unroll
        for j_2 in 0..8 vectorize
          if io*4 + i_2 < m and jo*8 + j_2 < n
            c[io*4 + i_2, jo*8 + j_2] = acc[i_2, j_2]
)";

TEST(Passes, KeepTheMeaningOfATiledMatmul) {
  EXPECT_EQ(check_every_pass(kMatmul, {{"m", 13}, {"n", 21}, {"k", 5}}), "");
  EXPECT_EQ(check_every_pass(kMatmul, {{"m", 4}, {"n", 8}, {"k", 3}}), "");
  EXPECT_EQ(check_every_pass(kMatmul, {{"m", 1}, {"n", 1}, {"k", 1}}), "");
}

TEST(Passes, KeepTheMeaningOfTupleReductions) {
  EXPECT_EQ(check_every_pass(R"(kernel stats(x: f32[n] in, y: f32[2] out, j: i64[1] out, w: f32[3] out)
  symbol n in 1..64
  level scheduled
  alloc m: f32[1] registers
  alloc s: f32[1] registers
  alloc best: f32[1] registers
  m[0] = -inf_f32
  s[0] = 0.0f32
  best[0] = -inf_f32
  j[0] = 9223372036854775807
  for r in 0..n
    update log_sum_exp (m, s)[0] by (x[r], 1.0f32)
    update argmax (best, j)[0] by (x[r], r)
  y[0] = m[0]
  y[1] = s[0]
  alloc c: f32[1] registers
  alloc mean: f32[1] registers
  alloc m2: f32[1] registers
  c[0] = 0.0f32
  mean[0] = 0.0f32
  m2[0] = 0.0f32
  for r_1 in 0..n
    update welford (c, mean, m2)[0] by (1.0f32, x[r_1], 0.0f32)
  w[0] = c[0]
  w[1] = mean[0]
  w[2] = m2[0]
)", {{"n", 37}}), "");
}

TEST(Passes, KeepTheMeaningOfPaddingAndConcatenation) {
  EXPECT_EQ(check_every_pass(R"(kernel pad(x: f32[n] in, z: f32[5] in, y: f32[n + 9] out)
  symbol n in 0..64
  level scheduled
  for o in 0..floor_div(n + 9 + 7, 8)
    for l in 0..8 vectorize
      if o*8 + l < n + 9
        y[o*8 + l] = select(o*8 + l < 2, 0.0f32, select(o*8 + l < n + 2, x[o*8 + l - 2], select(o*8 + l < n + 7, z[o*8 + l - n - 2], 1.0f32)))
)", {{"n", 29}}), "");
}

TEST(Passes, ParallelLoopsInsideOthersBecomeSerial) {
  const ir::Kernel k = lowered(R"(kernel k(x: f32[n, n] out)
  symbol n in 1..64
  level scheduled
  for i in 0..n
    for j in 0..n parallel
      x[i, j] = 0.0f32
)");
  EXPECT_EQ(ir::print(k).find("parallel"), std::string::npos);
}

TEST(Passes, UnrolledLoopsBecomeCopiesWithConstantRegisterIndices) {
  const ir::Kernel k = lowered(kMatmul);
  const std::string text = ir::print(k);
  EXPECT_EQ(text.find("unroll"), std::string::npos) << text;
  EXPECT_NE(text.find("acc[j_3 + 24]"), std::string::npos) << text;
  EXPECT_EQ(count<ir::Update>(k), 0) << text;
}

TEST(Passes, ScratchAllocationsShrinkToTheirUses) {
  const std::string text = R"(kernel k(x: f32[8, 64] in, y: f32[8, 64] out)
  level scheduled
  for i in 0..8 parallel
    alloc a: f32[64] shared
    alloc b: f32[64] shared
    for j in 0..64
      a[j] = x[i, j]
    for j_1 in 0..64
      y[i, j_1] = a[63 - j_1]
    for j_2 in 0..64
      b[j_2] = y[i, j_2]
    for j_3 in 0..64
      y[i, j_3] = b[63 - j_3]
)";
  std::string problem = check_every_pass(text, {});
  EXPECT_EQ(problem, "");
  const ir::Kernel k = lowered(text);
  int nested = 0;
  ir::walk(k.body, [&](const ir::Stmt& s) {
    if (const auto* a = ir::as<ir::Alloc>(s)) {
      ir::walk(a->body, [&](const ir::Stmt& t) { nested += ir::as<ir::Alloc>(t) != nullptr; }, [](const ir::Expr&) {});
    }
  }, [](const ir::Expr&) {});
  EXPECT_EQ(nested, 0) << ir::print(k);
}

TEST(Passes, TooMuchScratchIsRejected) {
  auto kernel = ir::parse_kernel(R"(kernel k(y: f32[8] out)
  level scheduled
  for i in 0..8 parallel
    alloc a: f32[1000000000] shared
    a[i] = 0.0f32
    y[i] = a[i]
)");
  ASSERT_TRUE(kernel.ok());
  const auto result = lower::lower(*kernel, {});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::resource_exceeded) << result.error().message();
}

TEST(Passes, LowerToStopsAtTheLevel) {
  auto kernel = ir::parse_kernel(kMatmul);
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(lower::lower_to(*kernel, ir::Level::flat, {})->level, ir::Level::flat);
  EXPECT_EQ(lower::lower_to(*kernel, ir::Level::scheduled, {})->level, ir::Level::scheduled);
}

}  // namespace
}  // namespace loopwright
