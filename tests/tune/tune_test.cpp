// tune() with the real compiler and the real worker on small graphs.
#include "loopwright/tune.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "db/doctor.h"
#include "db/exchange.h"
#include "db/record.h"
#include "loopwright/compile.h"
#include "loopwright/runtime.h"
#include "tuner/fault_device.h"
#include "tuner/journal.h"

namespace loopwright {
namespace {

/// The value, which outlives the loop it is used in.
template <class T>
T take(Result<T> result) {
  EXPECT_TRUE(result.ok());
  return std::move(*result);
}

struct TempFolder {
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "lw-tune-XXXXXX").string();
    path = ::mkdtemp(pattern.data());
  }
  ~TempFolder() { std::filesystem::remove_all(path); }
  std::filesystem::path path;
};

/// Rows of 96 numbers scaled by the root of their mean square.
Graph make_norm() {
  Graph g("small_norm");
  const Dim n = *g.symbol("n", 1, 512);
  const Value x = *g.input("x", {.dtype = DType::f32, .shape = {n, 96}});
  const Value w = *g.input("w", {.dtype = DType::f32, .shape = {96}});
  EXPECT_TRUE(g.output("y", *g.rms_norm(x, w, 1e-5)).ok());
  return g;
}

Graph make_matmul() {
  Graph g("small_matmul");
  const Value a = *g.input("a", {.dtype = DType::f32, .shape = {96, 64}});
  const Value b = *g.input("b", {.dtype = DType::f32, .shape = {64, 80}});
  EXPECT_TRUE(g.output("c", *g.matmul(a, b)).ok());
  return g;
}

TuneOptions make_options(const TempFolder& folder) {
  TuneOptions options;
  options.database = (folder.path / "tune.db").string();
  options.target = host_target();
  options.worker_path = LOOPWRIGHT_BIN_DIR "/loopwright-worker";
  options.budget_s = 120;
  options.max_trials = 40;
  return options;
}

/// Something verified and stored with its binary is served for every workload. Times are not compared here: default and
/// winner are timed at different moments, on a machine that may be busy.
void expect_served(const TempFolder& folder, const TuneReport& report) {
  for (const TunedWorkload& w : report.workloads) {
    EXPECT_TRUE(w.complete) << w.family;
    EXPECT_GT(w.best_ns, 0) << w.family;
    EXPECT_GT(w.default_ns, 0) << w.family;
  }
  const auto query = db::Query::open((folder.path / "tune.db").string());
  ASSERT_TRUE(query.ok());
  for (const db::BestEntry& e : take(query->list_best({.state = db::BestState::active}))) {
    EXPECT_TRUE(e.best.verified);
    EXPECT_FALSE(query->list_artifacts(e.candidate.digest)->empty());
    const auto verifications = *query->list_verifications(e.candidate.digest);
    EXPECT_GE(verifications.size(), 2u);
    for (const auto& v : verifications) EXPECT_TRUE(v.passed && v.red_zones_clean && v.repeatable);
  }
  EXPECT_FALSE(db::check_file((folder.path / "tune.db").string())->is_damaged());
}

TEST(Tune, AMatmulIsTunedVerifiedAndServed) {
  const TempFolder folder;
  const auto report = tune(make_matmul(), make_options(folder));
  ASSERT_TRUE(report.ok()) << report.error().message();
  expect_served(folder, *report);
  EXPECT_EQ(report->workloads[0].outcomes.count(Outcome::wrong_result), 0u);
  EXPECT_EQ(report->workloads[0].outcomes.count(Outcome::crash), 0u);
  EXPECT_EQ(report->workloads[0].outcomes.count(Outcome::out_of_bounds), 0u);
  const auto runtime = Runtime::open({.databases = {make_options(folder).database}, .on_miss = OnMiss::strict});
  ASSERT_TRUE(runtime.ok());
  const auto plan = runtime->plan("small_matmul");
  ASSERT_TRUE(plan.ok()) << plan.error().message();
  const auto again = tune(make_matmul(), make_options(folder));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->workloads[0].trials, 0) << "complete: nothing to do";
}

TEST(Tune, ASymbolGetsRangesThatServeEveryValue) {
  const TempFolder folder;
  const auto report = tune(make_norm(), make_options(folder));
  ASSERT_TRUE(report.ok()) << report.error().message();
  expect_served(folder, *report);
  const auto query = db::Query::open((folder.path / "tune.db").string());
  for (std::int64_t n = 1; n <= 512; ++n) {
    bool served = false;
    for (const db::BestEntry& e : take(query->list_best({.state = db::BestState::active}))) {
      served = served || e.range.guard.symbols.empty() || e.range.guard.holds({{e.range.guard.symbols[0].name, n}});
    }
    EXPECT_TRUE(served) << n;
    if (n == 64) n = 400;
  }
}

TEST(Tune, ShapesOfTwoSymbolsAreServedByTheirRanges) {
  const TempFolder folder;
  Graph g("batched");
  const Dim batch = *g.symbol("batch", 1, 24), tokens = *g.symbol("tokens", 1, 160);
  const Value a = *g.input("a", {.dtype = DType::f32, .shape = {batch, tokens, 32}});
  const Value b = *g.input("b", {.dtype = DType::f32, .shape = {batch, 32, 48}});
  ASSERT_TRUE(g.output("c", *g.matmul(a, b)).ok());
  const auto report = tune(g, make_options(folder));
  ASSERT_TRUE(report.ok()) << report.error().message();
  expect_served(folder, *report);
  const auto query = db::Query::open(make_options(folder).database);
  std::int64_t held_out = 0;
  for (const db::BestEntry& e : take(query->list_best({.state = db::BestState::active}))) held_out += e.best.held_out_probes;
  EXPECT_GT(held_out, 4);
  const auto runtime = Runtime::open({.databases = {make_options(folder).database}, .on_miss = OnMiss::strict});
  ASSERT_TRUE(runtime.ok());
  const auto plan = runtime->plan("batched");
  ASSERT_TRUE(plan.ok()) << plan.error().message();
  for (const std::int64_t m : {1, 2, 7, 16, 23, 24}) {
    for (const std::int64_t n : {1, 15, 16, 17, 100, 159, 160}) {
      const std::int64_t sizes[] = {m, n};
      const auto choices = plan->choose(sizes);
      ASSERT_TRUE(choices.ok()) << m << " " << n;
      EXPECT_TRUE(choices->front().is_tuned);
      std::vector<float> x(static_cast<std::size_t>(m * n * 32)), y(static_cast<std::size_t>(m * 32 * 48), 0.5F), z(static_cast<std::size_t>(m * n * 48), -1);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i / 32 % 5);  // a row is one number 32 times
      void* pointers[] = {x.data(), y.data(), z.data()};
      ASSERT_EQ(plan->launch(pointers, sizes), ErrorCode::ok);
      for (std::size_t i = 0; i < z.size(); ++i) ASSERT_FLOAT_EQ(z[i], 16.0F * static_cast<float>(i / 48 % 5));
    }
  }
}

TEST(Tune, FaultyCandidatesAreRecordedAndNeverServed) {
  const TempFolder folder;
  TuneOptions options = make_options(folder);
  options.device = "cpu+faults";
  options.search = "random";
  options.max_trials = 60;
  const auto report = tune(make_matmul(), options);
  ASSERT_TRUE(report.ok()) << report.error().message();
  expect_served(folder, *report);
  const auto kinds = *tuner::parse_fault_kinds("cpu+faults");
  const auto query = db::Query::open(options.database);
  std::map<std::string, Outcome> expected = {{"hang", Outcome::timeout},          {"crash", Outcome::crash},
                                             {"out_of_bounds", Outcome::out_of_bounds},
                                             {"wrong_result", Outcome::wrong_result},
                                             {"nondeterministic", Outcome::nondeterministic},
                                             {"compile_error", Outcome::compile_error}};
  std::set<std::string> met;
  for (const db::WorkloadRow& w : take(query->list_workloads())) {
    for (const db::CandidateRow& c : take(query->list_candidates(w.digest))) {
      const std::string fault = tuner::FaultDevice::draw_fault(c.digest, c.is_default, kinds);
      for (const db::TrialRow& t : take(query->list_trials({.candidate = c.digest}))) {
        if (t.error == tuner::kTwinNote) continue;  // the same code under another name: not run
        EXPECT_EQ(t.outcome, fault.empty() ? Outcome::ok : expected.at(fault)) << fault << ": " << t.error;
      }
      if (!fault.empty()) met.insert(fault);
    }
  }
  EXPECT_GE(met.size(), 4u) << "60 candidates meet most of the six faults";
  for (const db::BestEntry& e : take(query->list_best({.state = db::BestState::active}))) {
    EXPECT_EQ(tuner::FaultDevice::draw_fault(e.candidate.digest, e.candidate.is_default, kinds), "");
  }
}

TEST(Tune, CancellingCommitsAndResumeFinishes) {
  const TempFolder folder;
  std::atomic<bool> cancel{false};
  const TuneObserver observer = [&](const TuneProgress& p) {
    if (p.trials >= 8) cancel = true;
  };
  const auto report = tune(make_matmul(), make_options(folder), observer, &cancel);
  ASSERT_TRUE(report.ok());
  EXPECT_TRUE(report->cancelled);
  ::setenv("LOOPWRIGHT_WORKER", LOOPWRIGHT_BIN_DIR "/loopwright-worker", 1);
  const auto resumed = resume(make_options(folder).database, report->run.substr(0, 12));
  ASSERT_TRUE(resumed.ok()) << resumed.error().message();
  EXPECT_FALSE(resumed->back().cancelled);
  expect_served(folder, resumed->back());
}

TEST(Tune, AnImportedWinnerIsServedOnceItWasRebuiltAndAWrongOneNever) {
  const TempFolder folder;
  TuneOptions options = make_options(folder);
  ASSERT_TRUE(tune(make_matmul(), options).ok());
  std::stringstream lines;
  ASSERT_TRUE(db::export_lines(options.database, lines, {}).ok());
  options.database = (folder.path / "imported.db").string();
  ASSERT_TRUE(db::import_lines(options.database, lines, {}).ok());
  const PlanOptions planning{.target = options.target, .databases = {options.database}, .on_miss = OnMiss::strict};
  const auto refused = make_plan(make_matmul(), planning);
  ASSERT_FALSE(refused.ok()) << "no unverified schedule is served";
  EXPECT_NE(refused.error().message().find("db rebuild"), std::string::npos) << refused.error().message();
  for (const RebuiltVariant& v : take(rebuild(options)).variants) EXPECT_TRUE(v.served) << v.note;
  EXPECT_TRUE(make_plan(make_matmul(), planning).ok());

  // The same trace under a name that the test device gives wrong results to.
  db::Digest wrong;
  {
    auto recorder = take(db::Recorder::open(options.database));
    db::BestEntry winner = take(recorder.read().list_best({})).front();
    winner.candidate.is_default = false;
    for (int i = 0; wrong.empty(); ++i) {
      winner.candidate.picks = "{\"n\":" + std::to_string(i) + "}";
      const db::Digest digest = tuner::make_candidate_row(winner.candidate.workload, winner.candidate.template_name,
                                                          {{"n", i}}, winner.candidate.trace, false).digest;
      if (!tuner::FaultDevice::draw_fault(digest, false, {"wrong_result"}).empty()) wrong = digest;
    }
    EXPECT_EQ(take(recorder.add_candidate(winner.candidate)), wrong);
    winner.best.candidate = wrong;
    winner.best.verified = false;
    ASSERT_TRUE(recorder.put_best(winner.best).ok());
  }
  options.device = "cpu+faults:wrong_result";
  const RebuildReport report = take(rebuild(options));
  ASSERT_EQ(report.variants.size(), 1u);
  EXPECT_FALSE(report.variants[0].served);
  EXPECT_NE(report.variants[0].note.find("wrong_result"), std::string::npos) << report.variants[0].note;
  EXPECT_FALSE(make_plan(make_matmul(), planning).ok());
}

}  // namespace
}  // namespace loopwright
