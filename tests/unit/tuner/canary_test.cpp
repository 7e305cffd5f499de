// Stored times against times of now. Nothing is compiled.
#include "tuner/canary.h"

#include <gtest/gtest.h>

#include "db/query.h"
#include "tests/unit/tuner/synthetic.h"

namespace loopwright::tuner {
namespace {

using testing::make_synthetic_workbench;
using testing::record_synthetic;
using testing::take_value;
using testing::TempFolder;

class CanaryTest : public ::testing::Test {
 protected:
  TempFolder folder;
  TuneOptions options;
  std::vector<TuneJob> jobs;

  void SetUp() override {
    options.database = folder.file("t.db");
    options.target = host_target();
    options.budget_s = 600;
    options.max_trials = 60;
    for (const char* op : {"add", "mul", "sub", "max"}) {
      Graph g(op);
      const Value x = *g.input("x", {.dtype = DType::f32, .shape = {64}});
      EXPECT_TRUE(g.output("y", *g.binary(op, x, x)).ok());
      jobs.push_back({g, {}});
    }
    tune();
  }
  std::vector<TuneReport> tune() const { return take_value(tune_all_with(make_synthetic_workbench(record_synthetic, 0.01), jobs, options, {}, {})); }
  CanaryReport check(const RecordedTimes& times, int count) const { return take_value(check_drift_with(make_synthetic_workbench(times, 0.01), options, count, {})); }
  std::size_t count_stale() const { return take_value(take_value(db::Query::open(options.database)).list_best({.state = db::BestState::stale})).size(); }
  std::size_t count_rows() const { return take_value(take_value(db::Query::open(options.database)).list_best({})).size(); }

  /// Times of now: those stored, times `factor` for some candidates.
  static RecordedTimes scaled(double factor, std::function<bool(const std::string&)> is_it = [](const std::string&) { return true; }) {
    return [=](const Candidate& c, const Bindings& probe) {
      Recorded r = record_synthetic({.digest = c.digest, .picks = picks_of(c), .is_default = c.is_default}, probe);
      if (is_it(c.digest)) r.median_ns *= factor;
      return r;
    };
  }
  /// A candidate of the database has its trace alone: `tile tile_m=16 …`.
  static Picks picks_of(const Candidate& c) { return *parse_picks(c.trace.substr(5)); }
};

TEST_F(CanaryTest, TimesThatHoldLeaveEverythingAsItIs) {
  const CanaryReport report = check(scaled(1), 10);
  EXPECT_EQ(report.measured, 4);
  EXPECT_EQ(report.drifted, 0);
  EXPECT_EQ(count_stale(), 0u);
  EXPECT_EQ(check(scaled(1.04), 10).drifted, 0) << "beyond the noise, and too little to tune again";
  EXPECT_EQ(check(scaled(1), 2).readings.size(), 2u);
  for (const TuneReport& r : tune()) EXPECT_EQ(r.workloads[0].trials, 0) << "nothing to do";
}

TEST_F(CanaryTest, ADriftedRowIsStaleUntilItIsTunedAgain) {
  const auto best = take_value(take_value(db::Query::open(options.database)).list_best({}));
  const std::string one = best.front().candidate.digest;
  const CanaryReport report = check(scaled(1.3, [&](const std::string& c) { return c == one; }), 10);
  EXPECT_EQ(report.drifted, 1);
  EXPECT_EQ(report.stale, 1);
  ASSERT_EQ(count_stale(), 1u);
  for (const CanaryReading& r : report.readings) EXPECT_EQ(r.drifted, r.workload == best.front().range.workload) << r.note;
  int tuned = 0;
  for (const TuneReport& r : tune()) tuned += r.workloads[0].trials > 0 ? 1 : 0;
  EXPECT_EQ(tuned, 1) << "only its workload";
  EXPECT_EQ(count_stale(), 0u);
}

TEST_F(CanaryTest, ASampleOfWhichMostDriftedSpeaksForAll) {
  const CanaryReport report = check(scaled(0.8), 3);
  EXPECT_EQ(report.measured, 3);
  EXPECT_EQ(report.drifted, 3);
  EXPECT_EQ(count_stale(), count_rows()) << "the fourth too, which was not measured";
  EXPECT_EQ(check(scaled(1), 10).fresh, 4) << "it was the load of another program: the stored times are those of now again";
  EXPECT_EQ(count_stale(), 0u);
}

TEST_F(CanaryTest, TwoSayNothingOfTheOthers) {
  EXPECT_EQ(check(scaled(2), 2).drifted, 2);
  EXPECT_EQ(count_stale(), 2u);
}

TEST_F(CanaryTest, WhatIsWrongNowIsBlocked) {
  const auto wrong = [](const Candidate&, const Bindings&) { return Recorded{Outcome::wrong_result, 1000}; };
  const CanaryReport report = check(wrong, 1);
  ASSERT_EQ(report.readings.size(), 1u);
  EXPECT_EQ(report.measured, 0);
  EXPECT_NE(report.readings[0].note.find("wrong_result"), std::string::npos);
  EXPECT_EQ(take_value(take_value(db::Query::open(options.database)).list_blocks()).size(), 1u);
}

TEST_F(CanaryTest, AnotherDevicesRowsAreLeftAlone) {
  auto bench = make_synthetic_workbench(scaled(3), 0.01);
  bench.fingerprint = [bench](const TuneOptions& o) {
    auto row = make_workbench().fingerprint(o);
    row->cores += 7;
    return row;
  };
  EXPECT_TRUE(take_value(check_drift_with(bench, options, 10, {})).readings.empty());
  EXPECT_EQ(count_stale(), 0u);
}

}  // namespace
}  // namespace loopwright::tuner
