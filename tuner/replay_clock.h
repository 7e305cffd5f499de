// Device time of launches: replays of a CUDA graph of them, one behind the other, with events between.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "src/runtime/cuda_driver.h"

namespace loopwright::tuner {

/// For one thread, with the device's context current. Every status is the driver's first word that was not success.
class ReplayClock {
 public:
  /// Queues one launch on `stream()` with the buffers of a set.
  using Launch = std::function<ErrorCode(std::int64_t set)>;

  explicit ReplayClock(const runtime::CudaDriver& driver) : driver_(driver) {}
  ReplayClock(const ReplayClock&) = delete;
  ReplayClock& operator=(const ReplayClock&) = delete;
  ~ReplayClock();
  runtime::cuda::Status open();
  runtime::cuda::Stream stream() const { return stream_; }

  /// `calls` launches, which go round `sets` sets of buffers. Who gets `exec` destroys it.
  runtime::cuda::Status capture(const Launch& launch, std::int64_t sets, std::int64_t calls,
                                runtime::cuda::GraphExec& exec);
  /// A GPU that has just been idle runs at a low clock for some milliseconds.
  runtime::cuda::Status warm_up(runtime::cuda::GraphExec exec);
  /// Appends `samples` times of one launch, each the time of a replay divided by its `calls`.
  runtime::cuda::Status measure(runtime::cuda::GraphExec exec, std::int64_t calls, std::size_t samples,
                                std::vector<double>& ns);
  /// About how long one launch takes, from a short replay.
  runtime::cuda::Status estimate(const Launch& launch, std::int64_t sets, double& one_ns);
  /// Launches for a replay of at least `min_ns`: whole rounds over the sets, so that it touches all of them equally.
  static std::int64_t count_calls(double one_ns, double min_ns, std::int64_t sets);

 private:
  const runtime::CudaDriver& driver_;
  runtime::cuda::Stream stream_ = nullptr;
  std::vector<runtime::cuda::Event> events_;
};

}  // namespace loopwright::tuner
