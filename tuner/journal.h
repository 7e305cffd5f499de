// The run's memory: every trial goes to the database, and comes back from it when a run goes on.
#pragma once

#include <chrono>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "db/record.h"
#include "src/driver/candidate_row.h"
#include "tuner/device.h"
#include "tuner/statistics.h"

namespace loopwright::tuner {

using driver::make_candidate_row;

/// Rows in this state serve, when they are verified.
inline bool is_served(db::BestState state) { return state == db::BestState::active || state == db::BestState::stale; }

/// What is known of a candidate at a probe.
struct KnownTrial {
  Outcome outcome = Outcome::ok;
  Summary summary;
  bool is_twin = false;  ///< the same code as another candidate, which was measured
};
/// Detail of a twin's trial.
inline constexpr const char* kTwinNote = "the same code was measured before";

/// Who measures, and under which run.
struct JournalKeys {
  db::Digest device, device_hard, toolchain, policy, run;
  std::string generator;
};

class Journal {
 public:
  Journal(db::Recorder& recorder, JournalKeys keys) : recorder_(recorder), keys_(std::move(keys)) {}

  /// Reads what earlier runs, and this one before it was stopped, found out about a workload.
  Status open_workload(const db::WorkloadRow& workload);
  /// Of the first trial of this candidate at this probe.
  const KnownTrial* find(const std::string& candidate, const std::string& probe) const;
  struct Failure {
    Outcome outcome = Outcome::rejected;
    std::string detail;
  };
  /// When the candidate failed at any probe or is blocked; null otherwise.
  const Failure* find_failure(const std::string& candidate) const;

  /// Notes a probe; its digest.
  Result<std::string> add_probe(const Bindings& values, std::string_view role);
  struct Entry {
    db::CandidateRow candidate;
    std::string probe;
    Outcome outcome = Outcome::ok;
    ErrorCode code = ErrorCode::ok;
    std::string detail;
    Samples samples;
    std::vector<CaseResult> cases;
    double compile_ns = 0;
    bool is_trial = true;
  };
  /// Written with the next flush, at the latest with the first call half a second after the last one.
  Status add(Entry entry);
  /// Verifications without a trial.
  Status add_cases(const db::CandidateRow& candidate, std::vector<CaseResult> cases);
  Status flush();
  /// JSON that `resume` needs; written with every flush from now on.
  void set_search_state(std::string json) { search_state_ = std::move(json); }

  db::Recorder& recorder() { return recorder_; }
  const JournalKeys& keys() const { return keys_; }
  std::int64_t next_sequence() const { return sequence_; }
  /// Call once for a run that goes on.
  Status continue_sequence();

 private:
  Status write(const Entry& entry);
  Status write_trial(const Entry& entry, db::UnixNs now);
  Status write_case(const Entry& entry, const CaseResult& result, db::UnixNs now);
  db::Recorder& recorder_;
  JournalKeys keys_;
  std::string workload_;
  std::map<std::pair<std::string, std::string>, KnownTrial> known_;  ///< by candidate and probe
  std::map<std::string, Failure> failures_;
  std::vector<Entry> pending_;
  std::set<std::string> written_candidates_;
  std::string search_state_;
  std::int64_t sequence_ = 0;
  std::chrono::steady_clock::time_point flushed_ = std::chrono::steady_clock::now();
};

}  // namespace loopwright::tuner
