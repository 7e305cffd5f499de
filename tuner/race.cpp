#include "tuner/race.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

namespace loopwright::tuner {
namespace {

void append(Samples& to, const Samples& more) {
  if (to.ns.empty()) to.clock_before_khz = more.clock_before_khz;
  to.clock_after_khz = more.clock_after_khz;
  to.throttled = to.throttled || more.throttled;
  to.ns.insert(to.ns.end(), more.ns.begin(), more.ns.end());
  to.outcome = more.outcome;
  to.code = more.code;
  to.detail = more.detail;
}

}  // namespace

Samples race(Device& device, const Candidate& candidate, const Bindings& probe, const Summary& best, const RaceRule& rule) {
  const double give_up =
      best.n > 0 ? best.median * rule.give_up_factor : std::numeric_limits<double>::infinity();
  Samples samples;
  append(samples, device.time(candidate, probe, rule.first_samples, give_up));
  while (samples.outcome == Outcome::ok && !samples.ns.empty()) {
    const Summary summary = summarise(samples.ns);
    if (static_cast<int>(samples.ns.size()) >= rule.max_samples || summary.median > give_up) break;
    if (!needs_more(summary, best, rule)) break;
    if (std::accumulate(samples.ns.begin(), samples.ns.end(), 0.0) > rule.max_total_ns) break;
    const int more = std::min(rule.more_samples, rule.max_samples - static_cast<int>(samples.ns.size()));
    append(samples, device.time(candidate, probe, more, give_up));
  }
  return samples;
}

std::vector<Final> run_finals(Device& device, const std::vector<const Candidate*>& candidates, const Bindings& probe,
                              int rounds, std::uint64_t seed, const std::function<bool()>& is_cancelled) {
  std::vector<Final> finals;
  for (const Candidate* c : candidates) finals.push_back({.candidate = c});
  std::vector<std::size_t> order(finals.size());
  std::iota(order.begin(), order.end(), 0);
  std::mt19937_64 random(seed);
  for (int round = 0; round < rounds && !is_cancelled(); ++round) {
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
    for (const std::size_t i : order) {
      Final& f = finals[i];
      if (f.samples.outcome != Outcome::ok) continue;
      append(f.samples, device.time(*f.candidate, probe, 1, std::numeric_limits<double>::infinity()));
    }
  }
  for (Final& f : finals) {
    if (f.samples.outcome == Outcome::ok) f.summary = summarise(f.samples.ns);
  }
  return finals;
}

}  // namespace loopwright::tuner
