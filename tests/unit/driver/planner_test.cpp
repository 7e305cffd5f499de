// The order of a plan's kernels.
#include "src/driver/planner.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace loopwright::driver {
namespace {

TEST(Planner, puts_kernels_side_by_side_that_may_run_at_the_same_time) {
  const auto graph = Graph::load(LOOPWRIGHT_SOURCE_DIR "/examples/moe_expert.lw");
  ASSERT_TRUE(graph.ok()) << graph.error().message();
  const auto planned = plan_graph(*graph, TargetKind::cpu);
  ASSERT_TRUE(planned.ok()) << planned.error().message();
  const auto& kernels = planned->spec.kernels;
  ASSERT_EQ(kernels.size(), 9u);
  // Gate and up with the first halves of their adapters read x alone.
  for (std::size_t k = 0; k < 4; ++k) EXPECT_EQ(planned->spec.tensors[static_cast<std::size_t>(kernels[k].args[0])].name, "x") << k;
  for (std::size_t k = 0; k < kernels.size(); ++k) EXPECT_EQ(kernels[k].workload, planned->workloads[k].digest);
}

TEST(Planner, adapters_are_no_kernels_of_their_own_on_a_gpu) {
  const auto graph = Graph::load(LOOPWRIGHT_SOURCE_DIR "/examples/moe_expert.lw");
  ASSERT_TRUE(graph.ok()) << graph.error().message();
  EXPECT_EQ(plan_graph(*graph, TargetKind::cuda)->spec.kernels.size(), 5u);  // three first halves, gate and up, down
}

TEST(Planner, an_update_stays_behind_what_reads_the_old_contents) {
  const auto graph = Graph::parse(
      "graph g\ninput cache: f32[64, 64]\ninput w: f32[64, 64]\ninput v: f32[64, 64]\na = matmul(w, w)\nc = matmul(a, w)\n"
      "b = matmul(cache, c)\nn = matmul(w, v)\nupdate cache = n\noutput b\n");
  ASSERT_TRUE(graph.ok()) << graph.error().message();
  const auto planned = plan_graph(*graph, TargetKind::cpu);
  ASSERT_TRUE(planned.ok()) << planned.error().message();
  // The reader comes third at the soonest; what overwrites the cache could go with the second one, were it not for that.
  const auto& spec = planned->spec;
  std::vector<std::size_t> touching;
  for (std::size_t k = 0; k < spec.kernels.size(); ++k)
    if (std::count(spec.kernels[k].args.begin(), spec.kernels[k].args.end(), 0) > 0) touching.push_back(k);
  ASSERT_EQ(touching.size(), 2u);
  EXPECT_EQ(spec.tensors[static_cast<std::size_t>(spec.kernels[touching[0]].args.back())].name, "b");
}

TEST(Planner, a_kernel_with_tf32_names_the_strict_one) {
  const std::string body = "input x: f32[64, 64]\ninput w: f32[64, 64]\np = matmul(x, w)\noutput s = sum(exp(p), axes=[1])\n";
  const auto strict = plan_graph(*Graph::parse("graph g\n" + body), TargetKind::cpu), loose = plan_graph(*Graph::parse("graph g\naccuracy tf32\n" + body), TargetKind::cpu);
  ASSERT_TRUE(strict.ok() && loose.ok());
  ASSERT_EQ(loose->spec.kernels.size(), strict->spec.kernels.size());
  EXPECT_NE(loose->spec.graph_digest, strict->spec.graph_digest);
  int products = 0;
  for (std::size_t k = 0; k < loose->spec.kernels.size(); ++k) {
    const PlanKernel& kernel = loose->spec.kernels[k];
    const bool is_product = kernel.family == "matmul";
    products += is_product ? 1 : 0;
    EXPECT_EQ(kernel.workload != strict->spec.kernels[k].workload, is_product) << kernel.family;
    EXPECT_EQ(kernel.strict_workload, is_product ? strict->spec.kernels[k].workload : "");
    EXPECT_EQ(strict->spec.kernels[k].strict_workload, "");
  }
  EXPECT_EQ(products, 1);
}

}  // namespace
}  // namespace loopwright::driver
