// Device time of plans and of the machine's own ceilings, as replays of a CUDA graph between events.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "loopwright/runtime.h"
#include "src/runtime/cuda_device.h"
#include "tuner/replay_clock.h"

namespace loopwright::bench {

struct GpuTime {
  double median_us = 0, p10_us = 0, p90_us = 0;
  int calls = 0;  ///< launches in one replay
};
struct ComparedTime {
  double median_us = 0;   ///< 0: it did not run
  double difference = 0;  ///< of its results from the first plan's, relative to these, over all of one tensor; the largest
};

class GpuTimer {
 public:
  static Result<GpuTimer> open(const std::string& device);
  struct How {
    bool cold = true;  ///< sets of tensors together exceed the L2 three times and are used in turn; else one set for every call
    int links = 1;     ///< calls one behind the other on a set, each of which reads as first tensor what the last one wrote
  };
  /// Of one call. Links need a first and a last tensor of the same size.
  Result<GpuTime> time_plan(const Plan& plan, const std::vector<std::int64_t>& symbols, How how);
  /// Of plans with the same tensors, in turn on the same memory.
  Result<std::vector<ComparedTime>> time_plans(const std::vector<const Plan*>& plans, const std::vector<std::int64_t>& symbols, How how);
  /// Host time from a plan's first launch, which loads what it needs, to its end, in ms. Its tensors were there before.
  Result<double> first_launch_ms(const Plan& plan, const std::vector<std::int64_t>& symbols);
  const std::shared_ptr<const runtime::CudaDevice>& device() const { return device_; }
  /// Cold time of a copy of `read` bytes, or of reading them when nothing is written.
  Result<double> ceiling_us(double read, double written);
  /// A few sizes of read, write and copy as text.
  Result<std::string> describe_ceilings();

 private:
  using Launch = std::function<bool(std::size_t set)>;
  struct Memory;
  GpuTimer(std::shared_ptr<const runtime::CudaDevice> device) : device_(std::move(device)) {}  // NOLINT
  Status start();
  /// `bytes` of each tensor of a set; filled by `fill` once, then copied.
  Result<std::shared_ptr<Memory>> make_plan_sets(const Plan& plan, const std::vector<std::int64_t>& bytes, bool cold);
  Result<std::shared_ptr<Memory>> make_sets(const std::vector<std::int64_t>& bytes, bool cold,
                                            const std::function<void(std::size_t, std::uint8_t*)>& fill);
  Result<GpuTime> time(const Launch& launch, std::size_t sets);
  /// What a plan writes into its outputs on the first set, as numbers.
  Result<std::vector<std::vector<double>>> results_of(const Plan& plan, const std::vector<std::int64_t>& symbols, const std::vector<std::int64_t>& bytes, const Memory& memory);
  Result<GpuTime> time_ceiling(const std::string& kernel, std::int64_t bytes);
  Error failed(runtime::cuda::Status status) const;

  std::shared_ptr<const runtime::CudaDevice> device_;
  std::unique_ptr<tuner::ReplayClock> clock_;
  runtime::cuda::Stream stream_ = nullptr;  ///< the clock's
  runtime::cuda::Library ceilings_ = nullptr;
  std::map<std::string, runtime::cuda::Function> functions_;
  std::map<std::pair<std::string, std::int64_t>, double> known_;
};

}  // namespace loopwright::bench
