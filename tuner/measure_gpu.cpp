// The GPU half of WorkerDevice: which parts of the arena the worker has on the device, and who may use the device.
#include <nlohmann/json.hpp>

#include "tuner/measure.h"

namespace loopwright::tuner {
namespace {

using nlohmann::json;

/// A context is made, and an older worker's may still be going away.
constexpr std::int64_t kOpenTimeoutMs = 60000;
/// Of the first copy of a process, before it has launched anything: a device that takes longer answers nobody.
constexpr std::int64_t kAnswerTimeoutMs = 10000;
/// Beyond that, by the slowest that a copy or a first touch of its pages may be.
constexpr std::uint64_t kSlowestBytesPerMs = 200000;

std::int64_t copy_limit_ms(std::uint64_t bytes) { return kAnswerTimeoutMs + static_cast<std::int64_t>(bytes / kSlowestBytesPerMs); }

}  // namespace

WorkerDevice::Step WorkerDevice::open_gpu() {
  gpu_->mirrored.clear();
  Step step = command(json{{"command", "open"}, {"device", settings_.device}}.dump(), kOpenTimeoutMs);
  if (step.outcome != Outcome::ok) return step;
  const std::string uuid = json::parse(step.reply).at("uuid").get<std::string>();
  if (gpu_->uuid != uuid) {
    auto lock = GpuLock::take(uuid);
    if (!lock.ok()) return {Outcome::launch_error, lock.error().code, lock.error().message(), {}};
    gpu_->uuid = uuid;
    gpu_->lock = std::move(*lock);
    gpu_->nvml = Nvml(uuid);
  }
  // A device that never answers is no candidate's fault: it has to copy something before it gets one.
  Step answer = mirror(0, sizeof(FaultReport));
  if (answer.outcome == Outcome::timeout) answer.detail = "the device does not answer: " + answer.detail;
  return answer;
}

WorkerDevice::Step WorkerDevice::mirror(std::uint64_t offset, std::uint64_t bytes) {
  Step step =
      command(json{{"command", "allocate"}, {"offset", offset}, {"bytes", bytes}}.dump(), copy_limit_ms(bytes));
  if (step.outcome != Outcome::ok) return step;
  const json ranges = json::array({json::array({offset, bytes})});
  return command(json{{"command", "upload"}, {"ranges", ranges}}.dump(), copy_limit_ms(bytes));
}

WorkerDevice::Step WorkerDevice::mirror_case(const Case& c) {
  if (!gpu_) return {};
  for (const CaseBuffer& b : c.buffers) {
    if (gpu_->mirrored.contains(b.place.front)) continue;
    if (Step step = mirror(b.place.front, b.place.zone_after - b.place.front); step.outcome != Outcome::ok)
      return step;
    gpu_->mirrored.insert(b.place.front);
  }
  return {};
}

/// Workspace is written anew before every run, so that nothing of an earlier one helps.
WorkerDevice::Step WorkerDevice::mirror_workspace(const Artifact& artifact) {
  if (!gpu_ || workspace_.empty() || artifact.target.starts_with("cpu:")) return {};
  const std::uint64_t begin = workspace_.front().front;
  return mirror(begin, workspace_.back().zone_after - begin);
}

WorkerDevice::Step WorkerDevice::mirror_timed(std::uint64_t begin) {
  gpu_->timed.clear();
  const std::int64_t limit_ms = copy_limit_ms(timed_.end - begin);
  Step step = command(json{{"command", "allocate"}, {"offset", begin}, {"bytes", timed_.end - begin}}.dump(),
                      limit_ms);
  if (step.outcome == Outcome::ok) {
    const json ranges = json::array({json::array({begin, timed_.stride})});
    step = command(json{{"command", "upload"}, {"ranges", ranges}}.dump(), limit_ms);
  }
  if (step.outcome == Outcome::ok)
    step = command(
        json{{"command", "replicate"}, {"offset", begin}, {"stride", timed_.stride}, {"sets", timed_.sets}}
            .dump(),
        limit_ms);
  if (step.outcome == Outcome::ok) gpu_->mirrored.insert(begin);
  return step;
}

}  // namespace loopwright::tuner
