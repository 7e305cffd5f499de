// Which template a group gets, and that its default schedule computes what the naive kernel does.
#include <gtest/gtest.h>

#include "loopwright/graph.h"
#include "src/codegen/cuda/emit.h"
#include "src/driver/build.h"
#include "src/driver/planner.h"
#include "src/graph/group.h"
#include "tests/support/random_data.h"

namespace loopwright::driver {
namespace {

struct Chosen {
  Job job;
  Scheduled scheduled;
  std::string why;  ///< the rejections of templates that come before
};

/// The first template whose default picks are not rejected, for the one group of the graph.
Chosen choose(const std::string& text, const Target& target) {
  const auto graph = Graph::parse("graph g\n" + text);
  EXPECT_TRUE(graph.ok()) << graph.error().message();
  const auto groups = graph::group_ops(*graph, grouping_for(target.kind));
  EXPECT_EQ(groups.size(), 1u);
  Job job = *make_job(graph::make_workload(groups[0].graph));
  std::string why;
  for (const Template* t : templates_for(job, target)) {
    Space space;
    auto scheduled = run_template(job, *t, space, target);
    if (scheduled.ok()) return {std::move(job), std::move(*scheduled), why};
    why += scheduled.error().message() + "\n";
  }
  ADD_FAILURE() << why;
  throw std::logic_error("no template");
}

Target make_target() {
  Target target = *Target::parse("cpu:x86-64-v3");
  target.workers = 4;
  return target;
}

void expect_same_meaning(const Chosen& c, const std::vector<Bindings>& sizes) {
  const auto lowered = lower_kernel(c.scheduled.kernel, make_target());
  ASSERT_TRUE(lowered.ok()) << lowered.error().message();
  for (const Bindings& size : sizes) {
    const auto arguments = test::random_arguments(c.job.naive, size, 7);
    const auto expected = test::interpret_copy(c.job.naive, size, arguments);
    const auto found = test::interpret_copy(*lowered, size, arguments);
    ASSERT_TRUE(expected.ok() && found.ok()) << (expected.ok() ? found : expected).error().message();
    const auto difference = test::find_difference(c.job.naive, *expected, *found, true);
    EXPECT_FALSE(difference.has_value()) << *difference << "\n" << c.scheduled.trace;
  }
}

bool has_line(const Chosen& c, const std::string& part) { return c.scheduled.trace.find(part) != std::string::npos; }

const std::vector<Bindings> kSizes = {{{"s0", 1}}, {{"s0", 7}}, {{"s0", 13}}};

TEST(Templates, SeveralOutputsBehindAProductAreFusedAtItsTiles) {
  const Chosen c = choose("symbol n in 1..40\ninput x: f32[n, 24]\ninput w: f32[20, 24]\n"
                          "h = linear(x, w)\ny = exp(h)\nz = sqrt(mul(h, h))\noutput y\noutput z\n", make_target());
  EXPECT_EQ(c.scheduled.template_name, "matmul") << c.why;
  EXPECT_TRUE(has_line(c, "fuse_epilogue o0 ")) << c.scheduled.trace;
  EXPECT_TRUE(has_line(c, "fuse_epilogue o1 ")) << c.scheduled.trace;
  expect_same_meaning(c, kSizes);
}

TEST(Templates, AnOperandOfSeveralTensorsIsComputedWhileItIsPacked) {
  const Chosen c = choose("symbol n in 1..40\ninput x: f32[n, 10]\ninput y: f32[n, 14]\ninput w: f32[20, 24]\n"
                          "z = linear(concat(x, y, axis=1), w)\noutput z\n", make_target());
  EXPECT_EQ(c.scheduled.template_name, "matmul") << c.why;
  EXPECT_TRUE(has_line(c, "stage t0 at * in global")) << c.scheduled.trace;
  EXPECT_TRUE(has_line(c, "inline_buffer t0")) << c.scheduled.trace;
  expect_same_meaning(c, kSizes);
}

TEST(Templates, AnOperandThatIsAViewIsPackedFromIt) {
  const Chosen c = choose("symbol n in 1..40\ninput x: f32[n, 12]\ninput w: f32[n, 3, 8]\n"
                          "a = reshape(x, shape=[n, 3, 4])\n"
                          "z = matmul(permute(a, axes=[1, 2, 0]), permute(w, axes=[1, 0, 2]))\noutput z\n",
                          make_target());
  EXPECT_EQ(c.scheduled.template_name, "matmul") << c.why;
  expect_same_meaning(c, kSizes);
}

TEST(Templates, ArithmeticInFrontOfAProductIsDoneOncePerElement) {
  const Chosen c = choose("symbol n in 1..40\ninput x: bf16[n, 24]\ninput w: f32[20, 24]\n"
                          "z = linear(mul(cast(x, f32), 2.0), w)\noutput z\n", make_target());
  EXPECT_EQ(c.scheduled.template_name, "matmul") << c.why;
  EXPECT_TRUE(has_line(c, "stage t")) << c.scheduled.trace;
  expect_same_meaning(c, kSizes);
}

TEST(Templates, ManyRowsOverFewColumnsAreSharedOutInBlocks) {
  const Chosen c = choose("symbol n in 1..100000\ninput x: f32[n, 12]\ny = sum(x, axes=[0])\noutput y\n", make_target());
  EXPECT_EQ(c.scheduled.template_name, "column_reduction") << c.why;
  EXPECT_TRUE(has_line(c, "reduce_across") && has_line(c, "ways 4 blocked")) << c.scheduled.trace;
  EXPECT_TRUE(has_line(c, "parallel ")) << c.scheduled.trace;
  expect_same_meaning(c, {{{"s0", 1}}, {{"s0", 3}}, {{"s0", 150}}});
}

TEST(Templates, ManyColumnsAreSharedOutThemselves) {
  const Chosen c = choose("input x: f32[300, 512]\ny = sum(x, axes=[0])\noutput y\n", make_target());
  EXPECT_EQ(c.scheduled.template_name, "column_reduction") << c.why;
  EXPECT_FALSE(has_line(c, "reduce_across")) << c.scheduled.trace;
  EXPECT_TRUE(has_line(c, "parallel ")) << c.scheduled.trace;
}

TEST(Templates, AMatrixTimesFewVectorsIsStreamedAlongItsMemory) {
  const Target gpu = *Target::parse("cuda:sm_90a");
  const std::string operands = "input x: bf16[2, 512]\ninput w: bf16[64, 512]\ninput v: bf16[512, 64]\n";
  for (const char* product : {"y = linear(x, w)\noutput y\n", "y = matmul(x, v)\noutput y\n"}) {
    const Chosen c = choose(operands + product, gpu);
    EXPECT_EQ(c.scheduled.template_name, "gpu_matrix_vector") << c.why;
    EXPECT_TRUE(has_line(c, "reduce_across")) << c.scheduled.trace;
  }
}

TEST(Templates, ManyVectorsOrAnUnknownNumberOfThemAreNoMatrixVectorProduct) {
  const Target gpu = *Target::parse("cuda:sm_90a");
  for (const char* rows : {"9", "tokens"}) {
    const Chosen c = choose("symbol tokens in 1..64\ninput x: bf16[" + std::string(rows) + ", 512]\ninput w: bf16[64, 512]\ny = linear(x, w)\noutput y\n", gpu);
    EXPECT_NE(c.scheduled.template_name, "gpu_matrix_vector");
  }
}

// ---------------------------------------------------------------- GPU

const Target kGpu = *Target::parse("cuda:sm_90a");

/// The first template that applies, with these picks.
Result<Scheduled> schedule_first(const std::string& text, const Picks& picks) {
  const auto graph = Graph::parse("graph g\n" + text);
  EXPECT_TRUE(graph.ok()) << graph.error().message();
  const auto groups = graph::group_ops(*graph);
  EXPECT_EQ(groups.size(), 1u);
  const Job job = *make_job(graph::make_workload(groups[0].graph));
  Space space(picks);
  return run_template(job, *templates_for(job, kGpu).front(), space, kGpu);
}

TEST(GpuTemplates, PicksThatDoNotFitAreRejectedAndNotReplacedByAnotherSchedule) {
  const std::string columns = "input x: f32[3000, 512]\ny = sum(x, axes=[0])\noutput y\n";
  const auto rejected = schedule_first(columns, {{"across", 128}, {"down", 32}});
  ASSERT_FALSE(rejected.ok()) << rejected->trace;
  EXPECT_NE(rejected.error().message().find("more threads than a block has"), std::string::npos) << rejected.error().message();
  EXPECT_TRUE(schedule_first(columns, {}).ok());
}

TEST(GpuTemplates, TilesThatGoBeyondTheirRowsOfColumnsBeginTheirOwnSums) {
  // Two tiles of 32 columns for each of three rows of 40.
  for (const Picks& picks : {Picks{{"across", 8}, {"down", 2}}, Picks{{"across", 8}, {"down", 32}}}) {
    const auto found = schedule_first("input x: f32[3, 90, 40]\ny = sum(x, axes=[1])\noutput y\n", picks);
    ASSERT_TRUE(found.ok()) << found.error().message();
    const auto lowered = lower_kernel(found->kernel, kGpu);
    ASSERT_TRUE(lowered.ok()) << lowered.error().message();
    const auto text = codegen::emit_cuda(*lowered, kGpu, "k");
    ASSERT_TRUE(text.ok()) << text.error().message();
    EXPECT_EQ(text->launches.size(), 1u) << "what begins the sums is a launch of its own";
  }
}

TEST(GpuTemplates, AColumnIsFinishedByTheBlockThatSummedIt) {
  // A launch of its own would be one block, which the last block of the sums would take over with its own threads too.
  for (const char* rows : {"40", "30000"}) {
    const auto found = schedule_first("input x: bf16[" + std::string(rows) + ", 512]\noutput y = cast(mean(cast(x, f32), axes=[0]), bf16)\n", {});
    ASSERT_TRUE(found.ok()) << found.error().message();
    const auto text = codegen::emit_cuda(*lower_kernel(found->kernel, kGpu), kGpu, "k");
    ASSERT_TRUE(text.ok()) << text.error().message();
    EXPECT_EQ(text->launches.size(), 1u) << text->functions;
  }
}

TEST(GpuTemplates, ScattersShareTheirTargetsOut) {
  const auto trace = [](const std::string& target, const std::string& indices) {
    const auto found = schedule_first("input x: f32[" + target + ", 1024]\ninput i: i64[" + indices + ", 1024]\ninput v: f32[" + indices + ", 1024]\noutput y = scatter(x, i, v, axis=0, reduce=add)\n", {});
    EXPECT_TRUE(found.ok()) << found.error().message();
    EXPECT_EQ(found->template_name, "gpu_scatter");
    return found.ok() ? found->trace : "";
  };
  const std::string table = trace("50257", "8192");
  EXPECT_NE(table.find("split_targets o0_0 by 1024"), std::string::npos) << table;
  EXPECT_NE(table.find("stage i1 at"), std::string::npos) << table;
  const std::string few = trace("50257", "4");
  EXPECT_EQ(few.find("split_targets"), std::string::npos) << few;
}

TEST(GpuTemplates, ReductionsOfTheSameColumnsAreOneLaunchThatReadsThemOnce) {
  for (const char* rows : {"40", "30000"}) {  // without and with shares of the rows
    const auto found = schedule_first("input x: f32[" + std::string(rows) + ", 512]\ns = sum(x, axes=[0])\noutput d = sub(reduce_max(x, axes=[0]), s)\noutput s\n", {});
    ASSERT_TRUE(found.ok()) << found.error().message();
    const auto text = codegen::emit_cuda(*lower_kernel(found->kernel, kGpu), kGpu, "k");
    ASSERT_TRUE(text.ok()) << text.error().message();
    EXPECT_EQ(text->launches.size(), 1u) << text->functions;
    std::size_t merges = 0;
    for (std::size_t at = found->trace.find("\nmerge "); at != std::string::npos; at = found->trace.find("\nmerge ", at + 1)) ++merges;
    EXPECT_GE(merges, 5u) << found->trace;
  }
}

TEST(GpuTemplates, TensorsOfMoreThanTwoToThe31ElementsAreIndexedInLongLong) {
  for (const char* text : {"input x: i8[3, 1500000000]\noutput y = add(x, 1)\n", "input x: i8[1500000000, 3]\noutput y = sum(cast(x, i32), axes=[-1])\n",
                           "input x: i8[3000000000]\noutput y = reduce_max(x)\n", "input x: i8[65536, 40000]\noutput y = permute(x, axes=[1, 0])\n",
                           "input x: i8[65536, 40000]\noutput y = reduce_max(x, axes=[0])\n", "input x: f32[65536, 40000]\noutput y = cumulative_sum(x, axis=1)\n"}) {
    const auto found = schedule_first(text, {});
    ASSERT_TRUE(found.ok()) << text << found.error().message();
    const auto emitted = codegen::emit_cuda(*lower_kernel(found->kernel, kGpu), kGpu, "k");
    ASSERT_TRUE(emitted.ok()) << text << emitted.error().message();
    EXPECT_NE(emitted->functions.find("(long long)"), std::string::npos) << text << emitted->functions;
    for (const CudaLaunch& l : emitted->launches) EXPECT_LE(l.grid[0].evaluate(nullptr), INT32_MAX) << text;
  }
}

TEST(GpuTemplates, RunningSumsAreSharedOut) {
  const auto trace = [](const std::string& text) {
    const auto found = schedule_first(text, {});
    EXPECT_TRUE(found.ok()) << found.error().message();
    return found.ok() ? found->trace : "";
  };
  // Lanes of a warp, several rows of a block; a block; a cluster; threads above each other.
  const std::string few = trace("input x: f32[64, 64]\noutput y = cumulative_sum(x, axis=1)\n");
  EXPECT_NE(few.find("scan_across o0_1 ways 16 chunk 4 blocks 1"), std::string::npos) << few;
  EXPECT_NE(few.find("to thread_y"), std::string::npos) << few;
  const std::string block = trace("input x: bf16[4096, 4096]\noutput y = cumulative_sum(x, axis=1)\n");
  EXPECT_NE(block.find("ways 512 chunk 8 blocks 1"), std::string::npos) << block;
  EXPECT_NE(block.find("fuse_epilogue"), std::string::npos) << "the conversion is a pass of its own";
  const std::string cluster = trace("input x: f32[64, 131072]\noutput y = cumulative_sum(x, axis=1)\n");
  EXPECT_NE(cluster.find("ways 32768 chunk 4 blocks 8"), std::string::npos) << cluster;
  const std::string columns = trace("input x: f32[4096, 64]\noutput y = cumulative_sum(x, axis=0)\n");
  EXPECT_NE(columns.find("scan_across o0_0 ways 32 chunk 16 blocks 1"), std::string::npos) << columns;
}

TEST(GpuTemplates, OnlyTheAlignedVariantAssumesMoreThanElementsDo) {
  for (const char* text : {"input x: bf16[64, 512]\noutput y = gelu_tanh(x)\n", "input x: f32[64, 512]\noutput y = softmax(x, axis=-1)\n",
                           "input x: f32[300, 512]\noutput y = sum(x)\n", "input x: f32[300, 512]\noutput y = sum(x, axes=[0])\n",
                           "input x: f32[300, 512]\noutput y = permute(x, axes=[1, 0])\n"}) {
    const auto aligned = schedule_first(text, {}), other = schedule_first(text, {{"aligned", 0}});
    ASSERT_TRUE(aligned.ok() && other.ok()) << text;
    EXPECT_EQ(aligned->kernel.guard.alignment_bytes, 16) << text;
    EXPECT_EQ(other->kernel.guard.alignment_bytes, 1) << text;
  }
}

TEST(GpuTemplates, AThinProductIsSummedBesideTheTileThatItIsAddedTo) {
  const auto schedule_adapted = [](const std::string& rows) {
    return choose("symbol n in 1..4096\ninput x: bf16[" + rows + ", 512]\ninput w: bf16[256, 512]\ninput u: f32[" + rows +
                      ", 16]\ninput v: f32[256, 16]\noutput y = cast(add(cast(linear(x, w), f32), linear(u, v)), bf16)\n",
                  kGpu).scheduled;
  };
  for (const char* rows : {"n", "1, n"}) {
    const std::string trace = schedule_adapted(rows).trace;
    EXPECT_NE(trace.find("compute_at t2 at "), std::string::npos) << trace;
    EXPECT_NE(trace.find("tensorize t2_"), std::string::npos) << trace;
  }
  for (const char* rows : {"1", "4"}) {  // few rows, whatever family streams the weights: written out
    const Scheduled found = schedule_adapted(rows);
    EXPECT_NE(found.template_name, "gpu_general") << rows;
    EXPECT_NE(found.trace.find("inline_buffer t2"), std::string::npos) << rows << "\n" << found.trace;
  }
}

TEST(GpuTemplates, AnArgmaxFindsItsValueFirst) {
  const auto found = schedule_first("input x: bf16[4, 40000]\noutput y = argmax(x, axes=[-1])\n", {});
  ASSERT_TRUE(found.ok()) << found.error().message();
  EXPECT_NE(found->trace.find("value_first"), std::string::npos) << found->trace;
  const auto other = schedule_first("input x: bf16[4, 40000]\noutput y = argmax(x, axes=[-1])\n", {{"value_first", 0}});
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(other->trace.find("value_first"), std::string::npos) << other->trace;
}

TEST(GpuTemplates, ReductionsOfARowThatIsNotHeldHappenInOnePass) {
  const std::string text = "input x: f32[40, 1000]\ns = sum(x, axes=[-1])\noutput d = sub(reduce_max(x, axes=[-1]), s)\noutput s\n";
  const auto found = schedule_first(text, {{"hold", 0}});
  ASSERT_TRUE(found.ok()) << found.error().message();
  std::size_t merges = 0;
  for (std::size_t at = found->trace.find("\nmerge "); at != std::string::npos; at = found->trace.find("\nmerge ", at + 1)) ++merges;
  EXPECT_GE(merges, 2u) << found->trace;  // the rows, then the columns
}

TEST(GpuTemplates, AStreamedResultIsMarked) {
  const auto found = schedule_first("input x: bf16[64, 512]\noutput y = gelu_tanh(x)\n", {{"stream", 1}});
  ASSERT_TRUE(found.ok()) << found.error().message();
  EXPECT_NE(found->trace.find("stream o0"), std::string::npos) << found->trace;
}

}  // namespace
}  // namespace loopwright::driver
