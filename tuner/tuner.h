// The parts of a tuning run that tests replace, and the run itself.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "db/rows.h"
#include "loopwright/graph.h"
#include "loopwright/tune.h"
#include "src/graph/workload.h"
#include "tuner/builder.h"
#include "tuner/device.h"
#include "tuner/probes.h"

namespace loopwright::tuner {

/// A workload ready to be tuned. `setup` points into `keep`.
struct Subject {
  std::vector<Symbol> symbols;
  std::unique_ptr<Builder> builder;
  Setup setup;
  WorkEstimate work;  ///< may be empty
  std::shared_ptr<const void> keep;
};

/// Where candidates come from and where they run.
struct Workbench {
  std::function<Result<std::unique_ptr<Device>>(const TuneOptions&)> make_device;
  std::function<Result<Subject>(const graph::Workload&, const TuneOptions&)> make_subject;
  std::function<Result<db::DeviceRow>(const TuneOptions&)> fingerprint;
  std::function<db::ToolchainRow(const TuneOptions&)> toolchain;
};
/// The compiler and the device that `TuneOptions::device` names.
Workbench make_workbench();
/// What to say before code is compiled for `target` where the driver is for an older major version of CUDA than the compiler: it may
/// refuse such code when it is loaded. Else empty.
std::string describe_older_driver(const Target& target);

Result<std::vector<TuneReport>> tune_all_with(const Workbench& bench, const std::vector<TuneJob>& jobs,
                                              const TuneOptions& options, const TuneObserver& observer,
                                              const TuneStop& stop);
Result<std::vector<TuneReport>> tune_wanted_with(const Workbench& bench, const TuneOptions& options,
                                                 const TuneObserver& observer, const TuneStop& stop);
/// One graph.
Result<TuneReport> tune_with(const Workbench& bench, const Graph& graph, const TuneOptions& options,
                             const TuneObserver& observer, const std::atomic<bool>* cancel);
Result<std::vector<TuneReport>> resume_with(const Workbench& bench, const std::string& database, const std::string& run,
                                            const TuneObserver& observer, const TuneStop& stop);

}  // namespace loopwright::tuner
