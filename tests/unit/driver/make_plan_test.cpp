// Default schedules compiled when a plan is made.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "loopwright/compile.h"
#include "src/codegen/cuda/nvrtc.h"
#include "src/driver/defaults.h"
#include "src/driver/kept_defaults.h"
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

/// As for a default: a template may take a graph and the code generator not what it makes of it.
TEST(Show, GoesOnToTheFirstTemplateThatCodeComesOf) {
  const ShowOptions options{.target = *Target::parse("cuda:sm_90a")};
  for (const char* body : {"softmax(concat(x, z, axis=1), axis=1)", "softmax(flip(x, axes=[1]), axis=1)", "softmax(pad(x, 0, low=[0, 3], high=[0, 2]), axis=1)"}) {
    const auto graph = Graph::parse("graph g\ninput x: f32[9, 264]\ninput z: f32[9, 40]\noutput y = " + std::string(body) + "\noutput u = neg(z)\n");
    ASSERT_TRUE(graph.ok()) << graph.error().message();
    for (const Form form : {Form::trace, Form::emittable, Form::source}) {
      const auto text = show(*graph, form, options);
      EXPECT_TRUE(text.ok()) << body << (text.ok() ? "" : text.error().message());
    }
  }
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

TEST(KeptDefaults, GiveBackRangesBeforeWhatServesAllSizes) {
  if (!codegen::Nvrtc::shared().ok()) GTEST_SKIP() << "needs NVRTC";
  const std::filesystem::path path = std::filesystem::temp_directory_path() / ("kept_" + std::to_string(getpid()) + ".db");
  const Target target = *Target::parse("cuda:sm_90a");
  const auto graph = Graph::parse("graph g\nsymbol t in 1..512\ninput x: bf16[t, 256]\ninput w: bf16[128, 256]\noutput y = matmul(x, w, transpose_b=true)\n");
  ASSERT_TRUE(graph.ok()) << graph.error().message();
  const graph::Workload workload = graph::make_workload(graph::group_ops(*graph)[0].graph);
  Defaults defaults;
  defaults.want(workload);
  defaults.compile(target);
  const auto made = defaults.of(workload);
  ASSERT_TRUE(made.ok()) << made.error().message();
  ASSERT_GE(made->size(), 2u);
  KeptDefaults keeper(path, target);
  EXPECT_TRUE(keeper.find(workload).empty());
  keeper.add(workload, *made);
  keeper.write();
  EXPECT_EQ(keeper.trouble(), "");
  const std::vector<Variant> found = KeptDefaults(path, target).find(workload);
  ASSERT_EQ(found.size(), made->size());
  std::size_t ranges = 0;
  for (const Default& d : *made) {
    const auto same = [&](const Variant& v) { return v.guard == d.variant.guard && *v.artifact == *d.variant.artifact; };
    EXPECT_TRUE(std::any_of(found.begin(), found.end(), same)) << d.variant.guard.text();
    ranges += d.variant.guard.symbols.empty() ? 0 : 1;
  }
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i].guard.symbols.empty(), i >= ranges);
  EXPECT_TRUE(KeptDefaults(path, *Target::parse("cuda:sm_80")).find(workload).empty()) << "another device";
  for (const char* suffix : {"", "-wal", "-shm", ".lock"}) std::filesystem::remove(path.string() + suffix);
}

}  // namespace
}  // namespace loopwright::driver
