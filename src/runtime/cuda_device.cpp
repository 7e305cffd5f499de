#include "src/runtime/cuda_device.h"

#include <map>
#include <mutex>

#include "src/runtime/cuda_graphs.h"
#include "src/runtime/cuda_launch.h"

namespace loopwright::runtime {
namespace {

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
  return memory_->reserve(kind, bytes, stream, last_cuda_failure());
}

ErrorCode CudaDevice::launch(const LoadedArtifact& loaded, const KernelCall& call) const noexcept {
  return for_each_launch(static_cast<const CudaArtifact&>(loaded), call,
                         [this](const CudaLaunchRecord& record) __attribute__((always_inline)) {
                           return issue(driver_, context_, record);
                         });
}

std::unique_ptr<PlanGraphs> CudaDevice::make_graphs(const GraphSizes& sizes) const {
  if (!driver_.makes_graphs() || sizes.launches < kFewestGraphLaunches) return nullptr;
  return std::make_unique<CudaGraphs>(*this, sizes);
}

ErrorCode CudaDevice::wait(void* stream) const noexcept {
  const CurrentContext current(driver_, context_);
  const cuda::Status status = current.status() != cuda::kSuccess
                                  ? current.status()
                                  : driver_.wait_stream(static_cast<cuda::Stream>(stream));
  if (status == cuda::kSuccess) return ErrorCode::ok;
  last_cuda_failure() = status;
  return ErrorCode::launch_failed;
}

std::string CudaDevice::describe_failure() const {
  const cuda::Status failure = last_cuda_failure();
  if (failure == cuda::kSuccess) return {};
  std::string text = driver_.describe(failure);
  if (is_context_lost(failure))
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
