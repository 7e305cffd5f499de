// Whole runs over a made-up space: nothing is compiled, times are recorded.
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <set>
#include <thread>

#include "db/query.h"
#include "loopwright/runtime.h"
#include "src/driver/planner.h"
#include "tests/unit/tuner/synthetic.h"

namespace loopwright::tuner {
namespace {

using testing::make_synthetic_workbench;
using testing::record_synthetic;
using testing::synthetic_time_ns;
using testing::TempFolder;

Graph make_graph(bool with_symbol) {
  Graph g("doubled");
  Dim n = 64;
  if (with_symbol) n = *g.symbol("n", 1, 4096);
  const Value x = *g.input("x", {.dtype = DType::f32, .shape = {n}});
  EXPECT_TRUE(g.output("y", *g.binary("add", x, x)).ok());
  return g;
}

TuneOptions make_options(const TempFolder& folder, std::int64_t trials) {
  TuneOptions options;
  options.database = folder.file("tune.db");
  options.target = host_target();
  options.budget_s = 600;
  options.max_trials = trials;
  options.build_threads = 2;
  return options;
}

/// The value, which outlives the loop it is used in.
template <class T>
T take(Result<T> result) {
  EXPECT_TRUE(result.ok());
  return std::move(*result);
}

/// Picks as the database holds them.
Result<Picks> parse_picks_of(std::string json) {
  std::erase_if(json, [](char c) { return c == '{' || c == '}' || c == '"'; });
  std::replace(json.begin(), json.end(), ':', '=');
  std::replace(json.begin(), json.end(), ',', ' ');
  return parse_picks(json);
}

struct Stored {
  std::vector<std::string> winners;  ///< template, picks and guard of each range
  std::int64_t trials = 0;
};
Stored read_back(const std::string& path) {
  const auto query = db::Query::open(path);
  EXPECT_TRUE(query.ok());
  Stored stored;
  const auto best = query->list_best({.state = db::BestState::active});
  for (const db::BestEntry& e : *best) stored.winners.push_back(e.candidate.picks + " " + e.range.guard.text());
  std::sort(stored.winners.begin(), stored.winners.end());
  stored.trials = static_cast<std::int64_t>(query->list_trials({})->size());
  return stored;
}

TEST(Session, FindsAGoodCandidateServesItAndDoesNotTuneTwice) {
  const TempFolder folder;
  const auto bench = make_synthetic_workbench(record_synthetic, 0.01);
  const TuneOptions options = make_options(folder, 200);
  const auto report = tune_with(bench, make_graph(false), options, {}, nullptr);
  ASSERT_TRUE(report.ok()) << report.error().message();
  ASSERT_EQ(report->workloads.size(), 1u);
  const TunedWorkload& w = report->workloads[0];
  EXPECT_TRUE(w.complete);
  // The optimum is 1000. Which candidates are built in time depends on threads, so no run is exactly like another; that
  // evolution beats random on this space is asserted where the search alone runs.
  EXPECT_LT(w.best_ns, 1400);
  EXPECT_GT(w.default_ns, 3 * w.best_ns);
  EXPECT_GT(w.gain_evolution, 3);
  EXPECT_GT(w.gain_random, 1);
  const auto again = tune_with(bench, make_graph(false), options, {}, nullptr);
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(again->workloads[0].complete);
  EXPECT_EQ(again->workloads[0].trials, 0);
}

TEST(Session, BadCandidatesAreRecordedAndNeverServed) {
  const TempFolder folder;
  // Everything that would be fast is broken in one way or another.
  const auto times = [](const Candidate& c, const Bindings& probe) {
    Recorded r = record_synthetic(c, probe);
    if (r.median_ns >= 2000 || c.is_default) return r;
    const Outcome kinds[] = {Outcome::timeout, Outcome::crash, Outcome::wrong_result, Outcome::out_of_bounds, Outcome::nondeterministic};
    r.outcome = kinds[std::stoul(c.digest.substr(0, 4), nullptr, 16) % 5];
    return r;
  };
  const auto report = tune_with(make_synthetic_workbench(times, 0.01), make_graph(false), make_options(folder, 150), {}, nullptr);
  ASSERT_TRUE(report.ok());
  const TunedWorkload& w = report->workloads[0];
  EXPECT_TRUE(w.complete);
  EXPECT_GE(w.best_ns, 1950);
  std::int64_t bad = 0;
  for (const auto& [outcome, count] : w.outcomes) bad += outcome != Outcome::ok && outcome != Outcome::rejected ? count : 0;
  EXPECT_GT(bad, 5);
  const auto query = db::Query::open(folder.file("tune.db"));
  const auto counts = *query->count_outcomes({});
  std::int64_t stored = 0;
  for (const Outcome o : {Outcome::timeout, Outcome::crash, Outcome::wrong_result, Outcome::out_of_bounds, Outcome::nondeterministic})
    stored += counts[static_cast<std::size_t>(o)];
  EXPECT_EQ(stored, bad);
  EXPECT_EQ(static_cast<std::int64_t>(query->list_blocks()->size()), bad);
}

TEST(Session, ASlowerSearchResultNeverReplacesTheDefault) {
  const TempFolder folder;
  const auto times = [](const Candidate& c, const Bindings&) { return Recorded{Outcome::ok, c.is_default ? 1000.0 : 1004.0}; };
  const auto report = tune_with(make_synthetic_workbench(times, 0.002), make_graph(false), make_options(folder, 60), {}, nullptr);
  ASSERT_TRUE(report.ok());
  const auto query = db::Query::open(folder.file("tune.db"));
  const auto best = *query->list_best({.state = db::BestState::active});
  ASSERT_EQ(best.size(), 1u);
  EXPECT_TRUE(best[0].candidate.is_default);
}

TEST(Session, AStoppedRunGoesOnToTheSameWinnersAsOneThatWasNot) {
  const auto bench = make_synthetic_workbench(record_synthetic, 0.01);
  for (const bool with_symbol : {false, true}) {
    const TempFolder whole, parts;
    const Graph graph = make_graph(with_symbol);
    ASSERT_TRUE(tune_with(bench, graph, make_options(whole, 160), {}, nullptr).ok());
    std::atomic<bool> cancel{false};
    std::int64_t stop_at = 30;
    const TuneObserver observer = [&](const TuneProgress& p) {
      if (p.trials >= stop_at) cancel = true;
    };
    auto report = tune_with(bench, graph, make_options(parts, 160), observer, &cancel);
    ASSERT_TRUE(report.ok());
    EXPECT_TRUE(report->cancelled);
    int resumes = 0;
    while (report->cancelled && resumes < 20) {
      cancel = false;
      stop_at += 45;
      auto resumed = resume_with(bench, parts.file("tune.db"), report->run, observer, {.cancel = &cancel});
      ASSERT_TRUE(resumed.ok()) << resumed.error().message();
      report = std::move(resumed->back());
      ++resumes;
    }
    EXPECT_GT(resumes, 1);
    const Stored a = read_back(whole.file("tune.db")), b = read_back(parts.file("tune.db"));
    EXPECT_EQ(a.winners, b.winners);
    EXPECT_FALSE(a.winners.empty());
  }
}

TEST(Session, WhatHasNoValidCandidateSaysWhy) {
  const TempFolder folder;
  const auto times = [](const Candidate&, const Bindings&) { return Recorded{Outcome::wrong_result, 1000.0}; };
  const auto report = tune_with(make_synthetic_workbench(times, 0.01), make_graph(false), make_options(folder, 40), {}, nullptr);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->workloads[0].best_ns, 0);
  EXPECT_TRUE(report->workloads[0].why_not.starts_with("wrong_result: ")) << report->workloads[0].why_not;
  const auto again = tune_with(make_synthetic_workbench(times, 0.01), make_graph(false), make_options(folder, 40), {}, nullptr);
  EXPECT_TRUE(again->workloads[0].why_not.starts_with("wrong_result: ")) << again->workloads[0].why_not;
}

/// The first template takes nothing, the second is the synthetic one.
class ChoosyBuilder : public testing::SyntheticBuilder {
 public:
  int template_count() const override { return 2; }
  Result<Prepared> prepare(int index, Space& space, const Bindings& probe) const override {
    if (index == 0) return Error{.code = ErrorCode::requirement_failed, .asked = "a template", .found = "it takes nothing"};
    LW_TRY(Prepared prepared, SyntheticBuilder::prepare(index, space, probe));
    prepared.template_index = index;
    return prepared;
  }
};

TEST(Session, WhatWasTriedAndFailedIsTheReasonAndNoRejection) {
  for (const Outcome failure : {Outcome::crash, Outcome::timeout}) {
    const TempFolder folder;
    const auto times = [&](const Candidate&, const Bindings&) { return Recorded{failure, 1000.0}; };
    Workbench bench = make_synthetic_workbench(times, 0.01);
    bench.make_subject = [made = bench.make_subject](const graph::Workload& workload, const TuneOptions& options) {
      Result<Subject> subject = made(workload, options);
      subject->builder = std::make_unique<ChoosyBuilder>();
      return subject;
    };
    const auto report = tune_with(bench, make_graph(false), make_options(folder, 40), {}, nullptr);
    ASSERT_TRUE(report.ok());
    EXPECT_EQ(report->workloads[0].outcomes.at(Outcome::rejected), 1);
    EXPECT_TRUE(report->workloads[0].why_not.starts_with(std::string(name(failure)) + ": ")) << report->workloads[0].why_not;
  }
}

std::vector<TuneJob> make_jobs() {
  Graph other("tripled");
  const Value x = *other.input("x", {.dtype = DType::f32, .shape = {32}});
  EXPECT_TRUE(other.output("y", *other.binary("mul", x, x)).ok());
  return {{make_graph(false), {}}, {other, {}}};
}

TEST(Session, AStoppedRunOfSeveralGraphsGoesOnWithAllOfThem) {
  const TempFolder folder;
  const auto bench = make_synthetic_workbench(record_synthetic, 0.01);
  std::atomic<bool> cancel{false};
  const TuneObserver observer = [&](const TuneProgress& p) {
    if (p.trials >= 20) cancel = true;
  };
  const auto stopped = tune_all_with(bench, make_jobs(), make_options(folder, 60), observer, {.cancel = &cancel});
  ASSERT_TRUE(stopped.ok()) << stopped.error().message();
  ASSERT_EQ(stopped->size(), 1u);
  EXPECT_TRUE(stopped->front().cancelled);
  EXPECT_EQ(stopped->front().left, std::vector<std::string>{"tripled"});
  for (const std::string& run : {std::string(), stopped->front().run}) {
    const auto resumed = resume_with(bench, folder.file("tune.db"), run, {}, {});
    ASSERT_TRUE(resumed.ok()) << resumed.error().message();
    EXPECT_EQ(resumed->back().graph, "tripled") << "also when the first run is over and named";
    EXPECT_FALSE(resumed->back().cancelled);
    EXPECT_TRUE(resumed->back().workloads[0].complete);
  }
  EXPECT_FALSE(resume_with(bench, folder.file("tune.db"), "", {}, {}).ok()) << "nothing is left";
}

TEST(Session, ARunStoppedBetweenTwoGraphsIsNotFinished) {
  const TempFolder folder;
  const auto bench = make_synthetic_workbench(record_synthetic, 0.01);
  std::atomic<bool> cancel{false};
  int finals = 0;  // told at their beginning and at their end
  const TuneObserver observer = [&](const TuneProgress& p) {
    if (p.phase == "finals" && ++finals == 2) cancel = true;
  };
  const auto stopped = tune_all_with(bench, make_jobs(), make_options(folder, 40), observer, {.cancel = &cancel});
  ASSERT_TRUE(stopped.ok());
  EXPECT_TRUE(stopped->back().cancelled);
  const auto resumed = resume_with(bench, folder.file("tune.db"), "", {}, {});
  ASSERT_TRUE(resumed.ok()) << resumed.error().message();
  EXPECT_EQ(resumed->back().graph, "tripled");
}

TEST(Session, ACandidateThatHangsDoesNotHoldUpTheEnd) {
  using Clock = std::chrono::steady_clock;
  const TempFolder folder;
  std::atomic<bool> cancel{false}, abandoned{false};
  Clock::time_point cancelled_at;
  std::int64_t runs = 0;
  const auto times = [&](const Candidate& c, const Bindings& probe) {
    if (++runs == 30) {
      cancelled_at = Clock::now();
      cancel = true;
      while (!abandoned && Clock::now() - cancelled_at < std::chrono::seconds(20)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return record_synthetic(c, probe);
  };
  double after_s = 0;
  std::vector<TuneReport> told;
  db::RunState state = db::RunState::running;
  const auto abandon = [&](const std::vector<TuneReport>& reports) {
    after_s = std::chrono::duration<double>(Clock::now() - cancelled_at).count();
    told = reports;
    state = db::Query::open(folder.file("tune.db"))->list_runs()->front().state;
    abandoned = true;
  };
  const auto report = tune_all_with(make_synthetic_workbench(times, 0.01), make_jobs(), make_options(folder, 200), {},
                                    {.cancel = &cancel, .abandon = abandon});
  ASSERT_TRUE(report.ok());
  ASSERT_TRUE(abandoned);
  EXPECT_LT(after_s, 0.95);
  EXPECT_EQ(state, db::RunState::interrupted);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_TRUE(told[0].cancelled);
  EXPECT_GT(told[0].workloads[0].best_ns, 0);
  const auto query = db::Query::open(folder.file("tune.db"));
  EXPECT_GE(static_cast<std::int64_t>(query->list_trials({})->size()), told[0].workloads[0].trials);
}

TEST(Session, OneSymbolIsSplitIntoRangesWithLosses) {
  const TempFolder folder;
  const auto report = tune_with(make_synthetic_workbench(record_synthetic, 0.002), make_graph(true), make_options(folder, 400), {}, nullptr);
  ASSERT_TRUE(report.ok());
  const TunedWorkload& w = report->workloads[0];
  EXPECT_TRUE(w.complete);
  EXPECT_GE(w.ranges, 2) << "small and large sizes want other tiles";
  const auto query = db::Query::open(folder.file("tune.db"));
  std::int64_t held_out = 0;
  for (const db::BestEntry& e : take(query->list_best({.state = db::BestState::active}))) {
    held_out += e.best.held_out_probes;
    EXPECT_TRUE(e.best.complete);
    EXPECT_LE(e.best.mean_loss, e.best.worst_loss);
  }
  EXPECT_GT(held_out, 2);
}

/// Two sizes on which different tiles depend.
Graph make_plane() {
  Graph g("plane");
  const Dim rows = *g.symbol("rows", 1, 512), columns = *g.symbol("columns", 1, 2048);
  const Value x = *g.input("x", {.dtype = DType::f32, .shape = {rows, columns}});
  const Value y = *g.input("y", {.dtype = DType::f32, .shape = {columns, 8}});
  EXPECT_TRUE(g.output("z", *g.matmul(x, y)).ok());
  return g;
}

Recorded record_plane(const Candidate& candidate, const Bindings& probe) {
  if (probe.size() < 2) return record_synthetic(candidate, probe);
  double volume = 1;
  for (const auto& [name, value] : probe) volume *= static_cast<double>(value);
  return {Outcome::ok, synthetic_time_ns(candidate.picks, std::max<std::int64_t>(1, std::llround(volume / 8)))};
}

TEST(Session, SeveralSymbolsAreSplitIntoRangesThatHoldEveryShapeOnce) {
  const TempFolder folder;
  const auto report = tune_with(make_synthetic_workbench(record_plane, 0.002), make_plane(), make_options(folder, 500), {}, nullptr);
  ASSERT_TRUE(report.ok()) << report.error().message();
  const TunedWorkload& w = report->workloads[0];
  EXPECT_TRUE(w.complete);
  EXPECT_GE(w.ranges, 2) << "small and large volumes want other tiles";
  const auto query = db::Query::open(folder.file("tune.db"));
  const auto best = take(query->list_best({.state = db::BestState::active}));
  std::set<std::string> variants;
  std::int64_t held_out = 0;
  for (const db::BestEntry& e : best) {
    variants.insert(e.candidate.digest);
    held_out += e.best.held_out_probes;
    EXPECT_EQ(e.range.guard.symbols.size(), 2u);
  }
  EXPECT_LE(variants.size(), 6u);
  EXPECT_GE(held_out, 8);
  const auto symbols = driver::plan_graph(make_plane(), TargetKind::cpu)->workloads.front().graph.symbols();
  for (std::int64_t a = symbols[0].lo; a <= symbols[0].hi; a += 1 + a / 7) {
    for (std::int64_t b = symbols[1].lo; b <= symbols[1].hi; b += 1 + b / 7) {
      const auto holds = [&](const db::BestEntry& e) { return e.range.guard.holds({{symbols[0].name, a}, {symbols[1].name, b}}); };
      ASSERT_EQ(std::count_if(best.begin(), best.end(), holds), 1) << a << " " << b;
    }
  }
}

TEST(Session, ShapesAreGivenByTheGraphsNamesOfSymbols) {
  const TempFolder folder;
  TuneOptions options = make_options(folder, 40);
  options.probes = {{{"n", 777}}};
  options.shapes = {{{{"n", 1234}}, 5}, {{{"n", 99}}, 1}};
  ASSERT_TRUE(tune_with(make_synthetic_workbench(record_synthetic, 0.01), make_graph(true), options, {}, nullptr).ok());
  const auto query = db::Query::open(options.database);
  std::map<std::int64_t, std::string> roles;
  for (const db::ProbeRow& p : take(query->list_probes(query->list_workloads()->front().digest))) roles[p.values.begin()->second] = p.role;
  EXPECT_EQ(roles[777], "user") << "candidates were searched there";
  EXPECT_EQ(roles.count(8), 0u) << "and not where nobody asked";
  EXPECT_EQ(roles[1234], "ragged") << "finalists are measured at what is used most";
  EXPECT_EQ(roles[99], "ragged");
}

TEST(Session, TheVariantsAreThoseForTheShapesInUse) {
  const auto serve_at = [](std::vector<ShapeCount> shapes, std::int64_t size) {
    const TempFolder folder;
    TuneOptions options = make_options(folder, 300);
    options.max_variants = 1;
    options.shapes = std::move(shapes);
    EXPECT_TRUE(tune_with(make_synthetic_workbench(record_synthetic, 0.002), make_graph(true), options, {}, nullptr).ok());
    const auto query = db::Query::open(options.database);
    const auto best = take(query->list_best({.state = db::BestState::active}));
    EXPECT_EQ(best.size(), 1u);
    const Picks picks = *parse_picks_of(best.front().candidate.picks);
    return synthetic_time_ns(picks, size);
  };
  EXPECT_LT(serve_at({{{{"n", 4000}}, 1}}, 4000), serve_at({{{{"n", 4}}, 1}}, 4000)) << "one variant only: which?";
  EXPECT_LT(serve_at({{{{"n", 4}}, 1}}, 4), serve_at({{{{"n", 4000}}, 1}}, 4));
}

TEST(Session, WhatProgramsAskedForInVainIsTunedForAndForgotten) {
  const TempFolder folder;
  const auto bench = make_synthetic_workbench(record_synthetic, 0.01);
  const Graph graph = make_graph(true);
  TuneOptions options = make_options(folder, 20);
  // A run that is stopped at once leaves the workload's row behind.
  std::atomic<bool> cancel{true};
  ASSERT_TRUE(tune_with(bench, graph, options, {}, &cancel).ok());
  const auto planned = driver::plan_graph(graph, TargetKind::cpu);
  ASSERT_TRUE(planned.ok());
  const graph::Workload& workload = planned->workloads.front();
  const std::string symbol = workload.graph.symbols().front().name;
  ASSERT_TRUE(db::note_wanted(options.database, {{.workload = workload.digest, .workload_text = workload.text,
                                                  .values = {{symbol, 777}}}}).ok());
  ASSERT_TRUE(tune_with(bench, graph, options, {}, nullptr).ok());
  const auto query = db::Query::open(options.database);
  bool tried = false;
  for (const db::ProbeRow& p : take(query->list_probes(workload.digest))) tried = tried || p.values.begin()->second == 777;
  EXPECT_TRUE(tried);
  EXPECT_TRUE(query->list_wanted()->empty());
}

TEST(Session, OnlyWhatIsWantedIsTunedMostWantedFirst) {
  const TempFolder folder;
  const auto bench = make_synthetic_workbench(record_synthetic, 0.01);
  const TuneOptions options = make_options(folder, 20);
  // Two graphs of which only the defaults are known, and a third that nobody asks for.
  std::atomic<bool> cancel{true};
  std::vector<graph::Workload> workloads;
  for (const char* op : {"sub", "mul", "add"}) {
    Graph g(op);
    const Value x = *g.input("x", {.dtype = DType::f32, .shape = {*g.symbol("n", 1, 4096)}});
    ASSERT_TRUE(g.output("y", *g.binary(op, x, x)).ok());
    ASSERT_TRUE(tune_with(bench, g, options, {}, &cancel).ok());
    workloads.push_back(driver::plan_graph(g, TargetKind::cpu)->workloads.front());
  }
  const std::size_t plans = db::Query::open(options.database)->list_plans()->size();
  const auto want = [&](const graph::Workload& w, std::int64_t size, std::int64_t count) {
    return db::WantedRow{.workload = w.digest, .workload_text = w.text, .values = {{w.graph.symbols().front().name, size}}, .count = count};
  };
  EXPECT_TRUE(take(tune_wanted_with(bench, options, {}, {})).empty());
  ASSERT_TRUE(db::note_wanted(options.database, {want(workloads[0], 700, 3), want(workloads[1], 777, 2), want(workloads[1], 11, 2)}).ok());
  const auto reports = take(tune_wanted_with(bench, options, {}, {}));
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(reports[0].workloads[0].digest, workloads[1].digest);
  EXPECT_EQ(reports[1].workloads[0].digest, workloads[0].digest);
  for (const TuneReport& r : reports) EXPECT_TRUE(r.workloads[0].complete);
  const auto query = db::Query::open(options.database);
  EXPECT_TRUE(query->list_wanted()->empty());
  EXPECT_EQ(query->list_plans()->size(), plans) << "a workload is no plan";
  std::set<std::int64_t> tried;
  for (const db::ProbeRow& p : take(query->list_probes(workloads[1].digest))) tried.insert(p.values.begin()->second);
  EXPECT_TRUE(tried.contains(777) && tried.contains(11));
  EXPECT_TRUE(query->list_best({.workload = workloads[2].digest})->empty());
}

TEST(Session, AStoppedRunOfWantedWorkloadsGoesOn) {
  const TempFolder folder;
  const auto bench = make_synthetic_workbench(record_synthetic, 0.01);
  const TuneOptions options = make_options(folder, 60);
  std::atomic<bool> cancel{true};
  ASSERT_TRUE(tune_with(bench, make_graph(true), options, {}, &cancel).ok());
  const graph::Workload workload = driver::plan_graph(make_graph(true), TargetKind::cpu)->workloads.front();
  ASSERT_TRUE(db::note_wanted(options.database, {{.workload = workload.digest, .workload_text = workload.text,
                                                  .values = {{workload.graph.symbols().front().name, 777}}}}).ok());
  cancel = false;
  const TuneObserver observer = [&](const TuneProgress& p) { cancel = p.trials >= 10; };
  const auto stopped = take(tune_wanted_with(bench, options, observer, {.cancel = &cancel}));
  ASSERT_EQ(stopped.size(), 1u);
  EXPECT_TRUE(stopped[0].cancelled);
  EXPECT_EQ(db::Query::open(options.database)->list_wanted()->size(), 1u) << "not tuned yet";
  const auto resumed = take(resume_with(bench, options.database, stopped[0].run, {}, {}));
  EXPECT_TRUE(resumed.back().workloads[0].complete);
  EXPECT_TRUE(db::Query::open(options.database)->list_wanted()->empty());
}

TEST(Session, ASecondRunOnTheSameFileIsBusy) {
  const TempFolder folder;
  const auto bench = make_synthetic_workbench(record_synthetic, 0.01);
  ErrorCode inner = ErrorCode::ok;
  bool tried = false;
  const TuneObserver observer = [&](const TuneProgress&) {
    if (tried) return;
    tried = true;
    const auto second = tune_with(bench, make_graph(false), make_options(folder, 10), {}, nullptr);
    if (!second.ok()) inner = second.error().code;
  };
  ASSERT_TRUE(tune_with(bench, make_graph(false), make_options(folder, 10), observer, nullptr).ok());
  EXPECT_EQ(inner, ErrorCode::busy);
}

TEST(Session, ResumeOfNothingSaysSo) {
  const TempFolder folder;
  const auto bench = make_synthetic_workbench(record_synthetic, 0.01);
  ASSERT_TRUE(tune_with(bench, make_graph(false), make_options(folder, 10), {}, nullptr).ok());
  const auto resumed = resume_with(bench, folder.file("tune.db"), "", {}, {});
  ASSERT_FALSE(resumed.ok());
  EXPECT_EQ(resumed.error().code, ErrorCode::not_found);
}

TEST(Session, TenThousandTrialsStayBelowAGigabyte) {
  const TempFolder folder;
  TuneOptions options = make_options(folder, 10000);
  options.search = "random";
  options.cost_model = false;
  // A space that is large enough: the builder's 5880 candidates at three probes.
  const auto report = tune_with(make_synthetic_workbench(record_synthetic, 0.01), make_graph(true), options, {}, nullptr);
  ASSERT_TRUE(report.ok());
  std::ifstream status("/proc/self/status");
  std::int64_t peak_kb = 0;
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) peak_kb = std::stoll(line.substr(6));
  }
  ::testing::Test::RecordProperty("trials", static_cast<int>(report->workloads[0].trials));
  ::testing::Test::RecordProperty("peak_kb", static_cast<int>(peak_kb));
  EXPECT_GT(report->workloads[0].trials, 7000) << "the space has about 5000 candidates at each of three probes";
  EXPECT_LT(peak_kb, 1 << 20);
}

}  // namespace
}  // namespace loopwright::tuner
