#include "src/runtime/cuda_info.h"

#include <cstdio>

namespace loopwright::runtime {
namespace {

std::string format_uuid(const cuda::Uuid& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", uuid.bytes[i]);
    text += digits;
  }
  return text;
}

/// Code for these capabilities uses instructions that exist nowhere else, and is named so.
std::string name_arch(int capability) {
  return "sm_" + std::to_string(capability) + (capability >= 90 ? "a" : "");
}

}  // namespace

db::DeviceRow fingerprint_of(const CudaInfo& info) {
  const Target& target = info.target.value();
  db::DeviceRow row;
  row.kind = "cuda";
  row.arch = target.arch;
  row.cores = target.workers;
  row.memory_bytes = info.memory_bytes;
  row.vendor = "NVIDIA";
  row.model = info.name;
  row.target = target.text();
  row.threads = target.max_threads_per_sm;
  row.l1_bytes = target.l1_bytes;
  row.l2_bytes = target.l2_bytes;
  row.clock_khz = info.clock_khz;
  return row;
}

Result<CudaInfo> describe_cuda_device(const CudaDriver& driver, cuda::Ordinal ordinal) {
  const std::string asked = "use the device cuda:" + std::to_string(ordinal);
  int count = 0;
  cuda::Status status = driver.device_count(&count);
  if (status == cuda::kSuccess && (ordinal < 0 || ordinal >= count))
    return Error{ErrorCode::out_of_range, asked, std::to_string(count) + " devices", "",
                 count == 0 ? "a machine with a GPU" : "cuda:0 to cuda:" + std::to_string(count - 1)};
  CudaInfo info;
  cuda::Ordinal device = 0;
  cuda::Uuid uuid{};
  std::size_t memory = 0;
  char name[256] = {};
  int major = 0, minor = 0, clock = 0, sms = 0, l2 = 0, threads = 0, sm_threads = 0, shared = 0,
      sm_shared = 0;
  const auto query = [&](int which, int* value) {
    if (status == cuda::kSuccess) status = driver.device_attribute(value, which, device);
  };
  if (status == cuda::kSuccess) status = driver.device_get(&device, ordinal);
  if (status == cuda::kSuccess) status = driver.device_name(name, sizeof name - 1, device);
  if (status == cuda::kSuccess) status = driver.device_uuid(&uuid, device);
  if (status == cuda::kSuccess) status = driver.device_memory(&memory, device);
  query(cuda::kCapabilityMajor, &major);
  query(cuda::kCapabilityMinor, &minor);
  query(cuda::kClockRateKhz, &clock);
  query(cuda::kMultiprocessors, &sms);
  query(cuda::kL2Bytes, &l2);
  query(cuda::kMaxThreadsPerBlock, &threads);
  query(cuda::kMaxThreadsPerMultiprocessor, &sm_threads);
  query(cuda::kSharedBytesPerBlockOptIn, &shared);
  query(cuda::kSharedBytesPerMultiprocessor, &sm_shared);
  if (status != cuda::kSuccess)
    return Error{ErrorCode::unsupported, asked, driver.describe(status), driver.path,
                 "a device that answers"};
  info.ordinal = ordinal;
  info.name = name;
  info.uuid = format_uuid(uuid);
  info.capability = 10 * major + minor;
  info.memory_bytes = static_cast<std::int64_t>(memory);
  info.clock_khz = clock;
  info.target = Target::parse("cuda:" + name_arch(info.capability));
  if (!info.target.ok()) {
    info.target = Error{ErrorCode::unsupported_target, asked,
                        "compute capability " + std::to_string(major) + "." + std::to_string(minor),
                        info.name, info.target.error().works};
    return info;
  }
  Target& target = *info.target;
  target.workers = sms;
  target.l1_bytes = shared;
  target.l2_bytes = l2;
  target.max_threads_per_block = threads;
  target.max_threads_per_sm = sm_threads;
  target.shared_bytes_per_sm = sm_shared;
  return info;
}

Result<std::vector<CudaInfo>> list_cuda_devices() {
  LW_TRY(const CudaDriver* driver, CudaDriver::shared());
  int count = 0;
  if (const cuda::Status status = driver->device_count(&count); status != cuda::kSuccess)
    return Error{ErrorCode::unsupported, "list CUDA devices", driver->describe(status), driver->path, ""};
  if (count == 0)
    return Error{ErrorCode::not_found, "list CUDA devices", "a driver and no device", driver->path,
                 "CUDA_VISIBLE_DEVICES that leaves one, or a machine with a GPU"};
  std::vector<CudaInfo> devices;
  for (int i = 0; i < count; ++i) {
    LW_TRY(CudaInfo info, describe_cuda_device(*driver, i));
    devices.push_back(std::move(info));
  }
  return devices;
}

}  // namespace loopwright::runtime
