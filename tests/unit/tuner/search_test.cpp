#include "tuner/search.h"

#include <gtest/gtest.h>

#include "tests/unit/tuner/synthetic.h"
#include "tuner/cost_model.h"

namespace loopwright::tuner {
namespace {

using testing::SyntheticBuilder;
using testing::synthetic_time_ns;

/// The best time after `budget` different candidates.
double search_for(Search& search, int budget) {
  const SyntheticBuilder builder;
  std::set<std::string> seen;
  double best = 1e30;
  for (int round = 0; round < 10 * budget && static_cast<int>(seen.size()) < budget; ++round) {
    for (const Proposal& p : search.propose(8)) {
      Space space = p.make_space();
      const auto prepared = builder.prepare(p.template_index, space, {});
      if (!prepared.ok() || static_cast<int>(seen.size()) >= budget || !seen.insert(prepared->kernel_digest).second) continue;
      const double ns = synthetic_time_ns(prepared->picks());
      search.observe({.template_index = 0, .choices = prepared->choices, .time_ns = ns});
      best = std::min(best, ns);
    }
  }
  return best;
}

TEST(Search, EvolutionBeatsRandomOnASpaceWithStructure) {
  double log_ratio = 0;
  int wins = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const double random = search_for(*make_random_search(1, seed), 150);
    const double evolution = search_for(*make_evolution_search(1, seed, 32), 150);
    log_ratio += std::log(random / evolution);
    wins += evolution <= random ? 1 : 0;
  }
  EXPECT_GE(wins, 16);
  EXPECT_GT(std::exp(log_ratio / 20), 1.05);
}

TEST(Search, EvolutionFindsNearlyTheBest) {
  EXPECT_LT(search_for(*make_evolution_search(1, 5, 32), 300), 1.1 * 1000);
}

TEST(Search, TheSameSeedAndObservationsGiveTheSameProposals) {
  const auto run = [] {
    const auto search = make_evolution_search(3, 42, 4);
    std::string text;
    for (int round = 0; round < 6; ++round) {
      for (const Proposal& p : search->propose(5)) {
        Space space = p.make_space();
        testing::run_synthetic_template(space);
        text += std::to_string(p.template_index) + " " + print_picks(space.picks()) + "\n";
        search->observe({p.template_index, space.choices(), synthetic_time_ns(space.picks())});
      }
    }
    return text;
  };
  EXPECT_EQ(run(), run());
}

TEST(Search, MutantsStayInTheDomains) {
  const auto search = make_evolution_search(1, 9, 2);
  for (int round = 0; round < 40; ++round) {
    for (const Proposal& p : search->propose(8)) {
      Space space = p.make_space();
      testing::run_synthetic_template(space);
      for (const Space::Choice& c : space.choices()) {
        EXPECT_NE(std::find(c.domain.begin(), c.domain.end(), c.pick.value), c.domain.end()) << c.pick.name;
      }
      search->observe({0, space.choices(), synthetic_time_ns(space.picks())});
    }
  }
}

TEST(CostModel, RanksUnseenCandidatesOfTheSyntheticSpace) {
  std::string why_not;
  const auto model = make_xgboost_model(why_not);
  if (model == nullptr) GTEST_SKIP() << why_not;
  const SyntheticBuilder builder;
  std::vector<std::vector<float>> train, test;
  std::vector<double> train_ns, test_ns;
  for (std::uint64_t seed = 0; train.size() < 120 || test.size() < 60; ++seed) {
    Space space(seed, {});
    const auto prepared = builder.prepare(0, space, {});
    if (!prepared.ok()) continue;
    (train.size() < 120 ? train : test).push_back(prepared->features);
    (train.size() <= 120 && test.empty() ? train_ns : test_ns).push_back(synthetic_time_ns(prepared->picks()));
  }
  model->train(train, train_ns);
  const auto scores = model->score(test);
  ASSERT_EQ(scores.size(), test.size());
  std::vector<double> speed;
  for (const double ns : test_ns) speed.push_back(-ns);
  EXPECT_GT(correlate_ranks(std::vector<double>(scores.begin(), scores.end()), speed), 0.8);
  model->train(train, train_ns);
  EXPECT_EQ(model->score(test), scores) << "training is deterministic";
}

TEST(CostModel, SaysNothingBeforeItLearned) {
  std::string why_not;
  const auto model = make_xgboost_model(why_not);
  if (model == nullptr) GTEST_SKIP() << why_not;
  model->train({{1.f}, {2.f}}, {1, 2});
  EXPECT_TRUE(model->score({{1.f}}).empty());
}

}  // namespace
}  // namespace loopwright::tuner
