#include "src/cli/output.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>

namespace loopwright::cli {
namespace {

bool reads_as_number(const std::string& cell) {
  return !cell.empty() &&
         (std::isdigit(static_cast<unsigned char>(cell[0])) || cell[0] == '-' || cell[0] == '+');
}

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

std::string cut(const std::string& text, std::size_t width) {
  return text.size() > width ? text.substr(0, width - 1) + "~" : text;
}

}  // namespace

Cell time_cell(double time_ns) { return {format_time(time_ns), time_ns}; }
Cell count_cell(std::int64_t count) { return {std::to_string(count), count}; }
Cell digest_cell(const std::string& digest) { return {shorten_digest(digest), digest}; }
Cell date_cell(std::int64_t unix_ns) { return {format_date(unix_ns), unix_ns}; }
Cell ratio_cell(double ratio) { return {fmt::format("{:.2f}x", ratio), ratio}; }
Cell percent_cell(double share) { return {fmt::format("{:.1f}%", 100 * share), share}; }

TerminalSize terminal_size(int descriptor) {
  winsize size{};
  if (isatty(descriptor) == 0) return {};
  if (ioctl(descriptor, TIOCGWINSZ, &size) != 0) size = {};
  return {size.ws_col == 0 ? 80 : size.ws_col, size.ws_row == 0 ? 24 : size.ws_row};
}

void Table::add(std::vector<Cell> cells) {
  cells.resize(header_.size(), Cell(""));
  for (Cell& cell : cells) std::replace_if(cell.text.begin(), cell.text.end(), is_control, '?');
  rows_.push_back(std::move(cells));
}

std::string Table::text() const { return text(terminal_size(STDOUT_FILENO).columns); }

std::string Table::list_cells(const std::vector<std::size_t>& shown, std::size_t width) const {
  std::size_t titles = 0;
  for (const std::size_t c : shown) titles = std::max(titles, header_[c].title.size());
  std::string out;
  for (const auto& row : rows_) {
    if (!out.empty()) out += "\n";
    for (const std::size_t c : shown) out += cut(fmt::format("{:<{}} {}", header_[c].title, titles, row[c].text), width) + "\n";
  }
  return out;
}

std::string Table::text(int width_limit) const {
  constexpr std::size_t kGap = 2, kLeast = 8;
  std::vector<std::size_t> shown;
  for (std::size_t c = 0; c < header_.size(); ++c)
    if (!header_[c].title.empty()) shown.push_back(c);
  std::vector<std::size_t> width(header_.size(), 0);
  std::vector<bool> right(header_.size(), !rows_.empty());
  std::size_t all = kGap * (shown.size() - 1);
  for (const std::size_t c : shown) {
    width[c] = header_[c].title.size();
    for (const auto& row : rows_) {
      width[c] = std::max(width[c], row[c].text.size());
      if (!reads_as_number(row[c].text)) right[c] = false;
    }
    all += width[c];
  }
  while (width_limit > 0 && all > static_cast<std::size_t>(width_limit)) {
    const auto widest = std::max_element(width.begin(), width.end());
    if (*widest <= kLeast) break;
    --*widest;
    --all;
  }
  if (width_limit > 0 && all > static_cast<std::size_t>(width_limit)) return list_cells(shown, static_cast<std::size_t>(width_limit));
  std::string out;
  const auto add_line = [&](const auto& text_of) {
    std::string line;
    for (const std::size_t c : shown) {
      const std::string cell = cut(text_of(c), width[c]);
      line += right[c] ? fmt::format("{:>{}}", cell, width[c]) : fmt::format("{:<{}}", cell, width[c]);
      if (c != shown.back()) line += std::string(kGap, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  };
  add_line([&](std::size_t c) { return header_[c].title; });
  for (const auto& row : rows_) add_line([&](std::size_t c) { return row[c].text; });
  return out;
}

nlohmann::json Table::to_json() const {
  nlohmann::json rows = nlohmann::json::array();
  for (const auto& cells : rows_) {
    nlohmann::json row = nlohmann::json::object();
    for (std::size_t c = 0; c < cells.size(); ++c) row[header_[c].key] = cells[c].raw;
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

std::string quote_for_shell(const std::string& word) {
  const auto is_plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || std::strchr("/._-+:=@%,", c) != nullptr; };
  if (!word.empty() && std::all_of(word.begin(), word.end(), is_plain)) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string printable(std::string text) {
  std::replace_if(text.begin(), text.end(), [](char c) { return c != '\n' && is_control(c); }, '?');
  return text;
}

std::string json_text(const nlohmann::json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

void write_stderr(const std::string& text) {
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), stderr));
}

void print_error(const Error& error, bool json) {
  if (json) {
    const nlohmann::json value = {{"error",
                                   {{"code", std::string(name(error.code))},
                                    {"asked", error.asked},
                                    {"found", error.found},
                                    {"where", error.where},
                                    {"works", error.works}}}};
    write_stderr(json_text(value) + "\n");
  } else {
    write_stderr("loopwright: " + printable(error.message()) + "\n");
  }
}

void print_note(const std::string& text, bool json) {
  write_stderr((json ? json_text({{"note", text}}) : printable(text)) + "\n");
}

void print_json(const nlohmann::json& value) { fmt::print("{}\n", json_text(value, 2)); }

}  // namespace loopwright::cli
