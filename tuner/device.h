// What the tuner asks of whatever runs candidates: a worker process, or a test device.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "loopwright/artifact.h"
#include "loopwright/graph.h"
#include "loopwright/schedule.h"
#include "loopwright/tune.h"

namespace loopwright::ir {
struct Kernel;
}

namespace loopwright::tuner {

/// A compiled schedule on its way through verification and measurement.
struct Candidate {
  std::string digest;  ///< of its database row
  std::string template_name;
  Picks picks;
  std::string trace;
  bool is_default = false;
  std::shared_ptr<const Artifact> artifact;

  std::string label() const { return template_name + (picks.empty() ? "" : " ") + print_picks(picks); }
};

/// One run of a candidate against the reference.
struct CaseResult {
  Bindings probe;
  std::int64_t seed = 0;
  double max_abs_error = 0, max_rel_error = 0;
  std::string tolerance;
  bool red_zones_clean = true, repeatable = true, passed = false;
  std::string detail;
};

struct Verdict {
  Outcome outcome = Outcome::ok;
  ErrorCode code = ErrorCode::ok;
  std::string detail;
  std::vector<CaseResult> cases;  ///< those that ran; the last one failed when the outcome is not ok
};

/// Times of single launches, in the order measured.
struct Samples {
  Outcome outcome = Outcome::ok;
  ErrorCode code = ErrorCode::ok;
  std::string detail;
  std::vector<double> ns;
  std::int64_t clock_before_khz = 0, clock_after_khz = 0;
  bool throttled = false;  ///< the device said so
};

/// The workload that candidates compute from now on.
struct Setup {
  std::string workload;                       ///< digest
  const Graph* graph = nullptr;
  const ir::Kernel* naive = nullptr;
  std::shared_ptr<const Artifact> reference;  ///< the same in float64
  std::shared_ptr<const Artifact> doubt;      ///< of make_doubt_graph; null when nothing jumps over rounded floats
  std::vector<Bindings> verify_probes;        ///< the last one is the largest and gets two seeds
  std::vector<Bindings> final_probes;         ///< too costly for every candidate: for those that may be served
  std::uint64_t seed = 1;
};

/// Which cases a verification runs: those for every candidate, those for finalists, or both.
enum class Depth : std::uint8_t { quick, rest, full };

class Device {
 public:
  virtual ~Device() = default;
  /// How it measures, in one canonical text; stored with the numbers.
  virtual std::string policy() const = 0;
  virtual Status open(const Setup& setup) = 0;
  /// A candidate that this device will not even let be built; a test device answers compile_error here.
  virtual Verdict admit(const Candidate&) { return {}; }
  /// Runs the candidate on the cases of `depth`, all of which must pass.
  virtual Verdict verify(const Candidate& candidate, Depth depth = Depth::quick) = 0;
  /// `count` more samples at `probe`. Above `give_up_ns` for one launch a single sample is enough.
  virtual Samples time(const Candidate& candidate, const Bindings& probe, int count, double give_up_ns) = 0;
  /// The longest a launch may take before it counts as hanging, derived from a launch of the default schedule.
  virtual void set_default_time(double default_ns) = 0;
  /// The candidate will not be asked for again soon.
  virtual void release(const std::string& candidate_digest) = 0;
};

}  // namespace loopwright::tuner
