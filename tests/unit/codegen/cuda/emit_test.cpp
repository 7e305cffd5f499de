#include "src/codegen/cuda/emit.h"

#include <gtest/gtest.h>

#include "src/ir/text.h"

namespace loopwright::codegen {
namespace {

Result<CudaText> emit(const std::string& kernel, const char* target = "cuda:sm_90a") {
  const auto parsed = ir::parse_kernel(kernel);
  EXPECT_TRUE(parsed.ok()) << parsed.error().message();
  return emit_cuda(*parsed, *Target::parse(target), "k");
}

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(Emit, neighbouring_lanes_make_one_access_where_the_alignment_is_known) {
  const std::string body =
      "  level emittable\n  for b in 0..16 grid_x\n    for t in 0..128 thread_x\n      for l in 0..8 vectorize\n"
      "        y[b*1024 + t*8 + l] = x[b*1024 + t*8 + l]\n";
  const std::string head = "kernel copy(x: bf16[16384] in, y: bf16[16384] out)\n";
  const auto aligned = emit(head + "  assume align 16\n" + body);
  ASSERT_TRUE(aligned.ok()) << aligned.error().message();
  EXPECT_EQ(count(aligned->functions, "const uint4*"), 1);
  EXPECT_EQ(count(aligned->functions, "*(uint4*)"), 1);
  const auto unaligned = emit(head + body);
  ASSERT_TRUE(unaligned.ok());
  EXPECT_EQ(count(unaligned->functions, "uint4"), 0);
  ASSERT_EQ(aligned->launches.size(), 1u);
  EXPECT_EQ(aligned->launches[0].block, (std::array<std::int32_t, 3>{128, 1, 1}));
}

TEST(Emit, rounds_of_a_block_that_are_iterations_of_a_grid_need_no_barrier_between_their_writes) {
  const auto barriers = [](const std::string& target) {
    const auto found = emit("kernel place(at: i32[8] in, x: f32[128] in, y: f32[1024] out)\n  level emittable\n  for b in 0..4 grid_x\n    for r in 0..2\n      let t: i64 = r*4 + b\n      if t < 8\n"
                            "        let first: i64 = i64(at[t])\n        if 0 <= first and first <= 800\n          for i in 0..128 thread_x\n            y[" + target + "] = x[i]\n");
    EXPECT_TRUE(found.ok()) << found.error().message();
    return found.ok() ? count(found->functions, "__syncthreads();") : -1;
  };
  EXPECT_EQ(barriers("first + i"), 0);
  // A write that is the block's, not the iteration's, may meet that of another round.
  EXPECT_EQ(barriers("first + i + b"), 1);
}

TEST(Emit, stores_of_a_streamed_output_leave_the_caches_first) {
  const auto text = [](const char* role, const char* body) {
    const auto found = emit("kernel copy(x: bf16[16384] in, y: bf16[16384] " + std::string(role) +
                            ")\n  assume align 16\n  level emittable\n  for b in 0..16 grid_x\n    for t in 0..128 thread_x\n" + body);
    EXPECT_TRUE(found.ok()) << found.error().message();
    return found.ok() ? found->functions : "";
  };
  const char* vectors = "      for l in 0..8 vectorize\n        y[b*1024 + t*8 + l] = x[b*1024 + t*8 + l]\n";
  const char* single = "      y[b*1024 + t] = x[b*1024 + t]\n";
  EXPECT_EQ(count(text("out streamed", vectors), "__stcs((uint4*)"), 1);
  EXPECT_EQ(count(text("out streamed", single), "__stcs(&"), 1);
  EXPECT_EQ(count(text("out", vectors) + text("out", single), "__stcs"), 0);
}

TEST(Emit, grids_that_may_be_small_begin_early_and_touch_no_memory_before_the_last_one_ends) {
  const auto make = [](const char* symbol, const char* blocks) {
    return emit("kernel copy(x: f32[n] in, y: f32[n] out)\n  symbol n in " + std::string(symbol) + "\n  level emittable\n  for b in 0.." + blocks +
                " grid_x\n    for t in 0..128 thread_x\n      if b*128 + t < n\n        y[b*128 + t] = x[b*128 + t]\n");
  };
  const auto small = make("1..100000000", "floor_div(n + 127, 128)");
  ASSERT_TRUE(small.ok()) << small.error().message();
  EXPECT_TRUE(small->launches[0].programmatic_dependent);
  const std::size_t wait = small->functions.find("lw_await_previous()");
  ASSERT_NE(wait, std::string::npos) << small->functions;
  EXPECT_GT(small->functions.find("lw_let_next_begin()"), wait) << "one grid waits at a time";
  EXPECT_EQ(count(small->functions, "lw_behind("), 2) << small->functions;
  EXPECT_GT(small->functions.find("__ldg"), small->functions.rfind("lw_behind("));

  const auto large = make("10000000..100000000", "floor_div(n + 127, 128)");
  ASSERT_TRUE(large.ok());
  EXPECT_FALSE(large->launches[0].programmatic_dependent);
  EXPECT_EQ(count(large->functions, "lw_await_previous"), 0);
  const auto older = emit("kernel one(y: f32[1] out)\n  level emittable\n  for b in 0..1 grid_x\n    y[b] = 1.0f32\n", "cuda:sm_80");
  ASSERT_TRUE(older.ok());
  EXPECT_FALSE(older->launches[0].programmatic_dependent);
}

TEST(Emit, a_launch_overlaps_where_it_is_told_to) {
  const auto found = emit("kernel total(x: f32[4096] in, y: f32[1] out)\n  level emittable\n  alloc p: f32[32] global\n  for b in 0..32 grid_x\n    p[b] = x[b]\n"
                          "  for c in 0..1 grid_x\n    y[c] = p[0]\n");
  ASSERT_TRUE(found.ok()) << found.error().message();
  ASSERT_EQ(found->launches.size(), 2u);
  EXPECT_TRUE(found->launches[0].takes_overlap);
  EXPECT_FALSE(found->launches[1].takes_overlap) << "it reads what the first writes";
  const std::string& text = found->functions;
  EXPECT_EQ(count(text, "const long long lw_overlap"), 1) << text;
  EXPECT_LT(text.find("  if (lw_overlap & 1) lw_see_earlier();\n  else lw_await_previous();"), text.find("__ldg(")) << text;
  EXPECT_GT(text.find("  if (lw_overlap & 1) lw_await_previous();\n}"), text.find("p2_p[(int)")) << text;
  EXPECT_EQ(count(text, "lw_await_previous();"), 3) << text;
}

TEST(Emit, lanes_that_stand_apart_are_loaded_before_the_first_is_used) {
  const auto found = emit("kernel waves(x: f32[2048] in, y: f32[1024] out)\n  assume align 16\n  level emittable\n  for b in 0..2 grid_x\n"
                          "    for t in 0..128 thread_x\n      for l in 0..4 vectorize\n        y[b*512 + t*4 + l] = sin(x[b*1024 + t*8 + l*2])\n");
  ASSERT_TRUE(found.ok()) << found.error().message();
  EXPECT_EQ(count(found->functions, "__ldg(&"), 4);
  EXPECT_LT(found->functions.rfind("__ldg(&"), found->functions.find("sinf(")) << found->functions;
}

TEST(Emit, a_sigmoid_is_rough_only_where_16_bits_are_left_of_it) {
  const auto text = [](const std::string& value) {
    const auto found = emit("kernel k(x: f32[128] in, y: bf16[128] out)\n  level emittable\n  for b in 0..1 grid_x\n    for t in 0..128 thread_x\n      y[t] = " + value + "\n");
    EXPECT_TRUE(found.ok()) << found.error().message();
    return found.ok() ? found->functions : "";
  };
  EXPECT_EQ(count(text("bf16(x[t]*sigmoid(x[t]))"), "lw_sigmoid_rough("), 1);
  EXPECT_EQ(count(text("bf16(sigmoid(x[t]) - 0.5f32)"), "lw_sigmoid_rough("), 0);
  EXPECT_EQ(count(text("bf16(sigmoid(x[t])*(sigmoid(x[t]) - x[t]))"), "lw_sigmoid_rough("), 0);
}

TEST(Emit, a_softmax_is_rough_where_16_bits_are_left_of_it) {
  const auto text = [](const std::string& dtype, const std::string& value) {
    const auto found = emit("kernel k(x: f32[128] in, y: " + dtype + "[128] out)\n  level emittable\n  alloc e: f32[128] registers\n  alloc s: f32[128] registers\n"
                            "  for t in 0..16 thread_x\n    s[t*8] = 0.0f32\n    for l in 0..8\n      e[t*8 + l] = " + value + "\n      s[t*8] = s[t*8] + e[t*8 + l]\n"
                            "    for l in 0..8 vectorize\n      y[t*8 + l] = " + dtype + "(e[t*8 + l] / s[t*8])\n");
    EXPECT_TRUE(found.ok()) << found.error().message();
    return found.ok() ? found->functions : "";
  };
  const std::string rough = text("bf16", "exp(x[t*8 + l])");
  EXPECT_EQ(count(rough, "lw_exp_rough("), 1) << rough;
  EXPECT_EQ(count(rough, "lw_divide("), 0) << rough;
  const std::string single = text("f32", "exp(x[t*8 + l])");
  EXPECT_EQ(count(single, "lw_exp_rough("), 0) << single;
  EXPECT_EQ(count(single, "lw_divide("), 8) << single;
  // Little may be left of a sum of both signs, but what is divided by it is rounded all the same.
  const std::string both_signs = text("bf16", "exp(x[t*8 + l])*x[t*8 + l]");
  EXPECT_EQ(count(both_signs, "lw_exp_rough("), 0) << both_signs;
  EXPECT_EQ(count(both_signs, "lw_divide("), 0) << both_signs;
}

TEST(Emit, the_next_grid_is_let_in_where_threads_meet_first) {
  const auto found = emit("kernel total(x: f32[128] in, y: f32[1] out)\n  level emittable\n  for b in 0..1 grid_x\n    alloc p: f32[128] registers\n"
                          "    for t in 0..128 thread_x\n      p[t] = x[t]\n    y[b] = 0.0f32\n    for c in 0..128 across\n      update sum y[b] by p[c]\n");
  ASSERT_TRUE(found.ok()) << found.error().message();
  const std::string& text = found->functions;
  EXPECT_EQ(count(text, "  if (lw_overlap & 2) lw_let_next_begin();"), 1) << text;
  EXPECT_EQ(count(text, "lw_let_next_begin();"), 2) << text;
  EXPECT_GT(text.rfind("lw_let_next_begin();"), text.find("__ldg(")) << text;
  EXPECT_LT(text.rfind("lw_let_next_begin();"), text.find("__shfl_xor_sync(")) << text;
}

TEST(Emit, halves_are_compared_two_at_a_time) {
  for (const char* dtype : {"bf16", "f16"}) {
    const std::string t(dtype);
    const auto found = emit("kernel least(x: " + t + "[1024] in, z: " + t + "[1024] in, y: " + t + "[1024] out)\n  assume align 16\n  level emittable\n" +
                            "  for b in 0..1 grid_x\n    for t in 0..128 thread_x\n      for l in 0..8 vectorize\n" +
                            "        y[t*8 + l] = min(x[t*8 + l], z[t*8 + l])\n");
    ASSERT_TRUE(found.ok()) << found.error().message();
    EXPECT_EQ(count(found->functions, "lw_min2_" + t + "("), 4) << found->functions;
  }
}

TEST(Emit, large_tensors_take_64_bits_and_small_ones_do_not) {
  const auto text = [](const char* range) {
    return "kernel copy(x: f32[n] in, y: f32[n] out)\n  symbol n in " + std::string(range) +
           "\n  level emittable\n  for b in 0..floor_div(n + 127, 128) grid_x\n    for t in 0..128 thread_x\n"
           "      if b*128 + t < n\n        y[b*128 + t] = x[b*128 + t]\n";
  };
  EXPECT_EQ(count(emit(text("1..1000000"))->functions, "(long long)(int)"), 0);
  EXPECT_GT(count(emit(text("1..100000000000"))->functions, "long long)"), 0);
}

TEST(Emit, shared_memory_that_other_threads_read_is_waited_for) {
  const auto found = emit(
      "kernel turn(x: f32[128] in, y: f32[128] out)\n  level emittable\n  alloc s: f32[128] shared\n"
      "  for t in 0..128 thread_x\n    s[t] = x[t]\n  for u in 0..128 thread_x\n    y[u] = s[127 - u]\n");
  ASSERT_TRUE(found.ok()) << found.error().message();
  EXPECT_EQ(count(found->functions, "__syncthreads"), 1);
}

TEST(Emit, shared_memory_of_the_same_thread_is_not_waited_for) {
  const auto found = emit(
      "kernel keep(x: f32[128] in, y: f32[128] out)\n  level emittable\n  alloc s: f32[128] shared\n"
      "  for t in 0..128 thread_x\n    s[t] = x[t]\n  for u in 0..128 thread_x\n    y[u] = s[u]\n");
  ASSERT_TRUE(found.ok()) << found.error().message();
  EXPECT_EQ(count(found->functions, "__syncthreads"), 0);
}

TEST(Emit, blocks_that_leave_one_value_each_need_no_counter) {
  const auto found = emit(
      "kernel sum(x: f32[1024] in, y: f32[] out)\n  level emittable\n  alloc part: f32[8] global\n"
      "  for b in 0..8 grid_x\n    part[b] = x[b*128]\n  y[] = part[0] + part[7]\n");
  ASSERT_TRUE(found.ok()) << found.error().message();
  EXPECT_EQ(found->launches.size(), 1u);
  EXPECT_EQ(count(found->functions, "lw_publish("), 1);
  EXPECT_GE(count(found->functions, "lw_take("), 1);
  EXPECT_EQ(count(found->functions, "lw_arrive("), 0);
  ASSERT_EQ(found->args.size(), 4u);
  EXPECT_TRUE(found->args[3].zeroed);
  EXPECT_FALSE(found->args[2].zeroed);
}

TEST(Emit, what_follows_a_grid_is_done_by_its_last_block) {
  const auto found = emit(
      "kernel sum(x: f32[1024] in, y: f32[] out)\n  level emittable\n  alloc part: f64[8] global\n"
      "  for b in 0..8 grid_x\n    part[b] = f64(x[b*128])\n  y[] = f32(part[0] + part[7])\n");
  ASSERT_TRUE(found.ok()) << found.error().message();
  EXPECT_EQ(found->launches.size(), 1u);
  EXPECT_EQ(count(found->functions, "lw_arrive("), 1);
  ASSERT_EQ(found->args.size(), 4u);
  EXPECT_TRUE(found->args[3].zeroed);
  EXPECT_FALSE(found->args[2].zeroed);
}

const std::string kClusterSum =
    "kernel sum(x: f32[3, 512] in, y: f32[3] out)\n  level emittable\n  for b in 0..3 grid_x\n    alloc part: f32[512] registers\n"
    "    alloc half: f32[4] registers\n"
    "    for c in 0..4 cluster_x\n      for t in 0..128 thread_x\n        part[c*128 + t] = x[b, c*128 + t]\n"
    "    for d in 0..4 cluster_x\n      half[d] = 0.0f32\n      for u in 0..128 across\n        update sum half[d] by part[d*128 + u]\n"
    "    y[b] = 0.0f32\n    for e in 0..4 across\n      update sum y[b] by half[e]\n";

TEST(Emit, blocks_of_a_cluster_share_one_iteration_of_the_grid) {
  const auto found = emit(kClusterSum);
  ASSERT_TRUE(found.ok()) << found.error().message();
  ASSERT_EQ(found->launches.size(), 1u);
  EXPECT_EQ(found->launches[0].cluster, (std::array<std::int32_t, 3>{4, 1, 1}));
  EXPECT_EQ(found->launches[0].grid[0].evaluate(nullptr), 12);
  EXPECT_EQ(count(found->functions, "lw_peer("), 1);
  // One thread of one block writes the result, and nobody writes to a block that has not begun.
  EXPECT_GT(count(found->functions, "if (threadIdx.x + blockIdx.x % 4 == 0)"), 0);
  EXPECT_LT(found->functions.find("lw_cluster_begin();"), found->functions.find("lw_cluster_wait();"));
  EXPECT_LT(found->functions.find("lw_cluster_wait();"), found->functions.find("lw_peer("));
}

/// Threads hold `copies` values each.
std::string scan_text(int threads, int copies) {
  const std::string t = std::to_string(threads), all = std::to_string(threads * copies), k = std::to_string(copies);
  return "kernel scan(x: f32[" + all + "] in, y: f32[" + all + "] out)\n  level emittable\n  for b in 0..1 grid_x\n    alloc state: f32[1] registers\n" +
         "    state[0] = 0.0f32\n    alloc part: f32[" + all + "] registers\n    alloc before: f32[" + all + "] registers\n    for t in 0.." + t + " thread_x\n      for u in 0.." + k +
         "\n        part[u*" + t + " + t] = x[u*" + t + " + t]\n    for c in 0.." + all + " across\n      before[c] = state[0]\n      update sum state[0] by part[c]\n    for s in 0.." + t +
         " thread_x\n      for v in 0.." + k + "\n        y[v*" + t + " + s] = before[v*" + t + " + s]\n";
}

TEST(Emit, a_scan_meets_once_for_all_values_of_a_thread) {
  const auto warp = emit(scan_text(32, 3));
  ASSERT_TRUE(warp.ok()) << warp.error().message();
  EXPECT_EQ(count(warp->functions, "__shfl_up_sync("), 3 * 6) << warp->functions;
  EXPECT_EQ(count(warp->functions, "__syncthreads();"), 0) << warp->functions;
  const auto block = emit(scan_text(256, 4));
  ASSERT_TRUE(block.ok()) << block.error().message();
  EXPECT_EQ(count(block->functions, "__syncthreads();"), 1) << block->functions;
  EXPECT_EQ(count(block->functions, "__shfl_up_sync("), 5 * 6) << "each value, and the 32 slots of the warps";
}

TEST(Emit, a_scan_over_threads_that_are_no_whole_warps_is_refused) {
  EXPECT_EQ(emit(scan_text(33, 1)).error().code, ErrorCode::compile_failed);
  EXPECT_EQ(emit(scan_text(24, 2)).error().code, ErrorCode::compile_failed);
}

TEST(Emit, clusters_are_refused_where_the_gpu_has_none) {
  EXPECT_EQ(emit(kClusterSum, "cuda:sm_86").error().code, ErrorCode::resource_exceeded);
}

TEST(Emit, more_shared_memory_than_a_block_has_is_refused) {
  const std::string kernel =
      "kernel big(y: f32[1] out)\n  level emittable\n  alloc s: f32[40000] shared\n"
      "  for t in 0..128 thread_x\n    s[t] = 1.0f32\n  y[0] = s[5]\n";
  EXPECT_TRUE(emit(kernel).ok());
  EXPECT_EQ(emit(kernel, "cuda:sm_86").error().code, ErrorCode::resource_exceeded);
}

}  // namespace
}  // namespace loopwright::codegen
