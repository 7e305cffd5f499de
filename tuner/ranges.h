// Splitting a box of symbol values into few ranges, each served by one variant.
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

/// One variant that may serve, and what its code assumes.
struct RangeCandidate {
  std::string digest;
  Guard guard;
};

/// A measured time: the median and an interval for it; infinite when the candidate cannot run there.
struct RangeTime {
  double median = 0, low = 0, high = 0;
  RangeTime(double ns) : median(ns), low(ns), high(ns) {}  // NOLINT: implicit on purpose
  RangeTime(double ns, double low_ns, double high_ns) : median(ns), low(low_ns), high(high_ns) {}
};
/// The time of candidate `c` at a shape.
using RangeCost = std::function<RangeTime(int c, const Bindings& shape)>;

struct ServedRange {
  Guard guard;
  int candidate = 0;
  double mean_loss = 0, worst_loss = 0;  ///< at the held-out shapes inside
  std::int64_t held_out = 0;             ///< how many there were
};

struct RangeRule {
  double split_loss = 0.05;  ///< a loss as large counts twice, larger ones with their square: no size pays for the mean
  double range_price = 0.01; ///< what a further range has to take from the expected loss, so counted
  int most_variants = 6;     ///< different candidates in all ranges together
  int baseline = -1;         ///< a candidate whose median no other's may exceed by more than `baseline_loss` among the calls that it may serve, and that stays where it loses no more itself; -1: none
  double baseline_loss = 0.01;
  int refine_steps = 2;      ///< bisections of the gap between two probes with different winners
};

struct RangeProblem {
  std::vector<Symbol> symbols;             ///< the box
  std::vector<RangeCandidate> candidates;  ///< at least one must serve every shape
  std::vector<Bindings> probes;
  std::vector<double> weights;             ///< of the probes: shares of the calls
  std::vector<Bindings> held_out;
  RangeCost cost;
  RangeRule rule;
};

/// Covers the box without gap or overlap by the ranges with the least expected loss against the best candidate at each
/// probe, the number of ranges counted in, and none slower than the baseline by more than `baseline_loss`. Calls that pass what
/// some candidates ask for (an alignment, multiples) are cut into ranges in the same way, with all candidates that may serve
/// them; of these ranges those lie over the others that win by more than `split_loss` somewhere and lose nowhere. They come
/// first in the result, the strictest first. While more than `most_variants` serve, the one that is missed least is left out.
/// Against other candidates a loss is one only where the two intervals do not overlap, so that noise splits nothing; against
/// the baseline the medians decide. Losses are measured at `held_out`.
std::vector<ServedRange> split_ranges(const RangeProblem& problem);

/// Held-out shapes at which what serves them loses more than `split_loss`, noise aside: worth being probes.
std::vector<Bindings> list_losing(const RangeProblem& problem, const std::vector<ServedRange>& ranges);

}  // namespace loopwright::tuner
