#include "tuner/probes.h"

#include <algorithm>
#include <cmath>

namespace loopwright::tuner {
namespace {

constexpr double kMainVolume = 256;
constexpr std::int64_t kSmall = 8;
constexpr std::int64_t kLargeVolume = 2048;
constexpr std::size_t kMostSearches = 5;  ///< each has its share of the time
// Float operations: what one launch may cost where candidates are timed, and where the reference must be computed.
constexpr double kMainWork = 1e9;
constexpr double kLargeWork = 4e9;
constexpr double kVerifyWork = 1.5e8;

/// `probe` with every symbol halved until the work is at most `limit`, or nothing is left to halve.
Bindings lighten(const std::vector<Symbol>& symbols, Bindings probe, const WorkEstimate& work, double limit) {
  while (work && work(probe) > limit) {
    bool smaller = false;
    for (const Symbol& s : symbols) {
      const std::int64_t half = std::max(s.lo, probe[s.name] / 2);
      smaller = smaller || half < probe[s.name];
      probe[s.name] = half;
    }
    if (!smaller) break;
  }
  return probe;
}

Bindings bind_all(const std::vector<Symbol>& symbols, const std::vector<std::int64_t>& values) {
  Bindings probe;
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    probe[symbols[i].name] = std::clamp(values[i % values.size()], symbols[i].lo, symbols[i].hi);
  }
  return probe;
}

}  // namespace

void add_unique(std::vector<Bindings>& to, const Bindings& shape) {
  if (std::find(to.begin(), to.end(), shape) == to.end()) to.push_back(shape);
}

ProbePlan plan_probes(const std::vector<Symbol>& symbols, const std::vector<Bindings>& asked, const WorkEstimate& work) {
  if (symbols.empty()) return {.search = {{}}, .verify = {{}}, .verify_finals = {}};
  ProbePlan plan;
  for (const Bindings& probe : asked) {
    Bindings own;
    for (const Symbol& s : symbols) {
      const auto at = probe.find(s.name);
      if (at != probe.end() && at->second >= s.lo && at->second <= s.hi) own[s.name] = at->second;
    }
    if (own.size() == symbols.size()) add_unique(plan.search, own);
  }
  const double each = std::pow(kMainVolume, 1.0 / static_cast<double>(symbols.size()));
  if (plan.search.empty()) {
    const Bindings middling = bind_all(symbols, {std::int64_t{1} << std::llround(std::log2(each))});
    plan.search.push_back(lighten(symbols, middling, work, kMainWork));
  }
  if (asked.empty()) {
    const auto large = std::int64_t{1} << std::llround(std::log2(static_cast<double>(kLargeVolume)) / static_cast<double>(symbols.size()));
    add_unique(plan.search, lighten(symbols, bind_all(symbols, {large}), work, kLargeWork));
    add_unique(plan.search, bind_all(symbols, {symbols.size() == 1 ? kSmall : 1}));
    for (std::size_t i = 0; symbols.size() > 1 && i < symbols.size() && plan.search.size() < kMostSearches; ++i) {
      std::vector<std::int64_t> values(symbols.size(), 1);
      values[i] = kLargeVolume;
      add_unique(plan.search, lighten(symbols, bind_all(symbols, values), work, kLargeWork));
    }
  }
  const Bindings main = plan.search.front();
  std::vector<std::int64_t> lowest;
  for (const Symbol& s : symbols) lowest.push_back(s.lo);
  add_unique(plan.verify, bind_all(symbols, lowest));
  add_unique(plan.verify, bind_all(symbols, {7, 13, 3, 5}));
  add_unique(plan.verify, bind_all(symbols, {65, 3, 2, 1}));
  add_unique(plan.verify, bind_all(symbols, {127, 2, 3, 1}));
  const Bindings heaviest = lighten(symbols, main, work, kVerifyWork);
  std::erase(plan.verify, heaviest);
  if (work) {
    std::erase_if(plan.verify, [&](const Bindings& probe) { return work(probe) > std::max(kVerifyWork, work(heaviest)); });
  }
  plan.verify.push_back(heaviest);
  if (heaviest != main) plan.verify_finals.push_back(main);
  return plan;
}

}  // namespace loopwright::tuner
