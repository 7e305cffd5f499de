#include "db/storage.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>

#include "db/file_system.h"
#include "db/rows.h"
#include "db/sqlite_error.h"

namespace loopwright::db {

namespace fs = std::filesystem;

namespace {

constexpr Migration kMigrations[] = {
#include "generated/db/migrations.inc"
};

constexpr std::array<const char*, 3> kSideFiles = {"-wal", "-shm", "-journal"};

void remove_with_side_files(const std::string& path) {
  std::error_code ignored;
  fs::remove(path, ignored);
  for (const char* suffix : kSideFiles) fs::remove(path + suffix, ignored);
}

/// What a process left behind that died while it made the file. Nobody else makes it now: the lock is ours.
void remove_leftovers(const std::string& path) {
  std::error_code error;
  std::string prefix = fs::path(path).filename().string() + ".new-";
  fs::path folder = fs::path(path).parent_path();
  for (const auto& entry : fs::directory_iterator(folder.empty() ? "." : folder, error)) {
    if (entry.path().filename().string().starts_with(prefix)) fs::remove(entry.path(), error);
  }
  // A log without its database would be replayed into the new one.
  for (const char* suffix : kSideFiles) fs::remove(path + suffix, error);
}

std::string make_uuid() {
  std::random_device random;
  char text[33];
  std::snprintf(text, sizeof text, "%08x%08x%08x%08x", random(), random(), random(), random());
  return text;
}

void sync_to_disk(const std::string& path, int flags) {
  int descriptor = open(path.c_str(), flags | O_CLOEXEC);
  if (descriptor < 0) return;
  fsync(descriptor);
  close(descriptor);
}

Status write_meta(Connection& connection) {
  LW_TRY(auto statement, connection.prepare("INSERT INTO meta(key, value) VALUES (?, ?)"));
  const std::pair<const char*, std::string> facts[] = {{"uuid", make_uuid()},
                                                       {"generation", "1"},
                                                       {"created_by", "loopwright " LOOPWRIGHT_VERSION},
                                                       {"created_ns", std::to_string(read_clock_ns())}};
  for (const auto& [key, value] : facts) LW_CHECK(statement.bind(key).bind(value).run());
  return Unit{};
}

Status write_new_file(const std::string& path, bool use_wal) {
  LW_TRY(auto connection, Connection::open(path, Connection::Mode::create, 0));
  LW_CHECK(connection->execute(use_wal ? "PRAGMA journal_mode = WAL" : "PRAGMA journal_mode = DELETE"));
  LW_CHECK(connection->execute("PRAGMA application_id = " + std::to_string(kApplicationId)));
  LW_CHECK(migrate(*connection, list_migrations()));
  LW_CHECK(write_meta(*connection));
  if (!use_wal) return Unit{};
  // Only the file itself gets its new name. Closing would empty the log into it too, but says nothing when the disk is
  // full: then the database would stay behind in a log that nobody finds.
  LW_TRY(const std::int64_t busy, connection->query_int("PRAGMA wal_checkpoint(TRUNCATE)"));
  if (busy != 0)
    return make_file_error(ErrorCode::db_locked, "make the database", "another program opened the unfinished file", path, {});
  return Unit{};
}

std::uint32_t read_big_endian(const unsigned char* bytes) {
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 | bytes[3];
}

Error make_foreign_error(const std::string& path, std::string found) {
  return make_file_error(ErrorCode::db_foreign, "open the tuning database", std::move(found), path,
                         "give the path of a Loopwright database; nothing in this file was changed");
}

Error make_newer_error(const std::string& path, std::int64_t found) {
  return make_file_error(ErrorCode::db_newer, "open the tuning database",
                         "schema version " + std::to_string(found) + ", this program knows up to " +
                             std::to_string(current_schema_version()),
                         path, "update Loopwright, or import an export made by the newer version");
}

Status check_identity(Connection& connection) {
  LW_TRY(std::int64_t application, connection.query_int("PRAGMA application_id"));
  if (application != kApplicationId) {
    return make_foreign_error(connection.path(), "application_id " + std::to_string(application) +
                                                     " belongs to another program");
  }
  LW_TRY(std::int64_t version, connection.query_int("PRAGMA user_version"));
  if (version > current_schema_version()) return make_newer_error(connection.path(), version);
  return Unit{};
}

Status run_quick_check(Connection& connection) {
  LW_TRY(std::string verdict, connection.query_text("PRAGMA quick_check(1)"));
  if (verdict == "ok") return Unit{};
  return make_file_error(ErrorCode::db_corrupt, "check the tuning database", verdict, connection.path(), {});
}

std::int64_t measure_file(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 ? static_cast<std::int64_t>(status.st_size) : 0;
}

/// A log that nobody can replay in place: the file and its log are copied to where they can be.
Result<std::shared_ptr<Connection>> open_private_copy(const std::string& path, std::int64_t busy_timeout_ms) {
  std::string folder = (fs::temp_directory_path() / "loopwright-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return make_system_error(errno, "make a temporary folder", folder);
  std::string copy = folder + "/copy.db";
  std::error_code error;
  fs::copy_file(path, copy, error);
  if (!error) fs::copy_file(path + "-wal", copy + "-wal", error);
  auto opened = error ? Result<std::shared_ptr<Connection>>(make_system_error(error.value(), "copy the database", path))
                      : Connection::open(copy, Connection::Mode::read_write, busy_timeout_ms);
  if (!opened.ok()) {
    fs::remove_all(folder, error);
    return opened.error();
  }
  (*opened)->private_folder = folder;
  (*opened)->access = "private copy";
  return opened;
}

/// Opens and reads something, because SQLite looks at nothing before.
Result<std::shared_ptr<Connection>> open_and_touch(const std::string& path, Connection::Mode mode,
                                                   std::int64_t busy_timeout_ms) {
  LW_TRY(auto connection, Connection::open(path, mode, busy_timeout_ms));
  LW_TRY([[maybe_unused]] std::int64_t tables, connection->query_int("SELECT count(*) FROM sqlite_schema"));
  return connection;
}

Result<std::shared_ptr<Connection>> open_as_allowed(const std::string& path, std::int64_t busy_timeout_ms) {
  auto opened = open_and_touch(path, Connection::Mode::read_only, busy_timeout_ms);
  if (opened.ok()) return opened;
  ErrorCode code = opened.error().code;
  // In a folder that may not be written SQLite cannot make the shared index of a write-ahead log.
  if (code != ErrorCode::db_read_only && code != ErrorCode::io && code != ErrorCode::not_found) return opened;
  if (measure_file(path + "-wal") > 0) return open_private_copy(path, busy_timeout_ms);
  auto immutable = open_and_touch(path, Connection::Mode::immutable, busy_timeout_ms);
  if (!immutable.ok()) return opened;
  (*immutable)->access = "immutable";
  return immutable;
}

}  // namespace

std::span<const Migration> list_migrations() { return kMigrations; }
int current_schema_version() { return list_migrations().back().version; }

Status migrate(Connection& connection, std::span<const Migration> migrations) {
  LW_TRY(Transaction transaction, Transaction::begin(connection));
  LW_TRY(std::int64_t version, connection.query_int("PRAGMA user_version"));
  if (version > migrations.back().version) return make_newer_error(connection.path(), version);
  for (const Migration& migration : migrations) {
    if (migration.version <= version) continue;
    LW_CHECK(connection.execute(migration.sql));
    LW_CHECK(connection.execute("PRAGMA user_version = " + std::to_string(migration.version)));
  }
  return transaction.commit();
}

Status create_file_locked(const std::string& path) {
  if (access(path.c_str(), F_OK) == 0) return Unit{};
  remove_leftovers(path);
  // Complete under another name, already in its journal mode, then given its own: nobody ever sees half a database, and
  // nobody ever has to switch a shared one to WAL, which needs an exclusive lock and ignores the busy timeout.
  std::string fresh = path + ".new-" + make_uuid();
  Status written = write_new_file(fresh, !find_file_system(path).is_network);
  if (!written.ok()) {
    remove_with_side_files(fresh);
    Error error = written.error();
    error.where = path;
    return error;
  }
  sync_to_disk(fresh, O_RDONLY);
  if (rename(fresh.c_str(), path.c_str()) != 0) {
    int system_error = errno;
    remove_with_side_files(fresh);
    return make_system_error(system_error, "put the new database in its place", path);
  }
  fs::path folder = fs::path(path).parent_path();
  sync_to_disk(folder.empty() ? "." : folder.string(), O_RDONLY | O_DIRECTORY);
  return Unit{};
}

Status check_header(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return make_system_error(errno, "open the tuning database", path);
  if (!S_ISREG(status.st_mode)) return make_foreign_error(path, "not a regular file");
  int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return make_system_error(errno, "open the tuning database", path);
  unsigned char header[100] = {};
  ssize_t bytes = read(descriptor, header, sizeof header);
  close(descriptor);
  if (bytes < 0) return make_system_error(errno, "read the tuning database", path);
  static constexpr char kMagic[] = "SQLite format 3";  // with its zero byte
  std::size_t compared = std::min<std::size_t>(static_cast<std::size_t>(bytes), sizeof kMagic);
  if (std::memcmp(header, kMagic, compared) != 0) return make_foreign_error(path, "not an SQLite file");
  if (bytes < static_cast<ssize_t>(sizeof header)) {
    return make_file_error(ErrorCode::db_corrupt, "open the tuning database",
                           "truncated: " + std::to_string(status.st_size) + " bytes, a header alone is 100", path, {});
  }
  std::uint32_t application = read_big_endian(header + 68);
  if (application != kApplicationId) {
    return make_foreign_error(path, "application_id " + std::to_string(application) + " belongs to another program");
  }
  std::uint32_t version = read_big_endian(header + 60);
  if (version > static_cast<std::uint32_t>(current_schema_version())) return make_newer_error(path, version);
  return Unit{};
}

Result<std::shared_ptr<Connection>> open_for_writing(const std::string& path, std::int64_t busy_timeout_ms,
                                                     bool check) {
  LW_CHECK(check_header(path));
  std::string folder = fs::path(path).parent_path().string();
  for (const std::string& needed : {path, folder.empty() ? std::string(".") : folder}) {
    if (access(needed.c_str(), W_OK) != 0) {
      return make_file_error(ErrorCode::db_read_only, "write to the database",
                             (needed == path ? "the file" : "its folder") + std::string(" may not be written: ") +
                                 std::strerror(errno),
                             path, {});
    }
  }
  LW_TRY(auto connection, Connection::open(path, Connection::Mode::read_write, busy_timeout_ms));
  LW_CHECK(check_identity(*connection));
  if (check) LW_CHECK(run_quick_check(*connection));
  bool is_network = find_file_system(path).is_network;
  LW_TRY(std::string mode, connection->query_text("PRAGMA journal_mode"));
  if (is_network && mode == "wal") {
    // Carried here from a local disk. If a reader has it open this fails, and the next writer tries again.
    (void)connection->execute("PRAGMA journal_mode = DELETE");
    LW_TRY(mode, connection->query_text("PRAGMA journal_mode"));
  }
  // In WAL mode NORMAL keeps every commit over kill -9 and an intact file over a power cut; in rollback mode only FULL
  // does the latter.
  LW_CHECK(connection->execute(mode == "wal" ? "PRAGMA synchronous = NORMAL" : "PRAGMA synchronous = FULL"));
  LW_CHECK(connection->execute("PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY;"
                               "PRAGMA journal_size_limit = 67108864"));
  LW_TRY(std::int64_t version, connection->query_int("PRAGMA user_version"));
  if (version < current_schema_version()) LW_CHECK(migrate(*connection, list_migrations()));
  connection->access = "read and write";
  return connection;
}

Result<std::shared_ptr<Connection>> open_for_reading(const std::string& path, std::int64_t busy_timeout_ms,
                                                     bool check) {
  LW_CHECK(check_header(path));
  LW_TRY(auto connection, open_as_allowed(path, busy_timeout_ms));
  LW_CHECK(check_identity(*connection));
  if (check) LW_CHECK(run_quick_check(*connection));
  LW_TRY(std::int64_t version, connection->query_int("PRAGMA user_version"));
  if (version < current_schema_version()) {
    LW_TRY(auto copy, Connection::open(path, Connection::Mode::memory, 0));
    LW_CHECK(copy->copy_from(*connection));
    LW_CHECK(migrate(*copy, list_migrations()));
    copy->access = "memory copy";
    connection = copy;
  }
  LW_CHECK(connection->execute("PRAGMA query_only = ON"));
  return connection;
}

}  // namespace loopwright::db
