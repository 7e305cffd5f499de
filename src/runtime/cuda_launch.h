// One launch of an artifact as a call has it, and its way to the driver: by itself, or as a node of a graph.
#pragma once

#include "src/runtime/cuda_artifact.h"

namespace loopwright::runtime {

/// The driver's word on the calling thread's last failure.
cuda::Status& last_cuda_failure() noexcept;

/// The calling thread may have no current context, or another device's: what fails for that is tried again with the right
/// one.
template <class Call>
cuda::Status call_in_context(const CudaDriver& driver, cuda::Context context, Call call) noexcept {
  const cuda::Status status = call();
  if (status != cuda::kInvalidContext && status != cuda::kInvalidHandle) [[likely]]
    return status;
  const CurrentContext current(driver, context);
  return current.status() != cuda::kSuccess ? current.status() : call();
}

/// All that follows from a call but the tensor maps, which are encoded on the way to the driver. Points into the call.
struct CudaLaunchRecord {
  const CudaArtifact* artifact;
  const CudaArtifact::Step* step;
  void* const* buffers;         ///< in the order of Artifact::args
  const std::int64_t* symbols;  ///< in the order of Artifact::symbols
  std::uint32_t grid[3];
  std::uint32_t shared_bytes;
  std::int64_t overlap;  ///< the sum of bits of CudaLaunch::takes_overlap
  bool programmatic;     ///< may begin before the launch in front of it is over
};

/// Fills what depends on sizes and on the flight. False when nothing has to run, or the grid cannot be (then `code` says so).
bool complete_record(CudaLaunchRecord& record, Flight* flight, ErrorCode& code) noexcept;

/// `use`, an ErrorCode(const CudaLaunchRecord&), for each launch that has blocks, up to the first that is not ok.
template <class Use>
ErrorCode for_each_launch(const CudaArtifact& artifact, const KernelCall& call, Use use) noexcept {
  for (const CudaArtifact::Step& step : artifact.steps()) {
    CudaLaunchRecord record{&artifact, &step, call.buffers, call.symbols, {}, 0, 0, false};
    ErrorCode code = ErrorCode::ok;
    if (complete_record(record, call.flight, code)) code = use(static_cast<const CudaLaunchRecord&>(record));
    if (code != ErrorCode::ok) [[unlikely]]
      return code;
  }
  return ErrorCode::ok;
}

/// The kernel's parameters as the driver reads them: it copies them before the call that gets them returns.
class LaunchParameters {
 public:
  cuda::Status fill(const CudaDriver& driver, cuda::Context context, const CudaLaunchRecord& record) noexcept;
  void** list() { return list_; }

 private:
  void* list_[kMaxCudaParameters + kMostTensorMaps + 1];
  EncodedMaps maps_;
};

/// Queues it on the stream. ok, out_of_memory or launch_failed, with the driver's word in last_cuda_failure.
ErrorCode issue(const CudaDriver& driver, cuda::Context context, const CudaLaunchRecord& record,
                void* stream) noexcept;

}  // namespace loopwright::runtime
