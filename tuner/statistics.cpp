#include "tuner/statistics.h"

#include <algorithm>
#include <cmath>

namespace loopwright::tuner {
namespace {

constexpr double kOutlierMads = 8;

/// Linear interpolation in sorted samples.
double quantile(const std::vector<double>& sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

double deviation(const std::vector<double>& samples, double median) {
  std::vector<double> distances;
  for (const double s : samples) distances.push_back(std::fabs(s - median));
  std::sort(distances.begin(), distances.end());
  return quantile(distances, 0.5);
}

}  // namespace

Summary summarise(std::vector<double> samples) {
  Summary s;
  if (samples.empty()) return s;
  std::sort(samples.begin(), samples.end());
  s.median = quantile(samples, 0.5);
  s.mad = deviation(samples, s.median);
  if (samples.size() >= 5) {
    const double limit = s.median + kOutlierMads * std::max(s.mad, 0.01 * s.median);
    samples.erase(std::upper_bound(samples.begin(), samples.end(), limit), samples.end());
    s.median = quantile(samples, 0.5);
    s.mad = deviation(samples, s.median);
  }
  s.n = static_cast<std::int64_t>(samples.size());
  s.min = samples.front();
  s.p10 = quantile(samples, 0.1);
  s.p90 = quantile(samples, 0.9);
  s.low = samples.front();
  s.high = samples.back();
  if (s.n >= 5) {
    // Binomial(n, 1/2): ranks n/2 -+ 0.82 sqrt(n) hold the median with about 90 %.
    const double half = 0.82 * std::sqrt(static_cast<double>(s.n));
    const double middle = 0.5 * static_cast<double>(s.n - 1);
    s.low = samples[static_cast<std::size_t>(std::max(0.0, std::floor(middle - half)))];
    s.high = samples[static_cast<std::size_t>(std::min(static_cast<double>(s.n - 1), std::ceil(middle + half)))];
  }
  return s;
}

bool needs_more(const Summary& candidate, const Summary& best, const RaceRule& rule) {
  if (candidate.n >= rule.max_samples) return false;
  if (best.n == 0) return candidate.n < rule.max_samples;
  return candidate.low <= best.high && best.low <= candidate.high;
}

int choose_winner(const std::vector<Finalist>& finalists) {
  int best = -1;
  for (std::size_t i = 0; i < finalists.size(); ++i) {
    if (finalists[i].summary.n == 0) continue;
    if (best < 0 || finalists[i].summary.median < finalists[best].summary.median) best = static_cast<int>(i);
  }
  if (best < 0) return -1;
  const Summary& lowest = finalists[best].summary;
  const auto is_tie = [&](const Finalist& f) {
    return f.summary.n > 0 && f.summary.low <= lowest.high && f.summary.median <= lowest.median * (1 + kTieShare);
  };
  const auto loss_step = [](const Finalist& f) { return std::floor(f.worst_loss * 100); };
  int winner = best;
  for (std::size_t i = 0; i < finalists.size(); ++i) {
    const Finalist& f = finalists[i];
    const Finalist& w = finalists[winner];
    if (static_cast<int>(i) == winner || !is_tie(f)) continue;
    const bool wins = f.is_default != w.is_default          ? f.is_default
                      : loss_step(f) != loss_step(w)        ? loss_step(f) < loss_step(w)
                                                            : f.digest < w.digest;
    if (wins) winner = static_cast<int>(i);
  }
  return winner;
}

}  // namespace loopwright::tuner
