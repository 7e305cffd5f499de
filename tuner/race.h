// Measuring candidates against each other on a device.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tuner/device.h"
#include "tuner/statistics.h"

namespace loopwright::tuner {

/// Samples of one candidate, more of them while it is not clear whether it beats `best` (n = 0: no rival yet).
Samples race(Device& device, const Candidate& candidate, const Bindings& probe, const Summary& best, const RaceRule& rule);

struct Final {
  const Candidate* candidate = nullptr;
  Samples samples;
  Summary summary;
};
/// `rounds` samples of each, one at a time, in an order drawn anew for each round, so that a drift of the clock hits
/// all alike. A candidate whose outcome is not ok drops out. Stops early when `is_cancelled` says so.
std::vector<Final> run_finals(Device& device, const std::vector<const Candidate*>& candidates, const Bindings& probe,
                              int rounds, std::uint64_t seed, const std::function<bool()>& is_cancelled);

}  // namespace loopwright::tuner
