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

/// Whether everything that `strict` lets through passes `weak` too.
bool implies(const Guard& strict, const Guard& weak) { return Guard::both(strict, weak) == strict; }

class Splitter {
 public:
  explicit Splitter(const RangeProblem& problem) : problem_(problem), rule_(problem.rule) {
    for (const Symbol& s : problem_.symbols) box_.symbols.push_back({.name = s.name, .lo = s.lo, .hi = s.hi});
    std::sort(box_.symbols.begin(), box_.symbols.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    for (int c = 0; c < static_cast<int>(problem_.candidates.size()); ++c) all_.push_back(c);
    make_layers();
    general_ = layers_.front().members;
    LW_BUG_IF(!(layers_.front().needs == box_) || problem_.probes.empty(), "split_ranges needs a candidate that serves everything, and a probe");
    LW_BUG_IF(problem_.weights.size() != problem_.probes.size(), "a weight for each probe");
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
        if (!covers_probes(layers_.front(), fewer)) continue;
        Solution without = solve(fewer);
        if (left_out < 0 || without.loss < best.loss) best = std::move(without), left_out = c;
      }
      if (left_out < 0) break;  // each is the only one that may serve some probe
      std::erase(allowed, left_out);
      solution = std::move(best);
    }
    refines_ = true;
    solution = solve(allowed);
    judge(solution.over, solution.base);
    solution.over.insert(solution.over.end(), solution.base.begin(), solution.base.end());
    return std::move(solution.over);
  }

 private:
  struct Solution {
    std::vector<ServedRange> base, over;  ///< what serves every call; and, laid over it, what asks for more: the strictest first
    double loss = 0;
  };
  /// Calls that pass `needs` (the box, and an alignment or multiples beyond it) and the candidates that may serve them.
  struct Layer {
    Guard needs;
    std::vector<int> members;
    std::vector<std::size_t> probes;               ///< those that pass
    std::vector<std::vector<ServiceCost>> costs;   ///< [candidate][place in `probes`]
  };

  Guard needs_of(int c) const { return Guard::both(box_, problem_.candidates[c].guard); }

  /// A layer for each thing that is asked for, the box itself first, stricter ones behind those that they imply.
  void make_layers() {
    for (const int c : all_) {
      const Guard needs = needs_of(c);
      const bool known = std::any_of(layers_.begin(), layers_.end(), [&](const Layer& l) { return l.needs == needs; });
      if (!known && !is_empty(needs)) layers_.push_back({.needs = needs});
    }
    const auto strictness = [&](const Layer& layer) {
      return std::count_if(layers_.begin(), layers_.end(), [&](const Layer& l) { return implies(layer.needs, l.needs); });
    };
    std::vector<std::pair<std::ptrdiff_t, std::size_t>> order;
    for (std::size_t i = 0; i < layers_.size(); ++i) order.emplace_back(strictness(layers_[i]), i);
    std::sort(order.begin(), order.end());
    std::vector<Layer> sorted;
    for (const auto& [strict, i] : order) sorted.push_back(layers_[i]);
    layers_ = std::move(sorted);
    for (Layer& layer : layers_) {
      for (const int c : all_)
        if (implies(layer.needs, needs_of(c))) layer.members.push_back(c);
      for (std::size_t p = 0; p < problem_.probes.size(); ++p)
        if (layer.needs.holds(problem_.probes[p])) layer.probes.push_back(p);
      compute_costs(layer);
    }
  }

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
  bool is_behind_baseline(int c, const Bindings& shape, const Layer& layer) {
    return has_baseline(layer) && at(c, shape) > at(rule_.baseline, shape) * (1 + rule_.baseline_loss);
  }
  bool has_baseline(const Layer& layer) const {
    return std::find(layer.members.begin(), layer.members.end(), rule_.baseline) != layer.members.end();
  }
  double plain_loss(int c, const Bindings& shape, const std::vector<int>& among) {
    double least = kInfinity;
    for (const int rival : among) least = std::min(least, at(rival, shape));
    return std::isfinite(least) ? at(c, shape) / least - 1 : 0;  // 0: nobody could be measured there
  }
  /// As it counts in the decision: only what is beyond noise, and more than in proportion. The baseline stays for what it
  /// allows others.
  double counted_loss(int c, const Bindings& shape, const std::vector<int>& among) {
    double loss = 0;
    for (const int rival : among) {
      if (loses_to(c, rival, shape, c == rule_.baseline ? rule_.baseline_loss : 0)) loss = std::max(loss, at(c, shape) / at(rival, shape) - 1);
    }
    return loss * (1 + loss / rule_.split_loss);
  }
  void compute_costs(Layer& layer) {
    layer.costs.assign(all_.size(), std::vector<ServiceCost>(layer.probes.size()));
    for (const int c : layer.members) {
      for (std::size_t i = 0; i < layer.probes.size(); ++i) {
        const Bindings& shape = problem_.probes[layer.probes[i]];
        const double weight = problem_.weights[layer.probes[i]];
        const bool measured = std::any_of(layer.members.begin(), layer.members.end(), [&](int m) { return std::isfinite(at(m, shape)); });
        const bool may_serve = !measured || (std::isfinite(at(c, shape)) && !is_behind_baseline(c, shape, layer));
        layer.costs[c][i].loss = may_serve ? weight * counted_loss(c, shape, layer.members) : kInfinity;
        layer.costs[c][i].quiet = may_serve ? weight * plain_loss(c, shape, layer.members) : 0;
      }
    }
  }
  static bool covers_probes(const Layer& layer, const std::vector<int>& allowed) {
    for (std::size_t i = 0; i < layer.probes.size(); ++i) {
      if (std::none_of(allowed.begin(), allowed.end(), [&](int c) {
            return std::find(layer.members.begin(), layer.members.end(), c) != layer.members.end() && std::isfinite(layer.costs[c][i].loss);
          })) {
        return false;
      }
    }
    return true;
  }

  // ------------------------------------------------------------ which candidates serve where

  /// The layer's calls cut into ranges, as if nothing lay over them.
  std::vector<ServedRange> cut(const Layer& layer, const std::vector<int>& allowed) {
    PartitionProblem partition{.costs = layer.costs, .preferred = has_baseline(layer) ? rule_.baseline : -1, .box_price = rule_.range_price};
    for (const std::size_t p : layer.probes) {
      partition.probes.emplace_back();
      for (const SymbolGuard& s : box_.symbols) partition.probes.back().push_back(problem_.probes[p].at(s.name));
    }
    for (const int c : layer.members)
      if (std::find(allowed.begin(), allowed.end(), c) != allowed.end()) partition.candidates.push_back(c);
    std::vector<ServedRange> ranges;
    place_edges(partition_box(partition), layer.needs, ranges);
    return ranges;
  }

  Solution solve(const std::vector<int>& allowed) {
    Solution out{.base = cut(layers_.front(), allowed)};
    for (std::size_t l = 1; l < layers_.size(); ++l) {
      const Layer& layer = layers_[l];
      if (layer.probes.empty() || !covers_probes(layer, allowed)) continue;
      std::vector<ServedRange> above;
      for (ServedRange& r : cut(layer, allowed))
        if (needs_of(r.candidate) == layer.needs && pays(r, layer, out)) above.push_back(std::move(r));
      out.over.insert(out.over.begin(), above.begin(), above.end());
    }
    for (std::size_t p = 0; p < problem_.probes.size(); ++p)
      out.loss += problem_.weights[p] * counted_loss(server_at(out, problem_.probes[p]), problem_.probes[p], all_);
    out.loss += rule_.range_price * static_cast<double>(out.base.size() + out.over.size());
    return out;
  }
  static int server_at(const Solution& solution, const Bindings& shape) {
    for (const auto* ranges : {&solution.over, &solution.base})
      for (const ServedRange& r : *ranges)
        if (r.guard.holds(shape)) return r.candidate;
    LW_BUG_IF(true, "a shape that no range holds");
    return -1;
  }
  /// Whether a range wins over what lies below it by more than the rule allows, and loses nowhere.
  bool pays(const ServedRange& range, const Layer& layer, const Solution& below) {
    bool wins = false;
    for (const std::size_t p : layer.probes) {
      const Bindings& shape = problem_.probes[p];
      if (!range.guard.holds(shape) || !std::isfinite(at(range.candidate, shape))) continue;
      const int server = server_at(below, shape);
      wins = wins || loses_to(server, range.candidate, shape, rule_.split_loss);
      if (loses_to(range.candidate, server, shape, 0) || is_behind_baseline(range.candidate, shape, layer)) return false;
    }
    return wins;
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
    const auto snap = [](const SymbolGuard& s, std::int64_t v) { return v / s.multiple_of * s.multiple_of; };
    for (const SymbolGuard& s : box.symbols) shape[s.name] = std::max(snap(s, std::clamp(middle_of(s.lo, s.hi), s.lo, s.hi)), s.lo);
    shape[name] = low;
    const int left = find_server(*tree.left, shape);
    shape[name] = high;
    const int right = find_server(*tree.right, shape);
    for (int i = 0; refines_ && left != right && i < rule_.refine_steps && high - low > 1; ++i) {
      shape[name] = snap(box.symbols[tree.axis], std::clamp(middle_of(low, high), low + 1, high - 1));
      if (shape[name] <= low) break;
      (at(left, shape) <= at(right, shape) ? low : high) = shape[name];
    }
    return high - low <= 1 ? high : std::clamp(middle_of(low, high), low + 1, high);
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
  std::vector<Layer> layers_;       ///< the first serves the whole box
  std::map<std::pair<int, Bindings>, RangeTime> times_;
  bool refines_ = false;           ///< edges are measured; else in the middle between probes
};

}  // namespace

std::vector<ServedRange> split_ranges(const RangeProblem& problem) { return Splitter(problem).run(); }

std::vector<Bindings> list_losing(const RangeProblem& problem, const std::vector<ServedRange>& ranges) {
  std::vector<Bindings> losing;
  for (const Bindings& shape : problem.held_out) {
    const auto server = std::find_if(ranges.begin(), ranges.end(), [&](const ServedRange& r) { return r.guard.holds(shape); });
    if (server == ranges.end()) continue;
    const double mine = problem.cost(server->candidate, shape).low;
    for (int c = 0; c < static_cast<int>(problem.candidates.size()); ++c) {
      if (!problem.candidates[c].guard.holds(shape) || mine <= problem.cost(c, shape).high * (1 + problem.rule.split_loss)) continue;
      losing.push_back(shape);
      break;
    }
  }
  return losing;
}

}  // namespace loopwright::tuner
