#include "tuner/search.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace loopwright::tuner {
namespace {

class RandomSearch : public Search {
 public:
  RandomSearch(int template_count, std::uint64_t seed) : odds_(template_count), random_{seed} {}
  std::string_view name() const override { return "random"; }
  std::vector<Proposal> propose(int count) override {
    std::vector<Proposal> proposals;
    for (int i = 0; i < count; ++i) {
      const int t = odds_.draw(random_);
      proposals.push_back({.template_index = t, .seed = random_.next(), .origin = Origin::random});
    }
    return proposals;
  }
  void observe(const Observation& observation) override { odds_.observe(observation); }

 private:
  TemplateOdds odds_;
  SearchRandom random_;
};

}  // namespace

std::string_view name(Origin origin) {
  switch (origin) {
    case Origin::first: return "default";
    case Origin::random: return "random";
    case Origin::evolution: return "evolution";
  }
  return "?";
}

std::uint64_t SearchRandom::next() {
  std::uint64_t z = (state += 0x9e3779b97f4a7c15ull);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

TemplateOdds::TemplateOdds(int template_count)
    : best_ns_(static_cast<std::size_t>(template_count), std::numeric_limits<double>::infinity()),
      seen_(static_cast<std::size_t>(template_count), false) {}

void TemplateOdds::observe(const Observation& o) {
  const auto t = static_cast<std::size_t>(o.template_index);
  if (t >= seen_.size()) return;
  seen_[t] = true;
  best_ns_[t] = std::min(best_ns_[t], o.time_ns);
}

int TemplateOdds::draw(SearchRandom& random) const {
  constexpr double kPreferred = 0.6;  ///< of the first template while nothing is known
  constexpr double kLeast = 0.02;     ///< of the best template's odds: a bad default may have a good relative
  const double best = *std::min_element(best_ns_.begin(), best_ns_.end());
  std::vector<double> odds;
  for (std::size_t t = 0; t < seen_.size(); ++t) {
    const double prior = t == 0 ? kPreferred * static_cast<double>(std::max<std::size_t>(seen_.size() - 1, 1)) : 1 - kPreferred;
    const double closeness = !seen_[t] || !std::isfinite(best) ? 1 : best / best_ns_[t];
    odds.push_back(prior * std::max(kLeast, closeness * closeness));
  }
  double at = random.unit() * std::accumulate(odds.begin(), odds.end(), 0.0);
  for (std::size_t t = 0; t < odds.size(); ++t) {
    if (at < odds[t]) return static_cast<int>(t);
    at -= odds[t];
  }
  return 0;
}

std::unique_ptr<Search> make_random_search(int template_count, std::uint64_t seed) {
  return std::make_unique<RandomSearch>(template_count, seed);
}

}  // namespace loopwright::tuner
