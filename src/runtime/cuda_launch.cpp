#include "src/runtime/cuda_launch.h"

#include <algorithm>

namespace loopwright::runtime {
namespace {

constinit thread_local cuda::Status last_failure = cuda::kSuccess;

constexpr std::int64_t kLargestGrid[3] = {INT32_MAX, 65535, 65535};

/// The bits of CudaLaunch::takes_overlap. Launches share the device only where all of them fit: blocks that find room on a
/// few multiprocessors alone are slower there than if they had waited.
std::int64_t join_flight(const CudaArtifact::Step& step, std::uint64_t blocks, Flight& flight) noexcept {
  const double part = step.part_of_block * static_cast<double>(blocks);
  const bool fits = step.takes_overlap && flight.filled > 0 && flight.filled + part <= 1;
  flight.filled = fits ? flight.filled + part : part;
  return (fits ? 1 : 0) + (flight.goes_on && flight.filled <= 0.5 ? 2 : 0);
}

}  // namespace

cuda::Status& last_cuda_failure() noexcept { return last_failure; }

bool complete_record(CudaLaunchRecord& record, Flight* flight, ErrorCode& code) noexcept {
  const CudaArtifact::Step& step = *record.step;
  std::copy_n(step.config.grid, 3, record.grid);
  record.shared_bytes = step.config.shared_bytes;
  if (!step.fixed) {
    record.shared_bytes = static_cast<std::uint32_t>(step.shared_bytes.evaluate(record.symbols));
    for (int d = 0; d < 3; ++d) {
      const std::int64_t blocks = step.grid[d].evaluate(record.symbols);
      if (blocks > kLargestGrid[d]) [[unlikely]] {
        code = ErrorCode::launch_failed;
        last_failure = cuda::kInvalidValue;
        return false;
      }
      record.grid[d] = blocks > 0 ? static_cast<std::uint32_t>(blocks) : 0;
    }
  }
  const std::uint64_t blocks = std::uint64_t{record.grid[0]} * record.grid[1] * record.grid[2];
  if (blocks == 0) return false;
  record.overlap = flight == nullptr ? 0 : join_flight(step, blocks, *flight);
  record.programmatic = step.has_edge && blocks <= step.most_overlapped &&
                        (!step.overlaps_in_flight_alone || (record.overlap & 1) != 0);
  return true;
}

cuda::Status LaunchParameters::fill(const CudaDriver& driver, cuda::Context context,
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

ErrorCode issue(const CudaDriver& driver, cuda::Context context, const CudaLaunchRecord& record,
                void* stream) noexcept {
  LaunchParameters parameters;
  cuda::Status status = parameters.fill(driver, context, record);
  if (status == cuda::kSuccess) {
    cuda::LaunchConfig config = record.step->config;
    std::copy_n(record.grid, 3, config.grid);
    config.shared_bytes = record.shared_bytes;
    config.stream = static_cast<cuda::Stream>(stream);
    if (record.step->has_edge && !record.programmatic) --config.attribute_count;
    status = call_in_context(driver, context, [&] {
      return driver.launch(&config, record.step->function, parameters.list(), nullptr);
    });
    if (status == cuda::kSuccess) [[likely]]
      return ErrorCode::ok;
  }
  last_failure = status;
  return status == cuda::kOutOfMemory ? ErrorCode::out_of_memory : ErrorCode::launch_failed;
}

}  // namespace loopwright::runtime
