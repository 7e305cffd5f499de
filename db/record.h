// The write side. One writer a file: opening takes a lock that is held until the Recorder goes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "db/query.h"
#include "db/rows.h"

namespace loopwright::db {

class FileLock;

/// Makes a new empty database unless there already is a file. Any number of processes may do this at once: each gets
/// success, and exactly one file comes to be, complete from its first moment.
Status create_database(const std::string& path);

/// The writer. Every method commits before it returns, unless called within `commit_together`: what was reported as
/// written survives kill -9. `add_` methods return the digest and do nothing when the row is already there.
class Recorder {
 public:
  struct Options {
    bool create = true;                   ///< make the file when there is none
    std::int64_t busy_timeout_ms = 5000;  ///< for short locks of other processes
    std::int64_t writer_wait_ms = 0;      ///< how long to wait for another writer to end before `busy`
    bool check = true;                    ///< run quick_check before anything else
    std::string command;                  ///< shown to whoever finds the file busy
  };
  /// `busy` names the pid and start time of the other writer. An older schema is migrated.
  static Result<Recorder> open(const std::string& path, Options options);
  static Result<Recorder> open(const std::string& path) { return open(path, Options{}); }
  Recorder(Recorder&&) noexcept;
  Recorder& operator=(Recorder&&) noexcept;
  ~Recorder();

  /// One transaction around several writes: all of them or none.
  Status commit_together(const std::function<Status()>& writes);

  Result<Digest> add_device(const DeviceRow& row);
  Result<Digest> add_toolchain(const ToolchainRow& row);
  Result<Digest> add_policy(const PolicyRow& row);
  Result<Digest> add_workload(const WorkloadRow& row);
  Result<Digest> add_range(const RangeRow& row);
  Result<Digest> add_probe(const ProbeRow& row);
  Result<Digest> add_candidate(const CandidateRow& row);
  Result<Digest> add_trial(const TrialRow& row);
  Result<Digest> add_verification(const VerificationRow& row);
  Result<Digest> add_block(const BlockRow& row);
  Result<Digest> add_plan(const PlanRow& row);

  /// Replaces the row of the same range, device, toolchain and policy.
  Result<Digest> put_best(const BestRow& row);
  /// Changes the state of every best row of `candidate`; with an empty `device` on every device.
  Status set_best_state(const Digest& candidate, const Digest& device, BestState state);
  /// Takes ranges of one workload, device, toolchain and policy out of `best` that are not in `keep` (after a split or
  /// a merge of ranges).
  Status retire_ranges(const Digest& workload, const Digest& device, const Digest& toolchain, const Digest& policy,
                       const std::vector<Digest>& keep);
  /// Replaces the artifact of the same candidate, target and toolchain. It becomes one built here.
  Result<Digest> put_artifact(const Digest& candidate, const Digest& toolchain, const Artifact& artifact);

  /// Makes the run's identifier; `row.digest` is ignored, host, pid and start time are filled in.
  Result<Digest> begin_run(const RunRow& row);
  Status save_search_state(const Digest& run, const std::string& search_state);
  Status set_run_state(const Digest& run, RunState state);

  Status forget_wanted(const Digest& workload, const Bindings& values);

  /// Reads through the same connection, so that it sees writes that are not yet committed.
  const Query& read() const { return query_; }
  const std::string& path() const;

 private:
  Recorder(std::shared_ptr<Connection> connection, std::unique_ptr<FileLock> lock);
  std::unique_ptr<FileLock> lock_;  // released last
  std::shared_ptr<Connection> connection_;
  Query query_;
};

}  // namespace loopwright::db
