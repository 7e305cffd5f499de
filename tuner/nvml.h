// Clocks of a GPU through NVML, where that library is installed.
#pragma once

#include <cstdint>
#include <string>

namespace loopwright::tuner {

/// Opened at construction; without the library or the device every reading is empty.
class Nvml {
 public:
  Nvml() = default;
  explicit Nvml(const std::string& uuid);
  struct Reading {
    std::int64_t clock_khz = 0;  ///< of the multiprocessors; 0: not known
    bool throttled = false;      ///< held down by heat, power or hardware at this moment
  };
  Reading read() const;

 private:
  void* device_ = nullptr;
  int (*clock_)(void*, int, unsigned*) = nullptr;
  int (*reasons_)(void*, unsigned long long*) = nullptr;
};

}  // namespace loopwright::tuner
