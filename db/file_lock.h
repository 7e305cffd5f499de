// The lock of the one writer: flock on `<database>.lock`, which the kernel gives up when the process dies.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "loopwright/base.h"

namespace loopwright::db {

class FileLock {
 public:
  /// `<database>.lock` beside the file that `path` leads to, so that two names of one file share one lock.
  static std::string find_lock_path(const std::string& path);
  /// Takes the lock or fails with `busy`, naming the holder, after `wait_ms`. The lock file is never removed: a process
  /// that waits on a removed one would hold a lock that nobody else sees.
  static Result<std::unique_ptr<FileLock>> take(const std::string& path, const std::string& command,
                                                std::int64_t wait_ms);
  /// Empty when nobody holds it; otherwise what the holder wrote, on one line.
  static std::string describe_holder(const std::string& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

}  // namespace loopwright::db
