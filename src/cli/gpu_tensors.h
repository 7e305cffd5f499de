// A graph's tensors in the memory of a GPU.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "src/runtime/cuda_device.h"

namespace loopwright::cli {

/// Sets of tensors, one behind the other; freed with the object.
class GpuTensors {
 public:
  /// `bytes` of each tensor of a set. out_of_memory with what is free.
  static Result<GpuTensors> make(std::shared_ptr<const runtime::CudaDevice> device, const std::vector<std::int64_t>& bytes,
                                 std::int64_t sets);
  GpuTensors(GpuTensors&& other) noexcept;
  GpuTensors& operator=(GpuTensors&& other) noexcept;
  ~GpuTensors();

  /// To and from the first set.
  Status upload(std::size_t tensor, const void* host) const;
  Status download(std::size_t tensor, void* host) const;
  /// Copies of the first set in the others.
  Status replicate() const;
  std::vector<void*> pointers(std::int64_t set = 0) const;
  std::uint64_t set_bytes() const { return stride_; }
  std::int64_t sets() const { return sets_; }

 private:
  GpuTensors() = default;
  Status check(runtime::cuda::Status status, const char* asked) const;

  std::shared_ptr<const runtime::CudaDevice> device_;
  runtime::cuda::Address base_ = 0;
  std::vector<std::int64_t> bytes_;
  std::vector<std::uint64_t> offsets_;
  std::uint64_t stride_ = 0;
  std::int64_t sets_ = 1;
};

}  // namespace loopwright::cli
