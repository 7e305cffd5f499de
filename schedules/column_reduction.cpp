// Columns: reductions over leading axes. Vectors of neighbouring columns walk down the rows together.
#include <algorithm>

#include "schedules/families.h"
#include "schedules/nests.h"

namespace loopwright::schedules {
namespace {

/// A column sum: some read ends in a loop that also indexes the result.
bool walks_down(const NestInfo& n) {
  return !n.spatial.empty() && !n.reduction.empty() &&
         std::any_of(n.reads.begin(), n.reads.end(), [&](const ReadInfo& r) {
           return !r.dims.empty() && r.dims.back() == n.spatial.back().name;
         });
}

}  // namespace

bool is_column_reduction(const Schedule& s) {
  const std::vector<NestInfo> sums = updates(s);
  return !sums.empty() && std::all_of(sums.begin(), sums.end(), walks_down);
}

void schedule_column_reduction(Schedule& s, Space& k) {
  const std::int64_t vectors = k.pick("vectors", {4, 2, 1, 8});
  const bool is_parallel = k.pick_flag("parallel", true);
  inline_intermediates(s);
  for (const NestInfo& n : updates(s)) {
    if (!s.ok()) return;
    const LoopId rows = fuse_all(s, n.reduction);
    const LoopId column = n.spatial.back();
    const std::int64_t width = clamp_width(s, column, natural_lanes(s, n) * vectors);
    const std::vector<LoopId> parts = s.split(column, {width});
    if (!s.ok()) return;
    std::vector<LoopId> order(n.spatial.begin(), n.spatial.end() - 1);
    order.insert(order.end(), {parts[0], rows, parts[1]});
    s.reorder(order);
    if (!s.ok()) return;
    s.attempt([&](Schedule& t) {
      const std::vector<LoopId> back = t.hold(n.buffer, parts[0], Place::registers);
      for (const LoopId& l : back) t.vectorize(l);
    });
    if (width > 1) s.attempt([&](Schedule& t) { t.vectorize(parts[1]); });
    if (is_parallel) s.attempt([&](Schedule& t) { t.parallel(order[0]); });
  }
  for (const NestInfo& n : outputs(s)) {
    if (!s.ok() || !is_pointwise(n) || n.loops.empty()) continue;
    s.attempt([&](Schedule& t) { vectorize_inner(t, n.loops.back(), natural_lanes(t, n)); });
  }
}

}  // namespace loopwright::schedules
