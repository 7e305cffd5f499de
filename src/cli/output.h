// What a person or a program reads on standard output and standard error.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "loopwright/base.h"

namespace loopwright::cli {

/// Columns are as wide as their widest cell; cells that read as numbers are aligned to the right.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}
  void add(std::vector<std::string> cells);
  std::string text() const;
  /// One object a row, keyed by the header.
  nlohmann::json to_json() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

/// Three significant digits with a unit: `1.23 us`, `45.6 ms`.
std::string format_time(double time_ns);
/// `1.5 KiB`, `12 MiB`.
std::string format_bytes(std::int64_t bytes);
/// `2026-12-02 14:05:09` in UTC, `-` for zero.
std::string format_date(std::int64_t unix_ns);
std::string format_number(double value, int digits = 3);
std::string shorten_digest(const std::string& digest);

/// To standard error, as text or as {"error": {...}}.
void print_error(const Error& error, bool json);
void print_json(const nlohmann::json& value);

}  // namespace loopwright::cli
