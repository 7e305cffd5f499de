// A test device: runs candidates like the real one and makes chosen ones misbehave.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tuner/measure.h"

namespace loopwright::tuner {

/// Every candidate but the default ones is drawn by its digest: two of three stay as they are, the others get one of
/// `kinds` in turn. Kinds: hang, crash, out_of_bounds, wrong_result, nondeterministic, compile_error.
class FaultDevice : public Device {
 public:
  FaultDevice(std::unique_ptr<WorkerDevice> inner, std::vector<std::string> kinds)
      : inner_(std::move(inner)), kinds_(std::move(kinds)) {}
  std::string policy() const override { return inner_->policy(); }
  Status open(const Setup& setup) override { return inner_->open(setup); }
  Verdict admit(const Candidate& candidate) override;
  Verdict verify(const Candidate& candidate, Depth depth = Depth::quick) override;
  Samples time(const Candidate& candidate, const Bindings& probe, int count, double give_up_ns) override;
  void set_default_time(double default_ns) override { inner_->set_default_time(default_ns); }
  void release(const std::string& digest) override { inner_->release(digest); }

  /// The fault of a candidate; empty for none.
  static std::string draw_fault(const std::string& digest, bool is_default, const std::vector<std::string>& kinds);

 private:
  std::unique_ptr<WorkerDevice> inner_;
  std::vector<std::string> kinds_;
};

/// The kinds in `cpu+faults` (all) or `cpu+faults:hang,crash`; bad_argument for a word that is none.
Result<std::vector<std::string>> parse_fault_kinds(const std::string& device);

}  // namespace loopwright::tuner
