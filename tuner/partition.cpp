#include "tuner/partition.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "loopwright/base.h"

namespace loopwright::tuner {
namespace {

constexpr double kSame = 1e-9;

/// Sums of losses that differ by rounding only are equal; then `quiet` decides.
bool is_less(const ServiceCost& a, const ServiceCost& b) {
  if (std::isinf(a.loss) || std::isinf(b.loss)) return a.loss < b.loss;
  return std::abs(a.loss - b.loss) > kSame ? a.loss < b.loss : a.quiet < b.quiet - kSame;
}

class Partitioner {
 public:
  explicit Partitioner(const PartitionProblem& problem) : problem_(problem), axes_(problem.probes.front().size()) {}

  PartitionTree run() {
    std::vector<int> all(problem_.probes.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
    return build(all);
  }

 private:
  struct Decision {
    ServiceCost cost;
    int candidate = -1;
    int axis = -1;  ///< -1: not cut
    std::int64_t right_first = 0;
  };

  std::int64_t at(int probe, int axis) const { return problem_.probes[probe][axis]; }

  std::pair<std::vector<int>, std::vector<int>> cut(const std::vector<int>& probes, int axis, std::int64_t right_first) const {
    std::pair<std::vector<int>, std::vector<int>> sides;
    for (const int p : probes) (at(p, axis) < right_first ? sides.first : sides.second).push_back(p);
    return sides;
  }

  Decision choose_server(const std::vector<int>& probes) const {
    Decision best{.cost = {std::numeric_limits<double>::infinity(), 0}};
    for (const int c : problem_.candidates) {
      ServiceCost sum;
      for (const int p : probes) sum.loss += problem_.costs[c][p].loss, sum.quiet += problem_.costs[c][p].quiet;
      const bool same = std::abs(sum.loss - best.cost.loss) <= kSame;
      const bool better = same && best.candidate == problem_.preferred ? false
                          : same && c == problem_.preferred            ? true
                                                                       : is_less(sum, best.cost);
      if (better) best = {.cost = sum, .candidate = c};
    }
    return best;
  }

  /// A set of probes that a box holds stands for all boxes that hold just these.
  const Decision& decide(const std::vector<int>& probes) {
    if (const auto known = decisions_.find(probes); known != decisions_.end()) return known->second;
    Decision best = choose_server(probes);
    for (int axis = 0; axis < static_cast<int>(axes_); ++axis) {
      std::vector<std::int64_t> values;
      for (const int p : probes) values.push_back(at(p, axis));
      std::sort(values.begin(), values.end());
      values.erase(std::unique(values.begin(), values.end()), values.end());
      for (std::size_t i = 1; i < values.size(); ++i) {
        const auto [left, right] = cut(probes, axis, values[i]);
        const ServiceCost a = decide(left).cost, b = decide(right).cost;
        const ServiceCost sum{a.loss + b.loss + problem_.box_price, a.quiet + b.quiet};
        if (is_less(sum, best.cost)) best = {.cost = sum, .axis = axis, .right_first = values[i]};
      }
    }
    return decisions_.emplace(probes, best).first->second;
  }

  PartitionTree build(const std::vector<int>& probes) {
    const Decision decision = decide(probes);
    if (decision.axis < 0) {
      LW_BUG_IF(decision.candidate < 0, "a probe that no candidate may serve");
      return {.candidate = decision.candidate};
    }
    const auto [left, right] = cut(probes, decision.axis, decision.right_first);
    PartitionTree tree{.axis = decision.axis, .left_last = at(left.front(), decision.axis), .right_first = decision.right_first};
    for (const int p : left) tree.left_last = std::max(tree.left_last, at(p, decision.axis));
    tree.left = std::make_unique<PartitionTree>(build(left));
    tree.right = std::make_unique<PartitionTree>(build(right));
    return tree;
  }

  const PartitionProblem& problem_;
  std::size_t axes_;
  std::map<std::vector<int>, Decision> decisions_;
};

}  // namespace

PartitionTree partition_box(const PartitionProblem& problem) {
  LW_BUG_IF(problem.probes.empty() || problem.candidates.empty(), "nothing to partition");
  return Partitioner(problem).run();
}

}  // namespace loopwright::tuner
