#include <algorithm>
#include <cmath>
#include <map>

#include "tuner/search.h"

namespace loopwright::tuner {
namespace {

constexpr std::size_t kPopulation = 24;
constexpr double kRandomShare = 0.2;    ///< of each generation, so that no part of the space is given up
constexpr double kFirstRandomShare = 0.5;  ///< the same of the first candidates
constexpr double kCrossoverShare = 0.25;
constexpr double kAnotherMutation = 0.4;  ///< probability of one more changed pick, again and again
constexpr double kNeighbourStep = 0.5;    ///< of mutations move to a neighbour in the domain instead of anywhere

class EvolutionSearch : public Search {
 public:
  EvolutionSearch(int template_count, std::uint64_t seed, int random_first)
      : odds_(template_count), random_first_(random_first), random_{seed} {}

  std::string_view name() const override { return "evolution"; }

  std::vector<Proposal> propose(int count) override {
    std::vector<Proposal> proposals;
    for (int i = 0; i < count; ++i) {
      // Relatives of the defaults are worth trying from the start; what is good elsewhere must be found first.
      const double random_share = observed_ < random_first_ ? kFirstRandomShare : kRandomShare;
      const bool evolve = !population_.empty() && random_.unit() >= random_share;
      proposals.push_back(!evolve                               ? propose_random()
                          : random_.unit() < kCrossoverShare ? cross()
                                                             : mutate());
    }
    return proposals;
  }

  void observe(const Observation& o) override {
    ++observed_;
    odds_.observe(o);
    if (!std::isfinite(o.time_ns)) return;
    const auto at = std::upper_bound(population_.begin(), population_.end(), o.time_ns,
                                     [](double t, const Observation& p) { return t < p.time_ns; });
    population_.insert(at, o);
    if (population_.size() > kPopulation) population_.pop_back();
  }

 private:
  Proposal propose_random() {
    return {.template_index = odds_.draw(random_), .seed = random_.next(), .origin = Origin::random};
  }

  /// The better of two, drawn at random: pressure towards the best without losing the rest.
  const Observation& draw_parent() {
    const std::size_t a = random_.below(population_.size()), b = random_.below(population_.size());
    return population_[std::min(a, b)];
  }

  Proposal mutate() {
    const Observation& parent = draw_parent();
    Proposal p{.template_index = parent.template_index, .seed = random_.next(), .origin = Origin::evolution};
    std::vector<bool> changed(parent.choices.size(), false);
    if (!changed.empty()) {
      do {
        changed[random_.below(changed.size())] = true;
      } while (random_.unit() < kAnotherMutation);
    }
    for (std::size_t i = 0; i < changed.size(); ++i) {
      const Space::Choice& c = parent.choices[i];
      if (!changed[i]) {
        p.kept.push_back(c.pick);
      } else if (random_.unit() < kNeighbourStep) {
        p.kept.push_back({c.pick.name, step(c)});
      }  // else left out: drawn anew, as are picks that only exist because of this one
    }
    return p;
  }

  std::int64_t step(const Space::Choice& c) {
    const auto at = std::find(c.domain.begin(), c.domain.end(), c.pick.value);
    if (at == c.domain.end() || c.domain.size() < 2) return c.pick.value;
    if (at == c.domain.begin()) return *(at + 1);
    if (at + 1 == c.domain.end()) return *(at - 1);
    return random_.unit() < 0.5 ? *(at - 1) : *(at + 1);
  }

  Proposal cross() {
    const Observation& a = draw_parent();
    const Observation& b = draw_parent();
    if (&a == &b || a.template_index != b.template_index) return mutate();
    Proposal p{.template_index = a.template_index, .seed = random_.next(), .origin = Origin::evolution};
    std::map<std::string, std::int64_t> other;
    for (const Space::Choice& c : b.choices) other[c.pick.name] = c.pick.value;
    for (const Space::Choice& c : a.choices) {
      const auto theirs = other.find(c.pick.name);
      const bool take_theirs = theirs != other.end() && random_.unit() < 0.5;
      p.kept.push_back(take_theirs ? Pick{c.pick.name, theirs->second} : c.pick);
    }
    for (const Space::Choice& c : b.choices) {
      const bool is_new = std::none_of(p.kept.begin(), p.kept.end(), [&](const Pick& k) { return k.name == c.pick.name; });
      if (is_new) p.kept.push_back(c.pick);
    }
    return p;
  }

  TemplateOdds odds_;
  int random_first_;
  SearchRandom random_;
  int observed_ = 0;
  std::vector<Observation> population_;  ///< fastest first
};

}  // namespace

std::unique_ptr<Search> make_evolution_search(int template_count, std::uint64_t seed, int random_first) {
  return std::make_unique<EvolutionSearch>(template_count, seed, random_first);
}

}  // namespace loopwright::tuner
