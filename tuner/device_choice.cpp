#include "tuner/device_choice.h"

#include <algorithm>

#include "src/runtime/device.h"
#include "tuner/fault_device.h"

namespace loopwright::tuner {

Result<DeviceChoice> parse_device(const std::string& text) {
  DeviceChoice choice;
  const auto refuse = [&](std::string found) {
    return Error{.code = ErrorCode::bad_argument,
                 .asked = "use the device `" + text + "`",
                 .found = std::move(found),
                 .works = "cpu, cuda or cuda:N with N = 0, 1, 2, ...; +reused for buffers that stay in the caches"};
  };
  std::size_t at = std::min(text.find('+'), text.size());
  choice.base = text.substr(0, at);
  while (at < text.size()) {
    const std::size_t end = std::min(text.find('+', at + 1), text.size());
    const std::string word = text.substr(at + 1, end - at - 1);
    at = end;
    if ((choice.reused && word == "reused") || (choice.has_faults && word.starts_with("faults"))) return refuse("`+" + word + "` a second time");
    if (word == "reused") {
      choice.reused = true;
    } else if (word == "faults" || word.starts_with("faults:")) {
      choice.has_faults = true;
      LW_TRY(choice.faults, parse_fault_kinds(word));
    } else {
      return refuse("`+" + word + "`");
    }
  }
  if (choice.base != "cpu" && !runtime::parse_cuda_name(choice.base))
    return refuse("no device has this name");
  if (choice.base == "cpu" && choice.reused) return refuse("`+reused` on the CPU");
  return choice;
}

}  // namespace loopwright::tuner
