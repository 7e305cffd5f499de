#include "tuner/fault_device.h"

#include <algorithm>

namespace loopwright::tuner {
namespace {

const std::vector<std::string> kKinds = {"hang",           "crash", "out_of_bounds", "wrong_result", "nondeterministic",
                                         "compile_error"};

}  // namespace

Result<std::vector<std::string>> parse_fault_kinds(const std::string& device) {
  const auto colon = device.find(':');
  if (colon == std::string::npos) return kKinds;
  std::vector<std::string> kinds;
  for (std::size_t at = colon + 1; at <= device.size();) {
    const std::size_t comma = std::min(device.find(',', at), device.size());
    kinds.push_back(device.substr(at, comma - at));
    at = comma + 1;
    if (std::find(kKinds.begin(), kKinds.end(), kinds.back()) == kKinds.end()) {
      return Error{.code = ErrorCode::bad_argument, .asked = "device " + device, .found = "no fault `" + kinds.back() + "`",
                   .works = "hang, crash, out_of_bounds, wrong_result, nondeterministic, compile_error"};
    }
  }
  return kinds;
}

std::string FaultDevice::draw_fault(const std::string& digest, bool is_default, const std::vector<std::string>& kinds) {
  if (is_default || kinds.empty()) return {};
  const auto number = std::stoul(digest.substr(0, 7), nullptr, 16);
  return number % 3 != 0 ? std::string{} : kinds[number / 3 % kinds.size()];
}

Verdict FaultDevice::admit(const Candidate& candidate) {
  Verdict verdict;
  if (draw_fault(candidate.digest, candidate.is_default, kinds_) == "compile_error") {
    verdict.outcome = Outcome::compile_error;
    verdict.code = ErrorCode::compile_failed;
    verdict.detail = "the test device refuses to compile this candidate";
  }
  return verdict;
}

Verdict FaultDevice::verify(const Candidate& candidate, Depth depth) {
  const std::string fault = draw_fault(candidate.digest, candidate.is_default, kinds_);
  if (!fault.empty()) inner_->order_fault(candidate.digest, {fault});
  return inner_->verify(candidate, depth);
}

Samples FaultDevice::time(const Candidate& candidate, const Bindings& probe, int count, double give_up_ns) {
  return inner_->time(candidate, probe, count, give_up_ns);
}

}  // namespace loopwright::tuner
