#include "tuner/ranges.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "tuner/partition.h"

namespace loopwright::tuner {
namespace {

std::int64_t middle_of(std::int64_t lo, std::int64_t hi) {
  return static_cast<std::int64_t>(std::sqrt(static_cast<double>(std::max<std::int64_t>(lo, 1)) * static_cast<double>(hi)));
}

bool is_empty(const Guard& guard) {
  return std::any_of(guard.symbols.begin(), guard.symbols.end(), [](const SymbolGuard& s) { return s.lo > s.hi; });
}

bool overlap(const Guard& a, const Guard& b) { return !is_empty(Guard::both(a, b)); }

class Splitter {
 public:
  explicit Splitter(const RangeProblem& problem) : problem_(problem), rule_(problem.rule) {
    for (const Symbol& s : problem_.symbols) box_.symbols.push_back({.name = s.name, .lo = s.lo, .hi = s.hi});
    std::sort(box_.symbols.begin(), box_.symbols.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    for (int c = 0; c < static_cast<int>(problem_.candidates.size()); ++c) {
      all_.push_back(c);
      if (Guard::both(box_, problem_.candidates[c].guard) == box_) general_.push_back(c);
    }
    LW_BUG_IF(general_.empty() || problem_.probes.empty(), "split_ranges needs a candidate that serves everything, and a probe");
    LW_BUG_IF(problem_.weights.size() != problem_.probes.size(), "a weight for each probe");
    compute_costs();
  }

  std::vector<ServedRange> run() {
    std::vector<int> allowed = all_;
    Solution solution = solve(allowed);
    while (count_variants(solution) > std::max(rule_.most_variants, 1)) {
      Solution best;
      int left_out = -1;
      for (const int c : list_variants(solution)) {
        std::vector<int> fewer = allowed;
        std::erase(fewer, c);
        if (!covers_probes(fewer)) continue;
        Solution without = solve(fewer);
        if (left_out < 0 || without.loss < best.loss) best = std::move(without), left_out = c;
      }
      if (left_out < 0) break;  // each is the only one that may serve some probe
      std::erase(allowed, left_out);
      solution = std::move(best);
    }
    std::vector<ServedRange> base;
    place_edges(solution.tree, box_, base);
    std::vector<ServedRange> ranges = lay_over_all(base, allowed);
    judge(ranges, base);
    ranges.insert(ranges.end(), base.begin(), base.end());
    return ranges;
  }

 private:
  struct Solution {
    PartitionTree tree;
    std::vector<ServedRange> base, over;  ///< with edges in the middle between probes
    double loss = 0;
  };

  // ------------------------------------------------------------ times and losses

  const RangeTime& time(int c, const Bindings& shape) {
    static const RangeTime never(kInfinity);
    if (!problem_.candidates[c].guard.holds(shape)) return never;
    auto known = times_.find({c, shape});
    if (known == times_.end()) known = times_.emplace(std::pair{c, shape}, problem_.cost(c, shape)).first;
    return known->second;
  }
  double at(int c, const Bindings& shape) { return time(c, shape).median; }
  /// Whether `c` is slower than `rival` by more than `share`, and not by noise.
  bool loses_to(int c, int rival, const Bindings& shape, double share) {
    return at(c, shape) > at(rival, shape) * (1 + share) && time(c, shape).low > time(rival, shape).high;
  }
  /// The doubt is the baseline's: its median decides here, whatever the intervals say.
  bool is_behind_baseline(int c, const Bindings& shape) {
    return rule_.baseline >= 0 && at(c, shape) > at(rule_.baseline, shape) * (1 + rule_.baseline_loss);
  }
  double plain_loss(int c, const Bindings& shape, const std::vector<int>& among) {
    double least = kInfinity;
    for (const int rival : among) least = std::min(least, at(rival, shape));
    return std::isfinite(least) ? at(c, shape) / least - 1 : 0;  // 0: nobody could be measured there
  }
  /// As it counts in the decision: only what is beyond noise, and more than in proportion.
  double counted_loss(int c, const Bindings& shape, const std::vector<int>& among) {
    double loss = 0;
    for (const int rival : among) {
      if (loses_to(c, rival, shape, 0)) loss = std::max(loss, at(c, shape) / at(rival, shape) - 1);
    }
    return loss * (1 + loss / rule_.split_loss);
  }
  void compute_costs() {
    costs_.assign(all_.size(), std::vector<ServiceCost>(problem_.probes.size()));
    for (const int c : general_) {
      for (std::size_t p = 0; p < problem_.probes.size(); ++p) {
        const Bindings& shape = problem_.probes[p];
        const bool measured = std::any_of(general_.begin(), general_.end(), [&](int g) { return std::isfinite(at(g, shape)); });
        const bool may_serve = !measured || (std::isfinite(at(c, shape)) && !is_behind_baseline(c, shape));
        costs_[c][p].loss = may_serve ? problem_.weights[p] * counted_loss(c, shape, general_) : kInfinity;
        costs_[c][p].quiet = may_serve ? problem_.weights[p] * plain_loss(c, shape, general_) : 0;
      }
    }
  }
  bool covers_probes(const std::vector<int>& allowed) const {
    for (std::size_t p = 0; p < problem_.probes.size(); ++p) {
      if (std::none_of(general_.begin(), general_.end(), [&](int c) {
            return std::isfinite(costs_[c][p].loss) && std::find(allowed.begin(), allowed.end(), c) != allowed.end();
          })) {
        return false;
      }
    }
    return true;
  }

  // ------------------------------------------------------------ which candidates serve where

  Solution solve(const std::vector<int>& allowed) {
    PartitionProblem partition{.costs = costs_, .preferred = rule_.baseline, .box_price = rule_.range_price};
    for (const Bindings& probe : problem_.probes) {
      partition.probes.emplace_back();
      for (const SymbolGuard& s : box_.symbols) partition.probes.back().push_back(probe.at(s.name));
    }
    for (const int c : general_) {
      if (std::find(allowed.begin(), allowed.end(), c) != allowed.end()) partition.candidates.push_back(c);
    }
    Solution out{.tree = partition_box(partition)};
    refines_ = false;
    place_edges(out.tree, box_, out.base);
    refines_ = true;
    out.over = lay_over_all(out.base, allowed);
    for (std::size_t p = 0; p < problem_.probes.size(); ++p) {
      const Bindings& shape = problem_.probes[p];
      const auto serves = [&](const ServedRange& r) { return r.guard.holds(shape); };
      auto server = std::find_if(out.over.begin(), out.over.end(), serves);
      if (server == out.over.end()) server = std::find_if(out.base.begin(), out.base.end(), serves);
      out.loss += problem_.weights[p] * counted_loss(server->candidate, shape, all_);
    }
    out.loss += rule_.range_price * static_cast<double>(out.base.size());
    return out;
  }
  static std::set<int> list_variants(const Solution& solution) {
    std::set<int> variants;
    for (const auto* ranges : {&solution.base, &solution.over})
      for (const ServedRange& r : *ranges) variants.insert(r.candidate);
    return variants;
  }
  static int count_variants(const Solution& solution) { return static_cast<int>(list_variants(solution).size()); }

  // ------------------------------------------------------------ edges

  void place_edges(const PartitionTree& tree, const Guard& box, std::vector<ServedRange>& ranges) {
    if (tree.is_leaf()) {
      ranges.push_back({.guard = box, .candidate = tree.candidate});
      return;
    }
    const std::int64_t edge = find_edge(tree, box);
    Guard left = box, right = box;
    left.symbols[tree.axis].hi = edge - 1;
    right.symbols[tree.axis].lo = edge;
    place_edges(*tree.left, left, ranges);
    place_edges(*tree.right, right, ranges);
  }

  /// Who serves a shape below a cut, as far as probes tell.
  int find_server(const PartitionTree& tree, const Bindings& shape) const {
    const PartitionTree* node = &tree;
    while (!node->is_leaf()) node = (shape.at(box_.symbols[node->axis].name) <= middle_of(node->left_last, node->right_first) ? node->left : node->right).get();
    return node->candidate;
  }

  /// The first value of the right-hand side, found by bisection of the logarithm where those who serve left and right of
  /// it, in the middle of the other symbols, are compared.
  std::int64_t find_edge(const PartitionTree& tree, const Guard& box) {
    const std::string& name = box_.symbols[tree.axis].name;
    std::int64_t low = tree.left_last, high = tree.right_first;
    Bindings shape;
    for (const SymbolGuard& s : box.symbols) shape[s.name] = std::clamp(middle_of(s.lo, s.hi), s.lo, s.hi);
    shape[name] = low;
    const int left = find_server(*tree.left, shape);
    shape[name] = high;
    const int right = find_server(*tree.right, shape);
    for (int i = 0; refines_ && left != right && i < rule_.refine_steps && high - low > 1; ++i) {
      shape[name] = std::clamp(middle_of(low, high), low + 1, high - 1);
      (at(left, shape) <= at(right, shape) ? low : high) = shape[name];
    }
    return high - low <= 1 ? high : std::clamp(middle_of(low, high), low + 1, high);
  }

  // ------------------------------------------------------------ candidates that need more than a box

  /// Runs of probes at which such a candidate beats the range below it by more than the rule allows.
  std::vector<ServedRange> lay_over(const std::vector<ServedRange>& base, int c) {
    std::vector<ServedRange> over;
    for (const ServedRange& below : base) {
      bool wins = false, loses = false;
      for (const Bindings& shape : problem_.probes) {
        if (!below.guard.holds(shape) || !std::isfinite(at(c, shape))) continue;
        wins = wins || loses_to(below.candidate, c, shape, rule_.split_loss);
        loses = loses || loses_to(c, below.candidate, shape, 0) || is_behind_baseline(c, shape);
      }
      Guard guard = Guard::both(below.guard, problem_.candidates[c].guard);
      if (wins && !loses && !is_empty(guard)) over.push_back({.guard = std::move(guard), .candidate = c});
    }
    return over;
  }

  std::vector<ServedRange> lay_over_all(const std::vector<ServedRange>& base, const std::vector<int>& allowed) {
    std::vector<ServedRange> ranges;
    for (const int c : allowed) {
      if (std::find(general_.begin(), general_.end(), c) != general_.end()) continue;
      for (ServedRange& r : lay_over(base, c)) {
        // One variant a region: the first candidate laid over it stays unless a later one is faster at its probes.
        const auto same = std::find_if(ranges.begin(), ranges.end(), [&](const ServedRange& o) { return overlap(o.guard, r.guard); });
        if (same == ranges.end()) ranges.push_back(std::move(r));
        else if (is_faster(r, *same)) *same = std::move(r);
      }
    }
    return ranges;
  }

  bool is_faster(const ServedRange& range, const ServedRange& other) {
    double logs = 0;
    for (const Bindings& shape : problem_.probes) {
      if (!range.guard.holds(shape) || !std::isfinite(at(other.candidate, shape)) || !std::isfinite(at(range.candidate, shape))) continue;
      logs += std::log(at(range.candidate, shape) / at(other.candidate, shape));
    }
    return logs < 0;
  }

  // ------------------------------------------------------------ losses at shapes that took no part

  void judge(std::vector<ServedRange>& over, std::vector<ServedRange>& base) {
    for (ServedRange& r : over) measure_losses(r, [&](const Bindings&) -> const std::vector<int>& { return all_; });
    // Below a range that lies over it, a range gets only the calls that no such candidate takes.
    const auto rivals = [&](const Bindings& shape) -> const std::vector<int>& {
      return std::any_of(over.begin(), over.end(), [&](const ServedRange& o) { return o.guard.holds(shape); }) ? general_ : all_;
    };
    for (ServedRange& r : base) measure_losses(r, rivals);
  }

  /// `rivals_at`: the candidates that could serve the calls which the range serves at a shape.
  void measure_losses(ServedRange& range, const std::function<const std::vector<int>&(const Bindings&)>& rivals_at) {
    double sum = 0;
    for (const Bindings& shape : problem_.held_out) {
      if (!range.guard.holds(shape)) continue;
      const double loss = plain_loss(range.candidate, shape, rivals_at(shape));
      if (!std::isfinite(loss)) continue;
      sum += loss;
      range.worst_loss = std::max(range.worst_loss, loss);
      ++range.held_out;
    }
    if (range.held_out > 0) range.mean_loss = sum / static_cast<double>(range.held_out);
  }

  const RangeProblem& problem_;
  const RangeRule& rule_;
  Guard box_;                      ///< symbols sorted by name: the axes
  std::vector<int> all_, general_;  ///< candidates, and those that serve the whole box
  std::vector<std::vector<ServiceCost>> costs_;
  std::map<std::pair<int, Bindings>, RangeTime> times_;
  bool refines_ = true;            ///< edges are measured
};

}  // namespace

std::vector<ServedRange> split_ranges(const RangeProblem& problem) { return Splitter(problem).run(); }

}  // namespace loopwright::tuner
