#include "db/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <thread>

#include "db/sqlite_error.h"

namespace loopwright::db {

namespace {

std::string format_utc_now() {
  std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text;
}

Error explain_no_lock(int system_error, const std::string& lock_path) {
  constexpr std::string_view kAsked = "take the writer's lock";
  if (system_error != ENOENT) return make_system_error(system_error, kAsked, lock_path);
  const std::string folder = std::filesystem::path(lock_path).parent_path().string();
  std::error_code ignored;
  // A folder that is there and takes no files: /proc is one.
  if (std::filesystem::is_directory(folder, ignored))
    return make_file_error(ErrorCode::db_read_only, kAsked, "no file can be made in " + folder, lock_path, "a folder that takes files");
  return make_file_error(ErrorCode::not_found, kAsked, "there is no folder " + folder, lock_path, "a folder that is there");
}

std::string read_holder(int descriptor) {
  char text[512];
  ssize_t bytes = pread(descriptor, text, sizeof text, 0);
  std::string holder(text, bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
  while (!holder.empty() && holder.back() == '\n') holder.pop_back();
  std::replace(holder.begin(), holder.end(), '\n', ' ');
  return holder.empty() ? "another process" : holder;
}

void write_holder(int descriptor, const std::string& command) {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  std::string text = "pid " + std::to_string(getpid()) + " on " + host + ", started " + format_utc_now();
  if (!command.empty()) text += ", " + command.substr(0, 200);
  text += '\n';
  // Only for people: a full disk must not keep anybody from the lock.
  if (ftruncate(descriptor, 0) != 0) return;
  [[maybe_unused]] ssize_t written = pwrite(descriptor, text.data(), text.size(), 0);
}

}  // namespace

std::string FileLock::find_lock_path(const std::string& path) {
  std::error_code error;
  auto real = std::filesystem::weakly_canonical(path, error);
  return (error ? path : real.string()) + ".lock";
}

Result<std::unique_ptr<FileLock>> FileLock::take(const std::string& path, const std::string& command,
                                                 std::int64_t wait_ms) {
  std::string lock_path = find_lock_path(path);
  // CLOEXEC: a compiler or worker started by the holder must not keep the lock after the holder's death.
  int descriptor = open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0) return explain_no_lock(errno, lock_path);
  std::unique_ptr<FileLock> lock(new FileLock(descriptor));
  auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(wait_ms);
  while (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return make_system_error(errno, "take the writer's lock", lock_path);
    if (std::chrono::steady_clock::now() >= end) {
      return Error{ErrorCode::busy, "write to the database", "it is being written by " + read_holder(descriptor), path,
                   "wait for that run to end, stop it (what it committed stays), or give another --db; reading works "
                   "meanwhile"};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  write_holder(descriptor, command);
  return lock;
}

std::string FileLock::describe_holder(const std::string& path) {
  int descriptor = open(find_lock_path(path).c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return {};
  std::string holder;
  if (flock(descriptor, LOCK_SH | LOCK_NB) != 0) holder = read_holder(descriptor);
  close(descriptor);
  return holder;
}

FileLock::~FileLock() { close(descriptor_); }

}  // namespace loopwright::db
