#include "src/cli/gpu_tensors.h"

#include <algorithm>
#include <utility>

#include "src/cli/output.h"

namespace loopwright::cli {
namespace {

namespace cuda = runtime::cuda;

constexpr std::uint64_t kDeviceAlignment = 256;  ///< what allocators of the device give

std::uint64_t round_to_alignment(std::uint64_t bytes) {
  return (bytes + kDeviceAlignment - 1) / kDeviceAlignment * kDeviceAlignment;
}

}  // namespace

Result<GpuTensors> GpuTensors::make(std::shared_ptr<const runtime::CudaDevice> device, const std::vector<std::int64_t>& bytes,
                                    std::int64_t sets) {
  GpuTensors made;
  made.device_ = std::move(device);
  made.bytes_ = bytes;
  made.sets_ = sets;
  for (const std::int64_t b : bytes) {
    made.offsets_.push_back(made.stride_);
    // An empty tensor has an address too.
    made.stride_ += std::max(round_to_alignment(static_cast<std::uint64_t>(b)), kDeviceAlignment);
  }
  const runtime::CudaDriver& driver = made.device_->driver();
  const runtime::CurrentContext current(driver, made.device_->context());
  const std::uint64_t total = std::max(made.stride_, kDeviceAlignment) * static_cast<std::uint64_t>(sets);
  cuda::Address base = 0;
  cuda::Status status = current.status();
  if (status == cuda::kSuccess) status = driver.allocate(&base, total);
  if (status != cuda::kOutOfMemory) {
    LW_CHECK(made.check(status, "allocate tensors"));
    made.memory_ = {reinterpret_cast<void*>(base), Free{made.device_}};
    return made;
  }
  std::size_t free = 0, all = 0;
  driver.memory_info(&free, &all);
  return Error{ErrorCode::out_of_memory, "place the tensors in the memory of " + made.device_->info().name,
               "they need " + format_bytes(static_cast<std::int64_t>(total)) + ", " +
                   format_bytes(static_cast<std::int64_t>(free)) + " are free",
               "cuda:" + std::to_string(made.device_->info().ordinal), "a smaller graph, or smaller symbols (--symbol)"};
}

void GpuTensors::Free::operator()(void* memory) const {
  const runtime::CurrentContext current(device->driver(), device->context());
  device->driver().free(reinterpret_cast<cuda::Address>(memory));
}

Status GpuTensors::check(cuda::Status status, const char* asked) const {
  if (status == cuda::kSuccess) return Unit{};
  return Error{ErrorCode::launch_failed, std::string(asked) + " on " + device_->info().name,
               device_->driver().describe(status), "cuda:" + std::to_string(device_->info().ordinal),
               runtime::is_context_lost(status) ? "a process that is started again" : ""};
}

Status GpuTensors::upload(std::size_t tensor, const void* host) const {
  if (bytes_[tensor] == 0) return Unit{};
  const runtime::CudaDriver& driver = device_->driver();
  const runtime::CurrentContext current(driver, device_->context());
  cuda::Status status = driver.copy_to_device(base() + offsets_[tensor], host, static_cast<std::size_t>(bytes_[tensor]), nullptr);
  if (status == cuda::kSuccess) status = driver.wait_stream(nullptr);
  return check(status, "copy a tensor to the device");
}

Status GpuTensors::download(std::size_t tensor, void* host) const {
  if (bytes_[tensor] == 0) return Unit{};
  const runtime::CudaDriver& driver = device_->driver();
  const runtime::CurrentContext current(driver, device_->context());
  cuda::Status status = driver.copy_to_host(host, base() + offsets_[tensor], static_cast<std::size_t>(bytes_[tensor]), nullptr);
  if (status == cuda::kSuccess) status = driver.wait_stream(nullptr);
  return check(status, "copy a tensor from the device");
}

Status GpuTensors::replicate() const {
  const runtime::CudaDriver& driver = device_->driver();
  const runtime::CurrentContext current(driver, device_->context());
  cuda::Status status = cuda::kSuccess;
  for (std::int64_t s = 1; s < sets_ && status == cuda::kSuccess; ++s)
    status = driver.copy_on_device(base() + static_cast<std::uint64_t>(s) * stride_, base(), stride_, nullptr);
  if (status == cuda::kSuccess) status = driver.wait_stream(nullptr);
  return check(status, "copy the tensors");
}

std::vector<void*> GpuTensors::pointers(std::int64_t set) const {
  std::vector<void*> out;
  for (const std::uint64_t offset : offsets_)
    out.push_back(reinterpret_cast<void*>(base() + static_cast<std::uint64_t>(set) * stride_ + offset));
  return out;
}

}  // namespace loopwright::cli
