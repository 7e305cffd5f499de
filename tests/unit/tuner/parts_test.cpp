// Small parts: the build pool, features, the state of a run.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <thread>

#include "loopwright/runtime.h"
#include "src/ir/text.h"
#include "tuner/build_pool.h"
#include "tuner/builder.h"
#include "tuner/features.h"
#include "tuner/run_state.h"

namespace loopwright::tuner {
namespace {

TEST(BuildPool, EveryJobRunsOnce) {
  BuildPool pool(3);
  EXPECT_EQ(pool.threads(), 3);
  for (const std::size_t count : {0u, 1u, 2u, 100u}) {
    std::vector<std::atomic<int>> runs(count);
    pool.run(count, [&](std::size_t i) { ++runs[i]; });
    for (const auto& r : runs) EXPECT_EQ(r, 1);
  }
  EXPECT_GE(pool.busy_s(), 0);
}

TEST(BuildPool, JobsGoOnWhileTheCallerTakesWhatIsDone) {
  for (const int threads : {1, 3}) {
    BuildPool pool(threads);
    std::vector<std::atomic<int>> runs(40);
    std::vector<std::size_t> taken;
    std::atomic<bool> is_later_done = false;
    const auto all = pool.run_beside(
        runs.size(), [&](std::size_t i) { ++runs[i], is_later_done = is_later_done || i == 20; },
        [&](std::size_t i) -> Result<bool> {
          EXPECT_EQ(runs[i], 1);
          // Others build what comes later while the caller is busy with the first.
          while (i == 0 && threads > 1 && !is_later_done) std::this_thread::yield();
          taken.push_back(i);
          return true;
        });
    EXPECT_TRUE(all.ok() && *all);
    ASSERT_EQ(taken.size(), runs.size());
    for (std::size_t i = 0; i < taken.size(); ++i) EXPECT_EQ(taken[i], i);
    for (const auto& r : runs) EXPECT_EQ(r, 1);
  }
}

TEST(BuildPool, ATakerMayEndTheRoundAndThePoolServesTheNext) {
  BuildPool pool(3);
  std::atomic<int> runs = 0;
  const auto ended = pool.run_beside(1000, [&](std::size_t) { ++runs, std::this_thread::sleep_for(std::chrono::milliseconds(1)); }, [](std::size_t i) -> Result<bool> { return i < 2; });
  ASSERT_TRUE(ended.ok());
  EXPECT_FALSE(*ended);
  EXPECT_LT(runs, 1000);
  const auto failed = pool.run_beside(5, [](std::size_t) {}, [](std::size_t) -> Result<bool> { return Error{ErrorCode::bug, "take", "no", "", ""}; });
  EXPECT_FALSE(failed.ok());
  runs = 0;
  pool.run(7, [&](std::size_t) { ++runs; });
  EXPECT_EQ(runs, 7);
}

TEST(RunState, ReadsBackWhatItWrote) {
  RunState s;
  s.options.target = host_target();
  s.options.seed = 99;
  s.options.probes = {{{"tokens", 5}}};
  s.options.shapes = {{{{"tokens", 7}}, 2.5}};
  s.options.max_variants = 3;
  s.next = {{"h", "graph h\n", {}, {{{{"rows", 9}}, 4}}}};
  s.options.search = "random";
  s.graph_name = "g";
  s.graph_text = "graph g\n";
  s.elapsed_s = 1.5;
  s.ended_searches = {{"w/0", 12}};
  const auto back = RunState::parse(s.text());
  ASSERT_TRUE(back.ok()) << back.error().message();
  EXPECT_EQ(back->text(), s.text());
  EXPECT_EQ(back->options.shapes.front().count, 2.5);
  EXPECT_EQ(back->options.max_variants, 3);
  EXPECT_EQ(back->follow(0).options.shapes.front().values, (Bindings{{"rows", 9}}));
  EXPECT_EQ(RunState::parse("{}").error().code, ErrorCode::unsupported);
  EXPECT_EQ(RunState::parse("nonsense").error().code, ErrorCode::syntax);
  EXPECT_EQ(RunState::parse("{\"version\":1}").error().code, ErrorCode::syntax);
}

/// C[i, j] += A[i, k] * B[k, j], by hand.
ir::Kernel make_matmul(ir::LoopKind outer, std::int64_t size) {
  const auto buffer = [&](const char* name) {
    return std::make_shared<ir::BufferInfo>(ir::BufferInfo{name, DType::f32, ir::Memory::global, {ir::int_imm(size), ir::int_imm(size)}, {}});
  };
  const ir::Buffer a = buffer("a"), b = buffer("b"), c = buffer("c");
  const ir::Var i = ir::fresh_var("i"), j = ir::fresh_var("j"), k = ir::fresh_var("k");
  const ir::Stmt body = ir::update(ir::Monoid::sum, {c}, {ir::var(i), ir::var(j)},
                                   {ir::load(a, {ir::var(i), ir::var(k)}) * ir::load(b, {ir::var(k), ir::var(j)})});
  ir::Kernel kernel;
  kernel.params = {{a, ArgRole::input}, {b, ArgRole::input}, {c, ArgRole::output}};
  kernel.body = ir::loop(i, ir::int_imm(size), ir::loop(k, ir::int_imm(size), ir::loop(j, ir::int_imm(size), body)), outer);
  return kernel;
}

float feature(const std::vector<float>& features, std::string_view name) {
  for (std::size_t i = 0; i < features.size(); ++i) {
    if (feature_names()[i] == name) return features[i];
  }
  ADD_FAILURE() << "no feature " << name;
  return 0;
}

TEST(Features, CountWhatTheKernelDoes) {
  const auto serial = extract_features(make_matmul(ir::LoopKind::serial, 64), host_target(), {});
  ASSERT_EQ(serial.size(), feature_names().size());
  EXPECT_NEAR(feature(serial, "float_ops"), std::log2(2.0 * 64 * 64 * 64), 0.1);
  EXPECT_FLOAT_EQ(feature(serial, "loops"), 2);  // log2(1 + 3)
  EXPECT_FLOAT_EQ(feature(serial, "parallel_extent"), 1);
  EXPECT_NEAR(feature(serial, "unique_global_bytes"), std::log2(3.0 * 64 * 64 * 4), 0.01);
  const auto parallel = extract_features(make_matmul(ir::LoopKind::parallel, 64), host_target(), {});
  EXPECT_GT(feature(parallel, "parallel_extent"), 6);
  const auto large = extract_features(make_matmul(ir::LoopKind::serial, 512), host_target(), {});
  EXPECT_GT(feature(large, "traffic_l1") - feature(serial, "traffic_l1"), 8) << "the large one does not fit";
}

TEST(Builder, ErrorCodesHaveOutcomes) {
  EXPECT_EQ(classify_build_error(ErrorCode::requirement_failed), Outcome::rejected);
  EXPECT_EQ(classify_build_error(ErrorCode::too_large), Outcome::resource);
  EXPECT_EQ(classify_build_error(ErrorCode::resource_exceeded), Outcome::resource);
  EXPECT_EQ(classify_build_error(ErrorCode::compile_failed), Outcome::compile_error);
  EXPECT_EQ(classify_build_error(ErrorCode::bug), Outcome::compile_error);
}

}  // namespace
}  // namespace loopwright::tuner
