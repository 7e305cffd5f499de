// What is written comes back; keys are recomputable; lookup and explain.
#include <gtest/gtest.h>

#include <cmath>

#include "src/support/digest.h"
#include "tests/db/sample.h"

namespace loopwright::db::test {
namespace {

class RecordTest : public ::testing::Test {
 protected:
  TempFolder folder;
  std::string path = folder.file("a b%?#.lwdb");  // characters with a meaning in URIs
  Sample sample = make_sample_file(path);

  Query open_query() {
    auto query = Query::open(path);
    EXPECT_TRUE(query.ok()) << query.error().message();
    return *std::move(query);
  }
  Recorder open_recorder() {
    auto recorder = Recorder::open(path);
    EXPECT_TRUE(recorder.ok()) << recorder.error().message();
    return *std::move(recorder);
  }
};

TEST_F(RecordTest, workload_key_is_the_digest_of_its_text) {
  EXPECT_EQ(sample.workload, sha256_hex(sample_workload_text()));
  Query query = open_query();
  auto workload = query.find_workload(sample.workload);
  ASSERT_TRUE(workload.ok());
  EXPECT_EQ(workload->text, sample_workload_text());
  EXPECT_EQ(workload->family, "row_reduction");
}

TEST_F(RecordTest, adding_twice_changes_nothing) {
  Recorder recorder = open_recorder();
  auto before = recorder.read().info();
  EXPECT_EQ(*recorder.add_device(sample_device()), sample.device);
  EXPECT_EQ(*recorder.add_workload({{}, sample_workload_text(), "other", "strict"}), sample.workload);
  EXPECT_EQ(before->row_counts, recorder.read().info()->row_counts);
}

TEST_F(RecordTest, trials_come_back_with_samples_statistics_and_bytes_that_are_no_text) {
  Query query = open_query();
  auto trials = query.list_trials({.run = sample.run, .with_samples = true});
  ASSERT_TRUE(trials.ok());
  ASSERT_EQ(trials->size(), 7u);
  const TrialRow& first = trials->front();
  ASSERT_EQ(first.samples_ns.size(), 9u);
  EXPECT_EQ(first.samples_ns[3], 1000.75);
  EXPECT_EQ(first.n, 9);
  EXPECT_EQ(first.min_ns, 1000);
  EXPECT_EQ(first.median_ns, 1001);
  EXPECT_DOUBLE_EQ(first.p10_ns, 1000.2);
  EXPECT_DOUBLE_EQ(first.p90_ns, 1001.8);
  EXPECT_DOUBLE_EQ(first.mad_ns, 0.5);
  EXPECT_EQ(trials->back().outcome, Outcome::timeout);
  EXPECT_EQ(trials->back().error_code, ErrorCode::timeout);
  EXPECT_NE(trials->back().error.find("\xFF\xFE"), std::string::npos);
  auto counts = query.count_outcomes({.workload = sample.workload});
  EXPECT_EQ((*counts)[static_cast<std::size_t>(Outcome::ok)], 6);
  EXPECT_EQ((*counts)[static_cast<std::size_t>(Outcome::timeout)], 1);
  EXPECT_EQ(query.list_trials({.candidate = sample.candidates[2]})->size(), 2u);
  EXPECT_EQ(query.damaged_rows(), 0);
}

TEST_F(RecordTest, numbers_that_are_not_finite_and_references_to_nothing_are_refused) {
  Recorder recorder = open_recorder();
  TrialRow trial = sample_trial(sample, sample.run, 100);
  trial.samples_ns[0] = std::nan("");
  EXPECT_EQ(recorder.add_trial(trial).error().code, ErrorCode::bad_argument);
  trial = sample_trial(sample, sample.run, 100);
  trial.candidate = std::string(64, 'a');
  auto missing = recorder.add_trial(trial);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::not_found);
  EXPECT_NE(missing.error().found.find("candidate `aaaa"), std::string::npos) << missing.error().message();
  EXPECT_TRUE(recorder.add_trial(sample_trial(sample, sample.run, 100)).ok());
}

TEST_F(RecordTest, commit_together_is_all_or_nothing) {
  Recorder recorder = open_recorder();
  Status status = recorder.commit_together([&]() -> Status {
    LW_TRY(Digest added, recorder.add_trial(sample_trial(sample, sample.run, 200)));
    EXPECT_EQ(recorder.read().list_trials({.run = sample.run})->size(), 8u);
    return Error{ErrorCode::cancelled, "", added, "", ""};
  });
  EXPECT_EQ(status.error().code, ErrorCode::cancelled);
  EXPECT_EQ(recorder.read().list_trials({.run = sample.run})->size(), 7u);
}

TEST_F(RecordTest, runs_keep_seed_search_state_and_number) {
  {
    Recorder recorder = open_recorder();
    ASSERT_TRUE(recorder.save_search_state(sample.run, R"({"round":3})").ok());
    ASSERT_TRUE(recorder.set_run_state(sample.run, RunState::interrupted).ok());
  }
  Query query = open_query();
  auto run = query.find_run("1");
  ASSERT_TRUE(run.ok()) << run.error().message();
  EXPECT_EQ(run->digest, sample.run);
  EXPECT_EQ(run->id, 1);
  EXPECT_EQ(run->seed, 0xFFFF'FFFF'FFFF'FFF1u);
  EXPECT_EQ(run->search_state, R"({"round":3})");
  EXPECT_EQ(run->state, RunState::interrupted);
  EXPECT_GT(run->ended_ns, run->started_ns);
  EXPECT_EQ(query.find_run(sample.run.substr(0, 10))->id, 1);
  EXPECT_EQ(query.find_run("2").error().code, ErrorCode::not_found);
  EXPECT_EQ(query.find_run("").error().code, ErrorCode::not_found);
}

TEST_F(RecordTest, artifacts_come_back_byte_for_byte) {
  Query query = open_query();
  auto artifact = query.load_artifact(sample.artifacts[2]);
  ASSERT_TRUE(artifact.ok()) << artifact.error().message();
  EXPECT_EQ(*artifact, sample_artifact(2));
  auto rows = query.list_artifacts(sample.candidates[2]);
  ASSERT_EQ(rows->size(), 1u);
  EXPECT_LT(rows->front().stored_bytes, rows->front().image_bytes);
  EXPECT_EQ(query.load_artifact(std::string(64, '0')).error().code, ErrorCode::not_found);
}

TEST_F(RecordTest, an_empty_image_can_be_stored) {
  Artifact empty = sample_artifact(0);
  empty.image.clear();
  empty.launches.clear();
  Recorder recorder = open_recorder();
  auto digest = recorder.put_artifact(sample.candidates[0], sample.toolchain, empty);
  ASSERT_TRUE(digest.ok()) << digest.error().message();
  auto loaded = recorder.read().load_artifact(*digest);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message();
  EXPECT_EQ(*loaded, empty);
}

TEST_F(RecordTest, plans_are_found_by_name_and_by_graph_and_the_newest_wins) {
  {
    Recorder recorder = open_recorder();
    PlanRow plan;
    plan.name = "rmsnorm";
    plan.graph_text = "graph rmsnorm v2\n";
    plan.plan_json = R"({"kernels":[1]})";
    ASSERT_TRUE(recorder.add_plan(plan).ok());
  }
  Query query = open_query();
  EXPECT_EQ(query.find_plan("rmsnorm")->plan_json, R"({"kernels":[1]})");
  EXPECT_EQ(query.find_plan(sha256_hex("graph rmsnorm\n"))->plan_json, R"({"kernels":[]})");
  auto missing = query.find_plan("other");
  EXPECT_EQ(missing.error().code, ErrorCode::not_found);
  EXPECT_NE(missing.error().works.find("rmsnorm"), std::string::npos);
}

TEST_F(RecordTest, generation_grows_when_what_is_served_changes_and_not_for_trials) {
  Recorder recorder = open_recorder();
  std::int64_t before = *recorder.read().generation();
  ASSERT_TRUE(recorder.add_trial(sample_trial(sample, sample.run, 300)).ok());
  EXPECT_EQ(*recorder.read().generation(), before);
  ASSERT_TRUE(recorder.set_best_state(sample.candidates[1], {}, BestState::stale).ok());
  EXPECT_GT(*recorder.read().generation(), before);
}

TEST_F(RecordTest, wanted_shapes_add_up_while_a_tuning_run_holds_the_file) {
  Recorder recorder = open_recorder();
  std::string new_text = "workload 1\nsomething new\n";
  std::vector<WantedRow> rows = {{sample.workload, "", {{"s0", 100}}, 3, 5}, {sha256_hex(new_text), new_text, {}, 1, 6}};
  ASSERT_TRUE(note_wanted(path, rows).ok());
  ASSERT_TRUE(note_wanted(path, rows).ok());
  auto wanted = recorder.read().list_wanted();
  ASSERT_EQ(wanted->size(), 2u);
  EXPECT_EQ(wanted->front().count, 6);
  EXPECT_EQ(wanted->front().values, (Bindings{{"s0", 100}}));
  EXPECT_EQ(wanted->back().workload_text, new_text);
  ASSERT_TRUE(recorder.forget_wanted(sample.workload, {{"s0", 100}}).ok());
  EXPECT_EQ(recorder.read().list_wanted()->size(), 1u);
  EXPECT_EQ(note_wanted(path, {{std::string(64, 'b'), "", {}, 1, 1}}).error().code, ErrorCode::not_found);
  EXPECT_EQ(note_wanted(folder.file("none.lwdb"), rows).error().code, ErrorCode::not_found);
}

TEST_F(RecordTest, retire_ranges_leaves_only_those_to_keep) {
  Recorder recorder = open_recorder();
  ASSERT_TRUE(recorder.retire_ranges(sample.workload, sample.device, sample.toolchain, sample.policy,
                                     {sample.ranges[1]}).ok());
  auto best = recorder.read().list_best({.workload = sample.workload});
  ASSERT_EQ(best->size(), 1u);
  EXPECT_EQ(best->front().range.digest, sample.ranges[1]);
  EXPECT_EQ(best->front().device_model, "EPYC");
}

}  // namespace
}  // namespace loopwright::db::test
