#include "src/cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <nlohmann/json.hpp>

#include "src/cli/output.h"

namespace loopwright::cli {
namespace {

constexpr double kPlainInterval_s = 10;
constexpr std::chrono::milliseconds kRedrawEvery{500};

std::string outcome_list(const TuneProgress& p) {
  std::string out;
  for (const auto& [outcome, count] : p.outcomes)
    if (count > 0) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", name(outcome), count);
  return out.empty() ? "none yet" : out;
}

std::string best_text(const TuneProgress& p) {
  if (p.best_ns <= 0)
    return p.default_ns > 0 ? "default " + format_time(p.default_ns) : "measuring the default";
  const double ratio = p.default_ns > 0 ? p.default_ns / p.best_ns : 1;
  return fmt::format("{} ({:.2f}x of the default's {})  {}", format_time(p.best_ns), ratio,
                     format_time(p.default_ns), p.best_label);
}

std::string clock_text(double seconds) {
  const auto s = static_cast<std::int64_t>(std::max(0.0, std::round(seconds)));
  return s >= 3600 ? fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
                   : fmt::format("{}:{:02}", s / 60, s % 60);
}

/// The share of the time that is gone, as long as there is room beside the clock; empty where there is hardly any.
std::string bar(const TuneProgress& p, std::size_t width) {
  constexpr std::size_t kClockWidth = 34, kMost = 30, kLeast = 6;
  if (width < kClockWidth + kLeast) return {};
  const auto length = static_cast<double>(std::min(width - kClockWidth, kMost));
  const double total = p.elapsed_s + p.left_s;
  const auto filled = static_cast<std::size_t>(std::lround(total > 0 ? p.elapsed_s / total * length : 0));
  return "[" + std::string(filled, '#') + std::string(static_cast<std::size_t>(length) - filled, '.') + "] ";
}

nlohmann::json to_json(const TuneProgress& p) {
  nlohmann::json outcomes = nlohmann::json::object();
  for (const auto& [outcome, count] : p.outcomes) outcomes[std::string(name(outcome))] = count;
  return {{"workload", p.workload},     {"index", p.workload_index}, {"count", p.workload_count},
          {"phase", p.phase},           {"trials", p.trials},        {"outcomes", outcomes},
          {"default_ns", p.default_ns}, {"best_ns", p.best_ns},      {"best", p.best_label},
          {"elapsed_s", p.elapsed_s},   {"left_s", p.left_s}};
}

}  // namespace

ProgressView::ProgressView(Mode mode) : mode_(mode) {
  if (mode_ == Mode::live) clock_ = std::jthread([this](const std::stop_token& ended) { redraw(ended); });
}

ProgressView::~ProgressView() { finish(); }

void ProgressView::redraw(const std::stop_token& ended) {
  std::unique_lock lock(mutex_);
  while (!ended.stop_requested()) {
    wake_.wait_for(lock, ended, kRedrawEvery, [] { return false; });
    if (ended.stop_requested() || !has_last_) continue;
    TuneProgress now = last_;
    const double since_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - told_).count();
    now.elapsed_s += since_s;
    now.left_s = std::max(0.0, now.left_s - since_s);
    draw(now);
  }
}

ProgressView::Mode ProgressView::choose(bool json, bool plain) {
  if (json) return Mode::json;
  const char* terminal = std::getenv("TERM");
  const bool is_dumb = terminal == nullptr || *terminal == '\0' || std::string_view(terminal) == "dumb";
  return plain || is_dumb || isatty(STDERR_FILENO) == 0 ? Mode::plain : Mode::live;
}

bool ProgressView::is_worth_a_line(const TuneProgress& p) const {
  const bool is_new_best = p.best_ns > 0 && p.best_ns < last_.best_ns * 0.99;
  return p.workload != last_.workload || p.phase != last_.phase || is_new_best ||
         p.elapsed_s - last_line_s_ >= kPlainInterval_s;
}

void ProgressView::update(const TuneProgress& p) {
  const std::lock_guard lock(mutex_);
  told_ = std::chrono::steady_clock::now();
  has_last_ = true;
  if (mode_ == Mode::live) {
    draw(p);
  } else if (is_worth_a_line(p)) {
    if (mode_ == Mode::json) {
      write_stderr(json_text(to_json(p)) + "\n");
    } else {
      write_stderr(fmt::format("[{}] {}/{} {} {}: {} trial{} ({}), best {}, {} left\n", clock_text(p.elapsed_s),
                                 p.workload_index + 1, p.workload_count, p.workload, p.phase, p.trials,
                                 p.trials == 1 ? "" : "s", outcome_list(p), best_text(p), clock_text(p.left_s)));
    }
    last_line_s_ = p.elapsed_s;
  }
  last_ = p;
}

void ProgressView::draw(const TuneProgress& p) {
  const TerminalSize terminal = terminal_size(STDERR_FILENO);
  const auto width = static_cast<std::size_t>(terminal.columns == 0 ? 80 : terminal.columns) - 1;
  const std::string clock = fmt::format("{} gone, {} left   {}", clock_text(p.elapsed_s), clock_text(p.left_s), p.phase);
  const std::string lines[] = {
      fmt::format("tuning {} of {}: {}", p.workload_index + 1, p.workload_count, p.workload),
      fmt::format("  {}{}", bar(p, width), clock),
      fmt::format("  best    {}", best_text(p)),
      fmt::format("  trials  {}  ({})", p.trials, outcome_list(p)),
  };
  // A terminal that became narrower may have broken the lines of the last frame, or have cut them: only it knows how many
  // there are now.
  std::string frame = drawn_lines_ > 0 && drawn_width_ <= width ? fmt::format("\033[{}A", drawn_lines_) : "";
  drawn_lines_ = 0;
  drawn_width_ = 0;
  for (const std::string& line : lines) {
    if (terminal.rows > 0 && drawn_lines_ > 0 && drawn_lines_ + 1 >= terminal.rows) break;  // the cursor, below, needs a line too
    frame += "\r\033[K" + line.substr(0, width) + "\n";
    drawn_width_ = std::max(drawn_width_, std::min(line.size(), width));
    ++drawn_lines_;
  }
  write_stderr(frame);
  std::fflush(stderr);
}

void ProgressView::finish() {
  const std::lock_guard lock(mutex_);
  has_last_ = false;
  drawn_lines_ = 0;
}

}  // namespace loopwright::cli
