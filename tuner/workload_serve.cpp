// The last part of a workload's run: finals, ranges, and what is served from now on.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tuner/workload_run.h"

namespace loopwright::tuner {
namespace {

constexpr std::size_t kFinalistsAtBox = 4;
constexpr std::size_t kFinalistsAtProbe = 2;
constexpr int kFinalRounds = 9;
constexpr int kRangeRounds = 5;
constexpr int kRangeProbes = 12;
constexpr int kHeldOutProbes = 6;

/// One that fails in later rounds has no time.
void add_samples(Final& f, const Final& more) {
  f.samples.ns.insert(f.samples.ns.end(), more.samples.ns.begin(), more.samples.ns.end());
  f.summary = more.samples.outcome == Outcome::ok ? summarise(f.samples.ns) : Summary{};
}

}  // namespace

Guard WorkloadRun::whole_box() const {
  Guard box;
  for (const Symbol& s : subject_.symbols) box.symbols.push_back({.name = s.name, .lo = s.lo, .hi = s.hi});
  std::sort(box.symbols.begin(), box.symbols.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return box;
}

Status WorkloadRun::add_verified_default(Contender& c) {
  db::Recorder& recorder = context_.journal->recorder();
  db::CandidateRow row = c.row;
  row.is_default = c.candidate.is_default;
  LW_CHECK(recorder.add_candidate(row));
  LW_CHECK(recorder.put_artifact(c.row.digest, context_.journal->keys().toolchain, *c.candidate.artifact));
  return Unit{};
}

Status WorkloadRun::serve(const std::vector<Served>& served, bool complete) {
  LW_CHECK(context_.journal->flush());
  db::Recorder& recorder = context_.journal->recorder();
  const JournalKeys& keys = context_.journal->keys();
  return recorder.commit_together([&]() -> Status {
    std::vector<db::Digest> ranges;
    for (const Served& s : served) {
      LW_TRY(const db::Digest range, recorder.add_range({.workload = workload_.digest, .guard = s.guard}));
      LW_CHECK(add_verified_default(*s.contender));
      db::BestRow best{.range = range, .device = keys.device, .toolchain = keys.toolchain, .policy = keys.policy,
                       .candidate = s.contender->row.digest};
      best.median_ns = s.median_ns;
      best.default_median_ns = s.default_ns;
      best.speedup = s.speedup;
      best.worst_loss = s.worst_loss;
      best.mean_loss = s.mean_loss;
      best.held_out_probes = s.held_out;
      best.complete = complete;
      best.verified = true;
      best.run = keys.run;
      best.updated_ns = db::read_clock_ns();
      LW_CHECK(recorder.put_best(best));
      ranges.push_back(range);
    }
    return recorder.retire_ranges(workload_.digest, keys.device, keys.toolchain, keys.policy, ranges);
  });
}

std::vector<Contender*> WorkloadRun::choose_finalists() const {
  std::vector<Contender*> finalists{default_};
  const auto add = [&](Contender* c) {
    if (std::find(finalists.begin(), finalists.end(), c) == finalists.end()) finalists.push_back(c);
  };
  const std::size_t each = probes_.search.size() == 1 ? kFinalistsAtBox : kFinalistsAtProbe;
  for (const std::string& probe : probe_digests_) {
    std::vector<Contender*> there;
    for (const Contender& c : contenders_) {
      if (c.times.contains(probe)) there.push_back(const_cast<Contender*>(&c));
    }
    std::stable_sort(there.begin(), there.end(), [&](const Contender* a, const Contender* b) {
      return a->times.at(probe).median < b->times.at(probe).median;
    });
    for (std::size_t i = 0; i < there.size() && i < each; ++i) add(there[i]);
  }
  return finalists;
}

std::vector<Final> WorkloadRun::measure_finals(const std::vector<Contender*>& finalists, const Bindings& probe, int rounds,
                                               std::string_view role) {
  std::vector<const Candidate*> running;
  std::vector<std::size_t> position;
  for (std::size_t i = 0; i < finalists.size(); ++i) {
    if (!finalists[i]->candidate.artifact->guard.holds(probe)) continue;
    running.push_back(&finalists[i]->candidate);
    position.push_back(i);
  }
  std::uint64_t seed = context_.options->seed;
  for (const auto& [symbol, value] : probe) seed = seed * 31 + static_cast<std::uint64_t>(value);
  std::vector<Final> all(finalists.size());
  std::vector<Final> finals = run_finals(*context_.device, running, probe, rounds, seed, [&] { return context_.is_cancelled(); });
  const auto digest = context_.journal->add_probe(probe, role);
  for (std::size_t i = 0; i < finals.size(); ++i) {
    if (digest.ok() && (finals[i].samples.outcome != Outcome::ok || finals[i].summary.n > 0)) {
      // A failed write comes back with the next one; the finals themselves need no database.
      const auto noted = context_.journal->add({.candidate = finalists[position[i]]->row, .probe = *digest,
                                                .outcome = finals[i].samples.outcome, .code = finals[i].samples.code,
                                                .detail = finals[i].samples.detail, .samples = finals[i].samples});
      if (!noted.ok()) break;
    }
    all[position[i]] = std::move(finals[i]);
  }
  return all;
}

Status WorkloadRun::decide(double deadline_s) {
  tell("finals", true);
  std::vector<Contender*> finalists;
  for (Contender* c : choose_finalists()) {
    if (context_.is_cancelled()) return Unit{};
    if (make_ready(*c)) finalists.push_back(c);
  }
  const bool has_general = std::any_of(finalists.begin(), finalists.end(), [&](Contender* c) { return serves_everything(*c); });
  for (Contender& c : contenders_) {
    // Somebody must serve what the fast ones do not.
    if (has_general || !make_ready(c) || !serves_everything(c)) continue;
    finalists.push_back(&c);
    break;
  }
  if (finalists.empty()) return context_.journal->flush();
  const bool general = std::any_of(finalists.begin(), finalists.end(), [&](Contender* c) { return serves_everything(*c); });
  if (subject_.symbols.size() == 1 && general) return decide_ranges(finalists, deadline_s);
  return decide_box(finalists);
}

Status WorkloadRun::decide_box(const std::vector<Contender*>& finalists) {
  const Bindings& probe = probes_.search.front();
  std::vector<Final> finals = measure_finals(finalists, probe, kFinalRounds, "middle");
  // Those that are still level run again.
  double best_high = kInfinity;
  for (const Final& f : finals) {
    if (f.summary.n > 0) best_high = std::min(best_high, f.summary.high);
  }
  std::vector<Contender*> level;
  std::vector<std::size_t> position;
  for (std::size_t i = 0; i < finals.size(); ++i) {
    if (finals[i].summary.n > 0 && finals[i].summary.low <= best_high) level.push_back(finalists[i]), position.push_back(i);
  }
  if (level.size() > 1) {
    const std::vector<Final> more = measure_finals(level, probe, kFinalRounds, "middle");
    for (std::size_t i = 0; i < more.size(); ++i) add_samples(finals[position[i]], more[i]);
  }
  if (context_.is_cancelled()) return context_.journal->flush();
  const auto choose = [&](bool general_only) {
    std::vector<Finalist> list;
    for (std::size_t i = 0; i < finals.size(); ++i) {
      const bool fits = !general_only || serves_everything(*finalists[i]);
      list.push_back({fits ? finals[i].summary : Summary{}, 0, finalists[i]->row.digest, finalists[i] == default_});
    }
    return choose_winner(list);
  };
  const auto default_at = std::find(finalists.begin(), finalists.end(), default_) - finalists.begin();
  const bool has_default_time = default_at < static_cast<std::ptrdiff_t>(finals.size()) && finals[default_at].summary.n > 0;
  const double default_ns = has_default_time ? finals[default_at].summary.median : result_.default_ns;
  std::vector<Served> served;
  const auto add = [&](int i) {
    if (i < 0 || std::any_of(served.begin(), served.end(), [&](const Served& s) { return s.contender == finalists[i]; })) return;
    const double ns = finals[i].summary.median;
    served.push_back({.guard = Guard::both(whole_box(), finalists[i]->candidate.artifact->guard), .contender = finalists[i],
                      .median_ns = ns, .default_ns = default_ns, .speedup = default_ns / ns});
  };
  const int winner = choose(false);
  add(winner);
  add(choose(true));  // for callers whose pointers or sizes the winner does not take
  if (served.empty()) return context_.journal->flush();
  result_.default_ns = default_ns;
  result_.best_ns = served.front().median_ns;
  result_.compared = has_default_time;
  best_label_ = served.front().contender->candidate.label();
  result_.ranges = static_cast<int>(served.size());
  result_.complete = was_searched();
  LW_CHECK(serve(served, result_.complete));
  tell("finals", true);
  return Unit{};
}

/// Times of the finalists at values of the symbol, within a time limit.
class WorkloadRun::RangeTimes {
 public:
  RangeTimes(WorkloadRun& run, const std::vector<Contender*>& finalists, std::string symbol, std::int64_t main)
      : run_(run), finalists_(finalists), symbol_(std::move(symbol)), main_(main) {}

  const std::vector<Final>& measure(std::int64_t value, std::string_view role) {
    const auto known = times_.find(value);
    if (known != times_.end()) return known->second;
    return times_[value] = run_.measure_finals(finalists_, {{symbol_, value}}, kRangeRounds, role);
  }
  bool is_measured(std::int64_t value) const {
    const auto known = times_.find(value);
    return known != times_.end() &&
           std::any_of(known->second.begin(), known->second.end(), [](const Final& f) { return f.summary.n > 0; });
  }
  /// Whether a finalist looks slower than the default at a measured value, but may be as fast: worth more samples, since
  /// the default serves wherever the doubt stays.
  bool is_in_doubt(std::int64_t value) const { return !find_doubtful(value).empty(); }
  /// Measures the default again, in turn with those in doubt.
  void settle(std::int64_t value, std::string_view role) {
    std::vector<Final>& finals = times_.at(value);
    std::vector<std::size_t> position = find_doubtful(value);
    position.push_back(default_position());
    std::vector<Contender*> again;
    for (const std::size_t i : position) again.push_back(finalists_[i]);
    const std::vector<Final> more = run_.measure_finals(again, {{symbol_, value}}, kFinalRounds, role);
    for (std::size_t i = 0; i < more.size(); ++i) add_samples(finals[position[i]], more[i]);
  }
  /// Seconds that `rounds` at a value will take, from the times at the main probe.
  double estimate_s(std::int64_t value, int rounds = kRangeRounds) const {
    double launches_ns = 0;
    for (const Final& f : times_.at(main_)) launches_ns += f.summary.median;
    const double scale = std::max(1.0, static_cast<double>(value) / static_cast<double>(std::max<std::int64_t>(main_, 1)));
    // One warm and one timed launch, or a batch, for each sample; buffers are filled anew for each value.
    return rounds * (2 * launches_ns * scale * 1e-9 + 3e-4 * static_cast<double>(finalists_.size())) + 0.05;
  }

 private:
  std::size_t default_position() const {
    return static_cast<std::size_t>(std::find(finalists_.begin(), finalists_.end(), run_.default_) - finalists_.begin());
  }
  std::vector<std::size_t> find_doubtful(std::int64_t value) const {
    std::vector<std::size_t> doubtful;
    const std::vector<Final>& finals = times_.at(value);
    const std::size_t base = default_position();
    if (base >= finals.size() || finals[base].summary.n == 0) return doubtful;
    const Summary& baseline = finals[base].summary;
    for (std::size_t i = 0; i < finals.size(); ++i) {
      const Summary& s = finals[i].summary;
      if (i != base && s.n > 0 && s.median > baseline.median && s.low <= baseline.high) doubtful.push_back(i);
    }
    return doubtful;
  }

  WorkloadRun& run_;
  const std::vector<Contender*>& finalists_;
  std::string symbol_;
  std::int64_t main_;
  std::map<std::int64_t, std::vector<Final>> times_;
};

std::vector<RangeCandidate> WorkloadRun::describe_finalists(const std::vector<Contender*>& finalists) const {
  const Symbol& symbol = subject_.symbols.front();
  std::vector<RangeCandidate> candidates;
  for (const Contender* c : finalists) {
    const Guard& guard = c->candidate.artifact->guard;
    RangeCandidate r{.digest = c->row.digest, .guard = {.name = symbol.name, .lo = symbol.lo, .hi = symbol.hi}};
    for (const SymbolGuard& g : guard.symbols) {
      if (g.name == symbol.name) r.guard = {g.name, std::max(g.lo, symbol.lo), std::min(g.hi, symbol.hi), g.multiple_of};
    }
    // Alignment is no matter of the symbol's value: such a candidate lies over the others like one that needs multiples.
    r.lies_over = guard.alignment_bytes > 1;
    candidates.push_back(std::move(r));
  }
  return candidates;
}

Status WorkloadRun::decide_ranges(const std::vector<Contender*>& finalists, double deadline_s) {
  const Symbol& symbol = subject_.symbols.front();
  const std::int64_t main = probes_.search.front().at(symbol.name);
  RangeTimes times(*this, finalists, symbol.name, main);
  std::vector<std::int64_t> values, used;
  for (const Bindings& probe : probes_.search) values.push_back(probe.at(symbol.name));
  for (const std::int64_t v : choose_range_probes(symbol.lo, symbol.hi, kRangeProbes)) {
    if (std::find(values.begin(), values.end(), v) == values.end()) values.push_back(v);
  }
  const std::vector<std::int64_t> held_out = choose_held_out(symbol.lo, symbol.hi, values, kHeldOutProbes, context_.options->seed);
  const auto role_of = [&](std::int64_t v) {
    return v == main ? "middle" : v == symbol.lo ? "low" : v == symbol.hi ? "high" : "ragged";
  };
  times.measure(main, role_of(main));
  // Cheap values first after those that were searched; what does not fit into the time left is not measured, and the
  // range of the nearest measured value extends over it. A quarter of the time is kept for the held-out values.
  std::stable_sort(values.begin() + static_cast<std::ptrdiff_t>(probes_.search.size()), values.end());
  const double held_out_from_s = deadline_s - 0.25 * std::max(0.0, deadline_s - context_.now_s());
  for (const std::int64_t v : values) {
    if (context_.is_cancelled()) return context_.journal->flush();
    if (v != main && context_.now_s() + times.estimate_s(v) > held_out_from_s) continue;
    tell("ranges", false);
    times.measure(v, role_of(v));
    if (times.is_measured(v)) used.push_back(v);
  }
  for (const std::int64_t v : used) {
    if (context_.is_cancelled()) return context_.journal->flush();
    if (!times.is_in_doubt(v) || context_.now_s() + times.estimate_s(v, kFinalRounds) > held_out_from_s) continue;
    tell("ranges", false);
    times.settle(v, role_of(v));
  }
  std::sort(used.begin(), used.end());
  for (const std::int64_t v : held_out) {
    if (context_.is_cancelled()) return context_.journal->flush();
    if (used.empty() || v > used.back() || context_.now_s() + times.estimate_s(v) > deadline_s) continue;
    times.measure(v, "held_out");
  }
  std::vector<std::int64_t> judged;
  std::copy_if(held_out.begin(), held_out.end(), std::back_inserter(judged), [&](std::int64_t v) { return times.is_measured(v); });
  if (used.empty() || context_.is_cancelled()) return context_.journal->flush();
  RangeRule rule;
  const auto default_at = std::find(finalists.begin(), finalists.end(), default_);
  if (default_at != finalists.end() && serves_everything(*default_)) rule.baseline = static_cast<int>(default_at - finalists.begin());
  const auto cost = [&](int c, std::int64_t value) -> RangeTime {
    const bool late = !times.is_measured(value) && context_.now_s() + times.estimate_s(value) > deadline_s;
    if (late || context_.is_cancelled()) return kInfinity;
    const Summary& s = times.measure(value, "ragged")[static_cast<std::size_t>(c)].summary;
    return s.n > 0 ? RangeTime(s.median, s.low, s.high) : RangeTime(kInfinity);
  };
  const auto ranges = split_ranges(symbol.lo, symbol.hi, describe_finalists(finalists), used, judged, cost, rule);
  if (context_.is_cancelled()) return context_.journal->flush();
  return serve_ranges(finalists, ranges, used, times);
}

Status WorkloadRun::serve_ranges(const std::vector<Contender*>& finalists, const std::vector<ServedRange>& ranges,
                                 const std::vector<std::int64_t>& used, RangeTimes& times) {
  const Symbol& symbol = subject_.symbols.front();
  const std::int64_t main = probes_.search.front().at(symbol.name);
  const auto default_at = static_cast<std::size_t>(std::find(finalists.begin(), finalists.end(), default_) - finalists.begin());
  const auto time_of = [&](std::size_t c, std::int64_t v) {
    return c < finalists.size() ? times.measure(v, "ragged")[c].summary : Summary{};
  };
  std::vector<Served> served;
  result_.worst_loss = result_.mean_loss = 0;
  double weighted = 0, weight = 0;
  bool has_main = false;
  for (const ServedRange& r : ranges) {
    const auto c = static_cast<std::size_t>(r.candidate);
    Served s{.guard = {.symbols = {{symbol.name, r.lo, r.hi, r.multiple_of}}}, .contender = finalists[c]};
    s.guard = Guard::both(s.guard, finalists[c]->candidate.artifact->guard);
    s.worst_loss = r.worst_loss;
    s.mean_loss = r.mean_loss;
    s.held_out = r.held_out;
    double logs = 0;
    int count = 0;
    for (const std::int64_t v : used) {
      if (v < r.lo || v > r.hi || v % r.multiple_of != 0) continue;
      const Summary mine = time_of(c, v), base = time_of(default_at, v);
      if (mine.n == 0 || base.n == 0) continue;
      logs += std::log(base.median / mine.median);
      ++count;
      if (s.median_ns == 0 || v <= main) s.median_ns = mine.median, s.default_ns = base.median;
      if (v == main && !has_main) {  // ranges that lie over others come first, and serve first
        has_main = true;
        result_.default_ns = base.median;
        result_.best_ns = mine.median;
        result_.compared = true;
        best_label_ = s.contender->candidate.label();
      }
    }
    if (count > 0) s.speedup = std::exp(logs / count);
    result_.worst_loss = std::max(result_.worst_loss, r.worst_loss);
    weighted += r.mean_loss * static_cast<double>(r.held_out);
    weight += static_cast<double>(r.held_out);
    served.push_back(std::move(s));
  }
  if (weight > 0) result_.mean_loss = weighted / weight;
  result_.ranges = static_cast<int>(served.size());
  result_.complete = was_searched();
  LW_CHECK(serve(served, result_.complete));
  tell("ranges", true);
  return Unit{};
}

}  // namespace loopwright::tuner
