// The device that is a worker process: verification against a float64 reference and timing with rotated buffers.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "loopwright/target.h"
#include "tuner/case.h"
#include "tuner/device.h"
#include "tuner/gpu_lock.h"
#include "tuner/nvml.h"
#include "tuner/worker.h"

namespace loopwright::tuner {

struct MeasureSettings {
  std::string device = "cpu";            ///< `cpu`, `cuda` or `cuda:N`
  bool reuse_buffers = false;            ///< one set of buffers for all launches: what fits in the caches stays there
  double min_sample_ns = 50e3;           ///< launches are batched until a sample takes as long
  std::int64_t max_batch = 4096;
  std::int64_t rotate_bytes = 0;         ///< sets of buffers together exceed this; 0: see complete_settings
  std::int64_t max_sets = 4096;
  std::int64_t max_case_bytes = 2ll << 30;  ///< of inputs and outputs; a larger probe is not tried
  double hang_factor = 20;               ///< a launch may take this many times the default schedule's time
  double min_limit_s = 1;                ///< and this long in any case
  double first_limit_s = 20;             ///< before the default schedule's time is known
  double reference_limit_s = 60;
  double hopeless_factor = 8;            ///< verification stops at a launch this much slower than the best at the case ...
  double hopeless_ns = 2e6;              ///< ... when it takes at least this long
  bool on_gpu() const { return device != "cpu"; }
  std::string text() const;              ///< canonical
};
/// Of a GPU: replays of a graph have to be longer than what it costs to start one, and graphs stay short.
MeasureSettings gpu_settings(const std::string& device, bool reuse_buffers);
/// Settings with what they leave open filled in: sets of buffers exceed a CPU's last cache twice, a GPU's L2 three times.
MeasureSettings complete_settings(MeasureSettings settings, const Target& target);
/// Sets of buffers that launches go round.
std::int64_t count_sets(const MeasureSettings& settings, std::uint64_t set_bytes);

/// A fault that the worker is told to commit after a run, by candidate; used by the test device alone.
struct FaultOrder {
  std::string kind;  ///< hang, crash, out_of_bounds, wrong_result, nondeterministic
};

class WorkerDevice : public Device {
 public:
  static Result<std::unique_ptr<WorkerDevice>> start(const std::string& worker_path, const Target& target,
                                                     MeasureSettings settings);
  std::string policy() const override { return settings_.text(); }
  Status open(const Setup& setup) override;
  Verdict verify(const Candidate& candidate, Depth depth = Depth::quick) override;
  Samples time(const Candidate& candidate, const Bindings& probe, int count, double give_up_ns) override;
  void set_default_time(double default_ns) override;
  void release(const std::string& candidate_digest) override;

  /// From now on runs of this candidate end with the fault.
  void order_fault(const std::string& candidate_digest, FaultOrder fault) { faults_[candidate_digest] = fault; }
  int respawns() const { return respawns_; }

 private:
  /// How one command to the worker went.
  struct Step {
    Outcome outcome = Outcome::ok;
    ErrorCode code = ErrorCode::ok;
    std::string detail;
    std::string reply;
  };
  struct Loaded {
    int id = 0;
    std::uint64_t used = 0;
    const char* on = "";  ///< `cpu` for the CPU of a worker that measures on a GPU
  };
  /// What the parent knows of a GPU. Everything is judged on the arena: the worker copies to the device and back.
  struct Gpu {
    std::string uuid;
    GpuLock lock;
    Nvml nvml;
    std::set<std::uint64_t> mirrored;  ///< offsets of blocks that the device holds as they are in the arena
    std::set<std::string> timed;       ///< candidates whose timed buffers were checked
  };
  struct TimedBuffers {
    Bindings probe;
    bool valid = false;
    std::vector<CaseBuffer> buffers;
    std::vector<std::uint64_t> offsets;  ///< of the first set
    std::uint64_t stride = 0, end = 0;
    std::int64_t sets = 1;
    std::int64_t next = 0;               ///< the set whose turn it is
    std::map<std::string, std::int64_t> batches;  ///< launches for one sample, by candidate
  };

  WorkerDevice(MeasureSettings settings, Target target) : settings_(std::move(settings)), target_(std::move(target)) {}
  std::int64_t limit_ms() const;
  Step command(const std::string& json, std::int64_t timeout_ms);
  Status ensure_worker();
  Step load(const std::string& key, const Artifact& artifact);
  Step open_gpu();
  Step mirror(std::uint64_t offset, std::uint64_t bytes);
  Step mirror_case(const Case& c);
  Step mirror_workspace(const Artifact& artifact);
  Step mirror_timed(std::uint64_t begin);
  void plan_cases();
  void remember(const Case& c);
  Status prepare(Case& c);
  Status run_reference(Case& c);
  /// Results of a float64 kernel on the inputs of `c`, by tensor, row-major.
  using Results = std::map<std::string, std::vector<double>>;
  Result<Results> run_oracle(const std::string& key, const Artifact& oracle, Case& c);
  Step run_once(const Candidate& candidate, Case& c, bool second);
  Step run_retried(const Candidate& candidate, Case& c, bool second);
  Step check_surroundings(const Artifact& artifact, const Case& c) const;
  bool check_outputs(const Case& c, CaseResult& result) const;
  bool can_use(const Candidate& candidate, const Case& c) const;
  bool is_hopeless(double run_ns, const Case& c) const;
  CaseResult verify_case(const Candidate& candidate, Case& c, Depth depth, Verdict& verdict);
  Step place_workspace(const Artifact& artifact, const Bindings& probe, bool second);
  Step prepare_timing(const Bindings& probe);
  Step check_timing(const Candidate& candidate);
  std::vector<std::uint64_t> case_offsets(const Artifact& artifact, const Case& c) const;

  MeasureSettings settings_;
  Target target_;
  std::unique_ptr<Worker> worker_;
  int known_generation_ = -1;
  std::map<std::string, Loaded> loaded_;
  int next_kernel_ = 1;
  std::uint64_t uses_ = 0;
  std::string suspect_;            ///< the one candidate that ran in this process, or `several`
  int respawns_ = 0;
  double default_ns_ = 0;
  Setup setup_;
  std::list<Case> cases_;
  /// Contents of cases by workload, probe and seed: a workload that is opened again computes no reference again.
  struct Remembered {
    std::vector<CaseBuffer> buffers;
    double reference_s = 0;
  };
  std::map<std::string, Remembered> remembered_;
  std::int64_t remembered_bytes_ = 0;
  std::uint64_t next_place_ = 0;
  TimedBuffers timed_;
  std::vector<GuardedBuffer> workspace_;
  std::optional<Gpu> gpu_;
  std::vector<std::uint8_t> first_output_;
  std::map<std::string, FaultOrder> faults_;
};

/// Current clock of a CPU core in kHz; 0 when the system does not say.
std::int64_t read_clock_khz();

}  // namespace loopwright::tuner
