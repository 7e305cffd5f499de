// kill -9 of a writing process at random moments: nothing it reported as committed is lost, the file stays whole.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <random>

#include "db/doctor.h"
#include "db/sqlite.h"
#include "tests/db/sample.h"

namespace loopwright::db::test {
namespace {

constexpr int kKills = 50;

/// Commits numbered trials and says each number on the pipe only after the commit was reported.
int write_trials(const std::string& path, const Sample& sample, int pipe_end) {
  auto recorder = Recorder::open(path, {.writer_wait_ms = 5000});
  if (!recorder.ok()) return 1;
  RunRow run;
  run.command = "kill test";
  auto digest = recorder->begin_run(run);
  if (!digest.ok()) return 2;
  for (std::int64_t sequence = 0;; ++sequence) {
    if (!recorder->add_trial(sample_trial(sample, *digest, sequence)).ok()) return 3;
    if (sequence % 5 == 0 && !recorder->save_search_state(*digest, std::to_string(sequence)).ok()) return 4;
    if (write(pipe_end, &sequence, sizeof sequence) != sizeof sequence) return 5;
  }
}

TEST(KillTest, no_committed_trial_is_lost_in_fifty_kills) {
  TempFolder folder(true);
  std::string path = folder.file("db.lwdb");
  Sample sample = make_sample_file(path);
  std::mt19937 random(7);
  std::int64_t committed_in_all = 0;
  for (int round = 0; round < kKills; ++round) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    pid_t child = start_child([&] { return write_trials(path, sample, ends[1]); });
    close(ends[1]);
    usleep(2000 + random() % 60'000);
    kill(child, SIGKILL);
    EXPECT_EQ(wait_for(child), 1000 + SIGKILL);
    std::int64_t last = -1;
    for (std::int64_t said = 0; read(ends[0], &said, sizeof said) == sizeof said;) last = said;
    close(ends[0]);
    auto query = Query::open(path);
    ASSERT_TRUE(query.ok()) << query.error().message();
    auto runs = query->list_runs();
    ASSERT_TRUE(runs.ok());
    if (last < 0) continue;  // killed before its first commit was said
    auto trials = query->list_trials({.run = runs->front().digest});
    ASSERT_TRUE(trials.ok());
    // Those that were said, and at most the one whose saying was cut off.
    ASSERT_GE(static_cast<std::int64_t>(trials->size()), last + 1) << "round " << round;
    EXPECT_LE(static_cast<std::int64_t>(trials->size()), last + 2);
    for (std::size_t i = 0; i < trials->size(); ++i) EXPECT_EQ((*trials)[i].sequence, static_cast<std::int64_t>(i));
    EXPECT_GE(std::stoll(runs->front().search_state), last - last % 5);
    EXPECT_EQ(runs->front().state, RunState::running);
    committed_in_all += last + 1;
    if (round % 10 == 9) {
      EXPECT_FALSE(check_file(path)->is_damaged());
    }
  }
  EXPECT_GT(committed_in_all, kKills);
  auto report = check_file(path);
  ASSERT_TRUE(report.ok());
  EXPECT_FALSE(report->is_damaged()) << report->text();
}

}  // namespace
}  // namespace loopwright::db::test
