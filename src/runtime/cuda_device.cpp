#include "src/runtime/cuda_device.h"

#include <array>
#include <map>
#include <mutex>

#include "src/runtime/cuda_artifact.h"

namespace loopwright::runtime {
namespace {

/// The driver's word on the calling thread's last failure.
constinit thread_local cuda::Status last_failure = cuda::kSuccess;

constexpr std::int64_t kLargestGrid[3] = {INT32_MAX, 65535, 65535};

/// Fills in what depends on the call. False when nothing has to run or the grid cannot be (`code` says which).
bool fill_config(const CudaArtifact::Step& step, const std::int64_t* symbols, cuda::LaunchConfig& config,
                 ErrorCode& code) noexcept {
  if (!step.fixed) {
    config.shared_bytes = static_cast<std::uint32_t>(step.shared_bytes.evaluate(symbols));
    for (int d = 0; d < 3; ++d) {
      const std::int64_t blocks = step.grid[d].evaluate(symbols);
      if (blocks > kLargestGrid[d]) [[unlikely]] {
        code = ErrorCode::launch_failed;
        last_failure = cuda::kInvalidValue;
        return false;
      }
      config.grid[d] = blocks > 0 ? static_cast<std::uint32_t>(blocks) : 0;
    }
  }
  return config.grid[0] != 0 && config.grid[1] != 0 && config.grid[2] != 0;
}

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

/// Devices in use, so that plans of one GPU share its arenas.
struct OpenDevices {
  std::mutex mutex;
  std::map<int, std::weak_ptr<const CudaDevice>> by_ordinal;
};

}  // namespace

Result<std::shared_ptr<const CudaDevice>> CudaDevice::open(const CudaDriver& driver, cuda::Ordinal ordinal) {
  LW_TRY(CudaInfo info, describe_cuda_device(driver, ordinal));
  if (!info.target.ok()) return info.target.error();
  cuda::Context context = nullptr;
  if (const cuda::Status status = driver.retain_context(&context, ordinal); status != cuda::kSuccess)
    return Error{status == cuda::kOutOfMemory ? ErrorCode::out_of_memory : ErrorCode::unsupported,
                 "use the device cuda:" + std::to_string(ordinal) + " (" + info.name + ")",
                 driver.describe(status), driver.path,
                 status == cuda::kOutOfMemory ? "free device memory" : "a device that no one else holds"};
  return std::shared_ptr<const CudaDevice>(new CudaDevice(driver, std::move(info), context));
}

CudaDevice::CudaDevice(const CudaDriver& driver, CudaInfo info, cuda::Context context)
    : driver_(driver),
      info_(std::move(info)),
      context_(context),
      memory_(std::make_shared<StreamMemory>(driver, context)) {}

CudaDevice::~CudaDevice() {
  memory_.reset();
  driver_.release_context(info_.ordinal);
}

Result<std::shared_ptr<const LoadedArtifact>> CudaDevice::load(const Artifact& artifact) const {
  LW_CHECK(check_runs_on(target(), artifact.target));
  LW_TRY(auto loaded, CudaArtifact::load(driver_, info_, context_, artifact));
  return std::shared_ptr<const LoadedArtifact>(std::move(loaded));
}

std::byte* CudaDevice::reserve(MemoryKind kind, std::int64_t bytes, void* stream) const noexcept {
  return memory_->reserve(kind, bytes, stream, last_failure);
}

namespace {

/// The bits of CudaLaunch::takes_overlap. Launches share the device only where all of them fit: blocks that find room on a
/// few multiprocessors alone are slower there than if they had waited.
std::int64_t join_flight(const CudaArtifact::Step& step, std::uint64_t blocks, Flight& flight) noexcept {
  const double part = step.part_of_block * static_cast<double>(blocks);
  const bool fits = step.takes_overlap && flight.filled > 0 && flight.filled + part <= 1;
  flight.filled = fits ? flight.filled + part : part;
  return (fits ? 1 : 0) + (flight.goes_on && flight.filled <= 0.5 ? 2 : 0);
}

}  // namespace

ErrorCode CudaDevice::launch(const LoadedArtifact& loaded, const KernelCall& call) const noexcept {
  const auto& artifact = static_cast<const CudaArtifact&>(loaded);
  // Every parameter is an address or an int64 that lies in the caller's tables: the driver reads it there.
  void* parameters[kMaxCudaParameters + kMostTensorMaps + 1];
  const std::size_t buffers = artifact.buffer_count();
  for (std::size_t i = 0; i < buffers; ++i) parameters[i] = const_cast<void**>(&call.buffers[i]);
  for (std::size_t i = 0; i < artifact.symbol_count(); ++i)
    parameters[buffers + i] = const_cast<std::int64_t*>(&call.symbols[i]);
  for (const CudaArtifact::Step& step : artifact.steps()) {
    cuda::LaunchConfig config = step.config;
    config.stream = static_cast<cuda::Stream>(call.stream);
    ErrorCode code = ErrorCode::ok;
    if (!fill_config(step, call.symbols, config, code)) {
      if (code != ErrorCode::ok) return code;
      continue;
    }
    const std::uint64_t blocks = std::uint64_t{config.grid[0]} * config.grid[1] * config.grid[2];
    const std::int64_t overlap = call.flight == nullptr ? 0 : join_flight(step, blocks, *call.flight);
    if (blocks > step.most_overlapped || (step.overlaps_in_flight_alone && (overlap & 1) == 0)) --config.attribute_count;
    EncodedMaps maps;
    if (step.maps.size() > 0) {
      const cuda::Status encoded = call_in_context(
          driver_, context_, [&] { return step.maps.encode(driver_, call.buffers, call.symbols, maps); });
      if (encoded != cuda::kSuccess) {
        last_failure = encoded;
        return ErrorCode::launch_failed;
      }
      for (std::size_t i = 0; i < step.maps.size(); ++i) parameters[buffers + artifact.symbol_count() + i] = &maps[i];
    }
    if (step.takes_overlap) parameters[buffers + artifact.symbol_count() + step.maps.size()] = const_cast<std::int64_t*>(&overlap);
    const cuda::Status status = call_in_context(
        driver_, context_, [&] { return driver_.launch(&config, step.function, parameters, nullptr); });
    if (status == cuda::kSuccess) [[likely]]
      continue;
    last_failure = status;
    return status == cuda::kOutOfMemory ? ErrorCode::out_of_memory : ErrorCode::launch_failed;
  }
  return ErrorCode::ok;
}

ErrorCode CudaDevice::wait(void* stream) const noexcept {
  const CurrentContext current(driver_, context_);
  const cuda::Status status = current.status() != cuda::kSuccess
                                  ? current.status()
                                  : driver_.wait_stream(static_cast<cuda::Stream>(stream));
  if (status == cuda::kSuccess) return ErrorCode::ok;
  last_failure = status;
  return ErrorCode::launch_failed;
}

std::string CudaDevice::describe_failure() const {
  if (last_failure == cuda::kSuccess) return {};
  std::string text = driver_.describe(last_failure);
  if (is_context_lost(last_failure))
    text += "; the device memory of this process is lost, and the process has to be started again";
  return text;
}

Status CudaDevice::check_memory(std::uintptr_t address, std::int64_t bytes) const {
  const auto refuse = [](std::string found, std::string works) {
    return Error{ErrorCode::wrong_arguments, "", std::move(found), "", std::move(works)};
  };
  const std::string here = "memory of " + info_.name + " (cuda:" + std::to_string(info_.ordinal) + ")";
  const CurrentContext current(driver_, context_);
  std::uint32_t type = 0, managed = 0;
  int ordinal = -1;
  cuda::Address start = 0;
  std::size_t range = 0;
  const int attributes[] = {cuda::kPointerMemoryType, cuda::kPointerIsManaged, cuda::kPointerOrdinal,
                            cuda::kPointerRangeStart, cuda::kPointerRangeBytes};
  void* values[] = {&type, &managed, &ordinal, &start, &range};
  const cuda::Status status = driver_.pointer_attributes(5, attributes, values, address);
  if (is_context_lost(status)) return refuse(driver_.describe(status), "a process that is started again");
  if (status != cuda::kSuccess || type == 0)
    return refuse("an address that is not known to the CUDA driver", here);
  if (managed != 0) return Unit{};
  if (type == cuda::kMemoryTypeHost) return refuse("an address in host memory", here);
  if (ordinal != info_.ordinal) return refuse("memory of the device cuda:" + std::to_string(ordinal), here);
  // Zero for memory that was mapped by hand; then there is nothing to compare with.
  if (range != 0 && (address < start || address - start > range ||
                     static_cast<std::size_t>(bytes) > range - (address - start)))
    return refuse("memory that ends " + std::to_string(start + range - address) + " bytes behind the address",
                  "at least " + std::to_string(bytes) + " bytes");
  return Unit{};
}

Result<std::shared_ptr<const Device>> open_cuda_device(int ordinal) {
  LW_TRY(const CudaDriver* driver, CudaDriver::shared());
  static OpenDevices open;
  const std::lock_guard lock(open.mutex);
  if (auto device = open.by_ordinal[ordinal].lock()) return std::shared_ptr<const Device>(std::move(device));
  LW_TRY(auto device, CudaDevice::open(*driver, ordinal));
  open.by_ordinal[ordinal] = device;
  return std::shared_ptr<const Device>(std::move(device));
}

}  // namespace loopwright::runtime
