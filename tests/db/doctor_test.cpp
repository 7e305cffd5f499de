// check finds what is wrong and says nothing of what is right; prune keeps what is served.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "db/doctor.h"
#include "db/sqlite.h"
#include "tests/db/sample.h"

namespace loopwright::db::test {
namespace {

class DoctorTest : public ::testing::Test {
 protected:
  TempFolder folder;
  std::string path = folder.file("db.lwdb");
  Sample sample = make_sample_file(path);

  void change(const std::string& sql) {
    auto connection = Connection::open(path, Connection::Mode::read_write, 0);
    Status status = (*connection)->execute(sql);
    ASSERT_TRUE(status.ok()) << status.error().message();
  }
  bool finds(Severity severity, const std::string& check) {
    auto report = check_file(path);
    EXPECT_TRUE(report.ok());
    return std::any_of(report->findings.begin(), report->findings.end(),
                       [&](const Finding& f) { return f.severity == severity && f.check == check; });
  }
};

TEST_F(DoctorTest, a_whole_file_has_no_damage_and_every_check_reports) {
  auto report = check_file(path);
  ASSERT_TRUE(report.ok());
  EXPECT_FALSE(report->is_damaged()) << report->text();
  for (const char* check : {"schema", "integrity", "foreign_keys", "digests", "artifacts", "orphans", "writer",
                            "file_system", "permissions"}) {
    EXPECT_TRUE(std::any_of(report->findings.begin(), report->findings.end(),
                            [&](const Finding& f) { return f.check == check; })) << check;
  }
  EXPECT_TRUE(finds(Severity::note, "writer"));  // the sample's run was never ended
}

TEST_F(DoctorTest, each_kind_of_changed_row_is_found) {
  const char* changes[] = {
      "UPDATE workload SET text = text || ' '",
      "UPDATE device SET cores = 9",
      "UPDATE device SET hard_digest = digest",
      "UPDATE policy SET text = ''",
      "UPDATE candidate SET picks = '{}' WHERE id = 2",
      "UPDATE trial SET median_ns = 1 WHERE id = 1",
      "UPDATE trial SET samples_ns = x'00' WHERE id = 1",
      "UPDATE verification SET passed = 0",
      "UPDATE best SET speedup = 9",
      "UPDATE range SET guard = 's0 in 1..9'",
      "UPDATE range_symbol SET hi = hi + 1",
      "UPDATE plan SET graph_text = 'x'",
      "UPDATE best SET candidate_id = 1",
  };
  for (const char* sql : changes) {
    change("BEGIN; " + std::string(sql) + "; COMMIT");
    EXPECT_TRUE(finds(Severity::damage, "digests")) << sql;
    std::filesystem::remove(path);
    make_sample_file(path);
  }
}

TEST_F(DoctorTest, a_binary_that_unpacks_and_is_another_is_found_and_not_loaded) {
  const Digest digest = Query::open(path)->list_artifacts()->at(0).digest;
  ASSERT_TRUE(Query::open(path)->load_artifact(digest).ok());
  change("UPDATE artifact SET header = header || ' ' WHERE digest = '" + digest + "'");
  EXPECT_EQ(Query::open(path)->load_artifact(digest).error().code, ErrorCode::db_corrupt);
  EXPECT_TRUE(finds(Severity::damage, "artifacts"));
}

TEST_F(DoctorTest, damaged_binaries_and_references_are_found) {
  change("UPDATE artifact SET image = zeroblob(40) WHERE id = 1");
  EXPECT_TRUE(finds(Severity::damage, "artifacts"));
  change("PRAGMA foreign_keys = OFF; UPDATE best SET range_id = 99 WHERE id = 1");
  EXPECT_TRUE(finds(Severity::damage, "foreign_keys"));
}

TEST_F(DoctorTest, prune_removes_losers_and_keeps_what_is_served) {
  Digest loser;
  {
    auto recorder = Recorder::open(path);
    CandidateRow row;
    row.workload = sample.workload;
    row.template_name = "row_reduction";
    row.picks = "{\"rows\":64}";
    row.trace = "trace 1\n";
    loser = *recorder->add_candidate(row);
    TrialRow trial = sample_trial(sample, sample.run, 900);
    trial.candidate = loser;
    ASSERT_TRUE(recorder->add_trial(trial).ok());
    ASSERT_TRUE(recorder->put_artifact(loser, sample.toolchain, sample_artifact(9)).ok());
    ASSERT_TRUE(recorder->set_best_state(sample.candidates[2], {}, BestState::demoted).ok());
  }
  PruneOptions options{.states = {BestState::demoted}, .trials = true, .artifacts = true, .dry_run = true};
  auto dry = prune_file(path, options);
  ASSERT_TRUE(dry.ok()) << dry.error().message();
  EXPECT_EQ(dry->best, 1);
  EXPECT_TRUE(Query::open(path)->find_candidate(loser).ok());
  options.dry_run = false;
  auto report = prune_file(path, options);
  ASSERT_TRUE(report.ok()) << report.error().message();
  EXPECT_EQ(report->best, 1);
  EXPECT_EQ(report->candidates, 2);  // the loser and the demoted winner
  EXPECT_EQ(report->artifacts, 2);
  EXPECT_EQ(report->trials, 3);
  auto query = Query::open(path);
  EXPECT_FALSE(query->find_candidate(loser).ok());
  EXPECT_EQ(query->find_variants(sample.workload, sample_match())->variants.size(), 2u);
  EXPECT_EQ(query->list_trials({.candidate = sample.candidates[1]})->size(), 3u);
  EXPECT_FALSE(check_file(path)->is_damaged());
}

TEST_F(DoctorTest, prune_by_device_leaves_other_devices_alone) {
  auto nothing = prune_file(path, {.device = std::string(64, 'd'), .states = {BestState::active}, .trials = true});
  ASSERT_TRUE(nothing.ok()) << nothing.error().message();
  EXPECT_EQ(nothing->best + nothing->trials, 0);
  auto all = prune_file(path, {.device = sample.device, .states = {BestState::active}});
  EXPECT_EQ(all->best, 2);
  EXPECT_EQ(prune_file(path, {.states = {BestState::active}})->best, 0);  // never everything by accident
}

}  // namespace
}  // namespace loopwright::db::test
