// What samples say: robust summaries, when to stop sampling, and who wins.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace loopwright::tuner {

struct Summary {
  std::int64_t n = 0;  ///< samples kept
  double median = 0, p10 = 0, p90 = 0, mad = 0, min = 0;
  /// An interval for the median that holds with about 90 %: order statistics, widened to the whole range below 5 samples.
  double low = 0, high = 0;
};
/// Leaves out samples above median + 8 * max(mad, 1 %) when there are at least 5: an interruption is no property of a
/// kernel.
Summary summarise(std::vector<double> samples);

struct RaceRule {
  int first_samples = 3;
  int more_samples = 4;      ///< at a time, while intervals overlap
  int max_samples = 15;
  double max_total_ns = 2e8; ///< of a candidate's samples; slow kernels get fewer
  double give_up_factor = 3; ///< one sample is enough for a launch that takes this many times the best
};
/// Whether another round of samples could change which of the two is faster.
bool needs_more(const Summary& candidate, const Summary& best, const RaceRule& rule);

/// One finalist: summarised samples, its loss elsewhere and a name that does not change between runs.
struct Finalist {
  Summary summary;
  double worst_loss = 0;
  std::string digest;
  bool is_default = false;
};
inline constexpr double kTieShare = 0.01;
/// The position of the winner: lowest median; all finalists whose interval overlaps the winner's and whose median is
/// within kTieShare are ties, which are broken by the default schedule first, then the smallest worst loss (in steps of
/// 1 %), then the digest. -1 for none.
int choose_winner(const std::vector<Finalist>& finalists);

}  // namespace loopwright::tuner
