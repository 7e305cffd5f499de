#include "tuner/journal.h"

#include <algorithm>

namespace loopwright::tuner {
namespace {

constexpr auto kFlushEvery = std::chrono::milliseconds(500);

/// Outcomes that say something about the candidate whatever the probe. `resource` may be the probe's size.
bool is_final(Outcome outcome) { return outcome != Outcome::ok && outcome != Outcome::resource; }

/// Bad enough to warn every reader of the database.
bool deserves_block(Outcome outcome) {
  switch (outcome) {
    case Outcome::timeout:
    case Outcome::crash:
    case Outcome::wrong_result:
    case Outcome::out_of_bounds:
    case Outcome::nondeterministic: return true;
    default: return false;
  }
}

}  // namespace

Status Journal::open_workload(const db::WorkloadRow& workload) {
  LW_CHECK(flush());
  LW_TRY(workload_, recorder_.add_workload(workload));
  known_.clear();
  failures_.clear();
  written_candidates_.clear();
  db::TrialFilter filter{.workload = workload_, .device = keys_.device, .toolchain = keys_.toolchain, .policy = keys_.policy};
  filter.with_samples = true;
  LW_TRY(const auto trials, recorder_.read().list_trials(filter));
  for (const db::TrialRow& t : trials) {
    const KnownTrial known{t.outcome, summarise(t.samples_ns), t.error == kTwinNote};
    known_.try_emplace({t.candidate, t.probe}, known);
    if (is_final(t.outcome)) failures_.try_emplace(t.candidate, Failure{t.outcome, t.error});
  }
  LW_TRY(const auto blocks, recorder_.read().list_blocks());
  for (const db::BlockRow& b : blocks) {
    const bool here = b.device_hard.empty() || b.device_hard == keys_.device_hard;
    const bool now = b.generator.empty() || b.generator == keys_.generator;
    if (here && now) failures_.try_emplace(b.candidate, Failure{Outcome::rejected, "blocked, " + b.reason});
  }
  return Unit{};
}

const KnownTrial* Journal::find(const std::string& candidate, const std::string& probe) const {
  const auto at = known_.find({candidate, probe});
  return at == known_.end() ? nullptr : &at->second;
}

const Journal::Failure* Journal::find_failure(const std::string& candidate) const {
  const auto at = failures_.find(candidate);
  return at == failures_.end() ? nullptr : &at->second;
}

Result<std::string> Journal::add_probe(const Bindings& values, std::string_view role) {
  return recorder_.add_probe({.workload = workload_, .values = values, .role = std::string(role)});
}

Status Journal::continue_sequence() {
  LW_TRY(const auto trials, recorder_.read().list_trials({.run = keys_.run}));
  for (const db::TrialRow& t : trials) sequence_ = std::max(sequence_, t.sequence + 1);
  return Unit{};
}

Status Journal::add(Entry entry) {
  if (is_final(entry.outcome)) failures_.try_emplace(entry.candidate.digest, Failure{entry.outcome, entry.detail});
  known_.try_emplace({entry.candidate.digest, entry.probe},
                     KnownTrial{entry.outcome, summarise(entry.samples.ns), entry.detail == kTwinNote});
  pending_.push_back(std::move(entry));
  if (std::chrono::steady_clock::now() - flushed_ < kFlushEvery) return Unit{};
  return flush();
}

Status Journal::add_cases(const db::CandidateRow& candidate, std::vector<CaseResult> cases) {
  pending_.push_back({.candidate = candidate, .cases = std::move(cases), .is_trial = false});
  return Unit{};
}

Status Journal::write(const Entry& e) {
  if (written_candidates_.insert(e.candidate.digest).second) {
    LW_TRY(const auto candidate, recorder_.add_candidate(e.candidate));
    LW_BUG_IF(candidate != e.candidate.digest, "the database gives a candidate another digest");
  }
  const db::UnixNs now = db::read_clock_ns();
  if (e.is_trial) LW_CHECK(write_trial(e, now));
  for (const CaseResult& c : e.cases) LW_CHECK(write_case(e, c, now));
  if (deserves_block(e.outcome)) {
    LW_CHECK(recorder_.add_block({.candidate = e.candidate.digest, .device_hard = keys_.device_hard,
                                  .generator = keys_.generator, .reason = std::string(name(e.outcome)) + ": " + e.detail,
                                  .created_ns = now}));
  }
  return Unit{};
}

Status Journal::write_trial(const Entry& e, db::UnixNs now) {
  db::TrialRow trial{.candidate = e.candidate.digest, .probe = e.probe, .device = keys_.device,
                     .toolchain = keys_.toolchain, .policy = keys_.policy, .run = keys_.run, .sequence = sequence_++,
                     .outcome = e.outcome, .error_code = e.code, .error = e.detail, .samples_ns = e.samples.ns};
  trial.compile_ns = e.compile_ns;
  trial.clock_before_khz = e.samples.clock_before_khz;
  trial.clock_after_khz = e.samples.clock_after_khz;
  // A clock that fell by a tenth while one candidate ran is heat or somebody's limit.
  trial.throttled = e.samples.throttled ||
                    (trial.clock_before_khz > 0 && trial.clock_after_khz < trial.clock_before_khz * 9 / 10);
  trial.created_ns = now;
  LW_CHECK(recorder_.add_trial(trial));
  return Unit{};
}

Status Journal::write_case(const Entry& e, const CaseResult& c, db::UnixNs now) {
  LW_TRY(const auto probe, add_probe(c.probe, "ragged"));
  db::VerificationRow v{.candidate = e.candidate.digest, .probe = probe, .device = keys_.device,
                        .toolchain = keys_.toolchain, .run = keys_.run, .seed = c.seed, .reference = "naive_f64"};
  v.max_abs_error = c.max_abs_error;
  v.max_rel_error = c.max_rel_error;
  v.tolerance = c.tolerance;
  v.red_zones_clean = c.red_zones_clean;
  v.repeatable = c.repeatable;
  v.passed = c.passed;
  v.detail = c.detail;
  v.created_ns = now;
  LW_CHECK(recorder_.add_verification(v));
  return Unit{};
}

Status Journal::flush() {
  flushed_ = std::chrono::steady_clock::now();
  if (pending_.empty() && search_state_.empty()) return Unit{};
  const std::int64_t first = sequence_;
  const Status status = recorder_.commit_together([&]() -> Status {
    for (const Entry& e : pending_) LW_CHECK(write(e));
    if (!search_state_.empty()) LW_CHECK(recorder_.save_search_state(keys_.run, search_state_));
    return Unit{};
  });
  if (!status.ok()) {
    sequence_ = first;
    return status;
  }
  pending_.clear();
  return Unit{};
}

}  // namespace loopwright::tuner
