// Winners of another file: served once they were built and verified here, and not before. Nothing is compiled.
#include "tuner/rebuild.h"

#include <gtest/gtest.h>

#include <chrono>
#include <sstream>
#include <thread>

#include "db/exchange.h"
#include "tests/unit/tuner/synthetic.h"

namespace loopwright::tuner {
namespace {

using testing::make_synthetic_workbench;
using testing::record_synthetic;
using testing::take_value;
using testing::TempFolder;

class RebuildTest : public ::testing::Test {
 protected:
  TempFolder folder;
  TuneOptions options;  ///< of the file that rows are imported into

  Graph make_graph() const {
    Graph g("doubled");
    const Value x = *g.input("x", {.dtype = DType::f32, .shape = {64}});
    EXPECT_TRUE(g.output("y", *g.binary("add", x, x)).ok());
    return g;
  }
  void SetUp() override {
    options.database = folder.file("theirs.db");
    options.target = host_target();
    options.budget_s = 600;
    options.max_trials = 60;
    take_value(tune_with(make_synthetic_workbench(record_synthetic, 0.01), make_graph(), options, {}, nullptr));
    std::stringstream lines;
    ASSERT_TRUE(db::export_lines(options.database, lines, {}).ok());
    options.database = folder.file("mine.db");
    EXPECT_GT(take_value(db::import_lines(options.database, lines, {})).unverified, 0);
  }
  db::Query read() const { return take_value(db::Query::open(options.database)); }
  db::BestEntry winner() const { return take_value(read().list_best({})).front(); }
  db::VariantList served() const {
    const auto bench = make_workbench();
    db::DeviceMatch match{.device = take_value(bench.fingerprint(options)), .toolchain = bench.toolchain(options), .policy = {}};
    return take_value(read().find_variants(winner().candidate.workload, match));
  }
  RebuildReport rebuild_all(const RecordedTimes& times = record_synthetic) const {
    return take_value(rebuild_with(make_synthetic_workbench(times, 0.01), options, {}));
  }
};

TEST_F(RebuildTest, AVariantThatHangsDoesNotHoldUpTheEnd) {
  using Clock = std::chrono::steady_clock;
  std::atomic<bool> cancel{false}, abandoned{false};
  Clock::time_point cancelled_at;
  const auto times = [&](const Candidate& c, const Bindings& probe) {
    cancelled_at = Clock::now();
    cancel = true;
    while (!abandoned && Clock::now() - cancelled_at < std::chrono::seconds(20)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return record_synthetic(c, probe);
  };
  double after_s = 0;
  const auto abandon = [&](const std::vector<TuneReport>&) {
    after_s = std::chrono::duration<double>(Clock::now() - cancelled_at).count();
    abandoned = true;
  };
  const auto report = rebuild_with(make_synthetic_workbench(times, 0.01), options, {.cancel = &cancel, .abandon = abandon});
  ASSERT_TRUE(report.ok());
  EXPECT_TRUE(report->cancelled);
  ASSERT_TRUE(abandoned);
  EXPECT_LT(after_s, 0.95);
}

TEST_F(RebuildTest, AnImportedWinnerServesAfterItWasVerifiedHere) {
  for (const db::Variant& v : served().variants) EXPECT_TRUE(v.artifact.empty()) << "the default, not yet built here";
  EXPECT_GT(served().unverified, 0);
  const auto before = winner().best;
  const RebuildReport report = rebuild_all();
  ASSERT_EQ(report.variants.size(), 2u) << "the winner and the default";
  for (const RebuiltVariant& v : report.variants) EXPECT_TRUE(v.served) << v.note;
  const db::VariantList list = served();
  ASSERT_EQ(list.variants.size(), 2u);
  EXPECT_EQ(list.unverified, 0);
  for (const db::Variant& v : list.variants) {
    EXPECT_FALSE(v.artifact.empty());
    EXPECT_FALSE(v.artifact_is_foreign);
  }
  EXPECT_EQ(list.variants[0].best.median_ns, before.median_ns) << "its numbers are still those of where it was measured";
  EXPECT_TRUE(rebuild_all().variants.empty()) << "nothing is left to do";
}

TEST_F(RebuildTest, AWrongOneIsRefusedAndBlocked) {
  const std::string bad = winner().candidate.digest;
  const auto times = [&](const Candidate& c, const Bindings& probe) {
    Recorded r = record_synthetic(c, probe);
    if (c.digest == bad) r.outcome = Outcome::wrong_result;
    return r;
  };
  for (const char* why : {"refused, wrong_result", "it failed here before"}) {
    for (const RebuiltVariant& v : rebuild_all(times).variants) {
      if (v.ranges.empty()) continue;
      EXPECT_FALSE(v.served);
      EXPECT_NE(v.note.find(why), std::string::npos) << v.note;
    }
    EXPECT_FALSE(winner().best.verified);
    for (const db::Variant& v : served().variants) EXPECT_NE(v.candidate.digest, bad);
  }
  ASSERT_EQ(take_value(read().list_blocks()).size(), 1u);
  EXPECT_EQ(take_value(read().list_blocks())[0].candidate, bad);
}

TEST_F(RebuildTest, AnotherTraceVersionOrGeneratorIsNamedAndLeftAlone) {
  {
    auto recorder = take_value(db::Recorder::open(options.database));
    db::BestRow best = winner().best;
    db::CandidateRow old = winner().candidate;
    old.trace = "trace 0";
    best.candidate = take_value(recorder.add_candidate(old));
    take_value(recorder.put_best(best));
    db::ToolchainRow toolchain = make_workbench().toolchain(options);
    toolchain.generator = "0.0.1";
    best.toolchain = take_value(recorder.add_toolchain(toolchain));
    take_value(recorder.put_best(best));
  }
  std::vector<std::string> notes;
  for (const RebuiltVariant& v : rebuild_all().variants)
    if (!v.ranges.empty()) notes.push_back(v.note);
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_NE(notes[0].find("generator 0.0.1"), std::string::npos) << notes[0];
  EXPECT_NE(notes[1].find("cannot be built from its trace"), std::string::npos) << notes[1];
  for (const db::Variant& v : served().variants) EXPECT_EQ(v.quality, Match::untuned) << "the default alone";
}

TEST_F(RebuildTest, TuningRebuildsWhatAMachineLikeThisOneFinished) {
  const auto report = take_value(tune_with(make_synthetic_workbench(record_synthetic, 0.01), make_graph(), options, {}, nullptr));
  EXPECT_TRUE(report.workloads[0].complete);
  EXPECT_EQ(report.workloads[0].trials, 0);
  EXPECT_TRUE(winner().best.verified);
}

TEST_F(RebuildTest, TuningSearchesAgainWhenTheImportedWinnerIsWrong) {
  const std::string bad = winner().candidate.digest;
  const auto times = [&](const Candidate& c, const Bindings& probe) {
    Recorded r = record_synthetic(c, probe);
    if (c.digest == bad) r.outcome = Outcome::wrong_result;
    return r;
  };
  const auto report = take_value(tune_with(make_synthetic_workbench(times, 0.01), make_graph(), options, {}, nullptr));
  EXPECT_TRUE(report.workloads[0].complete);
  EXPECT_GT(report.workloads[0].trials, 10);
  EXPECT_TRUE(winner().best.verified);
  EXPECT_NE(winner().candidate.digest, bad);
}

}  // namespace
}  // namespace loopwright::tuner
