// Rounds of samples in random order, so that drifts of the machine hit all contenders alike.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "loopwright/measure.h"

namespace loopwright::tuner {

/// Rounds that the options' budget allows when one takes `round_s`.
int count_rounds(double round_s, const InterleaveOptions& options);
/// Each contender gives one sample a round: the time of one call in ns.
std::vector<Timing> interleave_samples(const std::vector<std::function<double()>>& contenders, int rounds,
                                       std::uint64_t seed);

}  // namespace loopwright::tuner
