// One GPU of this process as a device. Uses the primary context, as the CUDA runtime and PyTorch do, and leaves the
// calling thread's current context as it was.
#pragma once

#include "src/runtime/cuda_driver.h"
#include "src/runtime/cuda_info.h"
#include "src/runtime/device.h"
#include "src/runtime/stream_memory.h"

namespace loopwright::runtime {

class CudaDevice final : public Device {
 public:
  static Result<std::shared_ptr<const CudaDevice>> open(const CudaDriver& driver, cuda::Ordinal ordinal);
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;
  ~CudaDevice() override;

  const Target& target() const override { return *info_.target; }
  db::DeviceRow fingerprint() const override { return fingerprint_of(info_); }
  Result<std::shared_ptr<const LoadedArtifact>> load(const Artifact& artifact) const override;
  std::int32_t scratch_workers() const override { return 0; }
  std::byte* reserve(MemoryKind kind, std::int64_t bytes, void* stream) const noexcept override;
  ErrorCode launch(const LoadedArtifact& loaded, const KernelCall& call) const noexcept override;
  std::unique_ptr<PlanGraphs> make_graphs(const GraphSizes& sizes) const override;
  ErrorCode wait(void* stream) const noexcept override;
  Status check_memory(std::uintptr_t address, std::int64_t bytes) const override;
  std::string describe_failure() const override;

  const CudaInfo& info() const { return info_; }
  const CudaDriver& driver() const { return driver_; }
  cuda::Context context() const { return context_; }

 private:
  CudaDevice(const CudaDriver& driver, CudaInfo info, cuda::Context context);

  const CudaDriver& driver_;
  CudaInfo info_;
  cuda::Context context_;
  std::shared_ptr<StreamMemory> memory_;
};

/// Makes a context current for a block of code and puts back the one that was.
class CurrentContext {
 public:
  CurrentContext(const CudaDriver& driver, cuda::Context context) noexcept
      : driver_(driver), status_(driver.push_context(context)) {}
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;
  ~CurrentContext() {
    cuda::Context popped = nullptr;
    if (status_ == cuda::kSuccess) driver_.pop_context(&popped);
  }
  cuda::Status status() const { return status_; }

 private:
  const CudaDriver& driver_;
  cuda::Status status_;
};

}  // namespace loopwright::runtime
