// The hot call: choice of variants, arena, scratch, threads, and no allocation.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <thread>

#include "src/runtime/plan.h"
#include "tests/unit/runtime/count_new.h"
#include "tests/unit/runtime/hand_made.h"

namespace loopwright {
namespace {

using namespace runtime::testing;

constexpr std::int64_t kMost = 100000;  ///< floats of a chain's tensors

Plan make_on(int workers, PlanSpec spec, std::vector<std::vector<Variant>> variants) {
  runtime::PlanParts parts;
  parts.spec = std::move(spec);
  parts.variants = std::move(variants);
  parts.device = runtime::make_cpu_device(workers);
  auto plan = runtime::PlanAccess::make(std::move(parts));
  if (!plan.ok()) throw std::runtime_error(plan.error().message());
  return std::move(plan).value();
}

Plan chain_plan(int kernels, int workers = 1) {
  return make_on(
      workers, chain_spec(kernels, kMost),
      std::vector<std::vector<Variant>>(static_cast<std::size_t>(kernels), {variant_of(twice_artifact())}));
}

bool doubles(const Plan& plan, std::int64_t n, float factor) {
  std::vector<float> x(static_cast<std::size_t>(n)), y(static_cast<std::size_t>(n), -1);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 1000 + 1);
  void* pointers[] = {x.data(), y.data()};
  if (plan.launch(pointers, &n) != ErrorCode::ok) return false;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (y[i] != factor * x[i]) return false;
  return true;
}

TEST(PlanLaunch, AChainOfKernelsSharesTwoSlots) {
  const Plan plan = chain_plan(9);
  EXPECT_TRUE(doubles(plan, 1000, 512));
  const std::int64_t n = 1024;
  EXPECT_EQ(plan.arena_bytes({&n, 1}), 2 * 4096) << "eight intermediates, of which two live at a time";
  const std::int64_t zero = 0;
  EXPECT_EQ(plan.arena_bytes({&zero, 1}) % runtime::kBlockAlignment, 0);
}

TEST(PlanLaunch, RunsInParallelAtAnySize) {
  for (const int workers : {1, 2, 4}) {
    const Plan plan = chain_plan(4, workers);
    for (const std::int64_t n : {0, 1, 2, 3, 5, 17, 1000, 100000})
      EXPECT_TRUE(doubles(plan, n, 16)) << workers << " workers, n = " << n;
  }
}

TEST(PlanLaunch, ChoosesTheFirstVariantWhoseGuardHolds) {
  PlanSpec spec = twice_spec(0, 1000);
  spec.tensors = {vector_tensor("out", ArgRole::output, SizeExpr(1), DType::i64)};
  spec.kernels[0].args = {0};
  const auto writer = [](std::uint8_t value) {
    return make_artifact(write_constant(value), {vector_arg("out", ArgRole::output, SizeExpr(1), DType::i64)},
                         1);
  };
  Guard aligned;
  aligned.alignment_bytes = 64;
  const Plan plan =
      Plan::make(spec, {{variant_of(writer(1), bounds(1, 10)), variant_of(writer(2), bounds(8, 100, 4)),
                         variant_of(writer(3), aligned), variant_of(writer(4), bounds(0, 500))}})
          .value();
  alignas(64) std::int64_t out[2] = {};
  const auto at = [&](std::int64_t n, int place) {
    void* pointers[] = {out + place};
    out[place] = 0;
    const ErrorCode code = plan.launch(pointers, &n);
    return code == ErrorCode::ok ? out[place] : -static_cast<std::int64_t>(code);
  };
  EXPECT_EQ(at(8, 0), 1);
  EXPECT_EQ(at(12, 0), 2);
  EXPECT_EQ(at(13, 0), 3);
  EXPECT_EQ(at(13, 1), 4) << "not aligned to 64 bytes";
  EXPECT_EQ(at(501, 0), 3);
  EXPECT_EQ(at(501, 1), -static_cast<std::int64_t>(ErrorCode::no_variant));
}

TEST(PlanLaunch, RunsNothingWhenOneKernelHasNoVariant) {
  PlanSpec spec = chain_spec(2, kMost);
  spec.tensors[2].role = ArgRole::output;  // the first kernel's result is visible
  const Plan plan =
      Plan::make(spec, {{variant_of(twice_artifact())}, {variant_of(twice_artifact(), bounds(100, 200))}})
          .value();
  Held<float> x({1, 2, 3}), y({0, 0, 0}), middle({-1, -1, -1});
  void* pointers[] = {x.data.data(), y.data.data(), middle.data.data()};
  const std::int64_t n = 3;
  EXPECT_EQ(plan.launch(pointers, &n), ErrorCode::no_variant);
  EXPECT_EQ(middle.data, (std::vector<float>{-1, -1, -1}));
}

std::shared_ptr<Artifact> workspace_artifact() {
  return make_artifact(
      kTwiceThroughWorkspace,
      {vector_arg("x", ArgRole::input, symbol(0)), vector_arg("w", ArgRole::workspace, symbol(0)),
       vector_arg("y", ArgRole::output, symbol(0))},
      symbol(0));
}

TEST(PlanLaunch, WorkspacesDoNotTouchLiveIntermediates) {
  // y = 2·2·x: the intermediate is read by the kernel that also has the workspace.
  PlanSpec spec = chain_spec(2, kMost);
  const Plan plan =
      Plan::make(spec, {{variant_of(workspace_artifact())}, {variant_of(workspace_artifact())}}).value();
  for (const std::int64_t n : {0, 1, 31, 32, 33, 5000}) EXPECT_TRUE(doubles(plan, n, 4)) << n;
  const std::int64_t n = 1024;
  EXPECT_EQ(plan.arena_bytes({&n, 1}), 2 * 4096)
      << "both workspaces share a slot, the intermediate has the other";
}

TEST(PlanLaunch, EachWorkerHasItsOwnScratch) {
  for (const int workers : {1, 2, 4}) {
    const auto artifact = make_artifact(
        kCopyThroughScratch,
        {vector_arg("x", ArgRole::input, symbol(0)), vector_arg("y", ArgRole::output, symbol(0))}, symbol(0));
    std::get<CpuLaunch>(artifact->launches[0]).scratch_bytes = 64;
    const Plan plan = make_on(workers, twice_spec(0, 100000), {{variant_of(artifact)}});
    const std::int64_t n = 100;
    EXPECT_EQ(plan.arena_bytes({&n, 1}), workers * 128);
    for (int round = 0; round < 50; ++round) ASSERT_TRUE(doubles(plan, 20000, 1)) << workers;
  }
}

TEST(PlanLaunch, CodeCallsTheMathLibrary) {
  PlanSpec spec = twice_spec();
  for (PlanTensor& tensor : spec.tensors) tensor.dtype = DType::f64;
  const auto artifact = make_artifact(kCallExp,
                                      {vector_arg("x", ArgRole::input, symbol(0), DType::f64),
                                       vector_arg("y", ArgRole::output, symbol(0), DType::f64)},
                                      symbol(0));
  const Plan plan = Plan::make(spec, {{variant_of(artifact)}}).value();
  Held<double> x({0, 1, -2.5}), y({0, 0, 0});
  ASSERT_TRUE(plan.run(std::vector{x.view(DType::f64), y.view(DType::f64)}).ok());
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(y.data[i], std::exp(x.data[i]));
}

TEST(PlanLaunch, ArtifactsMayNameSymbolsInAnotherOrder) {
  PlanSpec spec = twice_spec(0, 100);
  spec.symbols = {{"a", 0, 100}, {"b", 0, 100}, {"c", 0, 100}};
  spec.tensors = {vector_tensor("out", ArgRole::output, SizeExpr(2), DType::i64)};
  spec.kernels = {{"w", "symbols", {0}, {2, 0}, {"s0", "s1"}}};
  const auto artifact = make_artifact(
      kWriteSymbols, {vector_arg("out", ArgRole::output, SizeExpr(2), DType::i64)}, 2, {"s1", "s0"});
  const Plan plan = Plan::make(spec, {{variant_of(artifact)}}).value();
  std::int64_t out[2] = {};
  void* pointers[] = {out};
  const std::int64_t symbols[] = {10, 20, 30};
  ASSERT_EQ(plan.launch(pointers, symbols), ErrorCode::ok);
  EXPECT_EQ(out[0], 10);
  EXPECT_EQ(out[1], 30);
}

TEST(PlanLaunch, TooLargeAnArenaIsOutOfMemory) {
  PlanSpec spec = chain_spec(3, kMost);
  spec.symbols[0].hi = INT64_MAX;
  std::vector<std::vector<Variant>> variants(3, {variant_of(twice_artifact())});
  const Plan plan = Plan::make(spec, variants).value();
  float value = 0;
  void* pointers[] = {&value, &value};
  for (const std::int64_t n : {INT64_MAX, INT64_MAX / 4, std::int64_t{1} << 60, std::int64_t{1} << 50})
    EXPECT_EQ(plan.launch(pointers, &n), ErrorCode::out_of_memory) << n;
  const std::int64_t huge = INT64_MAX;
  EXPECT_EQ(plan.arena_bytes({&huge, 1}), INT64_MAX);
  EXPECT_TRUE(doubles(plan, 100, 8)) << "the thread's memory is still good";
}

TEST(PlanLaunch, DoesNotAllocateOnceWarm) {
#ifdef LW_SANITIZED
  GTEST_SKIP() << "allocations cannot be counted under a sanitizer";
#endif
  const Plan direct = twice_plan(0, 100000);
  const Plan chain = chain_plan(6, 2);
  std::vector<float> x(10000, 1), y(10000);
  void* pointers[] = {x.data(), y.data()};
  std::int64_t n = 10000;
  ASSERT_EQ(direct.launch(pointers, &n), ErrorCode::ok);
  ASSERT_EQ(chain.launch(pointers, &n), ErrorCode::ok);
  const std::int64_t before = count_allocations();
  for (n = 1; n <= 10000; n += 37) {
    ASSERT_EQ(direct.launch(pointers, &n), ErrorCode::ok);
    ASSERT_EQ(chain.launch(pointers, &n), ErrorCode::ok);
  }
  EXPECT_EQ(count_allocations(), before);
  std::string counted(100, 'x');
  EXPECT_GT(count_allocations(), before) << "the counter counts";
}

TEST(PlanLaunch, ManyThreadsShareAPlan) {
  const Plan chain = chain_plan(5, 3);
  const Plan copy = chain;  // copies share everything
  std::atomic<int> bad{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t)
    threads.emplace_back([&, t] {
      for (std::int64_t n = 1; n < 60; ++n)
        if (!doubles(t % 2 == 0 ? chain : copy, n * (t + 1) * 7, 32)) bad.fetch_add(1);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(bad.load(), 0);
}

TEST(PlanLaunch, AMissIsCounted) {
  runtime::PlanParts parts;
  parts.spec = twice_spec();
  Variant general = variant_of(twice_artifact());
  general.match = Match::untuned;
  parts.variants = {{variant_of(twice_artifact(), bounds(1, 10)), general}};
  const auto misses = std::make_shared<runtime::MissTable>(1);
  parts.misses = {misses};
  const Plan plan = runtime::PlanAccess::make(std::move(parts)).value();
  for (const std::int64_t n : {5, 50, 50, 60}) EXPECT_TRUE(doubles(plan, n, 2));
  std::int64_t total = 0;
  for (const auto& entry : misses->take()) {
    EXPECT_TRUE((entry.symbols[0] == 50 && entry.count == 2) || (entry.symbols[0] == 60 && entry.count == 1));
    total += entry.count;
  }
  EXPECT_EQ(total, 3);
}

TEST(PlanExplain, ShowsWhatServesAndWhatElseThereIs) {
  runtime::PlanParts parts;
  parts.spec = twice_spec();
  Variant tuned = variant_of(twice_artifact(), bounds(1, 10), "tile=8");
  tuned.loss_mean = 0.012;
  tuned.loss_worst = 0.034;
  Variant general = variant_of(twice_artifact(), {}, "plain");
  general.match = Match::untuned;
  parts.variants = {{tuned, general}};
  parts.notes = {{"tile=16 was built elsewhere"}};
  const Plan plan = runtime::PlanAccess::make(std::move(parts)).value();
  const std::int64_t inside = 4, outside = 40, illegal = 4000;
  std::string text = plan.explain({&inside, 1}).value();
  EXPECT_NE(text.find("> exact  s0 in 1..10  tile=8  (loss 1.2 % mean, 3.4 % worst): serves"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("plain  (not tuned): would hold, less preferred"), std::string::npos) << text;
  EXPECT_NE(text.find("not considered: tile=16 was built elsewhere"), std::string::npos) << text;
  text = plan.explain({&outside, 1}).value();
  EXPECT_NE(text.find("tile=8  (loss 1.2 % mean, 3.4 % worst): does not hold"), std::string::npos) << text;
  EXPECT_NE(text.find("> untuned"), std::string::npos) << text;
  EXPECT_EQ(plan.explain({&illegal, 1}).error().code, ErrorCode::out_of_range);
  EXPECT_EQ(plan.explain({}).error().code, ErrorCode::wrong_arguments);

  const auto choices = plan.choose({&inside, 1}).value();
  ASSERT_EQ(choices.size(), 1U);
  EXPECT_EQ(choices[0].label, "tile=8");
  EXPECT_TRUE(choices[0].is_tuned);
  EXPECT_FALSE(plan.choose({&outside, 1}).value()[0].is_tuned);
}

}  // namespace
}  // namespace loopwright
