#include "src/codegen/llvm/jit.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace loopwright
