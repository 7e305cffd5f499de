#include "db/sqlite_error.h"

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace loopwright::db {

namespace {

// SQLite's primary result codes. They are part of its file-independent, frozen interface; sqlite3.h stays in sqlite.cpp.
constexpr int kPerm = 3, kBusy = 5, kLocked = 6, kNoMemory = 7, kReadOnly = 8, kIo = 10, kCorrupt = 11, kFull = 13,
              kCantOpen = 14, kConstraint = 19, kNotADatabase = 26, kFormat = 24;
constexpr int kIoShortRead = kIo | (2 << 8);

ErrorCode classify(int code, int system_error, const std::string& path) {
  if (system_error == ENOSPC || system_error == EDQUOT || system_error == EFBIG) {
    if ((code & 0xFF) == kIo || (code & 0xFF) == kFull || (code & 0xFF) == kCantOpen) return ErrorCode::db_full;
  }
  switch (code & 0xFF) {
    case kBusy:
    case kLocked: return ErrorCode::db_locked;
    case kPerm:
    case kReadOnly: return ErrorCode::db_read_only;
    case kCorrupt:
    case kFormat:
    case kNotADatabase: return ErrorCode::db_corrupt;
    case kFull: return ErrorCode::db_full;
    case kIo: return code == kIoShortRead ? ErrorCode::db_corrupt : ErrorCode::io;
    case kNoMemory: return ErrorCode::out_of_memory;
    case kCantOpen: {
      std::error_code ignored;
      return std::filesystem::exists(path, ignored) ? ErrorCode::io : ErrorCode::not_found;
    }
    default: return ErrorCode::db_other;
  }
}

std::string_view suggest(ErrorCode code) {
  switch (code) {
    case ErrorCode::db_locked:
      return "another program holds the file for longer than the busy timeout; wait for it or end it (reading goes on "
             "while a tuning run writes)";
    case ErrorCode::db_read_only:
      return "make the file and its folder writable, or copy it elsewhere; reading works as it is";
    case ErrorCode::db_corrupt:
      return "`loopwright db doctor` says what is damaged; `loopwright db export` saves what is readable; the runtime "
             "goes on without the file";
    case ErrorCode::db_full: return "free space on the disk and run the same command again; nothing committed is lost";
    case ErrorCode::not_found: return "check the path, or make the file with `loopwright tune --db`";
    case ErrorCode::io: return "check that the disk is there and that the file and its folder may be read";
    default: return "";
  }
}

}  // namespace

Error make_file_error(ErrorCode code, std::string_view asked, std::string found, const std::string& path,
                      std::string works) {
  if (works.empty()) works = suggest(code);
  return Error{code, std::string(asked), std::move(found), path, std::move(works)};
}

Error translate_sqlite_error(int code, int system_error, std::string_view detail, const std::string& path,
                             std::string_view asked) {
  ErrorCode result = classify(code, system_error, path);
  std::string found(detail);
  found += " (SQLite " + std::to_string(code);
  if (system_error != 0) found += std::string(", ") + std::strerror(system_error);
  found += ")";
  std::string works;
  if ((code & 0xFF) == kConstraint) works = "a row that this one refers to is missing, or a value is outside its list";
  return make_file_error(result, asked, std::move(found), path, std::move(works));
}

Error make_system_error(int system_error, std::string_view asked, const std::string& path) {
  ErrorCode code = ErrorCode::io;
  if (system_error == ENOSPC || system_error == EDQUOT || system_error == EFBIG) code = ErrorCode::db_full;
  if (system_error == EROFS || system_error == EACCES || system_error == EPERM) code = ErrorCode::db_read_only;
  if (system_error == ENOENT) code = ErrorCode::not_found;
  return make_file_error(code, asked, std::strerror(system_error), path, {});
}

}  // namespace loopwright::db
