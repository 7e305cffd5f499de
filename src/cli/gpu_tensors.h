// A graph's tensors in the memory of a GPU.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "src/runtime/cuda_device.h"

namespace loopwright::cli {

/// Sets of tensors, one behind the other; freed with the object. Moved, not copied.
class GpuTensors {
 public:
  /// `bytes` of each tensor of a set. out_of_memory with what is free.
  static Result<GpuTensors> make(std::shared_ptr<const runtime::CudaDevice> device, const std::vector<std::int64_t>& bytes,
                                 std::int64_t sets);

  /// To and from the first set.
  Status upload(std::size_t tensor, const void* host) const;
  Status download(std::size_t tensor, void* host) const;
  /// Copies of the first set in the others.
  Status replicate() const;
  std::vector<void*> pointers(std::int64_t set = 0) const;
  std::int64_t sets() const { return sets_; }

 private:
  GpuTensors() = default;
  Status check(runtime::cuda::Status status, const char* asked) const;

  struct Free {
    std::shared_ptr<const runtime::CudaDevice> device;
    void operator()(void* memory) const;
  };
  runtime::cuda::Address base() const { return reinterpret_cast<runtime::cuda::Address>(memory_.get()); }

  std::shared_ptr<const runtime::CudaDevice> device_;
  std::unique_ptr<void, Free> memory_;
  std::vector<std::int64_t> bytes_;
  std::vector<std::uint64_t> offsets_;
  std::uint64_t stride_ = 0;
  std::int64_t sets_ = 1;
};

}  // namespace loopwright::cli
