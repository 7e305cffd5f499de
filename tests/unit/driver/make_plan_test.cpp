// Default schedules compiled when a plan is made.
#include <gtest/gtest.h>

#include "loopwright/compile.h"
#include "src/codegen/cuda/nvrtc.h"
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

}  // namespace
}  // namespace loopwright::driver
