#include "db/sqlite.h"

#include <sqlite3.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "db/sqlite_error.h"

namespace loopwright::db {

namespace {

sqlite3* as_sqlite(void* handle) { return static_cast<sqlite3*>(handle); }
sqlite3_stmt* as_statement(void* handle) { return static_cast<sqlite3_stmt*>(handle); }

}  // namespace

// ---------------------------------------------------------------- Statement

Statement::Statement(Connection* connection, void* handle, bool cached)
    : connection_(connection), handle_(handle), cached_(cached) {}

Statement::Statement(Statement&& other) noexcept { *this = std::move(other); }

Statement& Statement::operator=(Statement&& other) noexcept {
  std::swap(connection_, other.connection_);
  std::swap(handle_, other.handle_);
  std::swap(cached_, other.cached_);
  std::swap(next_bind_, other.next_bind_);
  std::swap(next_column_, other.next_column_);
  std::swap(failure_, other.failure_);
  return *this;
}

Statement::~Statement() {
  if (handle_ == nullptr) return;
  sqlite3_reset(as_statement(handle_));
  sqlite3_clear_bindings(as_statement(handle_));
  const char* sql = sqlite3_sql(as_statement(handle_));
  if (cached_ && sql != nullptr && connection_->free_statements_.emplace(sql, handle_).second) return;
  sqlite3_finalize(as_statement(handle_));
}

Statement& Statement::bind(std::int64_t value) {
  if (int code = sqlite3_bind_int64(as_statement(handle_), next_bind_++, value)) failure_ = code;
  return *this;
}

Statement& Statement::bind(double value) {
  if (int code = sqlite3_bind_double(as_statement(handle_), next_bind_++, value)) failure_ = code;
  return *this;
}

Statement& Statement::bind(std::string_view text) {
  int code = sqlite3_bind_text64(as_statement(handle_), next_bind_++, text.empty() ? "" : text.data(), text.size(),
                                 SQLITE_TRANSIENT, SQLITE_UTF8);
  if (code != SQLITE_OK) failure_ = code;
  return *this;
}

Statement& Statement::bind(std::optional<std::int64_t> value) { return value ? bind(*value) : bind_null(); }

Statement& Statement::bind_blob(std::span<const std::uint8_t> bytes) {
  // An empty vector's data may be null, which SQLite would store as NULL.
  int code = bytes.empty()
                 ? sqlite3_bind_zeroblob(as_statement(handle_), next_bind_++, 0)
                 : sqlite3_bind_blob64(as_statement(handle_), next_bind_++, bytes.data(), bytes.size(), SQLITE_TRANSIENT);
  if (code != SQLITE_OK) failure_ = code;
  return *this;
}

Statement& Statement::bind_null() {
  if (int code = sqlite3_bind_null(as_statement(handle_), next_bind_++)) failure_ = code;
  return *this;
}

Result<bool> Statement::step() {
  if (failure_ != 0) return connection_->make_error(failure_, "run a statement");
  next_column_ = 0;
  errno = 0;  // see make_error
  int code = sqlite3_step(as_statement(handle_));
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  const char* sql = sqlite3_sql(as_statement(handle_));
  std::string first_words(sql != nullptr ? sql : "a statement");
  if (first_words.size() > 60) first_words = first_words.substr(0, 60) + "...";
  return connection_->make_error(code, "run `" + first_words + "`");
}

Status Statement::run() {
  while (true) {
    LW_TRY(bool row, step());
    if (!row) break;
  }
  reset();
  return Unit{};
}

void Statement::reset() {
  sqlite3_reset(as_statement(handle_));
  sqlite3_clear_bindings(as_statement(handle_));
  next_bind_ = 1;
  next_column_ = 0;
}

// STRICT tables hold no value of another type, so finding one means that bytes were damaged.
std::int64_t Statement::read_int() {
  int column = next_column_++;
  if (sqlite3_column_type(as_statement(handle_), column) != SQLITE_INTEGER) failure_ = SQLITE_CORRUPT;
  return sqlite3_column_int64(as_statement(handle_), column);
}

double Statement::read_double() {
  int column = next_column_++;
  int type = sqlite3_column_type(as_statement(handle_), column);
  if (type != SQLITE_FLOAT && type != SQLITE_INTEGER) failure_ = SQLITE_CORRUPT;
  return sqlite3_column_double(as_statement(handle_), column);
}

std::string Statement::read_text() {
  int column = next_column_++;
  if (sqlite3_column_type(as_statement(handle_), column) != SQLITE_TEXT) {
    failure_ = SQLITE_CORRUPT;
    return {};
  }
  const auto* text = sqlite3_column_text(as_statement(handle_), column);
  int bytes = sqlite3_column_bytes(as_statement(handle_), column);
  if (text == nullptr) failure_ = SQLITE_NOMEM;
  return text == nullptr ? std::string() : std::string(reinterpret_cast<const char*>(text), bytes);
}

std::string Statement::read_optional_text() {
  if (sqlite3_column_type(as_statement(handle_), next_column_) == SQLITE_NULL) {
    ++next_column_;
    return {};
  }
  return read_text();
}

std::vector<std::uint8_t> Statement::read_blob() {
  int column = next_column_++;
  if (sqlite3_column_type(as_statement(handle_), column) != SQLITE_BLOB) {
    failure_ = SQLITE_CORRUPT;
    return {};
  }
  const auto* data = static_cast<const std::uint8_t*>(sqlite3_column_blob(as_statement(handle_), column));
  int bytes = sqlite3_column_bytes(as_statement(handle_), column);
  return data == nullptr ? std::vector<std::uint8_t>() : std::vector<std::uint8_t>(data, data + bytes);
}

bool Statement::is_damaged() {
  bool damaged = failure_ == SQLITE_CORRUPT;
  if (damaged) failure_ = 0;
  return damaged;
}

// ---------------------------------------------------------------- Connection

namespace {

int open_flags(Connection::Mode mode) {
  switch (mode) {
    case Connection::Mode::read_only:
    case Connection::Mode::immutable: return SQLITE_OPEN_READONLY | SQLITE_OPEN_URI;
    case Connection::Mode::read_write: return SQLITE_OPEN_READWRITE | SQLITE_OPEN_URI;
    case Connection::Mode::create: return SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI;
    case Connection::Mode::memory: return SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_MEMORY;
  }
  return 0;
}

/// A file name as a URI, with every byte that has a meaning there escaped.
std::string make_uri(const std::string& path, Connection::Mode mode) {
  if (mode == Connection::Mode::memory) return ":memory:";
  static const char* kHex = "0123456789ABCDEF";
  std::string uri = "file:";
  for (char c : path) {
    auto byte = static_cast<unsigned char>(c);
    if (c == '%' || c == '?' || c == '#' || byte < 0x21 || byte > 0x7E) {
      uri += '%';
      uri += kHex[byte >> 4];
      uri += kHex[byte & 15];
    } else {
      uri += c;
    }
  }
  return mode == Connection::Mode::immutable ? uri + "?immutable=1" : uri;
}

}  // namespace

Result<std::shared_ptr<Connection>> Connection::open(const std::string& path, Mode mode,
                                                     std::int64_t busy_timeout_ms) {
  std::shared_ptr<Connection> connection(new Connection());
  connection->path_ = path;
  connection->mode_ = mode;
  std::string absolute = path;
  if (mode != Mode::memory) {
    std::error_code ignored;
    absolute = std::filesystem::absolute(path, ignored).string();
  }
  sqlite3* handle = nullptr;
  int code = sqlite3_open_v2(make_uri(absolute, mode).c_str(), &handle, open_flags(mode) | SQLITE_OPEN_NOMUTEX |
                             SQLITE_OPEN_EXRESCODE, nullptr);
  connection->handle_ = handle;
  if (code != SQLITE_OK) return connection->make_error(code, "open the database");
  sqlite3_busy_timeout(handle, static_cast<int>(busy_timeout_ms));
  // A file is data from somewhere: its schema may not call functions, and odd cells are noticed rather than followed.
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_exec(handle, "PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0", nullptr, nullptr, nullptr);
  return connection;
}

Connection::~Connection() {
  for (auto& [sql, statement] : free_statements_) sqlite3_finalize(as_statement(statement));
  free_statements_.clear();
  sqlite3_close_v2(as_sqlite(handle_));
  if (!private_folder.empty()) {
    std::error_code ignored;
    std::filesystem::remove_all(private_folder, ignored);
  }
}

Status Connection::execute(std::string_view sql) {
  errno = 0;  // see make_error
  int code = sqlite3_exec(as_sqlite(handle_), std::string(sql).c_str(), nullptr, nullptr, nullptr);
  if (code == SQLITE_OK) return Unit{};
  std::string first_words(sql.substr(0, 60));
  return make_error(code, "run `" + first_words + (sql.size() > 60 ? "...`" : "`"));
}

Result<Statement> Connection::prepare(std::string_view sql) {
  auto found = free_statements_.find(std::string(sql));
  if (found != free_statements_.end()) {
    void* handle = found->second;
    free_statements_.erase(found);
    return Statement(this, handle, true);
  }
  sqlite3_stmt* statement = nullptr;
  int code = sqlite3_prepare_v3(as_sqlite(handle_), sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT,
                                &statement, nullptr);
  if (code != SQLITE_OK) return make_error(code, "prepare `" + std::string(sql.substr(0, 60)) + "`");
  return Statement(this, statement, true);
}

Result<std::int64_t> Connection::query_int(std::string_view sql) {
  LW_TRY(Statement statement, prepare(sql));
  LW_TRY(bool row, statement.step());
  return row ? statement.read_int() : std::int64_t{0};
}

Result<std::string> Connection::query_text(std::string_view sql) {
  LW_TRY(Statement statement, prepare(sql));
  LW_TRY(bool row, statement.step());
  return row ? statement.read_text() : std::string();
}

std::int64_t Connection::last_row_id() const { return sqlite3_last_insert_rowid(as_sqlite(handle_)); }
std::int64_t Connection::changed_rows() const { return sqlite3_changes64(as_sqlite(handle_)); }
bool Connection::in_transaction() const { return sqlite3_get_autocommit(as_sqlite(handle_)) == 0; }

Status Connection::copy_from(Connection& source) {
  sqlite3_backup* backup = sqlite3_backup_init(as_sqlite(handle_), "main", as_sqlite(source.handle_), "main");
  if (backup == nullptr) return make_error(sqlite3_errcode(as_sqlite(handle_)), "copy the database");
  int code = sqlite3_backup_step(backup, -1);
  sqlite3_backup_finish(backup);
  if (code == SQLITE_DONE) return Unit{};
  return source.make_error(code, "copy the database");
}

Error Connection::make_error(int code, std::string_view asked) const {
  // A failed write deep inside a statement is reported without its errno, but that of the call is still there; it tells
  // a file that may not grow (quota, limit) from a broken disk.
  int system_error = (code & 0xFF) == SQLITE_IOERR ? errno : 0;
  sqlite3* handle = as_sqlite(handle_);
  std::string detail = sqlite3_errstr(code);
  if (handle != nullptr && sqlite3_extended_errcode(handle) == code) {
    detail = sqlite3_errmsg(handle);
    if (int noted = sqlite3_system_errno(handle)) system_error = noted;
  }
  return translate_sqlite_error(code, system_error, detail, path_, asked);
}

// ---------------------------------------------------------------- Transaction

Result<Transaction> Transaction::begin(Connection& connection) {
  if (connection.in_transaction()) return Transaction(&connection, false);
  LW_CHECK(connection.execute("BEGIN IMMEDIATE"));
  return Transaction(&connection, true);
}

Transaction::Transaction(Transaction&& other) noexcept
    : connection_(std::exchange(other.connection_, nullptr)), outermost_(other.outermost_) {}

Transaction::~Transaction() {
  // SQLite rolls back by itself after some errors (full disk); then there is nothing to do.
  if (connection_ != nullptr && outermost_ && connection_->in_transaction()) (void)connection_->execute("ROLLBACK");
}

Status Transaction::commit() {
  if (outermost_) LW_CHECK(connection_->execute("COMMIT"));
  connection_ = nullptr;
  return Unit{};
}

}  // namespace loopwright::db
