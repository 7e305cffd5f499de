// What a person or a program reads on standard output and standard error.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "loopwright/base.h"

namespace loopwright::cli {

/// What a person reads and what a program gets: a time with its unit, and nanoseconds.
struct Cell {
  std::string text;
  nlohmann::json raw;
  Cell(std::string word) : text(word), raw(std::move(word)) {}  // NOLINT: implicit on purpose
  Cell(const char* word) : Cell(std::string(word)) {}           // NOLINT: implicit on purpose
  Cell(std::string shown, nlohmann::json value) : text(std::move(shown)), raw(std::move(value)) {}
};
Cell time_cell(double time_ns);
Cell count_cell(std::int64_t count);
/// Short for people, whole for programs.
Cell digest_cell(const std::string& digest);
Cell date_cell(std::int64_t unix_ns);
/// `1.25x`
Cell ratio_cell(double ratio);
/// A share of 1 as `2.5%`
Cell percent_cell(double share);

struct Column {
  std::string title;  ///< for people; empty: for programs alone
  std::string key;    ///< in JSON
  Column(std::string word) : title(word), key(std::move(word)) {}  // NOLINT: implicit on purpose
  Column(const char* word) : Column(std::string(word)) {}          // NOLINT: implicit on purpose
  Column(std::string shown, std::string name) : title(std::move(shown)), key(std::move(name)) {}
};

/// Columns are as wide as their widest cell; cells that read as numbers are aligned to the right.
class Table {
 public:
  explicit Table(std::vector<Column> header) : header_(std::move(header)) {}
  void add(std::vector<Cell> cells);
  /// At most `width` columns wide (0 = as wide as it is): the widest texts are cut, which `~` shows. Where little would be
  /// left of each, a line is a cell and its column's title.
  std::string text(int width) const;
  /// As wide as standard output, when that is a terminal.
  std::string text() const;
  /// One object a row, keyed by the header.
  nlohmann::json to_json() const;

 private:
  std::string list_cells(const std::vector<std::size_t>& shown, std::size_t width) const;

  std::vector<Column> header_;
  std::vector<std::vector<Cell>> rows_;
};

/// Three significant digits with a unit: `1.23 us`, `45.6 ms`.
std::string format_time(double time_ns);
/// `1.5 KiB`, `12 MiB`.
std::string format_bytes(std::int64_t bytes);
/// `2026-12-02 14:05:09` in UTC, `-` for zero.
std::string format_date(std::int64_t unix_ns);
std::string format_number(double value, int digits = 3);
std::string shorten_digest(const std::string& digest);
/// As a shell reads it back: in quotes where it holds anything that a shell would take apart.
std::string quote_for_shell(const std::string& word);

/// Text with what others wrote (a file, a database, an argument) for a terminal: `?` for all that could move its cursor.
std::string printable(std::string text);
/// Bytes that are no UTF-8 (of a file, of an argument) become U+FFFD: JSON has no other place for them.
std::string json_text(const nlohmann::json& value, int indent = -1);
/// To standard error. What cannot be written there is lost and stops nothing.
void write_stderr(const std::string& text);
/// To standard error, as text or as {"error": {...}}.
void print_error(const Error& error, bool json);
void print_json(const nlohmann::json& value);
/// A remark on standard error: a line of text, or {"note": ...}.
void print_note(const std::string& text, bool json);
struct TerminalSize {
  int columns = 0, rows = 0;  ///< 0 where there is no terminal
};
/// Of the terminal behind a descriptor; 80 by 24 where it does not say.
TerminalSize terminal_size(int descriptor);

}  // namespace loopwright::cli
