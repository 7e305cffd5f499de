// A device that runs nothing: its times come from a function or a table, so that searches, racing and resuming are
// tested without noise and in no time.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "tuner/device.h"

namespace loopwright::tuner {

/// What a candidate does at a probe.
struct Recorded {
  Outcome outcome = Outcome::ok;
  double median_ns = 0;
};
using RecordedTimes = std::function<Recorded(const Candidate& candidate, const Bindings& probe)>;

/// Samples scatter around the recorded median by a share of `noise`; sample k of a candidate at a probe is always the
/// same number.
class RecordedDevice : public Device {
 public:
  RecordedDevice(RecordedTimes times, double noise, std::string name = "recorded")
      : times_(std::move(times)), noise_(noise), name_(std::move(name)) {}
  std::string policy() const override { return "{\"device\":\"" + name_ + "\",\"version\":1}"; }
  Status open(const Setup&) override { return Unit{}; }
  Verdict verify(const Candidate& candidate, Depth depth = Depth::quick) override;
  Samples time(const Candidate& candidate, const Bindings& probe, int count, double give_up_ns) override;
  void set_default_time(double) override {}
  void release(const std::string&) override {}
  std::int64_t measurements() const { return measurements_; }

 private:
  RecordedTimes times_;
  double noise_;
  std::string name_;
  std::map<std::string, int> drawn_;  ///< samples given so far, by candidate and probe
  std::int64_t measurements_ = 0;
};

}  // namespace loopwright::tuner
