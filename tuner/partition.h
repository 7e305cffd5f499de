// The cheapest way to cut a box into boxes, each served by one candidate.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace loopwright::tuner {

/// What it costs that a candidate serves a probe.
struct ServiceCost {
  double loss = 0;   ///< what is minimised; infinite: it may not
  double quiet = 0;  ///< what decides between equal sums of `loss`
};

struct PartitionProblem {
  std::vector<std::vector<std::int64_t>> probes;  ///< coordinates, as many for each
  std::vector<std::vector<ServiceCost>> costs;    ///< [candidate][probe]; every probe needs one that may serve it
  std::vector<int> candidates;                    ///< those that may be used
  int preferred = -1;                             ///< serves where no other has a smaller loss; -1: none
  double box_price = 0.01;                        ///< what each further box costs; above 0
};

/// A box: served by one candidate, or cut in two across an axis.
struct PartitionTree {
  int candidate = -1;
  int axis = 0;
  std::int64_t left_last = 0, right_first = 0;  ///< nearest coordinates of probes on both sides of the cut
  std::unique_ptr<PartitionTree> left, right;
  bool is_leaf() const { return left == nullptr; }
};

/// The least sum of losses and prices over all ways to cut through, again and again; on one axis all partitions are such.
PartitionTree partition_box(const PartitionProblem& problem);

}  // namespace loopwright::tuner
