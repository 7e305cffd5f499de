#include "tuner/search.h"

namespace loopwright::tuner {
namespace {

class RandomSearch : public Search {
 public:
  RandomSearch(int template_count, std::uint64_t seed) : template_count_(template_count), random_{seed} {}
  std::string_view name() const override { return "random"; }
  std::vector<Proposal> propose(int count) override {
    std::vector<Proposal> proposals;
    for (int i = 0; i < count; ++i) {
      const int t = draw_template(random_, template_count_);
      proposals.push_back({.template_index = t, .seed = random_.next(), .origin = Origin::random});
    }
    return proposals;
  }
  void observe(const Observation&) override {}

 private:
  int template_count_;
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

int draw_template(SearchRandom& random, int template_count) {
  if (template_count <= 1 || random.unit() < 0.6) return 0;
  return 1 + static_cast<int>(random.below(static_cast<std::size_t>(template_count - 1)));
}

std::unique_ptr<Search> make_random_search(int template_count, std::uint64_t seed) {
  return std::make_unique<RandomSearch>(template_count, seed);
}

}  // namespace loopwright::tuner
