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
constexpr int kRangeProbes = 12, kRangeProbesOfSeveral = 20;  ///< of one symbol, and of several
constexpr int kHeldOutProbes = 6, kHeldOutProbesOfSeveral = 10;
constexpr int kLessonRounds = 2;
constexpr std::size_t kCountedProbes = 6;  ///< of the shapes that are used most

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
  if (!subject_.symbols.empty() && general) return decide_ranges(finalists, deadline_s);
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

/// Times of the finalists at shapes, within a time limit.
class WorkloadRun::RangeTimes {
 public:
  RangeTimes(WorkloadRun& run, const std::vector<Contender*>& finalists) : run_(run), finalists_(finalists) {}

  const std::vector<Final>& measure(const Bindings& shape, std::string_view role) {
    const auto known = times_.find(shape);
    if (known != times_.end()) return known->second;
    return times_[shape] = run_.measure_finals(finalists_, shape, kRangeRounds, role);
  }
  bool is_measured(const Bindings& shape) const {
    const auto known = times_.find(shape);
    return known != times_.end() &&
           std::any_of(known->second.begin(), known->second.end(), [](const Final& f) { return f.summary.n > 0; });
  }
  /// Whether a finalist looks slower than the default at a measured shape, but may be as fast: worth more samples, since
  /// the default serves wherever the doubt stays.
  bool is_in_doubt(const Bindings& shape) const { return !find_doubtful(shape).empty(); }
  /// Measures the default again, in turn with those in doubt.
  void settle(const Bindings& shape, std::string_view role) {
    std::vector<Final>& finals = times_.at(shape);
    std::vector<std::size_t> position = find_doubtful(shape);
    position.push_back(default_position());
    std::vector<Contender*> again;
    for (const std::size_t i : position) again.push_back(finalists_[i]);
    const std::vector<Final> more = run_.measure_finals(again, shape, kFinalRounds, role);
    for (std::size_t i = 0; i < more.size(); ++i) add_samples(finals[position[i]], more[i]);
  }
  /// Seconds that `rounds` at a shape will take, from the times at the main probe.
  double estimate_s(const Bindings& shape, int rounds = kRangeRounds) const {
    const Bindings& main = run_.probes_.search.front();
    double launches_ns = 0;
    for (const Final& f : times_.at(main)) launches_ns += f.summary.median;
    const WorkEstimate& work = run_.subject_.work;
    const double scale = std::max({1.0, measure_volume(shape) / measure_volume(main), work ? work(shape) / std::max(1.0, work(main)) : 0});
    // One warm and one timed launch, or a batch, for each sample; buffers are filled anew for each shape.
    return rounds * (2 * launches_ns * scale * 1e-9 + 3e-4 * static_cast<double>(finalists_.size())) + 0.05;
  }

 private:
  std::size_t default_position() const {
    return static_cast<std::size_t>(std::find(finalists_.begin(), finalists_.end(), run_.default_) - finalists_.begin());
  }
  std::vector<std::size_t> find_doubtful(const Bindings& shape) const {
    std::vector<std::size_t> doubtful;
    const std::vector<Final>& finals = times_.at(shape);
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
  std::map<Bindings, std::vector<Final>> times_;
};

std::string_view WorkloadRun::name_shape(const Bindings& shape) const {
  const auto all_at = [&](std::int64_t Symbol::*end) {
    return std::all_of(subject_.symbols.begin(), subject_.symbols.end(), [&](const Symbol& s) { return shape.at(s.name) == s.*end; });
  };
  return shape == probes_.search.front() ? "middle" : all_at(&Symbol::lo) ? "low" : all_at(&Symbol::hi) ? "high" : "ragged";
}

/// Where finalists are measured: what was searched, the shapes used most, and a design over the box, cheap ones first.
std::vector<Bindings> WorkloadRun::list_range_probes() const {
  std::vector<Bindings> shapes = probes_.search;
  std::vector<ShapeCount> counted = shapes_;
  std::stable_sort(counted.begin(), counted.end(), [](const ShapeCount& a, const ShapeCount& b) { return a.count > b.count; });
  for (std::size_t i = 0; i < counted.size() && i < kCountedProbes; ++i) add_unique(shapes, counted[i].values);
  for (const Bindings& shape : choose_range_probes(subject_.symbols, subject_.symbols.size() == 1 ? kRangeProbes : kRangeProbesOfSeveral)) {
    add_unique(shapes, shape);
  }
  std::stable_sort(shapes.begin() + static_cast<std::ptrdiff_t>(probes_.search.size()), shapes.end(),
                   [](const Bindings& a, const Bindings& b) { return measure_volume(a) < measure_volume(b); });
  return shapes;
}

Status WorkloadRun::decide_ranges(const std::vector<Contender*>& finalists, double deadline_s) {
  const Bindings& main = probes_.search.front();
  RangeTimes times(*this, finalists);
  const std::vector<Bindings> shapes = list_range_probes();
  std::vector<Bindings> used;
  const int held_out_count = subject_.symbols.size() == 1 ? kHeldOutProbes : kHeldOutProbesOfSeveral;
  const std::vector<Bindings> held_out = choose_held_out(subject_.symbols, shapes, held_out_count, context_.options->seed, shapes_);
  times.measure(main, name_shape(main));
  // What does not fit into the time left is not measured (see `guess`). A quarter of the time is kept for the held-out shapes.
  const double held_out_from_s = deadline_s - 0.25 * std::max(0.0, deadline_s - context_.now_s());
  for (const Bindings& shape : shapes) {
    if (context_.is_cancelled()) return context_.journal->flush();
    if (shape != main && context_.now_s() + times.estimate_s(shape) > held_out_from_s) continue;
    tell("ranges", false);
    times.measure(shape, name_shape(shape));
    if (times.is_measured(shape)) used.push_back(shape);
  }
  for (const Bindings& shape : used) {
    if (context_.is_cancelled()) return context_.journal->flush();
    if (!times.is_in_doubt(shape) || context_.now_s() + times.estimate_s(shape, kFinalRounds) > held_out_from_s) continue;
    tell("ranges", false);
    times.settle(shape, name_shape(shape));
  }
  std::stable_sort(used.begin(), used.end(), [](const Bindings& a, const Bindings& b) { return measure_volume(a) < measure_volume(b); });
  std::vector<Bindings> judged;
  for (const Bindings& shape : held_out) {
    if (context_.is_cancelled()) return context_.journal->flush();
    const bool too_large = used.empty() || measure_volume(shape) > measure_volume(used.back());
    if (too_large || context_.now_s() + times.estimate_s(shape) > deadline_s) continue;
    times.measure(shape, "held_out");
    if (times.is_measured(shape)) judged.push_back(shape);
  }
  if (used.empty() || context_.is_cancelled()) return context_.journal->flush();
  RangeProblem problem{.symbols = subject_.symbols, .held_out = judged};
  for (const Contender* c : finalists) problem.candidates.push_back({.digest = c->row.digest, .guard = c->candidate.artifact->guard});
  problem.rule.most_variants = context_.options->max_variants;
  const auto default_at = std::find(finalists.begin(), finalists.end(), default_);
  if (default_at != finalists.end()) problem.rule.baseline = static_cast<int>(default_at - finalists.begin());
  // At what was not measured the default serves, unless it was clearly slower at the nearest shape that was.
  std::vector<Bindings> unmeasured;
  if (problem.rule.baseline >= 0)
    for (const Bindings& shape : shapes)
      if (!times.is_measured(shape)) add_unique(unmeasured, shape);
  const auto guess = [&](int c, const Bindings& shape) -> RangeTime {
    const auto nearest = std::min_element(used.begin(), used.end(), [&](const Bindings& a, const Bindings& b) { return measure_distance(shape, a) < measure_distance(shape, b); });
    const std::vector<Final>& there = times.measure(*nearest, "ragged");
    const Summary &mine = there[static_cast<std::size_t>(c)].summary, &base = there[static_cast<std::size_t>(problem.rule.baseline)].summary;
    if (mine.n == 0 || base.n == 0) return kInfinity;
    const double ratio = mine.median / base.median;
    return c == problem.rule.baseline || ratio * (1 + problem.rule.split_loss) < 1 ? RangeTime(ratio) : RangeTime(kInfinity);
  };
  problem.cost = [&](int c, const Bindings& shape) -> RangeTime {
    if (std::find(unmeasured.begin(), unmeasured.end(), shape) != unmeasured.end()) return guess(c, shape);
    const bool late = !times.is_measured(shape) && context_.now_s() + times.estimate_s(shape) > deadline_s;
    if (late || context_.is_cancelled()) return kInfinity;
    const Summary& s = times.measure(shape, "ragged")[static_cast<std::size_t>(c)].summary;
    return s.n > 0 ? RangeTime(s.median, s.low, s.high) : RangeTime(kInfinity);
  };
  const auto take_probes = [&] {
    problem.probes = used;
    problem.probes.insert(problem.probes.end(), unmeasured.begin(), unmeasured.end());
    problem.weights = weigh_probes(subject_.symbols, problem.probes, shapes_);
  };
  take_probes();
  auto ranges = split_ranges(problem);
  // Where a held-out shape shows a loss that no probe knew of, it becomes a probe, and another one is held out for it.
  for (int round = 1; round <= kLessonRounds && !context_.is_cancelled(); ++round) {
    const std::vector<Bindings> losing = list_losing(problem, ranges);
    if (losing.empty()) break;
    for (const Bindings& shape : losing) {
      std::erase(problem.held_out, shape);
      used.push_back(shape);
    }
    std::vector<Bindings> known = used;
    known.insert(known.end(), problem.held_out.begin(), problem.held_out.end());
    for (const Bindings& shape : choose_held_out(subject_.symbols, known, static_cast<int>(losing.size()), context_.options->seed + static_cast<std::uint64_t>(round), shapes_)) {
      if (context_.is_cancelled()) return context_.journal->flush();
      if (context_.now_s() + times.estimate_s(shape) > deadline_s) continue;
      times.measure(shape, "held_out");
      if (times.is_measured(shape)) problem.held_out.push_back(shape);
    }
    take_probes();
    ranges = split_ranges(problem);
  }
  if (context_.is_cancelled()) return context_.journal->flush();
  return serve_ranges(finalists, ranges, used, times);
}

Status WorkloadRun::serve_ranges(const std::vector<Contender*>& finalists, const std::vector<ServedRange>& ranges,
                                 const std::vector<Bindings>& used, RangeTimes& times) {
  const Bindings& main = probes_.search.front();
  const auto default_at = static_cast<std::size_t>(std::find(finalists.begin(), finalists.end(), default_) - finalists.begin());
  const auto time_of = [&](std::size_t c, const Bindings& shape) {
    return c < finalists.size() ? times.measure(shape, "ragged")[c].summary : Summary{};
  };
  std::vector<Served> served;
  result_.worst_loss = result_.mean_loss = 0;
  double weighted = 0, weight = 0;
  bool has_main = false;
  for (const ServedRange& r : ranges) {
    const auto c = static_cast<std::size_t>(r.candidate);
    Served s{.guard = r.guard, .contender = finalists[c]};
    s.worst_loss = r.worst_loss;
    s.mean_loss = r.mean_loss;
    s.held_out = r.held_out;
    double logs = 0;
    int count = 0;
    for (const Bindings& shape : used) {
      if (!r.guard.holds(shape)) continue;
      const Summary mine = time_of(c, shape), base = time_of(default_at, shape);
      if (mine.n == 0 || base.n == 0) continue;
      logs += std::log(base.median / mine.median);
      ++count;
      if (s.median_ns == 0 || measure_volume(shape) <= measure_volume(main)) s.median_ns = mine.median, s.default_ns = base.median;
      if (shape == main && !has_main) {  // ranges that lie over others come first, and serve first
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
