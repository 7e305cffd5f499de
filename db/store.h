// Rows to SQL and back, from the lists in fields.h.
#pragma once

#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "db/canonical.h"
#include "db/fields.h"
#include "db/sqlite.h"

namespace loopwright::db {

// Samples are stored as they lie in memory.
static_assert(std::endian::native == std::endian::little);

struct WriteNames {
  std::string columns, values, assignments;
  void add(const std::string& column, const std::string& value) {
    columns += ", " + column;
    values += ", " + value;
    assignments += (assignments.empty() ? "" : ", ") + column + " = excluded." + column;
  }
  template <class Value>
  void operator()(const Column& column, const Value&) {
    add(std::string(column.name), "?");
  }
  void operator()(const Reference& reference, const Digest&) {
    add(std::string(reference.name) + "_id",
        "(SELECT id FROM " + std::string(reference.table) + " WHERE digest = ?)");
  }
};

struct SelectNames {
  std::string columns;
  template <class Value>
  void operator()(const Column& column, const Value&) {
    columns += ", t." + std::string(column.name);
  }
  void operator()(const Reference& reference, const Digest&) {
    columns += ", (SELECT digest FROM " + std::string(reference.table) + " x WHERE x.id = t." +
               std::string(reference.name) + "_id)";
  }
};

/// Binds every field; `bad` names the first whose value may not be stored.
struct BindFields {
  Statement& statement;
  std::string bad;
  template <class Value>
  void operator()(const Column& column, const Value& value) {
    if constexpr (std::is_same_v<Value, double>) {
      if (!std::isfinite(value) && bad.empty()) bad = std::string(column.name);
      statement.bind(value);
    } else if constexpr (std::is_same_v<Value, Guard>) {
      statement.bind(value.text());
    } else if constexpr (std::is_same_v<Value, Bindings>) {
      statement.bind(write_bindings(value));
    } else if constexpr (std::is_same_v<Value, std::vector<double>>) {
      for (double sample : value) {
        if (!std::isfinite(sample) && bad.empty()) bad = std::string(column.name);
      }
      std::vector<std::uint8_t> bytes(value.size() * sizeof(double));
      if (!value.empty()) std::memcpy(bytes.data(), value.data(), bytes.size());
      statement.bind_blob(bytes);
    } else if constexpr (std::is_same_v<Value, ErrorCode> || std::is_same_v<Value, std::uint64_t>) {
      statement.bind(static_cast<std::int64_t>(value));
    } else if constexpr (std::is_enum_v<Value>) {
      statement.bind(name(value));
    } else {
      statement.bind(value);
    }
  }
  void operator()(const Reference&, const Digest& digest) {
    if (digest.empty()) {
      statement.bind_null();
    } else {
      statement.bind(digest);
    }
  }
};

/// Reads every field; `fine` is false when one has a value that the write side cannot have stored.
struct ReadFields {
  Statement& statement;
  bool fine = true;
  template <class Value>
  void operator()(const Column&, Value& value) {
    if constexpr (std::is_same_v<Value, double>) {
      value = statement.read_double();
    } else if constexpr (std::is_same_v<Value, std::string>) {
      value = statement.read_text();
    } else if constexpr (std::is_same_v<Value, bool>) {
      value = statement.read_bool();
    } else if constexpr (std::is_same_v<Value, Guard>) {
      set_parsed(value, Guard::parse(statement.read_text()));
    } else if constexpr (std::is_same_v<Value, Bindings>) {
      set_parsed(value, parse_bindings(statement.read_text()));
    } else if constexpr (std::is_same_v<Value, std::vector<double>>) {
      std::vector<std::uint8_t> bytes = statement.read_blob();
      fine = fine && bytes.size() % sizeof(double) == 0;
      value.resize(bytes.size() / sizeof(double));
      if (!value.empty()) std::memcpy(value.data(), bytes.data(), value.size() * sizeof(double));
    } else if constexpr (std::is_same_v<Value, Outcome>) {
      set_named(value, parse_outcome(statement.read_text()));
    } else if constexpr (std::is_same_v<Value, Rigor>) {
      set_named(value, parse_rigor(statement.read_text()));
    } else if constexpr (std::is_same_v<Value, BestState>) {
      set_named(value, parse_best_state(statement.read_text()));
    } else if constexpr (std::is_same_v<Value, RunState>) {
      set_named(value, parse_run_state(statement.read_text()));
    } else {
      value = static_cast<Value>(statement.read_int());
    }
  }
  void operator()(const Reference& reference, Digest& digest) {
    digest = statement.read_optional_text();
    fine = fine && (reference.optional || !digest.empty());
  }
  template <class Value>
  void set_parsed(Value& value, Result<Value> parsed) {
    fine = fine && parsed.ok();
    if (parsed.ok()) value = *std::move(parsed);
  }
  template <class Value>
  void set_named(Value& value, std::optional<Value> parsed) {
    fine = fine && parsed.has_value();
    if (parsed) value = *parsed;
  }
};

/// `INSERT ... ` up to and without its conflict clause. Assignments for a `DO UPDATE SET` come second.
template <class Row>
const WriteNames& insert_names() {
  static const WriteNames names = [] {
    WriteNames made;
    Row row;
    Fields<Row>::each(row, made);
    return made;
  }();
  return names;
}

/// Which rows `row` refers to that the file does not have: the first as `table digest`; empty when all are there.
struct FindMissing {
  Connection& connection;
  std::string missing;
  template <class Value>
  void operator()(const Column&, const Value&) {}
  void operator()(const Reference& reference, const Digest& digest) {
    if (!missing.empty() || (reference.optional && digest.empty())) return;
    auto statement =
        connection.prepare("SELECT 1 FROM " + std::string(reference.table) + " WHERE digest = ?");
    if (!statement.ok()) return;
    auto row = statement->bind(digest).step();
    if (row.ok() && !*row) missing = std::string(reference.table) + " `" + digest + "`";
  }
};

/// Inserts; `conflict` is an ON CONFLICT clause or empty. The row's digest is stored as it is.
template <class Row>
Status insert_row(Connection& connection, const Row& row, std::string_view conflict) {
  const WriteNames& names = insert_names<Row>();
  std::string table(Fields<Row>::kTable);
  LW_TRY(Statement statement,
         connection.prepare("INSERT INTO " + table + "(digest" + names.columns + ") VALUES (?" +
                            names.values + ") " + std::string(conflict)));
  statement.bind(row.digest);
  BindFields bind{statement, {}};
  Fields<Row>::each(row, bind);
  if (!bind.bad.empty()) {
    return Error{ErrorCode::bad_argument, "store a row of `" + table + "`",
                 bind.bad + " is not a finite number", connection.path(),
                 "finite numbers; leave out what was not measured"};
  }
  Status stored = statement.run();
  if (stored.ok()) return stored;
  FindMissing find{connection, {}};
  Fields<Row>::each(row, find);
  if (find.missing.empty()) return stored;
  return Error{ErrorCode::not_found, "store a row of `" + table + "`", "no " + find.missing,
               connection.path(), "add that row first"};
}

template <class Row>
const std::string& select_columns() {
  static const std::string columns = [] {
    SelectNames made;
    Row row;
    Fields<Row>::each(row, made);
    return "t.digest" + made.columns;
  }();
  return columns;
}

/// Reads the columns of `select_columns`. False when the row is damaged: types, lists or digest do not fit.
template <class Row>
bool read_row(Statement& statement, Row& row) {
  row.digest = statement.read_text();
  ReadFields read{statement};
  Fields<Row>::each(row, read);
  bool damaged = statement.is_damaged();
  return read.fine && !damaged && fits_digest(row);
}

/// What a prepared and bound SELECT of select_columns<Row> gives. Damaged rows are left out and counted.
template <class Row>
Result<std::vector<Row>> read_rows(Connection& connection, Statement& statement) {
  std::vector<Row> rows;
  while (true) {
    LW_TRY(bool there, statement.step());
    if (!there) return rows;
    Row row;
    if (read_row(statement, row)) {
      rows.push_back(std::move(row));
    } else {
      ++connection.damaged_rows;
    }
  }
}

/// All rows that fit `rest` (FROM is given: the table as `t`; joins, WHERE, ORDER BY follow). Damaged rows are left out
/// and counted.
template <class Row, class... Values>
Result<std::vector<Row>> select_rows(Connection& connection, const std::string& rest,
                                     const Values&... values) {
  LW_TRY(Statement statement, connection.prepare("SELECT " + select_columns<Row>() + " FROM " +
                                                 std::string(Fields<Row>::kTable) + " t " + rest));
  (statement.bind(values), ...);
  return read_rows<Row>(connection, statement);
}

/// The row with this digest; not_found, or db_corrupt when it is there but damaged.
template <class Row>
Result<Row> select_row(Connection& connection, const Digest& digest) {
  std::int64_t damaged_before = connection.damaged_rows;
  LW_TRY(auto rows, select_rows<Row>(connection, "WHERE t.digest = ?", digest));
  if (!rows.empty()) return std::move(rows.front());
  std::string table(Fields<Row>::kTable);
  if (connection.damaged_rows != damaged_before) {
    return Error{ErrorCode::db_corrupt, "read a row of `" + table + "`",
                 "`" + digest + "` does not fit its digest", connection.path(),
                 "`loopwright db doctor` lists what is damaged"};
  }
  return Error{ErrorCode::not_found, "read a row of `" + table + "`", "no `" + digest + "`",
               connection.path(), "`loopwright db list` shows what there is"};
}

/// Tells readers that what is served may have changed.
Status bump_generation(Connection& connection);
/// Replaces the row of the same range, device, toolchain and policy.
Status replace_best(Connection& connection, const BestRow& row);
/// The rows of range_symbol that belong to a guard.
Status store_range_symbols(Connection& connection, const Digest& range, const Guard& guard);

struct StoredArtifact {
  ArtifactRow row;
  std::string header;
  std::vector<std::uint8_t> compressed;  ///< zstd
};
/// Replaces the artifact of the same candidate, toolchain and target.
Status replace_artifact(Connection& connection, const StoredArtifact& artifact);
/// The row with the bytes; not_found.
Result<StoredArtifact> read_stored_artifact(Connection& connection, const Digest& digest);
/// Decompresses and compares with the digest: db_corrupt.
Result<std::vector<std::uint8_t>> unpack_image(const StoredArtifact& artifact, const std::string& path);

}  // namespace loopwright::db
