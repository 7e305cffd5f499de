// Many processes that start at once on a file that is not there.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "db/doctor.h"
#include "db/sqlite.h"
#include "tests/db/sample.h"

namespace loopwright::db::test {
namespace {

namespace fs = std::filesystem;

constexpr int kProcesses = 16;
constexpr int kRounds = 20;

/// Starts the processes behind a pipe that opens for all of them at one moment; gives their exit statuses.
std::vector<int> start_at_once(const std::function<int(int)>& body) {
  int gate[2];
  EXPECT_EQ(pipe(gate), 0);
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    children.push_back(start_child([&, i] {
      close(gate[1]);
      char byte = 0;
      (void)!read(gate[0], &byte, 1);  // returns when the last writing end is closed
      return body(i);
    }));
  }
  close(gate[0]);
  close(gate[1]);
  std::vector<int> statuses;
  for (pid_t child : children) statuses.push_back(wait_for(child));
  return statuses;
}

TEST(CreateTest, sixteen_processes_create_one_file_and_all_write_to_it) {
  for (int round = 0; round < kRounds; ++round) {
    TempFolder folder(true);
    std::string path = folder.file("db.lwdb");
    // Half of them only want the file to be there, as the runtime does; half want to write, one after the other.
    auto statuses = start_at_once([&](int i) {
      if (i % 2 == 0) {
        if (!create_database(path).ok()) return 1;
        return Query::open(path).ok() ? 0 : 2;
      }
      auto recorder = Recorder::open(path, {.writer_wait_ms = 30'000});
      if (!recorder.ok()) return 3;
      return recorder->add_workload({{}, "workload " + std::to_string(i), "", ""}).ok() ? 0 : 4;
    });
    EXPECT_EQ(statuses, std::vector<int>(kProcesses, 0)) << "round " << round;
    auto query = Query::open(path);
    ASSERT_TRUE(query.ok()) << query.error().message();
    EXPECT_EQ(query->list_workloads()->size(), 8u);
    EXPECT_EQ(query->info()->journal_mode, "wal");
    EXPECT_FALSE(check_file(path)->is_damaged());
    for (const auto& entry : fs::directory_iterator(folder.path())) {
      EXPECT_EQ(entry.path().string().find(".new-"), std::string::npos) << entry.path();
    }
  }
}

TEST(CreateTest, without_waiting_exactly_the_holder_writes_and_others_are_busy) {
  TempFolder folder(true);
  std::string path = folder.file("db.lwdb");
  auto statuses = start_at_once([&](int) {
    auto recorder = Recorder::open(path);
    if (!recorder.ok()) return recorder.error().code == ErrorCode::busy ? 1 : 2;
    usleep(1'000'000);
    return 0;
  });
  EXPECT_EQ(std::count(statuses.begin(), statuses.end(), 0), 1);
  EXPECT_EQ(std::count(statuses.begin(), statuses.end(), 1), kProcesses - 1);
}

TEST(CreateTest, what_a_dead_creator_left_is_cleared_and_an_old_log_is_not_replayed) {
  TempFolder folder(true);
  std::string path = folder.file("db.lwdb");
  Sample sample = make_sample_file(path);
  // A log whose database somebody deleted.
  EXPECT_EQ(run_in_child([&] {
    auto recorder = Recorder::open(path);
    (void)recorder->add_trial(sample_trial(sample, sample.run, 500));
    kill(getpid(), SIGKILL);
    return 0;
  }), 1000 + SIGKILL);
  ASSERT_GT(fs::file_size(path + "-wal"), 0u);
  fs::remove(path);
  write_bytes(path + ".new-0123", "half a database");
  write_bytes(path + ".new-0123-wal", "and its log");
  ASSERT_TRUE(create_database(path).ok());
  EXPECT_FALSE(fs::exists(path + ".new-0123"));
  EXPECT_FALSE(fs::exists(path + ".new-0123-wal"));
  auto query = Query::open(path);
  ASSERT_TRUE(query.ok()) << query.error().message();
  EXPECT_EQ(query->info()->row_counts["trial"], 0);
  EXPECT_FALSE(check_file(path)->is_damaged());
}

TEST(CreateTest, a_folder_that_is_not_there_or_not_writable_is_said_so) {
  EXPECT_EQ(create_database("/nowhere/at/all/db.lwdb").error().code, ErrorCode::not_found);
  TempFolder folder(true);
  EXPECT_EQ(run_in_child([&] {
    become_nobody();
    return create_database(folder.file("db.lwdb")).error().code == ErrorCode::db_read_only ? 0 : 1;
  }), geteuid() == 0 ? 0 : 1);
}

}  // namespace
}  // namespace loopwright::db::test
