// One tuner at a time on a GPU: two would spoil each other's numbers.
#pragma once

#include <string>
#include <utility>

#include "loopwright/base.h"

namespace loopwright::tuner {

/// Holds a lock on a file named after the GPU, in XDG_RUNTIME_DIR or /tmp; the system drops it with the process.
class GpuLock {
 public:
  /// busy when another process has it, with the file's name; io when there is no file to be had.
  static Result<GpuLock> take(const std::string& uuid);
  GpuLock() = default;
  GpuLock(GpuLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  GpuLock& operator=(GpuLock&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~GpuLock();

 private:
  int descriptor_ = -1;
};

}  // namespace loopwright::tuner
