#include "tuner/nvml.h"

#include "src/support/shared_library.h"

namespace loopwright::tuner {
namespace {

constexpr int kSmClock = 1;
/// Power cap, hardware slowdown, software thermal, hardware thermal, power brake. Idle and application clocks are none.
constexpr unsigned long long kHeldDown = 0x4 | 0x8 | 0x20 | 0x40 | 0x80;

}  // namespace

Nvml::Nvml(const std::string& uuid) {
  const auto library = SharedLibrary::open("NVML", "LOOPWRIGHT_LIBNVML", {"libnvidia-ml.so.1"});
  int (*init)() = nullptr;
  int (*by_uuid)(const char*, void**) = nullptr;
  if (!library.ok() || !library->find("nvmlInit_v2", &init) ||
      !library->find("nvmlDeviceGetHandleByUUID", &by_uuid) ||
      !library->find("nvmlDeviceGetClockInfo", &clock_))
    return;
  library->find("nvmlDeviceGetCurrentClocksThrottleReasons", &reasons_);
  if (init() != 0 || by_uuid(uuid.c_str(), &device_) != 0) device_ = nullptr;
}

Nvml::Reading Nvml::read() const {
  Reading reading;
  if (device_ == nullptr) return reading;
  unsigned mhz = 0;
  unsigned long long reasons = 0;
  if (clock_(device_, kSmClock, &mhz) == 0) reading.clock_khz = static_cast<std::int64_t>(mhz) * 1000;
  if (reasons_ != nullptr && reasons_(device_, &reasons) == 0) reading.throttled = (reasons & kHeldDown) != 0;
  return reading;
}

}  // namespace loopwright::tuner
