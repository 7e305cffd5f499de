#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <atomic>
#include <memory>
#include <optional>

#include "loopwright/runtime.h"
#include "loopwright/tune.h"
#include "python/module/errors.h"
#include "python/module/plan.h"

namespace nb = nanobind;

namespace loopwright::python {
namespace {

nb::dict count_outcomes(const std::map<Outcome, std::int64_t>& outcomes) {
  nb::dict out;
  for (const auto& [outcome, count] : outcomes) out[std::string(name(outcome)).c_str()] = count;
  return out;
}

nb::dict describe_progress(const TuneProgress& p) {
  nb::dict out;
  out["workload"] = p.workload;
  out["workload_index"] = p.workload_index;
  out["workload_count"] = p.workload_count;
  out["trials"] = p.trials;
  out["outcomes"] = count_outcomes(p.outcomes);
  out["default_ns"] = p.default_ns;
  out["best_ns"] = p.best_ns;
  out["best"] = p.best_label;
  out["elapsed_s"] = p.elapsed_s;
  out["left_s"] = p.left_s;
  out["phase"] = p.phase;
  return out;
}

nb::dict describe_report(const TuneReport& report) {
  nb::list workloads;
  for (const TunedWorkload& w : report.workloads) {
    nb::dict row;
    row["workload"] = w.digest;
    row["family"] = w.family;
    row["default_ns"] = w.default_ns;
    row["best_ns"] = w.best_ns;
    row["trials"] = w.trials;
    row["outcomes"] = count_outcomes(w.outcomes);
    row["ranges"] = w.ranges;
    row["worst_loss"] = w.worst_loss;
    row["mean_loss"] = w.mean_loss;
    row["complete"] = w.complete;
    workloads.append(row);
  }
  nb::dict out;
  out["run"] = report.run;
  out["workloads"] = workloads;
  out["cancelled"] = report.cancelled;
  out["elapsed_s"] = report.elapsed_s;
  return out;
}

/// Runs in the tuner's thread of the call; an exception of `observer` or Ctrl-C ends the run after the trials in flight.
class Watcher {
 public:
  explicit Watcher(nb::object observer) : observer_(std::move(observer)) {}
  void see(const TuneProgress& progress) {
    const nb::gil_scoped_acquire python;
    if (failure_) return;
    try {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      if (!observer_.is_none()) observer_(describe_progress(progress));
    } catch (nb::python_error& e) {
      failure_ = std::make_unique<nb::python_error>(std::move(e));
      cancel_ = true;
    }
  }
  const std::atomic<bool>* cancel() const { return &cancel_; }
  /// With the GIL, after the run.
  void finish() {
    if (failure_) throw nb::python_error(std::move(*failure_));
  }

 private:
  nb::object observer_;
  std::unique_ptr<nb::python_error> failure_;
  std::atomic<bool> cancel_ = false;
};

nb::dict run_tuning(const Graph& graph, const std::string& database, double budget_s, std::int64_t max_trials,
                    std::uint64_t seed, const std::string& device, const std::string& worker,
                    nb::object observer) {
  TuneOptions options;
  options.database = database;
  options.budget_s = budget_s;
  options.max_trials = max_trials;
  options.seed = seed;
  options.device = device;
  options.worker_path = worker;
  options.command_line = "loopwright.tune(" + graph.name() + ")";
  options.target = unwrap(device_target(device.substr(0, device.find('+'))));
  Watcher watcher(std::move(observer));
  std::optional<Result<TuneReport>> report;
  {
    const nb::gil_scoped_release others_run;
    report.emplace(tune(graph, options, [&](const TuneProgress& p) { watcher.see(p); }, watcher.cancel()));
  }
  watcher.finish();
  return describe_report(unwrap(std::move(*report)));
}

}  // namespace

void bind_tuning(nb::module_& module) {
  module.def("tune", run_tuning, nb::arg("graph"), nb::arg("database"), nb::arg("budget_s"),
             nb::arg("max_trials"), nb::arg("seed"), nb::arg("device"), nb::arg("worker"),
             nb::arg("observer").none());
}

}  // namespace loopwright::python
