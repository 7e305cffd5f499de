// What a device's name on the command line says: which one, and how it is to be measured.
#pragma once

#include <string>
#include <vector>

#include "loopwright/base.h"

namespace loopwright::tuner {

/// `cpu`, `cuda` or `cuda:N`, then `+reused` (buffers that stay in the caches) and `+faults` or `+faults:hang,crash`.
struct DeviceChoice {
  std::string base;
  bool reused = false, has_faults = false;
  std::vector<std::string> faults;
};
/// bad_argument for another text.
Result<DeviceChoice> parse_device(const std::string& text);

}  // namespace loopwright::tuner
