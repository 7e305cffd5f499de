// Splitting a symbol's values into few ranges, each served by one variant.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "loopwright/shape.h"

namespace loopwright::tuner {

/// The time of what cannot run.
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Values of one symbol at which finalists are measured: both ends, powers of two, the neighbours of tile edges, at
/// most `count`, sorted.
std::vector<std::int64_t> choose_range_probes(std::int64_t lo, std::int64_t hi, int count);
/// Values that are not among `used`, spread evenly over the logarithm, drawn from the seed; sorted.
std::vector<std::int64_t> choose_held_out(std::int64_t lo, std::int64_t hi, const std::vector<std::int64_t>& used,
                                          int count, std::uint64_t seed);

/// One variant that may serve: what it assumes of the symbol.
struct RangeCandidate {
  std::string digest;
  SymbolGuard guard;       ///< lo, hi and multiple_of of the symbol
  bool lies_over = false;  ///< needs something else too (alignment), so it only serves beside others
  bool serves(std::int64_t value) const {
    return value >= guard.lo && value <= guard.hi && value % guard.multiple_of == 0;
  }
};

/// A measured time: the median and an interval for it; infinite when the candidate cannot run there.
struct RangeTime {
  double median = 0, low = 0, high = 0;
  RangeTime(double ns) : median(ns), low(ns), high(ns) {}  // NOLINT: implicit on purpose
  RangeTime(double ns, double low_ns, double high_ns) : median(ns), low(low_ns), high(high_ns) {}
};
/// The time of candidate `c` at `value`.
using RangeCost = std::function<RangeTime(int c, std::int64_t value)>;

struct ServedRange {
  std::int64_t lo = 0, hi = 0;
  std::int64_t multiple_of = 1;
  int candidate = 0;
  double mean_loss = 0, worst_loss = 0;  ///< at the held-out values inside
  std::int64_t held_out = 0;             ///< how many there were
};

struct RangeRule {
  double split_loss = 0.05;  ///< a range is split where one variant would lose more than this at a probe
  int baseline = -1;         ///< a candidate whose median no other's may exceed by more than `baseline_loss`; -1: none
  double baseline_loss = 0.01;
  int refine_steps = 2;      ///< bisections of the gap between two probes with different winners
};

/// Covers [lo, hi] without gap or overlap by the fewest ranges in which no probe loses more than `rule.split_loss`
/// against the best candidate there, and none more than `rule.baseline_loss` against the baseline; among equally few, by
/// the smallest sum of losses. Candidates that need multiples serve further ranges laid over these where they win by more
/// than `rule.split_loss`; they come first in the result. Against other candidates a loss is one only where the two
/// intervals do not overlap, so that noise splits nothing; against the baseline the medians decide.
/// Losses are measured at `held_out`. At least one candidate must serve every value.
std::vector<ServedRange> split_ranges(std::int64_t lo, std::int64_t hi, const std::vector<RangeCandidate>& candidates,
                                      const std::vector<std::int64_t>& probes, const std::vector<std::int64_t>& held_out,
                                      const RangeCost& cost, const RangeRule& rule);

}  // namespace loopwright::tuner
