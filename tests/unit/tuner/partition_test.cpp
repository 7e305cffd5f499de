#include "tuner/partition.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace loopwright::tuner {
namespace {

PartitionProblem make_problem(std::size_t axes, int probes, int candidates, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  PartitionProblem p;
  for (int i = 0; i < probes; ++i) {
    p.probes.emplace_back();
    for (std::size_t a = 0; a < axes; ++a) p.probes.back().push_back(axes == 1 ? i * 10 : static_cast<std::int64_t>(random() % 6));
  }
  for (int c = 0; c < candidates; ++c) {
    p.candidates.push_back(c);
    p.costs.emplace_back();
    for (int i = 0; i < probes; ++i) p.costs.back().push_back({.loss = static_cast<double>(random() % 100) / 1000});
  }
  return p;
}

double cost_of_box(const PartitionProblem& p, const std::vector<int>& probes, int candidate) {
  double sum = 0;
  for (const int i : probes) sum += p.costs[candidate][i].loss;
  return sum;
}

/// What a tree costs, computed anew.
double cost_of_tree(const PartitionProblem& p, const PartitionTree& tree, const std::vector<int>& probes) {
  if (tree.is_leaf()) return cost_of_box(p, probes, tree.candidate);
  std::vector<int> left, right;
  for (const int i : probes) {
    const std::int64_t at = p.probes[i][tree.axis];
    EXPECT_TRUE(at <= tree.left_last || at >= tree.right_first);
    (at <= tree.left_last ? left : right).push_back(i);
  }
  return cost_of_tree(p, *tree.left, left) + cost_of_tree(p, *tree.right, right) + p.box_price;
}

std::vector<int> all_of(const PartitionProblem& p) {
  std::vector<int> all;
  for (std::size_t i = 0; i < p.probes.size(); ++i) all.push_back(static_cast<int>(i));
  return all;
}

TEST(Partition, OfALineIsTheCheapestOfAllThereAre) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const PartitionProblem p = make_problem(1, 9, 3, seed);
    double least = std::numeric_limits<double>::infinity();
    for (unsigned cuts = 0; cuts < 1u << 8; ++cuts) {
      double sum = 0;
      std::vector<int> box;
      for (int i = 0; i < 9; ++i) {
        box.push_back(i);
        if (i < 8 && (cuts >> i & 1) == 0) continue;
        double best = std::numeric_limits<double>::infinity();
        for (const int c : p.candidates) best = std::min(best, cost_of_box(p, box, c));
        sum += best + (i < 8 ? p.box_price : 0);
        box.clear();
      }
      least = std::min(least, sum);
    }
    EXPECT_NEAR(cost_of_tree(p, partition_box(p), all_of(p)), least, 1e-9);
  }
}

TEST(Partition, OfAPlaneIsNoDearerThanOneBoxOrOneCut) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const PartitionProblem p = make_problem(2, 20, 3, seed);
    const double cost = cost_of_tree(p, partition_box(p), all_of(p));
    for (const int c : p.candidates) EXPECT_LE(cost, cost_of_box(p, all_of(p), c) + 1e-9);
    for (int axis = 0; axis < 2; ++axis) {
      for (std::int64_t edge = 1; edge < 6; ++edge) {
        std::vector<int> left, right;
        for (const int i : all_of(p)) (p.probes[i][axis] < edge ? left : right).push_back(i);
        for (const int a : p.candidates)
          for (const int b : p.candidates) EXPECT_LE(cost, cost_of_box(p, left, a) + cost_of_box(p, right, b) + p.box_price + 1e-9);
      }
    }
  }
}

TEST(Partition, WhereNobodyLosesThePreferredServes) {
  PartitionProblem p = make_problem(1, 5, 3, 1);
  for (auto& costs : p.costs)
    for (ServiceCost& c : costs) c = {.loss = 0, .quiet = 0.01};
  p.costs[1][0].quiet = 0;
  EXPECT_EQ(partition_box(p).candidate, 1);
  p.preferred = 2;
  EXPECT_EQ(partition_box(p).candidate, 2);
  p.costs[2][4].loss = 0.005;
  EXPECT_EQ(partition_box(p).candidate, 1);
}

TEST(Partition, NobodyServesWhereItMayNot) {
  PartitionProblem p = make_problem(1, 6, 2, 3);
  for (int i = 0; i < 6; ++i) p.costs[i % 2][i].loss = std::numeric_limits<double>::infinity();
  const PartitionTree tree = partition_box(p);
  EXPECT_TRUE(std::isfinite(cost_of_tree(p, tree, all_of(p)))) << "six boxes, whatever they cost";
}

}  // namespace
}  // namespace loopwright::tuner
