#include "db/rows.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

namespace loopwright::db {

namespace {

template <class Enum, std::size_t kCount>
std::optional<Enum> parse_name(const std::array<std::string_view, kCount>& names, std::string_view text) {
  auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end()) return std::nullopt;
  return static_cast<Enum>(found - names.begin());
}

constexpr std::array<std::string_view, 4> kRigors = {"estimate", "measure", "patient", "exhaustive"};
constexpr std::array<std::string_view, 4> kBestStates = {"active", "stale", "demoted", "blocked"};
constexpr std::array<std::string_view, 4> kRunStates = {"running", "finished", "interrupted", "failed"};

/// Linear interpolation between the two nearest of sorted values.
double read_quantile(const std::vector<double>& sorted, double q) {
  double position = q * static_cast<double>(sorted.size() - 1);
  auto below = static_cast<std::size_t>(position);
  std::size_t above = std::min(below + 1, sorted.size() - 1);
  double fraction = position - static_cast<double>(below);
  return sorted[below] + fraction * (sorted[above] - sorted[below]);
}

}  // namespace

UnixNs read_clock_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string_view name(Rigor rigor) { return kRigors[static_cast<std::size_t>(rigor)]; }
std::optional<Rigor> parse_rigor(std::string_view text) { return parse_name<Rigor>(kRigors, text); }
std::string_view name(BestState state) { return kBestStates[static_cast<std::size_t>(state)]; }
std::optional<BestState> parse_best_state(std::string_view text) { return parse_name<BestState>(kBestStates, text); }
std::string_view name(RunState state) { return kRunStates[static_cast<std::size_t>(state)]; }
std::optional<RunState> parse_run_state(std::string_view text) { return parse_name<RunState>(kRunStates, text); }

void summarise_samples(TrialRow& trial) {
  if (trial.samples_ns.empty()) return;
  std::vector<double> sorted = trial.samples_ns;
  std::sort(sorted.begin(), sorted.end());
  trial.n = static_cast<std::int64_t>(sorted.size());
  trial.min_ns = sorted.front();
  trial.median_ns = read_quantile(sorted, 0.5);
  trial.p10_ns = read_quantile(sorted, 0.1);
  trial.p90_ns = read_quantile(sorted, 0.9);
  for (double& value : sorted) value = std::abs(value - trial.median_ns);
  std::sort(sorted.begin(), sorted.end());
  trial.mad_ns = read_quantile(sorted, 0.5);
}

}  // namespace loopwright::db
