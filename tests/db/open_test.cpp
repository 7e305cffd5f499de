// Files that are missing, foreign, newer, truncated, damaged, locked or read-only: a code each, a message, no crash.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <random>
#include <set>

#include "db/doctor.h"
#include "db/sqlite.h"
#include "db/storage.h"
#include "tests/db/sample.h"

namespace loopwright::db::test {
namespace {

namespace fs = std::filesystem;

class OpenTest : public ::testing::Test {
 protected:
  TempFolder folder;
  std::string path = folder.file("db.lwdb");

  /// Both sides refuse with `code`, in four parts, and change nothing.
  void expect_refused(ErrorCode code) {
    std::string before = fs::is_regular_file(path) ? read_bytes(path) : "";
    auto reader = Query::open(path);
    ASSERT_FALSE(reader.ok());
    EXPECT_EQ(reader.error().code, code) << reader.error().message();
    auto writer = Recorder::open(path, {.create = false});
    ASSERT_FALSE(writer.ok());
    EXPECT_EQ(writer.error().code, code) << writer.error().message();
    for (const Error& error : {reader.error(), writer.error()}) {
      EXPECT_FALSE(error.asked.empty());
      EXPECT_FALSE(error.found.empty());
      EXPECT_NE(error.where.find(path), std::string::npos);
      EXPECT_FALSE(error.works.empty());
    }
    EXPECT_EQ(note_wanted(path, {}).error().code, code);
    EXPECT_EQ(check_file(path).error().code, code);
    if (fs::is_regular_file(path)) {
      EXPECT_EQ(read_bytes(path), before);
    }
    EXPECT_FALSE(fs::exists(path + ".lock"));
  }
};

TEST_F(OpenTest, a_missing_file_is_not_found_and_not_made) {
  expect_refused(ErrorCode::not_found);
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(OpenTest, a_folder_text_and_another_programs_database_are_foreign) {
  fs::create_directory(path);
  expect_refused(ErrorCode::db_foreign);
  fs::remove(path);
  write_bytes(path, "#!/bin/sh\necho this is no database at all\n");
  expect_refused(ErrorCode::db_foreign);
  fs::remove(path);
  {
    auto other = Connection::open(path, Connection::Mode::create, 0);
    ASSERT_TRUE((*other)->execute("PRAGMA application_id = 252006674; CREATE TABLE t(x)").ok());
  }
  expect_refused(ErrorCode::db_foreign);
}

TEST_F(OpenTest, a_newer_schema_is_newer) {
  make_sample_file(path);
  {
    auto newer = Connection::open(path, Connection::Mode::read_write, 0);
    ASSERT_TRUE((*newer)->execute("PRAGMA user_version = 99").ok());
  }
  fs::remove(path + ".lock");
  expect_refused(ErrorCode::db_newer);
}

TEST_F(OpenTest, an_empty_file_is_corrupt) {
  write_bytes(path, "");
  expect_refused(ErrorCode::db_corrupt);
}

TEST_F(OpenTest, truncation_at_20_places_is_an_error_or_the_right_answer) {
  Sample sample = make_sample_file(path);
  std::string whole = read_bytes(path);
  std::vector<std::string> right = describe_variants(*Query::open(path), sample.workload);
  for (std::size_t i = 0; i < 20; ++i) {
    fs::remove(path + ".lock");
    write_bytes(path, whole.substr(0, whole.size() * i / 20 + i * 7));
    auto query = Query::open(path);
    if (query.ok()) {
      std::vector<std::string> found = describe_variants(*query, sample.workload);
      EXPECT_TRUE(found == right || found == std::vector<std::string>{"error db_corrupt"})
          << i << ": " << found.front();
    } else {
      EXPECT_EQ(query.error().code, ErrorCode::db_corrupt) << query.error().message();
    }
    EXPECT_EQ(Recorder::open(path).error().code, ErrorCode::db_corrupt) << i;
  }
}

/// What is served from a damaged file must be a part of what was served from the whole one.
void expect_error_or_right(const std::string& path, const Sample& sample,
                           const std::set<std::string>& right) {
  auto query = Query::open(path);
  if (!query.ok()) return;
  for (const std::string& line : describe_variants(*query, sample.workload)) {
    if (line.starts_with("error ")) continue;
    EXPECT_TRUE(right.contains(line)) << line;
  }
  for (std::size_t i = 0; i < sample.artifacts.size(); ++i) {
    auto artifact = query->load_artifact(sample.artifacts[i]);
    if (artifact.ok()) {
      EXPECT_EQ(*artifact, sample_artifact(static_cast<std::uint8_t>(i)));
    }
  }
  auto plan = query->find_plan("rmsnorm");
  if (plan.ok()) {
    EXPECT_EQ(plan->graph_text, "graph rmsnorm\n");
  }
  auto trials = query->list_trials({.with_samples = true});
  for (const TrialRow& trial : trials.ok() ? *trials : std::vector<TrialRow>()) {
    EXPECT_TRUE(trial.n == 0 || trial.n == 9);
    EXPECT_LT(trial.median_ns, 1100);
  }
  (void)query->explain(sample.workload, sample_match(), {{"s0", 100}}, 16);
  (void)query->info();
  (void)query->list_wanted();
  (void)query->list_runs();
}

TEST_F(OpenTest, two_hundred_damaged_files_give_an_error_or_the_right_answer) {
  Sample sample = make_sample_file(path);
  std::string whole = read_bytes(path);
  std::set<std::string> right;
  for (const std::string& line : describe_variants(*Query::open(path), sample.workload)) right.insert(line);
  // Another quality is still right: a row left out lets the next best through, each line judged alone.
  std::mt19937_64 random(20240607);
  std::string damaged_path = folder.file("damaged.lwdb");
  for (int round = 0; round < 200; ++round) {
    std::string bytes = whole;
    std::size_t count = round % 4 == 3 ? 64 : 1 + static_cast<std::size_t>(round % 3);
    // Three rounds of four look for page headers and cells; single bytes hit text and numbers.
    std::size_t start = random() % bytes.size();
    for (std::size_t i = 0; i < count; ++i) {
      std::size_t at = round % 2 == 0 ? (start + i) % bytes.size() : random() % bytes.size();
      bytes[at] = static_cast<char>(random());
    }
    write_bytes(damaged_path, bytes);
    SCOPED_TRACE("round " + std::to_string(round));
    int status = run_in_child([&] {
      expect_error_or_right(damaged_path, sample, right);
      return ::testing::Test::HasFailure() ? 1 : 0;
    });
    EXPECT_EQ(status, 0) << "a signal or a wrong answer";
    if (round % 10 == 0) {
      (void)check_file(damaged_path);  // must not crash either
      (void)Recorder::open(damaged_path);
    }
    for (const char* suffix : {"-wal", "-shm", ".lock"}) fs::remove(damaged_path + suffix);
  }
}

TEST_F(OpenTest, a_flipped_number_in_a_served_row_is_noticed) {
  Sample sample = make_sample_file(path);
  {
    auto connection = Connection::open(path, Connection::Mode::read_write, 0);
    ASSERT_TRUE((*connection)->execute("UPDATE best SET median_ns = 1.0 WHERE id = 1").ok());
    ASSERT_TRUE((*connection)->execute("UPDATE candidate SET trace = trace || 'x' WHERE id = 3").ok());
  }
  auto list = Query::open(path)->find_variants(sample.workload, sample_match());
  ASSERT_TRUE(list.ok());
  ASSERT_EQ(list->variants.size(), 1u);
  EXPECT_EQ(list->variants[0].quality, Match::untuned);
  EXPECT_EQ(list->damaged_rows, 2);
  auto report = check_file(path);
  EXPECT_TRUE(report->is_damaged());
}

TEST_F(OpenTest, an_exclusive_lock_is_locked_for_both_sides) {
  Sample sample = make_sample_file(path);
  auto holder = Connection::open(path, Connection::Mode::read_write, 0);
  ASSERT_TRUE((*holder)->execute("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE").ok());
  ASSERT_TRUE((*holder)->execute("UPDATE meta SET value = value").ok());
  auto reader = Query::open(path, {.busy_timeout_ms = 50});
  ASSERT_FALSE(reader.ok());
  EXPECT_EQ(reader.error().code, ErrorCode::db_locked) << reader.error().message();
  EXPECT_EQ(Recorder::open(path, {.busy_timeout_ms = 50}).error().code, ErrorCode::db_locked);
  EXPECT_EQ(note_wanted(path, {{sample.workload, "", {}, 1, 1}}).error().code, ErrorCode::db_locked);
}

TEST_F(OpenTest, readers_are_not_disturbed_by_a_writer_in_a_transaction) {
  Sample sample = make_sample_file(path);
  auto writer = Recorder::open(path);
  ASSERT_TRUE(writer
                  ->commit_together([&]() -> Status {
                    LW_CHECK(writer->set_best_state(sample.candidates[1], {}, BestState::stale));
                    auto reader = Query::open(path);
                    EXPECT_TRUE(reader.ok());
                    EXPECT_EQ(reader->find_variants(sample.workload, sample_match())->variants.size(), 3u);
                    return Unit{};
                  })
                  .ok());
}

TEST_F(OpenTest, the_settings_that_the_documentation_names_hold) {
  make_sample_file(path);
  const auto reader = open_for_reading(path, 1000, false);
  const auto writer = open_for_writing(path, 1000, false);
  ASSERT_TRUE(reader.ok() && writer.ok());
  for (const auto& connection : {*reader, *writer}) {
    const auto setting = [&](const std::string& name) { return *connection->query_int("PRAGMA " + name); };
    EXPECT_EQ(setting("application_id"), 0x4C574442);
    EXPECT_EQ(setting("trusted_schema"), 0);
    EXPECT_EQ(setting("cell_size_check"), 1);
    EXPECT_EQ(setting("mmap_size"), 0);
    EXPECT_EQ(setting("query_only"), connection == *reader ? 1 : 0);
    if (connection == *reader) continue;
    EXPECT_EQ(setting("foreign_keys"), 1);
    EXPECT_EQ(setting("temp_store"), 2) << "memory";
    EXPECT_EQ(setting("journal_size_limit"), 64 << 20);
    EXPECT_EQ(setting("synchronous"), *connection->query_text("PRAGMA journal_mode") == "wal" ? 1 : 2);
  }
}

TEST_F(OpenTest, a_program_started_by_the_writer_inherits_neither_the_lock_nor_the_file) {
  make_sample_file(path);
  auto writer = Recorder::open(path);
  ASSERT_TRUE(writer.ok());
  FILE* list = ::popen("ls -l /proc/self/fd", "r");
  ASSERT_NE(list, nullptr);
  std::string text;
  for (int c = 0; (c = std::fgetc(list)) != EOF;) text += static_cast<char>(c);
  ::pclose(list);
  EXPECT_NE(text.find("/proc/"), std::string::npos) << text;
  EXPECT_EQ(text.find(fs::path(path).filename().string()), std::string::npos) << text;
}

TEST_F(OpenTest, a_second_writer_is_told_who_holds_the_file) {
  make_sample_file(path);
  auto first = Recorder::open(path, {.command = "loopwright tune a.lw"});
  ASSERT_TRUE(first.ok());
  auto second = Recorder::open(path);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, ErrorCode::busy);
  EXPECT_NE(second.error().found.find("pid " + std::to_string(getpid())), std::string::npos)
      << second.error().message();
  EXPECT_NE(second.error().found.find("started 20"), std::string::npos);
  EXPECT_NE(second.error().found.find("loopwright tune a.lw"), std::string::npos);
  fs::create_symlink(path, folder.file("other-name.lwdb"));
  EXPECT_EQ(Recorder::open(folder.file("other-name.lwdb")).error().code, ErrorCode::busy);
  EXPECT_EQ(run_in_child([&] { return Recorder::open(path).error().code == ErrorCode::busy ? 0 : 1; }), 0);
  first = Error{ErrorCode::cancelled, "", "", "", ""};
  EXPECT_TRUE(Recorder::open(path).ok());
}

TEST_F(OpenTest, a_killed_writer_leaves_no_lock) {
  make_sample_file(path);
  pid_t child = start_child([&] {
    auto recorder = Recorder::open(path);
    write_bytes(folder.file("ready"), "x");
    pause();
    return 0;
  });
  while (!fs::exists(folder.file("ready"))) usleep(1000);
  EXPECT_EQ(Recorder::open(path).error().code, ErrorCode::busy);
  kill(child, SIGKILL);
  EXPECT_EQ(wait_for(child), 1000 + SIGKILL);
  EXPECT_TRUE(Recorder::open(path).ok());
}

TEST_F(OpenTest, a_read_only_file_or_folder_is_read_and_not_written) {
  Sample sample = make_sample_file(path);
  std::vector<std::string> right = describe_variants(*Query::open(path), sample.workload);
  auto try_both = [&](const std::string& access) {
    return run_in_child([&] {
      become_nobody();
      auto writer = Recorder::open(path);
      if (writer.ok() || writer.error().code != ErrorCode::db_read_only) return 1;
      if (note_wanted(path, {{sample.workload, "", {}, 1, 1}}).error().code != ErrorCode::db_read_only)
        return 2;
      auto reader = Query::open(path);
      if (!reader.ok()) return 3;
      if (describe_variants(*reader, sample.workload) != right) return 4;
      return access.empty() || reader->info()->access == access ? 0 : 5;
    });
  };
  fs::remove(path + ".lock");
  chmod(path.c_str(), 0444);
  chmod(folder.path().c_str(), 0777);
  EXPECT_EQ(try_both(""), 0);
  for (const char* suffix : {"-wal", "-shm"})
    fs::remove(path + suffix);  // left by a reader that may not remove them
  chmod(path.c_str(), 0666);
  chmod(folder.path().c_str(), 0555);
  EXPECT_EQ(try_both("immutable"), 0);
  chmod(path.c_str(), 0444);
  EXPECT_EQ(try_both("immutable"), 0);
}

TEST_F(OpenTest, a_log_left_by_a_killed_writer_is_read_even_in_a_read_only_folder) {
  Sample sample = make_sample_file(path);
  pid_t child = start_child([&] {
    auto recorder = Recorder::open(path);
    (void)recorder->set_best_state(sample.candidates[1], {}, BestState::demoted);
    kill(getpid(), SIGKILL);  // the log is not yet moved into the file
    return 0;
  });
  EXPECT_EQ(wait_for(child), 1000 + SIGKILL);
  ASSERT_GT(fs::file_size(path + "-wal"), 0u);
  fs::remove(path + "-shm");
  for (const std::string& file : {path, path + "-wal"}) chmod(file.c_str(), 0444);
  chmod(folder.path().c_str(), 0555);
  EXPECT_EQ(run_in_child([&] {
              become_nobody();
              auto reader = Query::open(path);
              if (!reader.ok()) return 1;
              return reader->find_variants(sample.workload, sample_match())->variants.size() == 2 ? 0 : 2;
            }),
            0);
}

}  // namespace
}  // namespace loopwright::db::test
