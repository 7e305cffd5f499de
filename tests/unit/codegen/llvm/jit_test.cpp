#include "src/codegen/llvm/jit.h"

#include <gtest/gtest.h>

#include "src/ir/text.h"
#include "tests/unit/codegen/llvm/compare_kernel.h"

namespace loopwright {
namespace {

using test::compare_text;
using test::CompareOptions;

std::string agrees(const std::string& text, CompareOptions options = {}) { return compare_text(text, options); }

TEST(CompiledKernel, AddsInASerialLoop) {
  EXPECT_EQ(agrees(R"(kernel add(x: f32[n] in, y: f32[n] in, z: f32[n] out)
  symbol n in 0..100
  level emittable
  for i in 0..n
    z[i] = x[i] + y[i]
)", {.symbols = {{"n", 37}}}), "");
}

TEST(CompiledKernel, ZeroIterationsDoNothing) {
  EXPECT_EQ(agrees(R"(kernel add(x: f32[n] in, z: f32[n] out)
  symbol n in 0..100
  level emittable
  for i in 0..n parallel
    z[i] = x[i]
)", {.symbols = {{"n", 0}}}), "");
}

TEST(CompiledKernel, RunsAParallelLoopInChunks) {
  EXPECT_EQ(agrees(R"(kernel rows(x: f32[m, n] in, z: f32[m, n] out)
  symbol m in 1..100
  symbol n in 1..100
  level emittable
  for i in 0..m parallel
    for j in 0..n
      z[i, j] = x[i, j]*2.0f32 + 1.0f32
)", {.symbols = {{"m", 11}, {"n", 7}}, .ulps = 1}), "");
}

TEST(CompiledKernel, SerialNestsBetweenParallelLoopsAreLaunches) {
  const std::string text = R"(kernel normalise(x: f32[m] in, z: f32[m] out)
  symbol m in 1..100
  level emittable
  alloc t: f32[m] global
  alloc s: f32[1] global
  for i in 0..m parallel
    t[i] = exp(x[i])
  s[0] = 0.0f32
  for i_1 in 0..m
    update sum s[0] by t[i_1]
  for i_2 in 0..m parallel
    z[i_2] = t[i_2] / s[0]
)";
  EXPECT_EQ(agrees(text, {.symbols = {{"m", 19}}, .ulps = 8, .wild = false}), "");
}

TEST(CompiledKernel, ScratchOfAWorkerIsReused) {
  EXPECT_EQ(agrees(R"(kernel twice(x: f32[m, n] in, z: f32[m, n] out)
  symbol m in 1..100
  symbol n in 1..100
  level emittable
  for i in 0..m parallel
    alloc a: f32[n] shared
    for j in 0..n
      a[j] = x[i, n - 1 - j]
    alloc b: f32[n + 1] shared
    for j_1 in 0..n
      b[j_1 + 1] = a[n - 1 - j_1]
    for j_2 in 0..n
      z[i, j_2] = b[j_2 + 1] - a[j_2]
)", {.symbols = {{"m", 5}, {"n", 33}}}), "");
}

TEST(VectorLoop, MaskedTailsTouchNothingBeyondTheEnd) {
  for (const std::int64_t n : {0, 1, 7, 8, 9, 31, 64}) {
    EXPECT_EQ(agrees(R"(kernel tail(x: f32[n] in, h: bf16[n] in, y: f32[n] out, z: bf16[n] out)
  symbol n in 0..100
  level emittable
  for o in 0..floor_div(n + 15, 16) parallel
    for l in 0..16 vectorize
      if o*16 + l < n
        y[o*16 + l] = x[o*16 + l]*2.0f32
        z[o*16 + l] = h[o*16 + l] + bf16(x[o*16 + l])
)", {.symbols = {{"n", n}}}), "") << n;
  }
}

TEST(VectorLoop, GathersStridesReversesAndBroadcasts) {
  EXPECT_EQ(agrees(R"(kernel reads(x: f32[n, 4] in, w: f32[n] in, j: u8[n] in, table: f32[256] in, y: f32[n] out)
  symbol n in 0..100
  level emittable
  for o in 0..floor_div(n + 7, 8)
    for l in 0..8 vectorize
      if o*8 + l < n
        y[o*8 + l] = x[o*8 + l, 2] + w[n - 1 - (o*8 + l)] + table[i64(j[o*8 + l])] + w[o]
)", {.symbols = {{"n", 53}}}), "");
  EXPECT_EQ(agrees(R"(kernel reads(x: i16[64, 4] in, w: i16[64] in, j: u8[64] in, table: i16[256] in, y: i16[64, 3] out)
  level emittable
  for o in 0..8
    for l in 0..8 vectorize
      y[o*8 + l, 1] = x[o*8 + l, 2] + w[63 - (o*8 + l)] + table[i64(j[o*8 + l])] + w[o]
      y[63 - o*8 - l, 2] = w[o*8 + l]
      y[o*8 + l, 0] = 3i16
)"), "");
}

TEST(VectorLoop, StridedParametersAndManyLanes) {
  EXPECT_EQ(agrees(R"(kernel view(x: i64[24, 96] strides [200, 2] in, y: i64[24, 96] out)
  level emittable
  for i in 0..24 parallel
    for l in 0..96 vectorize
      y[i, l] = x[i, l]*3 + l
)"), "");
}

TEST(VectorLoop, ReductionsOfLanesIntoOneElement) {
  // Floats are added in the order of the lanes, so the result is that of the serial loop, bit for bit.
  for (const char* dtype : {"f32", "f64", "i32", "u8", "bf16"}) {
    for (const char* monoid : {"sum", "product", "min", "max"}) {
      const std::string t = dtype;
      EXPECT_EQ(agrees("kernel r(x: " + t + "[n] in, y: " + t + R"([1] inout)
  symbol n in 0..100
  level emittable
  contract off
  for o in 0..floor_div(n + 7, 8)
    for l in 0..8 serial
      if o*8 + l < n
        update )" + monoid + R"( y[0] by x[o*8 + l]
)", {.symbols = {{"n", 21}}}), "") << dtype << " " << monoid;
    }
  }
}

TEST(VectorLoop, ExactReductionsOfLanes) {
  const std::string head = R"(kernel r(x: i32[n] in, f: f32[n] in, b: bool[n] in, y: i32[3] inout, z: f32[2] inout, c: bool[2] inout)
  symbol n in 0..100
  level emittable
  for o in 0..floor_div(n + 7, 8)
    for l in 0..8 )";
  const std::string body = R"(
      if o*8 + l < n
        update sum y[0] by x[o*8 + l]
        update min y[1] by x[o*8 + l]
        update max z[0] by f[o*8 + l]
        update any c[0] by b[o*8 + l]
        update all c[1] by b[o*8 + l]
)";
  auto serial = ir::parse_kernel(head + "serial" + body);
  auto vector = ir::parse_kernel(head + "vectorize" + body);
  ASSERT_TRUE(serial.ok() && vector.ok());
  // The interpreter sees a race in the vector form, which is legal only for these; both are compiled and compared.
  EXPECT_EQ(test::compare_compiled(*serial, *vector, {.symbols = {{"n", 45}}}), "");
}

TEST(VectorLoop, ConditionsGuardLoadsInSelects) {
  EXPECT_EQ(agrees(R"(kernel pad(x: f32[n] in, s: f32[1] in, y: f32[n + 8] out)
  symbol n in 0..100
  level emittable
  for o in 0..floor_div(n + 15, 8)
    for l in 0..8 vectorize
      if o*8 + l < n + 8
        y[o*8 + l] = select(o*8 + l < 4 or o*8 + l >= n + 4, s[0], x[o*8 + l - 4])
)", {.symbols = {{"n", 19}}}), "");
}

TEST(VectorLoop, LoopsAndLetsInside) {
  EXPECT_EQ(agrees(R"(kernel mv(x: f32[8, n] in, w: f32[n] in, y: f32[8] out)
  symbol n in 0..100
  level emittable
  contract off
  for l in 0..8 vectorize
    y[l] = 0.0f32
    for r in 0..n
      let p: f32 = x[l, r]*w[r]
      if w[r] > 0.0f32
        update sum y[l] by p
)", {.symbols = {{"n", 13}}}), "");
}

TEST(CompiledKernel, LargeRegisterBuffersAreStillCorrect) {
  EXPECT_EQ(agrees(R"(kernel big(x: f64[4, 5000] in, y: f64[4, 5000] out)
  level emittable
  for i in 0..4 parallel
    alloc t: f64[5000] registers
    for j in 0..5000
      t[j] = x[i, 4999 - j]
    for j_1 in 0..5000
      y[i, j_1] = t[j_1]
)"), "");
}

TEST(CompiledKernel, TupleReductionsKeepTheirState) {
  EXPECT_EQ(agrees(R"(kernel stats(x: f32[n] in, m: f32[1] out, s: f32[1] out, best: f32[1] out, j: i64[1] out)
  symbol n in 1..100
  level emittable
  contract off
  m[0] = -inf_f32
  s[0] = 0.0f32
  best[0] = -inf_f32
  j[0] = 9223372036854775807
  for r in 0..n
    update log_sum_exp (m, s)[0] by (x[r], 1.0f32)
    update argmax (best, j)[0] by (x[r], r)
)", {.symbols = {{"n", 77}}, .ulps = 16, .wild = false}), "");
}

TEST(CompiledKernel, ParallelLoopsUnderConditionsAndLets) {
  EXPECT_EQ(agrees(R"(kernel c(x: f32[n] in, y: f32[n] inout)
  symbol n in 1..100
  level emittable
  let half: i64 = floor_div(n, 2)
  if n > 4
    for i in 0..n parallel
      if i < half
        y[i] = x[i]
    y[0] = 1.0f32
)", {.symbols = {{"n", 30}}}), "");
}

TEST(Target, NamesThatAreNotKnownAreRejected) {
  EXPECT_EQ(codegen::parse_cpu_target("cpu:x86-64").error().code, ErrorCode::unsupported_target);
  EXPECT_EQ(codegen::parse_cpu_target("cpu:znver3:+warp").error().code, ErrorCode::unsupported_target);
  EXPECT_EQ(codegen::parse_cpu_target("cuda:sm_90a").error().code, ErrorCode::unsupported_target);
  EXPECT_EQ(codegen::parse_cpu_target("cpu:generic:+sse3").error().code, ErrorCode::unsupported_target);
  const auto v3 = codegen::parse_cpu_target("cpu:x86-64-v3");
  ASSERT_TRUE(v3.ok());
  EXPECT_TRUE(v3->fma && v3->f16c && v3->vector_bytes == 32);
}

}  // namespace
}  // namespace loopwright
