// Measurement on a real GPU: what is wrong is found out, what hangs is killed, and what is right is timed as it is.
#include <chrono>

#include "src/driver/build.h"
#include "src/graph/workload.h"
#include "tests/device/device_test_support.h"
#include "tuner/measure.h"
#include "tuner/probes.h"

namespace loopwright::device_tests {
namespace {

using namespace tuner;

/// y = x + x in float32. Candidates and reference are CUDA text.
class WorkerFault : public OnGpu {
 protected:
  struct Bench {
    graph::Workload workload;
    driver::Job job;
    std::unique_ptr<WorkerDevice> device;
    Bindings main;
  };
  static constexpr std::int64_t kLargest = 4 << 20;

  Bench make_bench(MeasureSettings settings, std::int64_t largest = kLargest) const {
    Graph g("twice");
    const Dim n = *g.symbol("n", 1, largest);
    const Value x = *g.input("x", {.dtype = DType::f32, .shape = {n}});
    EXPECT_TRUE(g.output("y", *g.binary("add", x, x)).ok());
    graph::Workload workload = graph::make_workload(g);
    driver::Job job = *driver::make_job(workload);
    Bench b{.workload = std::move(workload), .job = std::move(job), .device = {}, .main = {}};
    auto started = WorkerDevice::start({}, device().target(), settings);
    if (!started.ok()) throw std::runtime_error(started.error().message());
    b.device = std::move(*started);
    const ProbePlan probes = plan_probes(b.workload.graph.symbols(), {});
    b.main = probes.search.front();
    for (auto& [symbol, value] : b.main) value = largest;
    const Candidate reference = candidate(b, R"(
extern "C" __global__ void __launch_bounds__(256) twice(const float* x, double* y, long long n) {
  const long long i = blockIdx.x * 256LL + threadIdx.x;
  if (i < n) y[i] = 2.0 * x[i];
})",
                                          "reference", DType::f64);
    EXPECT_TRUE(b.device
                    ->open({.workload = b.workload.digest,
                            .graph = &b.workload.graph,
                            .naive = &b.job.naive,
                            .reference = reference.artifact,
                            .verify_probes = probes.verify})
                    .ok());
    b.device->set_default_time(1e4);
    return b;
  }
  Candidate candidate(const Bench& b, const std::string& text, const std::string& name,
                      DType out = DType::f32) const {
    const SizeExpr n = SizeExpr::symbol(0);
    auto artifact = compile(text, "twice",
                            {argument(b.job.naive.params.at(0).buffer->name, ArgRole::input, n),
                             argument(b.job.naive.params.at(1).buffer->name, ArgRole::output, n, out)});
    artifact->symbols = {b.workload.graph.symbols().at(0).name};
    return {.digest = name, .template_name = name, .artifact = artifact};
  }
  static std::string body(const std::string& statements) {
    return "extern \"C\" __global__ void __launch_bounds__(256) twice(const float* x, float* y, long long n) "
           "{\n"
           "  const long long i = blockIdx.x * 256LL + threadIdx.x;\n" +
           statements + "\n}";
  }
};

TEST_F(WorkerFault, every_fault_is_told_apart_and_the_next_candidate_is_unharmed) {
  MeasureSettings settings = gpu_settings("cuda:0", false);
  Bench b = make_bench(settings);
  const std::string good = body("if (i < n) y[i] = x[i] + x[i];");
  const struct {
    const char* name;
    std::string text;
    Outcome outcome;
  } faults[] = {
      {"never ends", body("for (;;) asm volatile(\"nanosleep.u32 1000;\");"), Outcome::timeout},
      {"writes behind", body("if (i < n) y[i] = x[i] + x[i]; if (i == 0) y[n] = 1;"), Outcome::out_of_bounds},
      {"writes before", body("if (i < n) y[i] = x[i] + x[i]; if (i == 0) y[-1] = 1;"),
       Outcome::out_of_bounds},
      {"writes far away", body("if (i < n) y[i] = x[i] + x[i]; if (i == 0) y[1LL << 40] = 1;"),
       Outcome::out_of_bounds},
      {"changes its input", body("if (i < n) y[i] = x[i] + x[i]; if (i == 0) ((float*)x)[0] = 9;"),
       Outcome::out_of_bounds},
      {"wrong tile", body("if (i < n) y[i] = blockIdx.x == gridDim.x - 1 ? x[i] : x[i] + x[i];"),
       Outcome::wrong_result},
      {"unwritten tile", body("if (i < n && blockIdx.x != gridDim.x - 1) y[i] = x[i] + x[i];"),
       Outcome::wrong_result},
      {"not repeatable", body("if (i < n) y[i] = x[i] + x[i] + x[i] * (clock64() >> 4 & 1) * 2.4e-7f;"),
       Outcome::nondeterministic},
      {"bad instruction", body("if (i == 0) asm volatile(\"trap;\"); if (i < n) y[i] = x[i] + x[i];"),
       Outcome::crash},
  };
  for (const auto& fault : faults) {
    const auto from = std::chrono::steady_clock::now();
    const Verdict verdict = b.device->verify(candidate(b, fault.text, fault.name));
    const double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
    EXPECT_EQ(verdict.outcome, fault.outcome) << fault.name << ": " << verdict.detail;
    std::printf("%-18s %-16s %5.1f s  %s\n", fault.name, std::string(name(verdict.outcome)).c_str(), s,
                verdict.detail.substr(0, 110).c_str());
    const Candidate next = candidate(b, good, std::string("good after ") + fault.name);
    const Verdict after = b.device->verify(next);
    EXPECT_EQ(after.outcome, Outcome::ok) << fault.name << ": " << after.detail;
    EXPECT_EQ(b.device->time(next, b.main, 3, 1e18).outcome, Outcome::ok) << fault.name;
  }
}

TEST_F(WorkerFault, a_second_tuner_is_told_that_the_gpu_is_busy) {
  Bench b = make_bench(gpu_settings("cuda:0", false));
  const auto second = WorkerDevice::start({}, device().target(), gpu_settings("cuda:0", false));
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, ErrorCode::busy) << second.error().message();
}

class WorkerSpeed : public WorkerFault {};

TEST_F(WorkerSpeed, times_are_those_of_the_device) {
  // Copies through registers, 16 bytes a thread: known rates.
  const std::string text = R"(
extern "C" __global__ void __launch_bounds__(256) twice(const float4* x, float4* y, long long n) {
  const long long i = blockIdx.x * 256LL + threadIdx.x;
  if (4 * i < n) { float4 v = x[i]; v.x += v.x; v.y += v.y; v.z += v.z; v.w += v.w; y[i] = v; }
})";
  for (const bool reused : {false, true}) {
    for (const std::int64_t n : {1LL << 12, 1LL << 20, 1LL << 26}) {
      Bench b = make_bench(gpu_settings("cuda:0", reused), n);
      Candidate copy = candidate(b, text, "copy");
      auto artifact = std::make_shared<Artifact>(*copy.artifact);
      std::get<CudaLaunch>(artifact->launches[0]).grid[0] =
          SizeExpr::apply(SizeExpr::Op::ceil_div, SizeExpr::symbol(0), 1024);
      copy.artifact = artifact;
      const Samples samples = b.device->time(copy, b.main, 21, 1e18);
      ASSERT_EQ(samples.outcome, Outcome::ok) << samples.detail;
      std::vector<double> ns = samples.ns;
      std::sort(ns.begin(), ns.end());
      const double us = ns[ns.size() / 2] * 1e-3, gb = 8e-9 * static_cast<double>(n);
      std::printf(
          "copy of %10lld floats, buffers %s: %8.2f us (%5.2f to %5.2f), %6.0f GB/s, %lld to %lld MHz%s\n",
          static_cast<long long>(n), reused ? "reused " : "rotated", us, ns.front() * 1e-3, ns.back() * 1e-3,
          gb / us * 1e6, static_cast<long long>(samples.clock_before_khz / 1000),
          static_cast<long long>(samples.clock_after_khz / 1000), samples.throttled ? ", throttled" : "");
      EXPECT_GT(us, 0.2);
      EXPECT_LT(ns[ns.size() * 3 / 4] / ns[ns.size() / 4], 1.2) << "quartiles lie close";
    }
  }
}

}  // namespace
}  // namespace loopwright::device_tests
