// kill -9 at 50 random moments of a `loopwright tune` run, each followed by `resume`: no committed trial is lost, the
// file stays whole, and the run comes to its end.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <thread>

#include "db/doctor.h"
#include "db/query.h"

extern char** environ;

namespace loopwright::db {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGraph = R"(graph killed
input a: f32[64, 48]
input b: f32[48, 80]
c = matmul(a, b)
d = add(c, c)
output d
)";

pid_t start(const std::vector<std::string>& command, const std::string& log) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t pid = -1;
  EXPECT_EQ(::posix_spawn(&pid, command[0].c_str(), &actions, nullptr, arguments.data(), environ), 0);
  posix_spawn_file_actions_destroy(&actions);
  return pid;
}

/// Exit status, or -signal.
int wait_for(pid_t pid) {
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

std::set<Digest> list_trial_digests(const std::string& path) {
  std::set<Digest> digests;
  const auto query = Query::open(path);
  if (!query.ok()) return digests;
  const auto trials = query->list_trials({});
  if (!trials.ok()) return digests;
  for (const TrialRow& t : *trials) digests.insert(t.digest);
  return digests;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(KillAndResume, FiftyKillsLoseNoCommittedTrial) {
  const std::string program = LOOPWRIGHT_BIN_DIR "/loopwright";
  if (!fs::exists(program)) GTEST_SKIP() << "the program is not built";
  const char* wanted = std::getenv("LOOPWRIGHT_KILLS");
  const int kills = wanted != nullptr ? std::atoi(wanted) : 50;
  std::string pattern = (fs::temp_directory_path() / "lw-kill-XXXXXX").string();
  const fs::path folder = ::mkdtemp(pattern.data());
  const std::string log = (folder / "log").string();
  std::string database;
  const std::string graph = (folder / "killed.lw").string();
  std::ofstream(graph) << kGraph;
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::set<Digest> committed;
  int killed = 0, runs = 0;
  bool ended = false;
  while (killed < kills) {
    const bool fresh = runs == 0 || ended;
    // A run that came to its end before it was killed gives way to a new one.
    std::vector<std::string> command{program, "resume", "--db", database};
    if (fresh) {
      committed.clear();
      database = (folder / ("killed" + std::to_string(runs) + ".db")).string();
      command = {program, "tune", graph, "--db", database, "--budget", "60s", "--max-trials", "150", "--seed",
                 std::to_string(runs + 1)};
    }
    ++runs;
    const pid_t pid = start(command, log);
    const int after_ms = std::uniform_int_distribution<int>(20, 900)(random);
    std::this_thread::sleep_for(std::chrono::milliseconds(after_ms));
    // Whatever a reader sees now is committed.
    const std::set<Digest> seen = list_trial_digests(database);
    committed.insert(seen.begin(), seen.end());
    ended = ::kill(pid, SIGKILL) != 0;
    const int status = wait_for(pid);
    if (status == -SIGKILL) {
      ++killed;
    } else {
      // Killed before the run was claimed, resume finds nothing to resume; otherwise it ended by itself.
      ended = true;
      ASSERT_TRUE(status == 0 || committed.empty()) << status << "\n" << read_file(log);
    }
    if (!fs::exists(database)) {
      ended = true;
      continue;
    }
    const std::set<Digest> now = list_trial_digests(database);
    for (const Digest& d : committed) ASSERT_TRUE(now.contains(d)) << "a committed trial is gone after kill " << killed;
    const auto report = check_file(database);
    ASSERT_TRUE(report.ok()) << report.error().message();
    ASSERT_FALSE(report->is_damaged()) << report->text();
  }
  RecordProperty("runs", runs);
  if (!ended) {
    EXPECT_EQ(wait_for(start({program, "resume", "--db", database}, log)), 0) << read_file(log);
    const auto query = Query::open(database);
    ASSERT_TRUE(query.ok());
    EXPECT_EQ(query->list_runs()->front().state, RunState::finished);
    EXPECT_FALSE(query->list_best({.state = BestState::active})->empty());
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace loopwright::db
