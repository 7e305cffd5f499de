// Tuning a graph's kernels into a database.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "loopwright/base.h"
#include "loopwright/graph.h"
#include "loopwright/target.h"

namespace loopwright {

/// How often a shape is used.
struct ShapeCount {
  Bindings values;                 ///< of each symbol of the graph
  double count = 1;                ///< above 0
};

struct TuneOptions {
  std::string database;            ///< path; created when missing
  Target target;                   ///< default: this machine
  double budget_s = 60;            ///< wall time for all workloads together
  std::int64_t max_trials = 0;     ///< for each workload; 0 = no limit but the time
  std::uint64_t seed = 1;
  std::string search = "evolution";  ///< `random`, `evolution`
  bool cost_model = true;
  int build_threads = 0;           ///< 0 = cores
  std::vector<Bindings> probes;    ///< extra probe shapes asked for by the user, by the graph's symbols
  std::vector<ShapeCount> shapes;  ///< what the expected loss is weighed by; empty: even over the symbols' logarithms
  int max_variants = 6;            ///< different schedules that serve one kernel's ranges
  /// `cpu`, `cuda` or `cuda:N`; the target must be the device's (see device_target). `cuda:N+reused` measures with one
  /// set of buffers, which stays in the L2 if it fits; without it buffers are rotated, so that nothing does.
  std::string device = "cpu";
  std::string worker_path;         ///< loopwright-worker; empty = beside this program, or LOOPWRIGHT_WORKER
  std::string command_line;        ///< recorded with the run
};

/// What a person sees while a run goes on. Sent at most ten times a second and at every event.
struct TuneProgress {
  std::string workload;            ///< family and digest prefix
  int workload_index = 0, workload_count = 0;
  std::int64_t trials = 0;
  std::map<Outcome, std::int64_t> outcomes;
  double default_ns = 0, best_ns = 0;  ///< medians at the main probe; 0 = not yet
  std::string best_label;
  double elapsed_s = 0, left_s = 0;
  std::string phase;               ///< `rebuild`, `default`, `search`, `finals`, `ranges`
};
using TuneObserver = std::function<void(const TuneProgress&)>;

struct TunedWorkload {
  std::string digest, family;
  double default_ns = 0, best_ns = 0;
  std::int64_t trials = 0;
  std::map<Outcome, std::int64_t> outcomes;
  int ranges = 0;
  double worst_loss = 0, mean_loss = 0;      ///< at held-out probes
  double gain_random = 1, gain_evolution = 1; ///< speed-up over the default found by each part of the search
  bool complete = false;
  bool compared = false;           ///< default_ns and best_ns are from the same rounds at the same shape
  std::string why_not;             ///< where best_ns is 0: the first failure that was no rejection, else the first rejection
};
struct TuneReport {
  std::string run;                 ///< digest of the run row; any unambiguous prefix resumes it
  std::string graph;               ///< its name; for what programs wanted, family and digest of the workload
  std::vector<TunedWorkload> workloads;
  bool cancelled = false;          ///< this graph or one that was to follow it was not finished
  std::vector<std::string> left;   ///< names of the graphs that were to follow and were not begun
  double elapsed_s = 0, build_s = 0, measure_s = 0;  ///< build and measure are wall time with at least one going on
};

/// One graph of several.
struct TuneJob {
  Graph graph;
  std::vector<Bindings> probes;    ///< as TuneOptions::probes
  std::vector<ShapeCount> shapes;  ///< as TuneOptions::shapes
};

/// How a run is ended from outside.
struct TuneStop {
  /// When set, from a signal handler too, the run ends after what it is doing: a compilation, a candidate.
  const std::atomic<bool>* cancel = nullptr;
  /// When that takes longer than 0.3 s, called by another thread, at the latest 0.8 s after `cancel`: everything is
  /// committed, and the process may be ended on the spot. It gets what was done so far, empty when that cannot be told.
  std::function<void(const std::vector<TuneReport>&)> abandon;
};

/// Tunes every workload of `graph` that the database does not hold complete results for, and stores the plan by the
/// graph's name. busy when another run has the database; db_* for file trouble.
Result<TuneReport> tune(const Graph& graph, const TuneOptions& options, const TuneObserver& observer = {},
                        const std::atomic<bool>* cancel = nullptr);
/// Several graphs one after the other, a run each. The budget is for all of them; what one leaves goes to the next.
/// TuneOptions::probes and shapes are not used.
Result<std::vector<TuneReport>> tune_all(const std::vector<TuneJob>& jobs, const TuneOptions& options,
                                         const TuneObserver& observer = {}, const TuneStop& stop = {});
/// The workloads that programs asked the database for in vain (Runtime::flush_wanted), what they asked for most first, at
/// the sizes they asked for; a run each, as tune_all does. No report when nothing is wanted. db_* for file trouble.
Result<std::vector<TuneReport>> tune_wanted(const TuneOptions& options, const TuneObserver& observer = {},
                                            const TuneStop& stop = {});
/// Goes on with a run that was stopped or killed, then with the graphs that were to follow it; an empty `run` means the
/// newest that can be resumed.
Result<std::vector<TuneReport>> resume(const std::string& database, const std::string& run,
                                       const TuneObserver& observer = {}, const TuneStop& stop = {});

/// What became of one variant that came from elsewhere.
struct RebuiltVariant {
  std::string workload;            ///< digest
  std::string label, ranges;       ///< template and picks; the guards it serves, none for a default schedule
  bool served = false;             ///< verified, and stored with its code
  std::string note;                ///< why not, otherwise
};
struct RebuildReport {
  std::vector<RebuiltVariant> variants;
  bool cancelled = false;
  std::string unverified_why;      ///< why nothing could be verified, and so nothing was stored; empty: it could
};
/// Makes servable what a database holds without code of this machine: winners and default schedules that were imported,
/// or measured on another machine of this kind. Each is built from its trace and compared with the float64 reference.
/// For a GPU where there is no driver or no GPU each is only compiled, for the target of the device that it is of: that
/// says whether it can be built, and changes nothing in the database.
/// Of the options database, target, device, worker_path, seed and command_line count.
Result<RebuildReport> rebuild(const TuneOptions& options, const TuneStop& stop = {});

/// One stored winner, measured again.
struct CanaryReading {
  std::string workload;            ///< digest
  std::string label, range;        ///< template and picks; the guard it serves
  Bindings shape;                  ///< where
  double stored_ns = 0, now_ns = 0;  ///< medians; now_ns 0: it was not measured, `note` says why
  bool drifted = false;            ///< beyond the noise of both, and by more than 5 %
  std::string note;
};
struct CanaryReport {
  std::vector<CanaryReading> readings;
  int measured = 0, drifted = 0;
  int stale = 0;                   ///< rows that are stale from now on
  int fresh = 0;                   ///< rows that were stale, took their stored time again, and are served as before
  bool cancelled = false;
};
/// Measures up to `count` winners of this device, policy and generator again, those first that were measured longest ago,
/// of each workload in turn. One whose time is another one becomes stale: it serves after those that are not, and the next
/// run tunes its workload again. Where more than half of at least three did, all rows of the same device, toolchain and
/// policy become stale. Of the options database, target, device, worker_path, seed and command_line count.
Result<CanaryReport> check_drift(const TuneOptions& options, int count, const TuneStop& stop = {});

}  // namespace loopwright
