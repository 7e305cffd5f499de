// The read side: opens a file strictly for reading and never changes it. No SQLite type is visible here.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "db/rows.h"
#include "loopwright/artifact.h"

namespace loopwright::db {

class Connection;

/// Who asks.
struct DeviceMatch {
  DeviceRow device;
  ToolchainRow toolchain;
  Digest policy;                 ///< empty: any; where several fit, the one measured last
  Match worst = Match::untuned;  ///< variants below this are left out
};

/// One row of `best` (or a default candidate) with what is needed to serve it.
struct Variant {
  Match quality = Match::exact;
  double distance = 0;   ///< between the devices, where the quality is `nearest`
  std::string mismatch;  ///< why the quality is not exact, e.g. `cores 16 here, 8 there`
  Guard guard;           ///< of the range; an artifact's own guard must hold too
  CandidateRow candidate;
  BestRow best;  ///< empty digests and zero times for untuned
  std::string artifact_target;
  Digest artifact;  ///< empty when there is no binary for a target of this architecture and its features
  bool artifact_is_foreign = false;
};

/// The variants of one workload, best first: by quality, then what is not stale, then nearer devices, narrower ranges,
/// speed-up and digest.
struct VariantList {
  std::vector<Variant> variants;
  std::int64_t damaged_rows = 0;  ///< rows left out because a digest did not fit their content
  std::int64_t unverified = 0;    ///< imported winners left out until they are built and verified here
};

/// One line of `explain`.
struct Considered {
  Variant variant;
  bool served = false;
  std::string reason;  ///< why it was served or not
};
/// Another candidate that was measured near the shape asked for.
struct Alternative {
  CandidateRow candidate;
  Bindings probe;
  double median_ns = 0;
  double ratio = 0;  ///< its median by the best median at the same probe
};
struct Explanation {
  WorkloadRow workload;
  std::vector<Considered> considered;     ///< in the order of find_variants
  std::vector<Alternative> alternatives;  ///< at the measured probe nearest to the shape, fastest first
  std::array<std::int64_t, kOutcomeCount> trials_by_outcome{};
  std::int64_t damaged_rows = 0;
  std::string summary;  ///< one sentence
};

struct FileInfo {
  std::string path, uuid, created_by, journal_mode, file_system;
  std::string access;  ///< `read only`, `immutable` (read-only folder) or `memory copy` (older schema)
  std::int64_t schema_version = 0;
  std::int64_t generation = 0;  ///< grows with every committed change of what is served
  std::int64_t file_bytes = 0;
  UnixNs created_ns = 0;
  std::map<std::string, std::int64_t> row_counts;  ///< by table
};

/// Empty fields match everything.
struct TrialFilter {
  Digest workload, candidate, device, toolchain, policy, run;
  std::int64_t limit = -1;
  bool with_samples = false;
};
struct BestFilter {
  Digest workload, device, policy;
  std::optional<BestState> state;
};
/// A best row joined with what a person wants to read in a list.
struct BestEntry {
  BestRow best;
  RangeRow range;
  CandidateRow candidate;
  std::string device_model, policy_name, family;
};

/// A file open for reading. Movable; not to be used from two threads at once. Never on a hot path.
class Query {
 public:
  struct Options {
    std::int64_t busy_timeout_ms = 2000;
    bool check =
        false;  ///< run quick_check first: worth its time where a wrong byte is likelier than a cold start
  };
  static Result<Query> open(const std::string& path, Options options);
  static Result<Query> open(const std::string& path) { return open(path, Options{}); }
  Query(Query&&) noexcept;
  Query& operator=(Query&&) noexcept;
  ~Query();

  Result<FileInfo> info() const;
  /// Rows left out so far because their content did not fit their digest; `doctor` names them.
  std::int64_t damaged_rows() const;
  /// The number that changes when what is served may have changed; cheap.
  Result<std::int64_t> generation() const;
  /// As in `FileInfo`.
  const std::string& access() const;

  /// Only what may be served here: active or stale, verified, not blocked, of a comparable device and the policy asked for. A
  /// variant without `artifact` has to be built from its trace first.
  Result<VariantList> find_variants(const Digest& workload, const DeviceMatch& match) const;
  /// `alignment_bytes` is that of the worst-aligned pointer.
  Result<Explanation> explain(const Digest& workload, const DeviceMatch& match, const Bindings& values,
                              std::int64_t alignment_bytes) const;

  /// db_corrupt when the stored bytes do not fit the digest, not_found when there is none, unsupported when it came
  /// from another database and `allow_foreign` is not set.
  Result<Artifact> load_artifact(const Digest& digest, bool allow_foreign = false) const;
  Result<std::vector<ArtifactRow>> list_artifacts(const Digest& candidate = {}) const;

  /// By name, or by graph digest; the newest of several. not_found when there is none.
  Result<PlanRow> find_plan(const std::string& name_or_graph_digest) const;
  Result<std::vector<PlanRow>> list_plans() const;

  Result<WorkloadRow> find_workload(const Digest& digest) const;
  Result<CandidateRow> find_candidate(const Digest& digest) const;
  /// By id or by digest prefix of at least 8 characters.
  Result<RunRow> find_run(const std::string& id_or_digest) const;
  Result<std::vector<WorkloadRow>> list_workloads() const;
  Result<std::vector<DeviceRow>> list_devices() const;
  Result<std::vector<ToolchainRow>> list_toolchains() const;
  Result<std::vector<PolicyRow>> list_policies() const;
  Result<std::vector<RunRow>> list_runs() const;  ///< newest first
  Result<std::vector<RangeRow>> list_ranges(const Digest& workload) const;
  Result<std::vector<ProbeRow>> list_probes(const Digest& workload) const;
  Result<std::vector<CandidateRow>> list_candidates(const Digest& workload) const;
  Result<std::vector<TrialRow>> list_trials(const TrialFilter& filter) const;  ///< in the order committed
  Result<std::vector<VerificationRow>> list_verifications(const Digest& candidate) const;
  Result<std::vector<BestEntry>> list_best(const BestFilter& filter) const;
  Result<std::vector<WantedRow>> list_wanted() const;  ///< most wanted first
  Result<std::vector<BlockRow>> list_blocks() const;
  Result<std::vector<ProvenanceRow>> list_provenance() const;
  Result<std::array<std::int64_t, kOutcomeCount>> count_outcomes(const TrialFilter& filter) const;

 private:
  friend class Recorder;
  explicit Query(std::shared_ptr<Connection> connection);
  std::shared_ptr<Connection> connection_;
};

/// The one write of a program that does not tune: adds counts to `wanted` in one short transaction that gives up after
/// 100 ms. Creates no file. An error means nothing was written; the caller keeps its counts and goes on.
Status note_wanted(const std::string& path, const std::vector<WantedRow>& rows);

}  // namespace loopwright::db
