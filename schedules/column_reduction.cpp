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

/// Vectors of neighbouring columns, the last of the spatial loops, walk down `rows` with their sums in registers.
/// Returns the loops around the rows.
std::vector<LoopId> walk_down_rows(Schedule& s, const std::string& buffer, const std::vector<LoopId>& spatial,
                                   const LoopId& rows, std::int64_t width) {
  const std::vector<LoopId> parts = s.split(spatial.back(), {width});
  if (!s.ok()) return {};
  std::vector<LoopId> around(spatial.begin(), spatial.end() - 1);
  around.push_back(parts[0]);
  std::vector<LoopId> order = around;
  order.insert(order.end(), {rows, parts[1]});
  s.reorder(order);
  if (!s.ok()) return {};
  s.attempt([&](Schedule& t) {
    const std::vector<LoopId> back = t.hold(buffer, parts[0], Place::registers);
    for (const LoopId& l : back) t.vectorize(l);
  });
  if (width > 1) s.attempt([&](Schedule& t) { t.vectorize(parts[1]); });
  return around;
}

bool is_inside(const NestInfo& n, const LoopId& loop) {
  return std::find(n.loops.begin(), n.loops.end(), loop) != n.loops.end();
}

/// Each block of rows is summed by a worker of its own, all columns of it; the blocks are added up afterwards.
void sum_blocks(Schedule& s, const NestInfo& n, const LoopId& rows, std::int64_t blocks, std::int64_t width,
                bool is_parallel) {
  std::vector<LoopId> order{rows};
  order.insert(order.end(), n.spatial.begin(), n.spatial.end());
  s.reorder(order);
  const std::vector<LoopId> parts = s.reduce_across(rows, blocks, false, Place::global);
  if (!s.ok()) return;
  for (const NestInfo& block : updates(s)) {
    if (is_inside(block, parts[1])) walk_down_rows(s, block.buffer, n.spatial, parts[1], width);
    if (s.ok() && is_inside(block, parts[2])) vectorize_inner(s, block.loops.back(), width);
  }
  if (s.ok() && is_parallel) s.parallel(parts[0]);
}

/// Whether the columns alone cannot keep the workers busy, and there are rows enough to share out instead.
bool has_few_columns(const Schedule& s, const NestInfo& n) {
  const auto count = [&s](const std::vector<LoopId>& loops) {
    double elements = 1;
    for (const LoopId& l : loops) elements *= static_cast<double>(s.max_extent(l));
    return elements;
  };
  const double workers = s.target().workers, lanes = static_cast<double>(natural_lanes(s, n));
  return workers > 1 && count(n.spatial) < 2 * workers * lanes && count(n.reduction) > 64 * workers;
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
  const std::vector<NestInfo> sums = updates(s);
  const std::int64_t workers = s.target().workers;
  const bool is_tall = std::any_of(sums.begin(), sums.end(), [&](const NestInfo& n) { return has_few_columns(s, n); });
  const std::int64_t blocks = is_tall ? k.pick("row_blocks", {workers, 4 * workers, 1}) : 1;
  for (const NestInfo& n : sums) {
    if (!s.ok()) return;
    const LoopId rows = fuse_all(s, n.reduction);
    const std::int64_t width = clamp_width(s, n.spatial.back(), natural_lanes(s, n) * vectors);
    const bool is_split = blocks > 1 && s.attempt([&](Schedule& t) { sum_blocks(t, n, rows, blocks, width, is_parallel); });
    if (is_split) continue;
    const std::vector<LoopId> around = walk_down_rows(s, n.buffer, n.spatial, rows, width);
    if (is_parallel && s.ok()) s.attempt([&](Schedule& t) { t.parallel(around[0]); });
  }
  for (const NestInfo& n : outputs(s)) {
    if (!s.ok() || !is_pointwise(n) || n.loops.empty()) continue;
    s.attempt([&](Schedule& t) { vectorize_inner(t, n.loops.back(), natural_lanes(t, n)); });
  }
}

}  // namespace loopwright::schedules
