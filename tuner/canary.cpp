#include "tuner/canary.h"

#include <algorithm>
#include <map>

#include "db/canonical.h"
#include "tuner/interruption.h"
#include "tuner/journal.h"
#include "tuner/metered_device.h"
#include "tuner/race.h"
#include "tuner/rebuild.h"

namespace loopwright::tuner {
namespace {

constexpr int kCanaryRounds = 9;
constexpr double kDriftShare = 0.05;      ///< smaller changes are no reason to tune again
constexpr int kLeastSample = 3;           ///< fewer say nothing of the rows that were not measured
constexpr double kDriftedMajority = 0.5;

/// A stored time and where it was measured.
struct StoredTime {
  db::ProbeRow probe;
  Summary summary;
};

bool has_drifted(const Summary& stored, const Summary& now) {
  const double ratio = now.median / stored.median;
  const bool is_apart = now.low > stored.high || now.high < stored.low;
  return is_apart && (ratio > 1 + kDriftShare || ratio < 1 - kDriftShare);
}

class Canary {
 public:
  Canary(const Workbench& bench, const TuneOptions& options, db::Recorder& recorder, Device& device, Journal& journal, Interruption& interruption)
      : bench_(bench), options_(options), recorder_(recorder), device_(device), journal_(journal), interruption_(interruption) {}

  Result<CanaryReport> run(int count) {
    LW_TRY(const auto rows, choose_rows(static_cast<std::size_t>(count)));
    for (const db::BestEntry& row : rows) {
      if (interruption_.is_cancelled()) break;
      LW_TRY(CanaryReading reading, read(row));
      if (reading.now_ns > 0) {
        ++report_.measured;
        report_.drifted += reading.drifted ? 1 : 0;
        LW_CHECK(mark(row, reading.drifted));
      }
      report_.readings.push_back(std::move(reading));
    }
    LW_CHECK(journal_.flush());
    const bool speaks_for_all = report_.measured >= kLeastSample && report_.drifted > kDriftedMajority * report_.measured;
    for (const db::BestEntry& row : rows) {
      if (speaks_for_all) LW_CHECK(mark_all_like(row.best));
    }
    report_.cancelled = interruption_.is_cancelled();
    return std::move(report_);
  }

 private:
  /// Of this machine, generator and policy; measured longest ago first, one of each workload before a second of any.
  Result<std::vector<db::BestEntry>> choose_rows(std::size_t count) {
    LW_TRY(auto rows, recorder_.read().list_best({.policy = journal_.keys().policy}));
    LW_TRY(const auto devices, recorder_.read().list_devices());
    LW_TRY(const auto toolchains, recorder_.read().list_toolchains());
    const auto is_like_here = [&](const db::BestRow& best) {
      return std::any_of(devices.begin(), devices.end(), [&](const db::DeviceRow& d) { return d.digest == best.device && d.hard_digest == journal_.keys().device_hard; }) &&
             std::any_of(toolchains.begin(), toolchains.end(), [&](const db::ToolchainRow& t) { return t.digest == best.toolchain && t.generator == journal_.keys().generator; });
    };
    std::erase_if(rows, [&](const db::BestEntry& e) { return !e.best.verified || !is_served(e.best.state) || !is_like_here(e.best); });
    std::stable_sort(rows.begin(), rows.end(), [](const db::BestEntry& a, const db::BestEntry& b) { return a.best.updated_ns < b.best.updated_ns; });
    std::map<db::Digest, int> turn_of;
    std::vector<std::pair<int, db::BestEntry>> in_turn;
    for (db::BestEntry& e : rows) {
      const int turn = turn_of[e.range.workload]++;
      in_turn.emplace_back(turn, std::move(e));
    }
    std::stable_sort(in_turn.begin(), in_turn.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    if (in_turn.size() > count) in_turn.resize(count);
    std::vector<db::BestEntry> chosen;
    for (auto& [turn, e] : in_turn) chosen.push_back(std::move(e));
    return chosen;
  }

  /// The candidate's most sampled trial in the range, of the place and from before the time of the row; of equals the last.
  Result<std::optional<StoredTime>> find_stored(const db::BestEntry& row) {
    LW_TRY(const auto trials, recorder_.read().list_trials({.candidate = row.best.candidate, .device = row.best.device, .toolchain = row.best.toolchain,
                                                            .policy = row.best.policy, .with_samples = true}));
    LW_TRY(const auto probes, recorder_.read().list_probes(row.range.workload));
    std::optional<StoredTime> found;
    for (const db::TrialRow& t : trials) {
      const auto probe = std::find_if(probes.begin(), probes.end(), [&](const db::ProbeRow& p) { return p.digest == t.probe; });
      if (t.outcome != Outcome::ok || t.samples_ns.empty() || t.created_ns > row.best.updated_ns || probe == probes.end() || !row.range.guard.holds(probe->values)) continue;
      const Summary summary = summarise(t.samples_ns);
      if (!found || summary.n >= found->summary.n) found = StoredTime{*probe, summary};
    }
    return found;
  }

  Result<std::shared_ptr<const Artifact>> load_code(const db::Digest& candidate) {
    LW_TRY(const auto artifacts, recorder_.read().list_artifacts(candidate));
    for (const db::ArtifactRow& a : artifacts) {
      if (!a.origin.empty() || a.target != options_.target.text()) continue;
      LW_TRY(Artifact artifact, recorder_.read().load_artifact(a.digest));
      return std::shared_ptr<const Artifact>(std::make_shared<Artifact>(std::move(artifact)));
    }
    return Error{.code = ErrorCode::not_found, .asked = "its machine code", .found = "none of this machine"};
  }

  Status open(const db::Digest& workload) {
    if (workload == open_workload_) return Unit{};
    LW_TRY(const db::WorkloadRow row, recorder_.read().find_workload(workload));
    LW_TRY(parsed_, graph::parse_workload(row.text));
    LW_TRY(subject_, bench_.make_subject(*parsed_, options_));
    const ProbePlan probes = plan_probes(subject_->symbols, {}, subject_->work);
    subject_->setup.verify_probes = probes.verify;
    subject_->setup.final_probes = probes.verify_finals;
    LW_CHECK(device_.open(subject_->setup));
    LW_CHECK(journal_.open_workload(row));
    open_workload_ = workload;
    return Unit{};
  }

  Result<CanaryReading> read(const db::BestEntry& row) {
    CanaryReading reading{.workload = row.range.workload, .label = row.candidate.template_name + " " + row.candidate.picks, .range = row.range.guard.text()};
    LW_TRY(const std::optional<StoredTime> stored, find_stored(row));
    if (!stored) {
      reading.note = "no samples of it are stored here";
      return reading;
    }
    reading.shape = stored->probe.values;
    reading.stored_ns = stored->summary.median;
    const auto code = load_code(row.best.candidate);
    const Status opened = code.ok() ? open(row.range.workload) : code.error();
    if (!opened.ok()) {
      reading.note = opened.error().message();
      return reading;
    }
    const Candidate candidate{.digest = row.candidate.digest, .template_name = row.candidate.template_name, .trace = row.candidate.trace,
                              .is_default = row.candidate.is_default, .artifact = *code};
    // Another driver may have made wrong code of it.
    const Verdict verdict = device_.verify(candidate);
    if (verdict.outcome != Outcome::ok) {
      LW_CHECK(journal_.add({.candidate = row.candidate, .outcome = verdict.outcome, .code = verdict.code, .detail = verdict.detail, .cases = verdict.cases, .is_trial = false}));
      reading.note = "refused and blocked, " + std::string(name(verdict.outcome)) + ": " + verdict.detail;
    } else {
      LW_CHECK(measure(candidate, row, *stored, reading));
    }
    device_.release(candidate.digest);
    return reading;
  }

  Status measure(const Candidate& candidate, const db::BestEntry& row, const StoredTime& stored, CanaryReading& reading) {
    std::vector<double> ns;
    Summary now;
    // What looks like a drift is measured once more: it may have been somebody else's load.
    for (int round = 0; round < 2 && (round == 0 || has_drifted(stored.summary, now)); ++round) {
      auto finals = run_finals(device_, {&candidate}, stored.probe.values, kCanaryRounds, options_.seed, [&] { return interruption_.is_cancelled(); });
      const Samples& samples = finals.front().samples;
      if (samples.outcome != Outcome::ok || samples.ns.empty()) {
        reading.note = samples.outcome == Outcome::ok ? "stopped" : std::string(name(samples.outcome)) + ": " + samples.detail;
        return Unit{};
      }
      LW_CHECK(journal_.add({.candidate = row.candidate, .probe = stored.probe.digest, .outcome = samples.outcome, .samples = samples}));
      ns.insert(ns.end(), samples.ns.begin(), samples.ns.end());
      now = summarise(ns);
    }
    reading.now_ns = now.median;
    reading.drifted = has_drifted(stored.summary, now);
    return Unit{};
  }

  Status mark(const db::BestEntry& row, bool drifted) {
    const db::BestState state = drifted ? db::BestState::stale : db::BestState::active;
    if (row.best.state == state) return Unit{};
    db::BestRow best = row.best;
    best.state = state;
    ++(drifted ? report_.stale : report_.fresh);
    LW_CHECK(recorder_.put_best(best));
    return Unit{};
  }
  Status mark_all_like(const db::BestRow& place) {
    LW_TRY(const auto rows, recorder_.read().list_best({.device = place.device, .policy = place.policy, .state = db::BestState::active}));
    for (const db::BestEntry& e : rows) {
      if (e.best.toolchain == place.toolchain) LW_CHECK(mark(e, true));
    }
    return Unit{};
  }

  const Workbench& bench_;
  const TuneOptions& options_;
  db::Recorder& recorder_;
  Device& device_;
  Journal& journal_;
  Interruption& interruption_;
  db::Digest open_workload_;
  std::optional<graph::Workload> parsed_;
  std::optional<Subject> subject_;
  CanaryReport report_;
};

}  // namespace

Result<CanaryReport> check_drift_with(const Workbench& bench, const TuneOptions& options, int count, const TuneStop& stop) {
  Interruption interruption(stop);
  LW_TRY(db::Recorder recorder, db::Recorder::open(options.database, {.create = false, .command = options.command_line}));
  LW_TRY(const auto made, bench.make_device(options));
  MeteredDevice device(*made, interruption);
  LW_TRY(const JournalKeys keys, begin_short_run(recorder, bench, options, device));
  Journal journal(recorder, keys);
  const Workbench away = leave_for_subjects(bench, interruption);
  return Canary(away, options, recorder, device, journal, interruption).run(count);
}

}  // namespace loopwright::tuner

namespace loopwright {

Result<CanaryReport> check_drift(const TuneOptions& options, int count, const TuneStop& stop) {
  return tuner::check_drift_with(tuner::make_workbench(), options, count, stop);
}

}  // namespace loopwright
