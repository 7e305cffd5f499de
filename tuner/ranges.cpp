#include "tuner/ranges.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>

namespace loopwright::tuner {
namespace {

/// Costs asked for once.
class CostTable {
 public:
  CostTable(const std::vector<RangeCandidate>& candidates, const RangeCost& cost) : candidates_(candidates), cost_(cost) {}
  const RangeTime& time(int c, std::int64_t value) {
    static const RangeTime never(kInfinity);
    if (!candidates_[c].serves(value)) return never;
    auto known = times_.find({c, value});
    if (known == times_.end()) known = times_.emplace(std::pair{c, value}, cost_(c, value)).first;
    return known->second;
  }
  double at(int c, std::int64_t value) { return time(c, value).median; }
  /// Best of `among` at `value`.
  double best(const std::vector<int>& among, std::int64_t value) {
    double least = kInfinity;
    for (const int c : among) least = std::min(least, at(c, value));
    return least;
  }
  /// Whether `c` is slower than `rival` by more than `share`, and not by noise.
  bool loses_to(int c, int rival, std::int64_t value, double share) {
    return at(c, value) > at(rival, value) * (1 + share) && time(c, value).low > time(rival, value).high;
  }
  bool loses(int c, std::int64_t value, const std::vector<int>& among, double share) {
    return std::any_of(among.begin(), among.end(), [&](int rival) { return loses_to(c, rival, value, share); });
  }
  double loss(int c, std::int64_t value, const std::vector<int>& among) {
    const double least = best(among, value);
    if (!std::isfinite(least)) return 0;  // nobody could be measured there
    return at(c, value) / least - 1;
  }

 private:
  const std::vector<RangeCandidate>& candidates_;
  const RangeCost& cost_;
  std::map<std::pair<int, std::int64_t>, RangeTime> times_;
};

/// probes[from..to] served by one candidate.
struct Piece {
  std::size_t from = 0, to = 0;
  int candidate = 0;
};

/// The doubt is the baseline's: its median decides here, whatever the intervals say.
bool is_behind_baseline(CostTable& table, int c, std::int64_t value, const RangeRule& rule) {
  return rule.baseline >= 0 && table.at(c, value) > table.at(rule.baseline, value) * (1 + rule.baseline_loss);
}

/// Fewest pieces, then least total loss, by dynamic programming over the probes.
std::vector<Piece> cover_probes(CostTable& table, const std::vector<int>& among, const std::vector<std::int64_t>& probes,
                                const RangeRule& rule) {
  struct State {
    int pieces = 0;
    double loss = 0;
    std::size_t from = 0;
    int candidate = 0;
  };
  const std::size_t n = probes.size();
  std::vector<State> best(n + 1, State{.pieces = std::numeric_limits<int>::max()});
  best[0] = {};
  for (std::size_t end = 1; end <= n; ++end) {
    for (const int c : among) {
      double loss = 0;
      for (std::size_t from = end; from-- > 0;) {
        const double here = table.loss(c, probes[from], among);
        const bool slow = table.loses(c, probes[from], among, rule.split_loss);
        // The fastest at a probe always may serve it, so that every probe is covered.
        if (slow || is_behind_baseline(table, c, probes[from], rule) || !std::isfinite(here)) break;
        loss += here;
        const State next{best[from].pieces + 1, best[from].loss + loss, from, c};
        const bool better = next.pieces != best[end].pieces ? next.pieces < best[end].pieces
                                                            : next.loss < best[end].loss - 1e-12;
        if (better) best[end] = next;
      }
    }
  }
  std::vector<Piece> pieces;
  for (std::size_t end = n; end > 0; end = best[end].from) {
    pieces.insert(pieces.begin(), {best[end].from, end - 1, best[end].candidate});
  }
  return pieces;
}

/// A piece whose winner beats the baseline nowhere but by noise is the baseline's, unless another beats the baseline;
/// neighbours with the same winner become one.
void prefer_baseline(std::vector<Piece>& pieces, CostTable& table, const std::vector<int>& among,
                     const std::vector<std::int64_t>& probes, const RangeRule& rule) {
  for (Piece& piece : pieces) {
    bool beats = false, baseline_serves = rule.baseline >= 0;
    for (std::size_t i = piece.from; baseline_serves && i <= piece.to; ++i) {
      beats = beats || table.loses_to(rule.baseline, piece.candidate, probes[i], 0);
      baseline_serves = std::isfinite(table.at(rule.baseline, probes[i])) &&
                        !table.loses(rule.baseline, probes[i], among, rule.split_loss);
    }
    if (baseline_serves && !beats) piece.candidate = rule.baseline;
  }
  for (std::size_t i = 1; i < pieces.size();) {
    if (pieces[i].candidate != pieces[i - 1].candidate) {
      ++i;
      continue;
    }
    pieces[i - 1].to = pieces[i].to;
    pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

/// The first value of the right-hand range, somewhere in (left, right], found by bisection of the logarithm.
std::int64_t find_edge(CostTable& table, int left_candidate, int right_candidate, std::int64_t left, std::int64_t right,
                       int steps) {
  std::int64_t low = left, high = right;
  for (int i = 0; i < steps && high - low > 1; ++i) {
    auto middle = static_cast<std::int64_t>(std::sqrt(static_cast<double>(std::max<std::int64_t>(low, 1)) * static_cast<double>(high)));
    middle = std::clamp(middle, low + 1, high - 1);
    (table.at(left_candidate, middle) <= table.at(right_candidate, middle) ? low : high) = middle;
  }
  if (high - low <= 1) return high;
  const auto middle = static_cast<std::int64_t>(std::sqrt(static_cast<double>(std::max<std::int64_t>(low, 1)) * static_cast<double>(high)));
  return std::clamp(middle, low + 1, high);
}

/// `rivals_at`: the candidates that could serve the calls which the range serves at a value.
void measure_losses(ServedRange& range, CostTable& table, const std::vector<std::int64_t>& held_out,
                    const std::function<const std::vector<int>&(std::int64_t)>& rivals_at) {
  double sum = 0;
  for (const std::int64_t v : held_out) {
    if (v < range.lo || v > range.hi || v % range.multiple_of != 0) continue;
    const double loss = table.loss(range.candidate, v, rivals_at(v));
    if (!std::isfinite(loss)) continue;
    sum += loss;
    range.worst_loss = std::max(range.worst_loss, loss);
    ++range.held_out;
  }
  if (range.held_out > 0) range.mean_loss = sum / static_cast<double>(range.held_out);
}

/// Runs of probes at which a candidate that needs multiples beats the range below it by more than the rule allows.
std::vector<ServedRange> lay_over(const std::vector<ServedRange>& base, CostTable& table, int c, const SymbolGuard& guard,
                                  const std::vector<std::int64_t>& probes, const RangeRule& rule) {
  std::vector<ServedRange> over;
  for (const ServedRange& below : base) {
    bool wins = false, loses = false;
    for (const std::int64_t p : probes) {
      if (p < below.lo || p > below.hi || !std::isfinite(table.at(c, p))) continue;
      wins = wins || table.loses_to(below.candidate, c, p, rule.split_loss);
      loses = loses || table.loses_to(c, below.candidate, p, 0) || is_behind_baseline(table, c, p, rule);
    }
    if (!wins || loses) continue;
    over.push_back({.lo = std::max(below.lo, guard.lo),
                    .hi = std::min(below.hi, guard.hi),
                    .multiple_of = guard.multiple_of,
                    .candidate = c});
  }
  return over;
}

}  // namespace

std::vector<std::int64_t> choose_range_probes(std::int64_t lo, std::int64_t hi, int count) {
  std::set<std::int64_t> values{lo, hi};
  if (hi <= lo) return {lo};
  // First the coarse grid, then what is just beyond a tile's edge; the latter only as far as `count` goes.
  std::vector<std::int64_t> grid, edges;
  for (std::int64_t p = 1; p <= hi && p > 0; p *= 2) {
    grid.push_back(p);
    if (p >= 16) edges.push_back(p + 1), edges.push_back(p - 1);
  }
  std::erase_if(grid, [&](std::int64_t v) { return v < lo || v > hi; });
  std::erase_if(edges, [&](std::int64_t v) { return v < lo || v > hi; });
  const auto room = static_cast<std::size_t>(std::max(count, 2));
  const std::size_t step = std::max<std::size_t>(1, (grid.size() + room - 1) / room);
  for (std::size_t i = 0; i < grid.size() && values.size() < room; i += step) values.insert(grid[i]);
  const std::size_t edge_step = std::max<std::size_t>(1, edges.size() / std::max<std::size_t>(1, room - std::min(room, values.size())) + 1);
  for (std::size_t i = 0; i < edges.size() && values.size() < room; i += edge_step) values.insert(edges[i]);
  return {values.begin(), values.end()};
}

std::vector<std::int64_t> choose_held_out(std::int64_t lo, std::int64_t hi, const std::vector<std::int64_t>& used,
                                          int count, std::uint64_t seed) {
  std::set<std::int64_t> taken(used.begin(), used.end()), chosen;
  std::mt19937_64 random(seed);
  const double low = std::log(static_cast<double>(std::max<std::int64_t>(lo, 1)));
  const double high = std::log(static_cast<double>(std::max<std::int64_t>(hi, 1)));
  for (int i = 0; i < count; ++i) {
    for (int tries = 0; tries < 16; ++tries) {
      const double unit = static_cast<double>(random() >> 11) * 0x1p-53;
      const double at = low + (high - low) * (static_cast<double>(i) + unit) / static_cast<double>(count);
      const auto value = std::clamp(static_cast<std::int64_t>(std::llround(std::exp(at))), lo, hi);
      if (taken.contains(value) || !chosen.insert(value).second) continue;
      break;
    }
  }
  return {chosen.begin(), chosen.end()};
}

std::vector<ServedRange> split_ranges(std::int64_t lo, std::int64_t hi, const std::vector<RangeCandidate>& candidates,
                                      const std::vector<std::int64_t>& probes, const std::vector<std::int64_t>& held_out,
                                      const RangeCost& cost, const RangeRule& rule) {
  CostTable table(candidates, cost);
  std::vector<int> everywhere, all;
  for (int c = 0; c < static_cast<int>(candidates.size()); ++c) {
    const SymbolGuard& g = candidates[c].guard;
    all.push_back(c);
    if (!candidates[c].lies_over && g.lo <= lo && g.hi >= hi && g.multiple_of == 1) everywhere.push_back(c);
  }
  LW_BUG_IF(everywhere.empty() || probes.empty(), "split_ranges needs a candidate that serves everything, and a probe");
  std::vector<Piece> pieces = cover_probes(table, everywhere, probes, rule);
  prefer_baseline(pieces, table, everywhere, probes, rule);
  std::vector<ServedRange> base;
  std::int64_t next = lo;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const bool last = i + 1 == pieces.size();
    const std::int64_t edge = last ? hi + 1
                                   : find_edge(table, pieces[i].candidate, pieces[i + 1].candidate, probes[pieces[i].to],
                                               probes[pieces[i + 1].from], rule.refine_steps);
    base.push_back({.lo = next, .hi = edge - 1, .candidate = pieces[i].candidate});
    next = edge;
  }
  std::vector<ServedRange> ranges;
  for (const int c : all) {
    if (std::find(everywhere.begin(), everywhere.end(), c) != everywhere.end()) continue;
    for (const ServedRange& r : lay_over(base, table, c, candidates[c].guard, probes, rule)) {
      // One variant a region: the first candidate laid over it stays unless a later one is faster at its probes.
      const auto same = std::find_if(ranges.begin(), ranges.end(), [&](const ServedRange& o) { return o.lo <= r.hi && r.lo <= o.hi; });
      if (same == ranges.end()) {
        ranges.push_back(r);
        continue;
      }
      double theirs = 0, ours = 0;
      for (const std::int64_t p : probes) {
        if (p < r.lo || p > r.hi || !std::isfinite(table.at(same->candidate, p)) || !std::isfinite(table.at(c, p))) continue;
        theirs += std::log(table.at(same->candidate, p)), ours += std::log(table.at(c, p));
      }
      if (ours < theirs) *same = r;
    }
  }
  for (ServedRange& r : ranges) measure_losses(r, table, held_out, [&](std::int64_t) -> const std::vector<int>& { return all; });
  // Below a range that lies over it, a range gets only the calls that no such candidate takes.
  for (ServedRange& r : base) {
    measure_losses(r, table, held_out, [&](std::int64_t v) -> const std::vector<int>& {
      const bool is_below = std::any_of(ranges.begin(), ranges.end(), [&](const ServedRange& over) {
        return v >= over.lo && v <= over.hi && v % over.multiple_of == 0;
      });
      return is_below ? everywhere : all;
    });
  }
  ranges.insert(ranges.end(), base.begin(), base.end());
  return ranges;
}

}  // namespace loopwright::tuner
