// Comparing functions fairly on the CPU: interleaved, with medians and spread.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace loopwright {

struct Timing {
  double median_ns = 0;  ///< of one call
  double p10_ns = 0, p90_ns = 0;
  int samples = 0;
  /// (p90 - p10) / median.
  double spread() const { return median_ns > 0 ? (p90_ns - p10_ns) / median_ns : 0; }
};

struct InterleaveOptions {
  double min_sample_s = 2e-3;  ///< calls are repeated until one sample takes as long
  int rounds = 21;             ///< samples of each contender
  double budget_s = 10;        ///< fewer rounds, but at least 5, when all would take longer
  std::uint64_t seed = 1;      ///< of the order within each round
  double settle_s = 0;         ///< pause and one untimed call before each sample: worker threads of the contender before
                               ///< that wait for more work by spinning go to sleep
};

/// Runs every contender once in each round, in random order, after one warm-up round, so that drifts of the machine
/// hit all alike. The calls must not throw.
std::vector<Timing> time_interleaved(const std::vector<std::function<void()>>& contenders,
                                     const InterleaveOptions& options = {});

}  // namespace loopwright
