// What GPUs this machine has. Makes no context: asking costs no device memory.
#pragma once

#include <vector>

#include "db/query.h"
#include "loopwright/target.h"
#include "src/runtime/cuda_driver.h"

namespace loopwright::runtime {

struct CudaInfo {
  cuda::Ordinal ordinal = 0;
  std::string name;
  std::string uuid;    ///< `GPU-` and 32 hexadecimal digits in five groups, as nvidia-smi writes it
  int capability = 0;  ///< 90 for 9.0
  std::int64_t memory_bytes = 0;
  std::int64_t clock_khz = 0;
  /// With this device's own limits. unsupported_target when code cannot be generated for its capability.
  Result<Target> target = Error{};
};

/// Identity for the database; of a device with a target.
db::DeviceRow fingerprint_of(const CudaInfo& info);
/// One device; out_of_range when the ordinal is not below the number of devices.
Result<CudaInfo> describe_cuda_device(const CudaDriver& driver, cuda::Ordinal ordinal);
/// All of them. The reason when there are none: no driver, an old one, no device.
Result<std::vector<CudaInfo>> list_cuda_devices();

}  // namespace loopwright::runtime
