// Judgement of candidates on a GPU, with the fake CUDA driver: every way to be wrong is told apart, and what comes next
// is unharmed.
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "loopwright/runtime.h"
#include "src/driver/build.h"
#include "tuner/measure.h"
#include "tuner/probes.h"
#include "tests/fake_cuda/fake_artifact.h"
#include "tests/unit/tuner/synthetic.h"

namespace loopwright::tuner {
namespace {

/// y = x + x over n in 1..2000. Candidates are kernels of the fake driver, the reference is the CPU's.
struct GpuFixture {
  graph::Workload workload;
  driver::Job job;
  std::unique_ptr<WorkerDevice> device;
  Bindings main;

  static Graph make_graph() {
    Graph g("twice");
    const Dim n = *g.symbol("n", 1, 2000);
    const Value x = *g.input("x", {.dtype = DType::f32, .shape = {n}});
    EXPECT_TRUE(g.output("y", *g.binary("add", x, x)).ok());
    return g;
  }
  explicit GpuFixture(MeasureSettings settings = gpu_settings("cuda:1", false), const char* fake = "devices=2")
      : workload(graph::make_workload(make_graph())), job(*driver::make_job(workload)) {
    static const testing::TempFolder locks;  // tests run side by side and all have the same GPUs
    ::setenv("XDG_RUNTIME_DIR", locks.path.c_str(), 1);
    ::setenv("LOOPWRIGHT_LIBCUDA", LOOPWRIGHT_FAKE_CUDA_LIBRARY, 1);
    ::setenv("LOOPWRIGHT_FAKE_CUDA", fake, 1);
    settings.min_limit_s = 3;
    auto started =
        WorkerDevice::start(LOOPWRIGHT_BIN_DIR "/loopwright-worker", *Target::parse("cuda:sm_90a"), settings);
    EXPECT_TRUE(started.ok()) << started.error().message();
    device = std::move(*started);
    const ProbePlan probes = plan_probes(workload.graph.symbols(), {});
    main = probes.search.front();
    auto reference = driver::build_reference(job, host_target());
    EXPECT_TRUE(reference.ok());
    EXPECT_TRUE(device
                    ->open({.workload = workload.digest,
                            .graph = &workload.graph,
                            .naive = &job.naive,
                            .reference = std::make_shared<Artifact>(std::move(*reference)),
                            .verify_probes = probes.verify})
                    .ok());
    device->set_default_time(1e5);
  }
  Candidate candidate(const std::string& kernel, bool with_counter = false) const {
    const SizeExpr n = SizeExpr::symbol(0), one = 1;
    auto artifact = std::make_shared<Artifact>();
    artifact->symbols = {workload.graph.symbols().at(0).name};
    artifact->args = {
        {.name = "b0", .dtype = DType::f32, .role = ArgRole::input, .shape = {n}, .strides = {one}},
        {.name = "b1", .dtype = DType::f32, .role = ArgRole::output, .shape = {n}, .strides = {one}}};
    for (std::size_t i = 0; i < 2; ++i) artifact->args[i].name = job.naive.params.at(i).buffer->name;
    if (with_counter)
      artifact->args.push_back({.name = "c",
                                .dtype = DType::i32,
                                .role = ArgRole::workspace,
                                .shape = {one},
                                .strides = {one},
                                .zeroed = true});
    test::set_fake_kernel(*artifact, kernel, n);
    return {.digest = kernel, .template_name = kernel, .artifact = artifact};
  }
};

TEST(MeasureGpu, a_right_kernel_passes_and_is_timed_by_graph_replays) {
  GpuFixture f;
  const Candidate good = f.candidate("twice");
  const Verdict verdict = f.device->verify(good);
  ASSERT_EQ(verdict.outcome, Outcome::ok) << verdict.detail;
  EXPECT_GE(verdict.cases.size(), 4U);
  for (int round = 0; round < 2; ++round) {
    const Samples samples = f.device->time(good, f.main, 70, 1e18);
    ASSERT_EQ(samples.outcome, Outcome::ok) << samples.detail;
    EXPECT_EQ(samples.ns.size(), 70U);
    for (const double ns : samples.ns) EXPECT_GT(ns, 0);
  }
  EXPECT_EQ(f.device->respawns(), 0);
}

TEST(MeasureGpu, every_fault_is_told_apart_and_the_next_candidate_is_unharmed) {
  GpuFixture f;
  const std::pair<const char*, Outcome> faults[] = {{"never_ends", Outcome::timeout},
                                                    {"illegal_address", Outcome::out_of_bounds},
                                                    {"writes_behind", Outcome::out_of_bounds},
                                                    {"changes_input", Outcome::out_of_bounds},
                                                    {"wrong_tile", Outcome::wrong_result}};
  for (const auto& [kernel, outcome] : faults) {
    const Verdict verdict = f.device->verify(f.candidate(kernel));
    EXPECT_EQ(verdict.outcome, outcome) << kernel << ": " << verdict.detail;
    EXPECT_FALSE(verdict.detail.empty()) << kernel;
    Candidate after = f.candidate("twice");
    after.digest = std::string("good after ") + kernel;
    const Verdict next = f.device->verify(after);
    EXPECT_EQ(next.outcome, Outcome::ok) << kernel << ": " << next.detail;
    EXPECT_EQ(f.device->time(after, f.main, 3, 1e18).outcome, Outcome::ok) << kernel;
  }
  EXPECT_GE(f.device->respawns(), 4);
}

TEST(MeasureGpu, zeroed_workspace_has_to_be_left_zero) {
  GpuFixture f;
  const Verdict good = f.device->verify(f.candidate("twice_counting", true));
  EXPECT_EQ(good.outcome, Outcome::ok) << good.detail;
  const Verdict bad = f.device->verify(f.candidate("forgets_counter", true));
  EXPECT_EQ(bad.outcome, Outcome::wrong_result) << bad.detail;
  EXPECT_NE(bad.detail.find("zero"), std::string::npos) << bad.detail;
}

TEST(MeasureGpu, code_that_the_driver_refuses_is_a_launch_error) {
  GpuFixture f;
  Candidate damaged = f.candidate("twice");
  auto artifact = std::make_shared<Artifact>(*damaged.artifact);
  artifact->image = {1, 2, 3, 0};
  damaged.artifact = artifact;
  EXPECT_EQ(f.device->verify(damaged).outcome, Outcome::launch_error);
}

TEST(MeasureGpu, reused_buffers_are_another_policy) {
  const MeasureSettings cold = gpu_settings("cuda:0", false), reused = gpu_settings("cuda:0", true);
  EXPECT_NE(cold.text(), reused.text());
  GpuFixture f(gpu_settings("cuda:1", true));
  const Candidate good = f.candidate("twice");
  ASSERT_EQ(f.device->verify(good).outcome, Outcome::ok);
  EXPECT_EQ(f.device->time(good, f.main, 5, 1e18).ns.size(), 5U);
}

TEST(MeasureGpu, a_second_tuner_on_the_same_gpu_is_told_so) {
  GpuFixture f;
  const auto second = WorkerDevice::start(LOOPWRIGHT_BIN_DIR "/loopwright-worker",
                                          *Target::parse("cuda:sm_90a"), gpu_settings("cuda:1", false));
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, ErrorCode::busy);
  EXPECT_NE(second.error().message().find("another process measures on it"), std::string::npos);
  const auto other = WorkerDevice::start(LOOPWRIGHT_BIN_DIR "/loopwright-worker",
                                         *Target::parse("cuda:sm_90a"), gpu_settings("cuda:0", false));
  EXPECT_TRUE(other.ok()) << other.error().message();
}

TEST(MeasureGpu, too_little_memory_is_an_error_and_not_the_end) {
  GpuFixture f(gpu_settings("cuda:1", false), "devices=2 memory=100000");
  const Verdict verdict = f.device->verify(f.candidate("twice"));
  EXPECT_EQ(verdict.outcome, Outcome::resource) << verdict.detail;
  EXPECT_NE(verdict.detail.find("out of memory"), std::string::npos) << verdict.detail;
}

}  // namespace
}  // namespace loopwright::tuner
