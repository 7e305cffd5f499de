// One launch of an artifact as a call has it, and its way to the driver: by itself, or as a node of a graph.
//
// In a header and inlined: as calls between files these steps cost a plain launch half of its own host time again.
#pragma once

#include <algorithm>

#include "src/runtime/cuda_artifact.h"

namespace loopwright::runtime {

/// The driver's word on the calling thread's last failure.
cuda::Status& last_cuda_failure() noexcept;

/// The calling thread may have no current context, or another device's: what fails for that is tried again with the right
/// one.
template <class Call>
[[gnu::always_inline]] inline cuda::Status call_in_context(const CudaDriver& driver, cuda::Context context,
                                                           Call call) noexcept {
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
  cuda::LaunchConfig config;
  std::int64_t overlap;  ///< the sum of bits of CudaLaunch::takes_overlap
  bool programmatic;     ///< may begin before the launch in front of it is over
};

inline constexpr std::int64_t kLargestGrid[3] = {INT32_MAX, 65535, 65535};

/// The bits of CudaLaunch::takes_overlap. Launches share the device only where all of them fit: blocks that find room on a
/// few multiprocessors alone are slower there than if they had waited.
inline std::int64_t join_flight(const CudaArtifact::Step& step, std::uint64_t blocks,
                                Flight& flight) noexcept {
  const double part = step.part_of_block * static_cast<double>(blocks);
  const bool fits = step.takes_overlap && flight.filled > 0 && flight.filled + part <= 1;
  flight.filled = fits ? flight.filled + part : part;
  return (fits ? 1 : 0) + (flight.goes_on && flight.filled <= 0.5 ? 2 : 0);
}

/// Fills what depends on sizes and on the flight. False when nothing has to run, or the grid cannot be (then `code` says so).
[[gnu::always_inline]] inline bool complete_record(CudaLaunchRecord& record, Flight* flight,
                                                   ErrorCode& code) noexcept {
  const CudaArtifact::Step& step = *record.step;
  cuda::LaunchConfig& config = record.config;
  if (!step.fixed) {
    config.shared_bytes = static_cast<std::uint32_t>(step.shared_bytes.evaluate(record.symbols));
    for (int d = 0; d < 3; ++d) {
      const std::int64_t blocks = step.grid[d].evaluate(record.symbols);
      if (blocks > kLargestGrid[d]) [[unlikely]] {
        code = ErrorCode::launch_failed;
        last_cuda_failure() = cuda::kInvalidValue;
        return false;
      }
      config.grid[d] = blocks > 0 ? static_cast<std::uint32_t>(blocks) : 0;
    }
  }
  const std::uint64_t blocks = std::uint64_t{config.grid[0]} * config.grid[1] * config.grid[2];
  if (blocks == 0) return false;
  record.overlap = flight == nullptr ? 0 : join_flight(step, blocks, *flight);
  record.programmatic = step.has_edge && blocks <= step.most_overlapped &&
                        (!step.overlaps_in_flight_alone || (record.overlap & 1) != 0);
  if (step.has_edge && !record.programmatic) --config.attribute_count;
  return true;
}

/// `use`, an ErrorCode(const CudaLaunchRecord&), for each launch that has blocks, up to the first that is not ok.
template <class Use>
[[gnu::always_inline]] inline ErrorCode for_each_launch(const CudaArtifact& artifact, const KernelCall& call,
                                                        Use use) noexcept {
  for (const CudaArtifact::Step& step : artifact.steps()) {
    CudaLaunchRecord record{&artifact, &step, call.buffers, call.symbols, step.config, 0, false};
    record.config.stream = static_cast<cuda::Stream>(call.stream);
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

[[gnu::always_inline]] inline cuda::Status LaunchParameters::fill(const CudaDriver& driver,
                                                                  cuda::Context context,
                                                                  const CudaLaunchRecord& record) noexcept {
  // Every parameter is an address or an int64 that lies in the caller's tables: the driver reads it there.
  void** next = list_;
  for (std::size_t i = 0; i < record.artifact->buffer_count(); ++i)
    *next++ = const_cast<void**>(&record.buffers[i]);
  for (std::size_t i = 0; i < record.artifact->symbol_count(); ++i)
    *next++ = const_cast<std::int64_t*>(&record.symbols[i]);
  const TensorMaps& maps = record.step->maps;
  if (maps.size() > 0) {
    const cuda::Status status = call_in_context(
        driver, context, [&] { return maps.encode(driver, record.buffers, record.symbols, maps_); });
    if (status != cuda::kSuccess) return status;
    for (std::size_t i = 0; i < maps.size(); ++i) *next++ = &maps_[i];
  }
  if (record.step->takes_overlap) *next = const_cast<std::int64_t*>(&record.overlap);
  return cuda::kSuccess;
}

/// Queues it on its stream. ok, out_of_memory or launch_failed, with the driver's word in last_cuda_failure.
[[gnu::always_inline]] inline ErrorCode issue(const CudaDriver& driver, cuda::Context context,
                                              const CudaLaunchRecord& record) noexcept {
  LaunchParameters parameters;
  cuda::Status status = parameters.fill(driver, context, record);
  if (status == cuda::kSuccess) {
    status = call_in_context(driver, context, [&] {
      return driver.launch(&record.config, record.step->function, parameters.list(), nullptr);
    });
    if (status == cuda::kSuccess) [[likely]]
      return ErrorCode::ok;
  }
  last_cuda_failure() = status;
  return status == cuda::kOutOfMemory ? ErrorCode::out_of_memory : ErrorCode::launch_failed;
}

}  // namespace loopwright::runtime
