#include "src/cli/output.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

namespace loopwright::cli {
namespace {

bool reads_as_number(const std::string& cell) {
  return !cell.empty() &&
         (std::isdigit(static_cast<unsigned char>(cell[0])) || cell[0] == '-' || cell[0] == '+');
}

}  // namespace

void Table::add(std::vector<std::string> cells) {
  cells.resize(rows_.front().size());
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  const std::size_t columns = rows_.front().size();
  std::vector<std::size_t> width(columns, 0);
  std::vector<bool> right(columns, rows_.size() > 1);
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    for (std::size_t c = 0; c < columns; ++c) {
      width[c] = std::max(width[c], rows_[r][c].size());
      if (r > 0 && !reads_as_number(rows_[r][c])) right[c] = false;
    }
  }
  std::string out;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t c = 0; c < columns; ++c) {
      const std::string gap = c + 1 < columns ? "  " : "";
      line += right[c] ? fmt::format("{:>{}}{}", row[c], width[c], gap)
                       : fmt::format("{:<{}}{}", row[c], width[c], gap);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

nlohmann::json Table::to_json() const {
  nlohmann::json rows = nlohmann::json::array();
  for (std::size_t r = 1; r < rows_.size(); ++r) {
    nlohmann::json row = nlohmann::json::object();
    for (std::size_t c = 0; c < rows_[r].size(); ++c) row[rows_.front()[c]] = rows_[r][c];
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string format_number(double value, int digits) {
  if (value == 0 || !std::isfinite(value)) return fmt::format("{}", value);
  const int exponent = static_cast<int>(std::floor(std::log10(std::fabs(value))));
  return fmt::format("{:.{}f}", value, std::max(0, digits - 1 - exponent));
}

std::string format_time(double time_ns) {
  if (time_ns <= 0) return "-";
  if (time_ns < 1e3) return format_number(time_ns) + " ns";
  if (time_ns < 1e6) return format_number(time_ns / 1e3) + " us";
  if (time_ns < 1e9) return format_number(time_ns / 1e6) + " ms";
  return format_number(time_ns / 1e9) + " s";
}

std::string format_bytes(std::int64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) value /= 1024, ++unit;
  return unit == 0 ? fmt::format("{} B", bytes) : format_number(value) + " " + kUnits[unit];
}

std::string format_date(std::int64_t unix_ns) {
  if (unix_ns == 0) return "-";
  const std::time_t seconds = unix_ns / 1'000'000'000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &utc);
  return text.data();
}

std::string shorten_digest(const std::string& digest) { return digest.substr(0, 8); }

void print_error(const Error& error, bool json) {
  if (json) {
    const nlohmann::json value = {{"error",
                                   {{"code", std::string(name(error.code))},
                                    {"asked", error.asked},
                                    {"found", error.found},
                                    {"where", error.where},
                                    {"works", error.works}}}};
    fmt::print(stderr, "{}\n", value.dump());
  } else {
    fmt::print(stderr, "loopwright: {}\n", error.message());
  }
}

void print_json(const nlohmann::json& value) { fmt::print("{}\n", value.dump(2)); }

}  // namespace loopwright::cli
