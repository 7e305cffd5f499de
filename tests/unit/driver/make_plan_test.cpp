// Default schedules compiled when a plan is made.
#include <gtest/gtest.h>

#include "loopwright/compile.h"
#include "src/codegen/cuda/nvrtc.h"
#include "src/driver/defaults.h"
#include "src/graph/group.h"
#include "src/graph/workload.h"
#include "src/runtime/jit_hook.h"

namespace loopwright::driver {
namespace {

TEST(Defaults, TakeAnyAddressWhenNoneMayBeAssumed) {
  if (!codegen::Nvrtc::shared().ok()) GTEST_SKIP() << "needs NVRTC";
  enable_jit();
  const runtime::JitHook compile = runtime::find_jit_hook();
  const Target target = *Target::parse("cuda:sm_90a");
  for (const char* text : {"input x: bf16[64, 512]\noutput y = softmax(x, axis=-1)\n",
                           "input a: bf16[256, 256]\ninput b: bf16[256, 256]\noutput y = matmul(a, b)\n"}) {
    const auto graph = Graph::parse("graph g\n" + std::string(text));
    ASSERT_TRUE(graph.ok()) << graph.error().message();
    const graph::Workload workload = graph::make_workload(graph::group_ops(*graph)[0].graph);
    const auto defaults = compile(workload.text, target);
    ASSERT_TRUE(defaults.ok()) << defaults.error().message();
    ASSERT_EQ(defaults->size(), 2u) << text;
    EXPECT_EQ((*defaults)[0]->guard.alignment_bytes, 16) << text;
    EXPECT_EQ((*defaults)[1]->guard.alignment_bytes, 1) << text;
  }
  runtime::set_jit_hook(nullptr);
}

TEST(Defaults, AreChosenForEachRangeOfASymbol) {
  const Target target = *Target::parse("cuda:sm_90a");
  const auto graph = Graph::parse("graph g\nsymbol t in 1..8192\ninput x: bf16[t, 2048]\ninput w: bf16[1024, 2048]\noutput y = matmul(x, w, transpose_b=true)\n");
  ASSERT_TRUE(graph.ok()) << graph.error().message();
  const auto job = make_job(graph::make_workload(graph::group_ops(*graph)[0].graph));
  ASSERT_TRUE(job.ok()) << job.error().message();
  const std::vector<RangedDefault> ranges = schedule_ranges(*job, target);
  ASSERT_GE(ranges.size(), 2u);
  std::int64_t below = 8192;  // the largest are left to the default for all sizes
  for (const RangedDefault& r : ranges) {
    ASSERT_EQ(r.guard.symbols.size(), 1u);
    EXPECT_LT(r.guard.symbols[0].hi, below);
    EXPECT_LE(r.guard.symbols[0].lo, r.guard.symbols[0].hi);
    below = r.guard.symbols[0].lo;
    EXPECT_EQ(r.scheduled.kernel.symbols[0].symbol.hi, r.guard.symbols[0].hi);
  }
  EXPECT_EQ(below, 1);
  EXPECT_TRUE(schedule_ranges(*job, *Target::parse("cpu:x86-64-v3")).empty());
}

}  // namespace
}  // namespace loopwright::driver
