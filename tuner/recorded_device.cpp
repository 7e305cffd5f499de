#include "tuner/recorded_device.h"

#include "src/support/digest.h"

namespace loopwright::tuner {

Verdict RecordedDevice::verify(const Candidate& candidate, Depth) {
  const Recorded recorded = times_(candidate, {});
  Verdict verdict;
  verdict.outcome = recorded.outcome;
  if (recorded.outcome != Outcome::ok) {
    verdict.code = ErrorCode::wrong_result;
    verdict.detail = "recorded as " + std::string(loopwright::name(recorded.outcome));
  }
  verdict.cases.push_back({.passed = recorded.outcome == Outcome::ok, .detail = verdict.detail});
  return verdict;
}

Samples RecordedDevice::time(const Candidate& candidate, const Bindings& probe, int count, double give_up_ns) {
  const Recorded recorded = times_(candidate, probe);
  Samples samples{.outcome = recorded.outcome};
  if (recorded.outcome != Outcome::ok) return samples;
  if (recorded.median_ns > give_up_ns) count = 1;
  std::string key = candidate.digest;
  for (const auto& [symbol, value] : probe) key += " " + symbol + "=" + std::to_string(value);
  int& drawn = drawn_[key];
  for (int i = 0; i < count; ++i) {
    const std::string digest = sha256_hex(key + "#" + std::to_string(drawn++));
    const double unit = static_cast<double>(std::stoul(digest.substr(0, 7), nullptr, 16)) / static_cast<double>(0xfffffff);
    samples.ns.push_back(recorded.median_ns * (1 + noise_ * (2 * unit - 1)));
  }
  ++measurements_;
  return samples;
}

}  // namespace loopwright::tuner
