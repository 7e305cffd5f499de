#include "db/doctor.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "db/file_lock.h"
#include "db/file_system.h"
#include "db/query.h"
#include "db/storage.h"
#include "db/store.h"

namespace loopwright::db {

namespace {

constexpr std::size_t kShownProblems = 10;

class Checkup {
 public:
  Checkup(Connection& connection, const std::string& path) : connection_(connection), path_(path) {}

  Result<CheckReport> run() {
    LW_CHECK(check_schema());
    LW_CHECK(check_integrity());
    LW_CHECK(check_foreign_keys());
    LW_CHECK(check_digests());
    LW_CHECK(check_range_symbols());
    LW_CHECK(check_artifacts());
    LW_CHECK(check_orphans());
    LW_CHECK(check_runs());
    check_file_system();
    check_permissions();
    return std::move(report_);
  }

 private:
  void add(Severity severity, std::string check, std::string detail) {
    report_.findings.push_back({severity, std::move(check), std::move(detail)});
  }

  Status check_schema() {
    LW_TRY(std::int64_t version, connection_.query_int("PRAGMA user_version"));
    add(Severity::fine, "schema", "version " + std::to_string(version) + ", read as: " + connection_.access);
    if (connection_.access == "memory copy") {
      add(Severity::note, "schema", "the file has an older version; the next tuning run brings it up to date");
    }
    return Unit{};
  }

  Status check_integrity() {
    LW_TRY(Statement statement, connection_.prepare("PRAGMA integrity_check(20)"));
    std::size_t problems = 0;
    while (true) {
      auto row = statement.step();
      if (!row.ok()) {
        add(Severity::damage, "integrity", row.error().found);
        return Unit{};
      }
      if (!*row) break;
      std::string verdict = statement.read_text();
      if (verdict == "ok") continue;
      ++problems;
      add(Severity::damage, "integrity", verdict);
    }
    if (problems == 0) add(Severity::fine, "integrity", "SQLite finds nothing wrong");
    return Unit{};
  }

  Status check_foreign_keys() {
    LW_TRY(Statement statement, connection_.prepare("SELECT \"table\", coalesce(rowid, 0), \"parent\" FROM "
                                                    "pragma_foreign_key_check"));
    std::size_t problems = 0;
    while (true) {
      auto row = statement.step();
      if (!row.ok()) return note_damage("foreign_keys", row.error());
      if (!*row) break;
      std::string table = statement.read_text();
      std::int64_t id = statement.read_int();
      std::string parent = statement.read_text();
      if (++problems > kShownProblems) continue;
      add(Severity::damage, "foreign_keys", table + " row " + std::to_string(id) + " refers to a " + parent +
                                                " that is not there");
    }
    if (problems == 0) add(Severity::fine, "foreign_keys", "every reference leads somewhere");
    return Unit{};
  }

  template <std::size_t kIndex = 0>
  Status check_digests() {
    if constexpr (kIndex == std::variant_size_v<AnyRow>) {
      if (!digest_problems_) add(Severity::fine, "digests", std::to_string(digests_) + " recomputed, all fit");
    } else {
      using Row = std::variant_alternative_t<kIndex, AnyRow>;
      std::string table(Fields<Row>::kTable);
      LW_TRY(Statement statement, connection_.prepare("SELECT " + select_columns<Row>() + " FROM " + table + " t"));
      while (true) {
        auto there = statement.step();
        if (!there.ok()) {
          digest_problems_ = true;
          add(Severity::damage, "digests", table + ": " + there.error().found);
          break;
        }
        if (!*there) break;
        Row row;
        ++digests_;
        if (read_row(statement, row)) continue;
        digest_problems_ = true;
        add(Severity::damage, "digests", table + " `" + row.digest + "`: content does not fit; the row is not used");
      }
      LW_CHECK(check_digests<kIndex + 1>());
    }
    return Unit{};
  }

  Status check_range_symbols() {
    auto ranges = select_rows<RangeRow>(connection_, "");
    if (!ranges.ok()) return note_damage("digests", ranges.error());
    LW_TRY(Statement statement, connection_.prepare("SELECT s.name, s.lo, s.hi, s.multiple_of FROM range_symbol s JOIN "
                                                    "range r ON r.id = s.range_id WHERE r.digest = ? ORDER BY s.name"));
    for (const RangeRow& range : *ranges) {
      statement.bind(range.digest);
      std::vector<SymbolGuard> stored;
      while (true) {
        auto there = statement.step();
        if (!there.ok()) return note_damage("digests", there.error());
        if (!*there) break;
        SymbolGuard symbol;
        symbol.name = statement.read_text();
        symbol.lo = statement.read_int();
        symbol.hi = statement.read_int();
        symbol.multiple_of = statement.read_int();
        stored.push_back(std::move(symbol));
      }
      statement.reset();
      if (stored != range.guard.symbols) {
        add(Severity::damage, "digests", "range_symbol of range `" + range.digest + "` does not fit its guard");
      }
    }
    return Unit{};
  }

  Status check_artifacts() {
    LW_TRY(Statement statement, connection_.prepare("SELECT DISTINCT digest FROM artifact"));
    std::int64_t good = 0, bad = 0, foreign = 0;
    while (true) {
      auto there = statement.step();
      if (!there.ok()) return note_damage("artifacts", there.error());
      if (!*there) break;
      auto stored = read_stored_artifact(connection_, statement.read_text());
      auto image = stored.ok() ? unpack_image(*stored, path_) : Result<std::vector<std::uint8_t>>(stored.error());
      auto artifact = image.ok() ? Artifact::from_parts(stored->header, *image) : Result<Artifact>(image.error());
      if (stored.ok() && !stored->row.origin.empty()) ++foreign;
      artifact.ok() ? ++good : ++bad;
      if (!artifact.ok()) add(Severity::damage, "artifacts", artifact.error().message());
    }
    if (bad == 0) add(Severity::fine, "artifacts", std::to_string(good) + " unpack and fit their digests");
    if (foreign > 0) {
      add(Severity::note, "artifacts", std::to_string(foreign) + " were built elsewhere and load only when allowed");
    }
    return Unit{};
  }

  Status check_orphans() {
    struct Orphan {
      const char* what;
      const char* sql;
    };
    static constexpr Orphan kOrphans[] = {
        {"ranges without a winner", "SELECT count(*) FROM range r WHERE NOT EXISTS (SELECT 1 FROM best b WHERE b.range_id "
                                    "= r.id)"},
        {"candidates never tried", "SELECT count(*) FROM candidate c WHERE NOT EXISTS (SELECT 1 FROM trial t WHERE "
                                   "t.candidate_id = c.id) AND NOT EXISTS (SELECT 1 FROM best b WHERE b.candidate_id = "
                                   "c.id)"},
        {"active winners without a binary", "SELECT count(*) FROM best b WHERE b.state = 'active' AND NOT EXISTS (SELECT 1 "
                                            "FROM artifact a WHERE a.candidate_id = b.candidate_id)"},
        {"active winners not verified here", "SELECT count(*) FROM best WHERE state = 'active' AND verified = 0"},
    };
    for (const Orphan& orphan : kOrphans) {
      auto count = connection_.query_int(orphan.sql);
      if (!count.ok()) return note_damage("orphans", count.error());
      add(*count == 0 ? Severity::fine : Severity::note, "orphans", std::to_string(*count) + " " + orphan.what);
    }
    return Unit{};
  }

  Status check_runs() {
    std::string holder = FileLock::describe_holder(path_);
    add(Severity::fine, "writer", holder.empty() ? "nobody writes" : "being written by " + holder);
    auto running = connection_.query_int("SELECT count(*) FROM run WHERE state = 'running'");
    if (!running.ok()) return note_damage("writer", running.error());
    if (*running > 0 && holder.empty()) {
      add(Severity::note, "writer", std::to_string(*running) + " runs were killed; `loopwright resume` goes on with them");
    }
    return Unit{};
  }

  void check_file_system() {
    FileSystem disk = find_file_system(path_);
    auto mode = connection_.query_text("PRAGMA journal_mode");
    std::string journal = mode.ok() ? *mode : "unknown";
    if (disk.is_network && journal == "wal") {
      add(Severity::warning, "file_system", disk.name + " is a network file system, where a write-ahead log is not safe: "
                             "open it once for writing while nobody reads, or copy it to a local disk");
    } else if (disk.is_network) {
      add(Severity::note, "file_system", disk.name + " is a network file system: journal mode " + journal +
                                             ", readers wait while a commit is written");
    } else {
      add(Severity::fine, "file_system", disk.name + ", journal mode " + journal);
    }
  }

  void check_permissions() {
    std::string folder = std::filesystem::path(path_).parent_path().string();
    if (folder.empty()) folder = ".";
    bool file = access(path_.c_str(), W_OK) == 0;
    bool beside = access(folder.c_str(), W_OK) == 0;
    if (file && beside) {
      add(Severity::fine, "permissions", "the file and its folder may be written");
    } else {
      add(Severity::note, "permissions", std::string(file ? "the folder" : "the file") +
                                             " may not be written: reading works, tuning into it does not");
    }
  }

  Status note_damage(const std::string& check, const Error& error) {
    add(Severity::damage, check, error.found);
    return Unit{};
  }

  Connection& connection_;
  const std::string& path_;
  CheckReport report_;
  std::int64_t digests_ = 0;
  bool digest_problems_ = false;
};

/// ` AND <condition>` of the options' device and age on a table with device_id and a time column.
std::string limit_to(const PruneOptions& options, const std::string& time_column) {
  std::string condition;
  if (!options.device.empty()) condition += " AND device_id = (SELECT id FROM device WHERE digest = :device)";
  if (options.older_than_ns > 0) condition += " AND " + time_column + " < " + std::to_string(options.older_than_ns);
  return condition;
}

Result<std::int64_t> remove_rows(Connection& connection, const std::string& sql, const PruneOptions& options) {
  LW_TRY(Statement statement, connection.prepare(sql));
  if (sql.find(":device") != std::string::npos) statement.bind(options.device);
  LW_CHECK(statement.run());
  return connection.changed_rows();
}

/// What an active best row, or a default that may serve, stands on.
const std::string kNeededCandidates =
    "(SELECT candidate_id FROM best UNION SELECT id FROM candidate WHERE is_default = 1)";

Result<PruneReport> remove_all(Connection& connection, const PruneOptions& options) {
  PruneReport report;
  std::string states;
  for (BestState state : options.states) {
    if (state == BestState::active && options.device.empty() && options.older_than_ns == 0) continue;
    states += (states.empty() ? "'" : ", '") + std::string(name(state)) + "'";
  }
  if (!states.empty()) {
    LW_TRY(report.best, remove_rows(connection, "DELETE FROM best WHERE state IN (" + states + ")" +
                                                    limit_to(options, "updated_ns"), options));
  }
  if (options.trials) {
    LW_TRY(report.verifications, remove_rows(connection, "DELETE FROM verification WHERE candidate_id NOT IN " +
                                                             kNeededCandidates + limit_to(options, "created_ns"),
                                             options));
    LW_TRY(report.trials, remove_rows(connection, "DELETE FROM trial WHERE candidate_id NOT IN " + kNeededCandidates +
                                                      limit_to(options, "created_ns"), options));
  }
  if (options.artifacts) {
    std::string age;
    if (options.older_than_ns > 0) age = " AND created_ns < " + std::to_string(options.older_than_ns);
    LW_TRY(report.artifacts, remove_rows(connection, "DELETE FROM artifact WHERE candidate_id NOT IN " +
                                                         kNeededCandidates + age, options));
  }
  if (!states.empty() || options.trials) {
    LW_TRY(report.candidates,
           remove_rows(connection, "DELETE FROM candidate WHERE id NOT IN " + kNeededCandidates +
                                       " AND id NOT IN (SELECT candidate_id FROM trial) AND id NOT IN (SELECT "
                                       "candidate_id FROM verification) AND id NOT IN (SELECT candidate_id FROM artifact)",
                       options));
  }
  return report;
}

}  // namespace

std::string_view name(Severity severity) {
  switch (severity) {
    case Severity::fine: return "fine";
    case Severity::note: return "note";
    case Severity::warning: return "warning";
    case Severity::damage: return "damage";
  }
  return "";
}

bool CheckReport::is_damaged() const {
  return std::any_of(findings.begin(), findings.end(), [](const Finding& f) { return f.severity == Severity::damage; });
}

std::string CheckReport::text() const {
  std::ostringstream out;
  for (const Finding& finding : findings) {
    out << name(finding.severity) << "  " << finding.check << ": " << finding.detail << '\n';
  }
  return out.str();
}

Result<CheckReport> check_file(const std::string& path) {
  LW_TRY(auto connection, open_for_reading(path, 2000, false));
  return Checkup(*connection, path).run();
}

Result<PruneReport> prune_file(const std::string& path, const PruneOptions& options) {
  LW_CHECK(check_header(path));
  LW_TRY(auto lock, FileLock::take(path, "prune", 0));
  LW_TRY(auto connection, open_for_writing(path, 5000, true));
  LW_TRY(Transaction transaction, Transaction::begin(*connection));
  LW_TRY(PruneReport report, remove_all(*connection, options));
  if (options.dry_run) return report;
  LW_CHECK(bump_generation(*connection));
  LW_CHECK(transaction.commit());
  LW_TRY(std::int64_t pages_before, connection->query_int("PRAGMA page_count"));
  LW_CHECK(connection->execute("VACUUM"));
  LW_TRY(std::int64_t pages_after, connection->query_int("PRAGMA page_count"));
  LW_TRY(std::int64_t page_bytes, connection->query_int("PRAGMA page_size"));
  report.bytes_freed = (pages_before - pages_after) * page_bytes;
  return report;
}

}  // namespace loopwright::db
