// Opening files: telling ours from others, making them, bringing old ones up to date.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "db/sqlite.h"

namespace loopwright::db {

inline constexpr std::int64_t kApplicationId = 0x4C574442;  // "LWDB"

struct Migration {
  int version;  ///< user_version after it ran
  const char* name;
  const char* sql;
};
/// In order, from version 1 without a gap.
std::span<const Migration> list_migrations();
int current_schema_version();

/// Runs in one transaction the migrations that the file does not have yet. db_newer when it has more than there are.
Status migrate(Connection& connection, std::span<const Migration> migrations);

/// Makes the file when there is none. The caller holds the writer's lock.
Status create_file_locked(const std::string& path);

/// Looks at the first bytes: not_found, db_foreign (no SQLite file, or another program's), db_corrupt (truncated).
Status check_header(const std::string& path);

/// For the writer, who holds the lock: journal mode as the disk allows, migrated, quick_check when `check`.
Result<std::shared_ptr<Connection>> open_for_writing(const std::string& path, std::int64_t busy_timeout_ms, bool check);
/// Read only; in a read-only folder without locks, or from a private copy; older schemas through a migrated copy in
/// memory.
Result<std::shared_ptr<Connection>> open_for_reading(const std::string& path, std::int64_t busy_timeout_ms, bool check);

}  // namespace loopwright::db
