// Scheduled kernels through every pass and the backend, against the interpreter on the kernel that came out of the passes.
#include <gtest/gtest.h>

#include "src/ir/text.h"
#include "src/lower/passes.h"
#include "tests/unit/codegen/llvm/compare_kernel.h"

namespace loopwright {
namespace {

std::string check(const std::string& text, test::CompareOptions options) {
  const auto kernel = ir::parse_kernel(text);
  if (!kernel.ok()) return kernel.error().message();
  const auto lowered = lower::lower(*kernel, {});
  if (!lowered.ok()) return lowered.error().message();
  options.wild = false;
  for (const char* target : {"", "cpu:x86-64-v2"}) {
    options.target = target;
    if (std::string difference = test::compare_kernel(*lowered, options); !difference.empty()) {
      return difference + "\n" + ir::print(*lowered);
    }
  }
  return "";
}

TEST(Lowered, MatmulWithPackingAndRaggedTails) {
  const std::string text = R"(kernel mm(a: f32[m, k] in, b: f32[k, n] in, c: f32[m, n] out)
  symbol m in 1..64
  symbol n in 1..64
  symbol k in 1..64
  level scheduled
  for io in 0..floor_div(m + 5, 6) parallel
    alloc bp: f32[k, 16] shared
    for jo in 0..floor_div(n + 15, 16)
      for p in 0..k
        for q in 0..16 vectorize
          bp[p, q] = select(jo*16 + q < n, b[p, jo*16 + q], 0.0f32)
      alloc acc: f32[6, 16] registers
      for i in 0..6 unroll
        for j in 0..16 vectorize
          acc[i, j] = 0.0f32
      for r in 0..k
        for i_1 in 0..6 unroll
          for j_1 in 0..16 vectorize
            if io*6 + i_1 < m
              update sum acc[i_1, j_1] by a[io*6 + i_1, r]*bp[r, j_1]
      for i_2 in 0..6 unroll
        for j_2 in 0..16 vectorize
          if io*6 + i_2 < m and jo*16 + j_2 < n
            c[io*6 + i_2, jo*16 + j_2] = acc[i_2, j_2]
)";
  for (const auto& [m, n, k] : {std::tuple{13, 37, 9}, {6, 16, 1}, {1, 1, 5}, {12, 32, 8}, {5, 15, 3}}) {
    EXPECT_EQ(check(text, {.symbols = {{"m", m}, {"n", n}, {"k", k}}, .ulps = 64, .absolute = 1e-4}), "") << m << " " << n;
  }
}

TEST(Lowered, SoftmaxOverRowsInVectorChunks) {
  const std::string text = R"(kernel softmax(x: bf16[m, n] in, y: bf16[m, n] out)
  symbol m in 1..64
  symbol n in 1..256
  level scheduled
  for i in 0..m parallel
    alloc hi: f32[16] registers
    alloc top: f32[1] registers
    alloc part: f32[16] registers
    alloc total: f32[1] registers
    for l in 0..16 vectorize
      hi[l] = -inf_f32
      part[l] = 0.0f32
    for o in 0..floor_div(n + 15, 16)
      for l_1 in 0..16 vectorize
        if o*16 + l_1 < n
          update max hi[l_1] by f32(x[i, o*16 + l_1])
    top[0] = -inf_f32
    for l_2 in 0..16
      update max top[0] by hi[l_2]
    for o_1 in 0..floor_div(n + 15, 16)
      for l_3 in 0..16 vectorize
        if o_1*16 + l_3 < n
          update sum part[l_3] by exp(f32(x[i, o_1*16 + l_3]) - top[0])
    total[0] = 0.0f32
    for l_4 in 0..16 unroll
      update sum total[0] by part[l_4]
    for o_2 in 0..floor_div(n + 15, 16)
      for l_5 in 0..16 vectorize
        if o_2*16 + l_5 < n
          y[i, o_2*16 + l_5] = bf16(exp(f32(x[i, o_2*16 + l_5]) - top[0]) / total[0])
)";
  for (const int n : {1, 15, 16, 17, 100}) EXPECT_EQ(check(text, {.symbols = {{"m", 5}, {"n", n}}, .ulps = 1}), "") << n;
}

TEST(Lowered, BordersAndSeamsInEveryPosition) {
  const std::string text = R"(kernel seams(x: i32[n] in, z: i32[m] in, y: i32[n + m + 9] out)
  symbol n in 0..64
  symbol m in 0..64
  level scheduled
  for o in 0..floor_div(n + m + 16, 8)
    for l in 0..8 vectorize
      if o*8 + l < n + m + 9
        y[o*8 + l] = select(o*8 + l < 4, 7i32, select(o*8 + l < n + 4, x[n + 3 - (o*8 + l)], select(o*8 + l >= n + m + 4, 9i32, z[o*8 + l - n - 4])))
)";
  for (const int n : {0, 1, 4, 5, 12, 40}) {
    for (const int m : {0, 3, 8, 33}) EXPECT_EQ(check(text, {.symbols = {{"n", n}, {"m", m}}}), "") << n << " " << m;
  }
}

TEST(Lowered, StreamedOutputsAtAnyAlignment) {
  // Rows of odd length: no two of them lie alike.
  for (const std::int64_t n : {1, 17, 63, 129}) {
    EXPECT_EQ(check(R"(kernel add(x: bf16[m, n] in, y: f32[m, n] out streamed, z: bf16[m, n] out streamed)
  symbol m in 1..64
  symbol n in 1..4096
  level scheduled
  for i in 0..m parallel
    for jo in 0..floor_div(n + 31, 32)
      for ji in 0..32 vectorize
        if jo*32 + ji < n
          y[i, jo*32 + ji] = f32(x[i, jo*32 + ji]) + 1.0f32
    for jo_1 in 0..floor_div(n + 31, 32)
      for ji_1 in 0..32 vectorize
        if jo_1*32 + ji_1 < n
          z[i, jo_1*32 + ji_1] = x[i, jo_1*32 + ji_1]
)",
                                 {.symbols = {{"m", 5}, {"n", n}}}),
              "")
        << n;
  }
}

TEST(Lowered, CausalMaskOverASerialLoop) {
  EXPECT_EQ(check(R"(kernel causal(x: f32[n, n] in, y: f32[n] out)
  symbol n in 1..64
  level scheduled
  for i in 0..n parallel
    y[i] = -inf_f32
    for j in 0..n
      update max y[i] by select(j <= i, x[i, j], -100.0f32)
)", {.symbols = {{"n", 23}}}), "");
}

}  // namespace
}  // namespace loopwright
