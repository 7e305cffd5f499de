// The machine code of the kernels whose speed matters most: vector instructions, fused multiply-adds, no spills.
#include <gtest/gtest.h>

#include "src/codegen/llvm/jit.h"
#include "src/ir/text.h"
#include "src/lower/passes.h"

namespace loopwright {
namespace {

int count(const std::string& text, const std::string& word) {
  int n = 0;
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
  return n;
}

std::string assemble(const std::string& text) {
  const auto kernel = ir::parse_kernel(text);
  if (!kernel.ok()) throw std::runtime_error(kernel.error().message());
  const auto lowered = lower::lower(*kernel, {});
  if (!lowered.ok()) throw std::runtime_error(lowered.error().message());
  const auto out = codegen::assembly_text(*lowered, codegen::parse_cpu_target("cpu:x86-64-v3").value());
  if (!out.ok()) throw std::runtime_error(out.error().message());
  return *out;
}

TEST(Assembly, MatmulTileStaysInRegistersAndIsFused) {
  const std::string text = assemble(R"(kernel mm(a: f32[m, k] in, b: f32[k, 16] in, c: f32[m, 16] out)
  symbol m in 6..4096
  symbol k in 1..4096
  level scheduled
  for io in 0..floor_div(m, 6) parallel
    alloc acc: f32[6, 16] registers
    for i in 0..6 unroll
      for j in 0..16 vectorize
        acc[i, j] = 0.0f32
    for r in 0..k
      for i_1 in 0..6 unroll
        for j_1 in 0..16 vectorize
          update sum acc[i_1, j_1] by a[io*6 + i_1, r]*b[r, j_1]
    for i_2 in 0..6 unroll
      for j_2 in 0..16 vectorize
        c[io*6 + i_2, j_2] = acc[i_2, j_2]
)");
  EXPECT_GE(count(text, "vfmadd"), 12) << text;
  EXPECT_EQ(count(text, "vmulps"), 0) << text;
  EXPECT_EQ(count(text, "vmulss") + count(text, "vfmadd231ss"), 0) << text;
  EXPECT_EQ(count(text, "32-byte Spill"), 0) << text;
}

TEST(Assembly, RowSumsKeepSeveralVectorAccumulators) {
  const std::string text = assemble(R"(kernel rows(x: f32[m, n] in, y: f32[m] out)
  symbol m in 1..4096
  symbol n in 32..4096
  assume n % 32
  level scheduled
  for i in 0..m parallel
    alloc acc: f32[32] registers
    for l in 0..32 vectorize
      acc[l] = 0.0f32
    for o in 0..floor_div(n, 32)
      for l_1 in 0..32 vectorize
        update sum acc[l_1] by x[i, o*32 + l_1]
    y[i] = 0.0f32
    for l_2 in 0..32
      update sum y[i] by acc[l_2]
)");
  EXPECT_GE(count(text, "vaddps"), 4) << text;
  EXPECT_EQ(count(text, "32-byte Spill"), 0) << text;
}

TEST(Assembly, StreamedOutputsGoPastTheCachesInWholeVectorsAndAreFenced) {
  const std::string kernel = R"(kernel scale(x: f32[n] in, y: f32[n] out streamed)
  symbol n in 1..65536
  level scheduled
  for o in 0..floor_div(n + 15, 16) parallel
    for i in 0..16 vectorize
      if o*16 + i < n
        y[o*16 + i] = x[o*16 + i]*2.0f32
)";
  const std::string text = assemble(kernel);
  EXPECT_EQ(count(text, "vmovntps"), 4) << text;
  EXPECT_EQ(count(text, "sfence"), 1) << text;
  std::string kept = kernel;
  kept.erase(kept.find(" streamed"), 9);
  EXPECT_EQ(count(assemble(kept), "vmovntps"), 0);
}

TEST(Assembly, Bf16StreamsAreConvertedInVectors) {
  const std::string text = assemble(R"(kernel scale(x: bf16[n] in, y: bf16[n] out)
  symbol n in 16..65536
  assume n % 16
  level scheduled
  for o in 0..floor_div(n, 16) parallel
    for l in 0..16 vectorize
      y[o*16 + l] = bf16(f32(x[o*16 + l])*2.5f32 + 1.0f32)
)");
  EXPECT_GE(count(text, "vpmovzxwd"), 2) << text;
  EXPECT_GE(count(text, "vfmadd"), 2) << text;
  EXPECT_EQ(count(text, "vpinsrw") + count(text, "vpextrw"), 0) << text;
  EXPECT_EQ(count(text, "Spill"), 0) << text;
}

TEST(Assembly, F16StreamsUseTheConversionsOfTheMachine) {
  const std::string text = assemble(R"(kernel scale(x: f16[n] in, y: f16[n] out)
  symbol n in 16..65536
  assume n % 16
  level scheduled
  for o in 0..floor_div(n, 16) parallel
    for l in 0..16 vectorize
      y[o*16 + l] = f16(f32(x[o*16 + l])*2.5f32)
)");
  EXPECT_GE(count(text, "vcvtph2ps"), 2) << text;
  EXPECT_EQ(count(text, "vcvtps2ph"), count(text, "vcvtph2ps")) << text;
}

TEST(Assembly, ElementaryFunctionsAreInlineVectors) {
  const std::string text = assemble(R"(kernel act(x: f32[n] in, y: f32[n] out)
  symbol n in 8..65536
  assume n % 8
  level scheduled
  for o in 0..floor_div(n, 8) parallel
    for l in 0..8 vectorize
      y[o*8 + l] = erf(tanh(exp(x[o*8 + l])))
)");
  EXPECT_EQ(count(text, "\tcall"), 0) << text;
  EXPECT_EQ(count(text, "vfmadd231ss") + count(text, "vmulss"), 0) << text;
}

}  // namespace
}  // namespace loopwright
