#include "src/cli/gpu_time.h"

#include <memory>

#include "tuner/gpu_lock.h"
#include "tuner/interleave.h"
#include "tuner/measure.h"
#include "tuner/nvml.h"
#include "tuner/replay_clock.h"

namespace loopwright::cli {
namespace {

namespace cuda = runtime::cuda;

/// One plan's launches, captured.
struct Replayed {
  Replayed(const runtime::CudaDriver& d, GpuTensors t) : driver(d), tensors(std::move(t)) {}
  Replayed(const Replayed&) = delete;
  Replayed& operator=(const Replayed&) = delete;
  ~Replayed() {
    if (exec != nullptr) driver.destroy_graph_exec(exec);
  }
  const runtime::CudaDriver& driver;
  GpuTensors tensors;
  cuda::GraphExec exec = nullptr;
  std::int64_t calls = 1;
  double one_ns = 0;
};

Error fail_timing(const runtime::CudaDevice& gpu, const Plan& plan, std::string found) {
  return {ErrorCode::launch_failed, "time " + plan.spec().name, std::move(found),
          gpu.info().name + " (cuda:" + std::to_string(gpu.info().ordinal) + ")", ""};
}

Result<std::unique_ptr<Replayed>> capture_plan(tuner::ReplayClock& clock, const Rehearsal& rehearsal,
                                               const tuner::MeasureSettings& settings) {
  const runtime::CudaDevice& gpu = *rehearsal.gpu();
  const Plan& plan = rehearsal.plan();
  LW_TRY(GpuTensors tensors,
         rehearsal.copy_to_gpu(tuner::count_sets(settings, static_cast<std::uint64_t>(rehearsal.bytes()))));
  auto made = std::make_unique<Replayed>(gpu.driver(), std::move(tensors));
  std::vector<std::vector<void*>> pointers;
  for (std::int64_t s = 0; s < made->tensors.sets(); ++s) pointers.push_back(made->tensors.pointers(s));
  const auto launch = [&](std::int64_t set) {
    return plan.launch(pointers[static_cast<std::size_t>(set)].data(), rehearsal.symbols().data(), clock.stream());
  };
  // The first launch loads code and makes workspace; what is wrong with it is told better than from inside a capture.
  ErrorCode code = launch(0);
  if (code == ErrorCode::ok) code = gpu.wait(clock.stream());
  if (code != ErrorCode::ok) return fail_timing(gpu, plan, gpu.describe_failure());
  cuda::Status status = clock.estimate(launch, made->tensors.sets(), made->one_ns);
  if (status == cuda::kSuccess) {
    made->calls = tuner::ReplayClock::count_calls(made->one_ns, settings.min_sample_ns, made->tensors.sets());
    status = clock.capture(launch, made->tensors.sets(), made->calls, made->exec);
  }
  if (status == cuda::kSuccess) status = clock.warm_up(made->exec);
  if (status != cuda::kSuccess) return fail_timing(gpu, plan, gpu.driver().describe(status));
  return made;
}

}  // namespace

Result<GpuTimes> time_on_gpu(const std::vector<const Rehearsal*>& rehearsals, bool reuse_buffers, std::uint64_t seed) {
  const runtime::CudaDevice& gpu = *rehearsals.front()->gpu();
  LW_TRY(const tuner::GpuLock lock, tuner::GpuLock::take(gpu.info().uuid));
  const tuner::Nvml nvml(gpu.info().uuid);
  const runtime::CurrentContext current(gpu.driver(), gpu.context());
  tuner::ReplayClock clock(gpu.driver());
  cuda::Status status = current.status() == cuda::kSuccess ? clock.open() : current.status();
  if (status != cuda::kSuccess) return fail_timing(gpu, rehearsals.front()->plan(), gpu.driver().describe(status));
  const tuner::MeasureSettings settings = tuner::complete_settings(
      tuner::gpu_settings("cuda:" + std::to_string(gpu.info().ordinal), reuse_buffers), gpu.target());
  std::vector<std::unique_ptr<Replayed>> replayed;
  std::vector<std::function<double()>> samplers;
  double round_s = 0;
  for (const Rehearsal* r : rehearsals) {
    LW_TRY(auto one, capture_plan(clock, *r, settings));
    // A sample is two replays, the first of which is not timed.
    round_s += 2e-9 * one->one_ns * static_cast<double>(one->calls);
    samplers.emplace_back([&status, &clock, &one = *one] {
      std::vector<double> ns;
      if (status == cuda::kSuccess) status = clock.measure(one.exec, one.calls, 1, ns);
      return ns.empty() ? 0.0 : ns.front();
    });
    replayed.push_back(std::move(one));
  }
  const InterleaveOptions options{.seed = seed};
  GpuTimes times{.of = tuner::interleave_samples(samplers, tuner::count_rounds(round_s, options), seed)};
  if (status != cuda::kSuccess) return fail_timing(gpu, rehearsals.front()->plan(), gpu.driver().describe(status));
  times.throttled = nvml.read().throttled;
  return times;
}

}  // namespace loopwright::cli
