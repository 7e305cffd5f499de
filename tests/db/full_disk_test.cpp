// A disk that is full, or a file that may not grow: db_full, nothing committed is lost, and it goes on once there is room.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>

#include "db/doctor.h"
#include "tests/db/sample.h"

namespace loopwright::db::test {
namespace {

namespace fs = std::filesystem;

/// Writes until it fails, frees room with `make_room`, and goes on; 0 when everything was as promised.
int fill_up(const std::string& path, const Sample& sample, const std::function<void()>& make_room) {
  auto recorder = Recorder::open(path);
  if (!recorder.ok()) return 1;
  RunRow run;
  auto digest = recorder->begin_run(run);
  if (!digest.ok()) return 2;
  std::size_t stored = 0;
  for (;; ++stored) {
    TrialRow trial = sample_trial(sample, *digest, static_cast<std::int64_t>(stored));
    trial.error = std::string(20'000, 'e');
    auto added = recorder->add_trial(trial);
    if (added.ok() && stored < 100'000) continue;
    if (added.ok()) return 3;
    if (added.error().code != ErrorCode::db_full) return 4;
    if (added.error().works.find("free space") == std::string::npos) return 5;
    break;
  }
  auto query = Query::open(path);
  if (!query.ok() || query->find_variants(sample.workload, sample_match())->variants.size() != 3) return 6;
  if (query->list_trials({.run = *digest})->size() != stored) return 7;
  make_room();
  if (!recorder->add_trial(sample_trial(sample, *digest, static_cast<std::int64_t>(stored))).ok()) return 8;
  return query->list_trials({.run = *digest})->size() == stored + 1 ? 0 : 9;
}

TEST(FullDiskTest, a_file_that_may_not_grow_is_full) {
  TempFolder folder;
  std::string path = folder.file("db.lwdb");
  Sample sample = make_sample_file(path);
  EXPECT_EQ(run_in_child([&] {
    signal(SIGXFSZ, SIG_IGN);
    rlimit limit{};
    getrlimit(RLIMIT_FSIZE, &limit);
    rlimit small = limit;
    small.rlim_cur = 1 << 20;
    setrlimit(RLIMIT_FSIZE, &small);
    return fill_up(path, sample, [&] { setrlimit(RLIMIT_FSIZE, &limit); });
  }), 0);
  EXPECT_FALSE(check_file(path)->is_damaged());
}

TEST(FullDiskTest, creating_where_nothing_fits_leaves_nothing) {
  TempFolder folder;
  std::string path = folder.file("db.lwdb");
  EXPECT_EQ(run_in_child([&] {
    signal(SIGXFSZ, SIG_IGN);
    rlimit small{16 << 10, 16 << 10};
    setrlimit(RLIMIT_FSIZE, &small);
    Status made = create_database(path);
    return made.error().code == ErrorCode::db_full ? 0 : 1;
  }), 0);
  EXPECT_FALSE(fs::exists(path));
  for (const auto& entry : fs::directory_iterator(folder.path())) EXPECT_EQ(entry.path().extension(), ".lock");
}

TEST(FullDiskTest, a_disk_that_fills_up_while_a_file_is_made_leaves_a_whole_one_or_none) {
  TempFolder folder;
  int status = run_in_child([&] {
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=2m") != 0) {
      return 77;
    }
    int made = 0, refused = 0;
    for (std::size_t room = 64 << 10; room <= std::size_t{1} << 20; room += 16 << 10) {
      std::string path = folder.file("db" + std::to_string(room) + ".lwdb");
      write_bytes(folder.file("ballast"), std::string((2 << 20) - room, 'b'));
      Status created = create_database(path);
      fs::remove(folder.file("ballast"));
      if (created.ok()) {
        ++made;
        auto report = check_file(path);
        if (!report.ok() || report->is_damaged()) return 1;
      } else {
        ++refused;
        if (created.error().code != ErrorCode::db_full) return 2;
        if (fs::exists(path)) return 3;
      }
      for (const auto& entry : fs::directory_iterator(folder.path())) {
        if (entry.path().string().find(".new-") != std::string::npos) return 4;
        fs::remove(entry.path());
      }
    }
    return made > 0 && refused > 0 ? 0 : 5;
  });
  if (status == 77) GTEST_SKIP() << "needs the right to mount a small disk";
  EXPECT_EQ(status, 0);
}

TEST(FullDiskTest, a_full_disk_is_full) {
  TempFolder folder;
  int status = run_in_child([&] {
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=2m") != 0) {
      return 77;
    }
    std::string path = folder.file("db.lwdb");
    write_bytes(folder.file("ballast"), std::string(512 << 10, 'b'));
    Sample sample = make_sample_file(path);
    return fill_up(path, sample, [&] { fs::remove(folder.file("ballast")); });
  });
  if (status == 77) GTEST_SKIP() << "needs the right to mount a small disk";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace loopwright::db::test
