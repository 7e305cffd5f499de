// What to try next. A search proposes, is told what came of it, and knows nothing of compilers and clocks.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "loopwright/schedule.h"

namespace loopwright::tuner {

/// Which part of the search a candidate comes from; the report says what each part gained.
enum class Origin : std::uint8_t { first, random, evolution };
std::string_view name(Origin origin);

/// Picks to keep and a seed for the rest: everything a Space needs.
struct Proposal {
  int template_index = 0;
  Picks kept;
  std::uint64_t seed = 0;
  bool fill_with_defaults = false;  ///< picks without a value take their default instead of a random one
  Origin origin = Origin::random;
  Space make_space() const { return fill_with_defaults ? Space(kept) : Space(seed, kept); }
};

struct Observation {
  int template_index = 0;
  std::vector<Space::Choice> choices;
  double time_ns = std::numeric_limits<double>::infinity();  ///< infinite: it failed
};

class Search {
 public:
  virtual ~Search() = default;
  virtual std::string_view name() const = 0;
  /// Always the same for the same seed and the same observations before it.
  virtual std::vector<Proposal> propose(int count) = 0;
  virtual void observe(const Observation& observation) = 0;
};

/// SplitMix64, the source of all randomness of a search.
struct SearchRandom {
  std::uint64_t state = 0;
  std::uint64_t next();
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  std::size_t below(std::size_t count) { return count == 0 ? 0 : static_cast<std::size_t>(next() % count); }
};
/// Which template a random candidate comes from: at first the preferred (first) one with probability 0.6 and each other
/// equally; once their candidates were timed, in proportion to how close each template's best came to the best of all.
class TemplateOdds {
 public:
  explicit TemplateOdds(int template_count);
  void observe(const Observation& observation);
  int draw(SearchRandom& random) const;

 private:
  std::vector<double> best_ns_;  ///< by template; infinite: nothing that worked
  std::vector<bool> seen_;
};

std::unique_ptr<Search> make_random_search(int template_count, std::uint64_t seed);
/// Mutation and crossover of the best so far; half of the first `random_first` candidates are random, later fewer.
std::unique_ptr<Search> make_evolution_search(int template_count, std::uint64_t seed, int random_first);

}  // namespace loopwright::tuner
