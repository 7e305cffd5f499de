// SQLite behind three small types. sqlite.cpp is the only file that includes sqlite3.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "loopwright/base.h"

namespace loopwright::db {

class Connection;

/// A prepared statement. Binds are positional, in order; columns are read in order after `step` says there is a row.
/// A failed bind is reported by the next `step`; a column of the wrong type makes the row `is_damaged`.
class Statement {
 public:
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&& other) noexcept;
  ~Statement();

  Statement& bind(std::int64_t value);
  Statement& bind(int value) { return bind(std::int64_t{value}); }
  Statement& bind(bool value) { return bind(std::int64_t{value ? 1 : 0}); }
  Statement& bind(double value);
  Statement& bind(std::string_view text);
  Statement& bind(const std::string& text) { return bind(std::string_view(text)); }
  Statement& bind(const char* text) { return bind(std::string_view(text)); }
  Statement& bind(std::optional<std::int64_t> value);
  Statement& bind_blob(std::span<const std::uint8_t> bytes);
  Statement& bind_null();

  /// True when there is a row.
  Result<bool> step();
  /// For statements without rows.
  Status run();
  void reset();

  std::int64_t read_int();
  double read_double();
  std::string read_text();
  bool read_bool() { return read_int() != 0; }
  std::vector<std::uint8_t> read_blob();
  /// Empty for NULL.
  std::string read_optional_text();
  /// True once, when a column read since the last call did not have the type that its table promises.
  bool is_damaged();

 private:
  friend class Connection;
  Statement(Connection* connection, void* handle, bool cached);
  Connection* connection_ = nullptr;
  void* handle_ = nullptr;
  bool cached_ = false;
  int next_bind_ = 1;
  int next_column_ = 0;
  int failure_ = 0;
};

/// An open file. Not to be used from two threads at once.
class Connection {
 public:
  enum class Mode : std::uint8_t {
    read_only,
    immutable,  ///< read only, and promises that nobody writes: needs neither locks nor files beside the database
    read_write,
    create,
    memory,
  };
  static Result<std::shared_ptr<Connection>> open(const std::string& path, Mode mode, std::int64_t busy_timeout_ms);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Runs any number of statements, ignoring rows.
  Status execute(std::string_view sql);
  /// Prepares; the compiled statement is kept for the next call with the same text.
  Result<Statement> prepare(std::string_view sql);
  /// First column of the first row of a statement without parameters.
  Result<std::int64_t> query_int(std::string_view sql);
  Result<std::string> query_text(std::string_view sql);
  std::int64_t last_row_id() const;
  std::int64_t changed_rows() const;
  bool in_transaction() const;
  /// Copies the whole content of `source` into this connection.
  Status copy_from(Connection& source);

  const std::string& path() const { return path_; }
  Mode mode() const { return mode_; }
  /// What `info` calls the access; set by the read side when it had to fall back.
  std::string access = "read only";
  /// Rows left out of answers because their content did not fit their digest.
  std::int64_t damaged_rows = 0;
  /// A folder with a private copy, removed with the connection; empty for none.
  std::string private_folder;

  /// The SQLite result code as an Error that names this file.
  Error make_error(int code, std::string_view asked) const;

 private:
  friend class Statement;
  Connection() = default;
  void* handle_ = nullptr;
  std::string path_;
  Mode mode_ = Mode::read_only;
  std::unordered_map<std::string, void*> free_statements_;
};

/// BEGIN IMMEDIATE ... COMMIT; rolls back when destroyed uncommitted. Within another transaction it does nothing.
class Transaction {
 public:
  static Result<Transaction> begin(Connection& connection);
  Transaction(Transaction&& other) noexcept;
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();
  Status commit();

 private:
  Transaction(Connection* connection, bool outermost) : connection_(connection), outermost_(outermost) {}
  Connection* connection_;
  bool outermost_;
};

}  // namespace loopwright::db
