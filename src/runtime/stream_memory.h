// Device memory that belongs to one thread and one stream: work on a stream runs in order, so that plans launched by a
// thread on a stream can share it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "src/runtime/cuda_driver.h"
#include "src/runtime/device.h"

namespace loopwright::runtime {

/// Blocks live as long as this object: a CUDA graph may hold the address of one that was outgrown. A block that grows at
/// least doubles, so that outgrown ones together are no larger than the newest. A thread that ends leaves its blocks to
/// later users of the same streams.
class StreamMemory : public std::enable_shared_from_this<StreamMemory> {
 public:
  StreamMemory(const CudaDriver& driver, cuda::Context context);
  StreamMemory(const StreamMemory&) = delete;
  StreamMemory& operator=(const StreamMemory&) = delete;
  ~StreamMemory();

  /// No lock and no driver call when the thread's block for this stream is large enough. Zeroed blocks are zero when
  /// they are new. Null when memory is out; `status` is then the driver's word.
  std::byte* reserve(MemoryKind kind, std::int64_t bytes, void* stream, cuda::Status& status) noexcept;

 private:
  struct Blocks;
  struct Ended;
  std::byte* grow(MemoryKind kind, std::int64_t bytes, void* stream, cuda::Status& status);
  std::byte* allocate(MemoryKind kind, std::int64_t bytes, void* stream, cuda::Status& status);

  const CudaDriver& driver_;
  cuda::Context context_;
  std::uint64_t
      serial_;  ///< of this object among all of the process: a thread's notes of older ones never match
  std::unique_ptr<Blocks> blocks_;
};

}  // namespace loopwright::runtime
