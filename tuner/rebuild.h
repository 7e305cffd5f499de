// Winners that came without code that this machine may run: from their traces to verified code.
#pragma once

#include <string>
#include <vector>

#include "tuner/interruption.h"
#include "tuner/journal.h"
#include "tuner/tuner.h"

namespace loopwright::tuner {

/// What rebuilding needs of the process that does it.
struct RebuildContext {
  const Workbench* bench = nullptr;
  const TuneOptions* options = nullptr;
  Device* device = nullptr;
  Journal* journal = nullptr;
  Interruption* interruption = nullptr;
};

/// A run that leaves nothing to resume, whatever happens to it.
Result<JournalKeys> begin_short_run(db::Recorder& recorder, const Workbench& bench, const TuneOptions& options, const Device& device);

/// A candidate that is to be served, and the rows of `best` that name it (none for a default).
struct Wanting {
  db::CandidateRow candidate;
  std::vector<db::BestEntry> winners;
};

/// Of these rows and defaults of one workload, those that are not verified or have no code of this machine's own.
Result<std::vector<Wanting>> list_wanting(const db::Query& query, const std::vector<db::BestEntry>& winners,
                                          const std::vector<db::CandidateRow>& defaults, const std::string& target);

/// Replays each trace on the workload's naive kernel, compiles it for this machine and compares it with the float64
/// reference. What passes is stored with its code, and its rows are verified from then on; what fails is blocked as in
/// a search. Opens device and journal for the workload.
Result<std::vector<RebuiltVariant>> rebuild_workload(const RebuildContext& context, const db::WorkloadRow& workload,
                                                     const std::vector<Wanting>& wanting);

/// For a machine without a GPU: compiles what is wanting of each CUDA device's winners and defaults for that device's
/// target. Writes nothing: what was not verified is not served.
Result<RebuildReport> compile_only(const Workbench& bench, const TuneOptions& options, const TuneStop& stop, const Error& why);

/// The workload's winners on devices of this machine's kind, and its defaults.
Result<RebuildReport> rebuild_with(const Workbench& bench, const TuneOptions& options,
                                   const TuneStop& stop);

}  // namespace loopwright::tuner
