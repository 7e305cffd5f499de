// GPU: reductions of a whole tensor in one launch. Each block walks over its share with several vectors in flight and
// leaves one value; the block that finishes last combines those and does what follows. Several reductions and outputs of
// one shape happen on one walk.
#include <algorithm>
#include <map>
#include <set>

#include "schedules/families.h"
#include "schedules/gpu_nests.h"
#include "schedules/nests.h"

namespace loopwright::schedules {
namespace {

/// How a tensor is shared out: a block has every `blocks`-th share of `threads` vectors.
struct GridShares {
  std::int64_t blocks = 1;
  RowShares block;
  std::int64_t each() const { return block.threads * block.width; }
};

/// Returns the loops over the tensor, outermost first, beginning with the grid's; empty where one block does all.
std::vector<LoopId> reduce_over_grid(Schedule& s, const LoopId& all, const GridShares& shares) {
  if (shares.blocks == 1) {
    reduce_columns(s, all, shares.block);
    return {};
  }
  // A partial result for each lane of each thread of each block; those of a block stay in its registers.
  const std::vector<LoopId> lanes = s.reduce_across(all, shares.blocks * shares.each(), true, Place::global);
  if (!s.ok()) return {};
  const std::string of_lanes = buffer_at(s, lanes[0]);
  const std::vector<LoopId> grid = s.reduce_across(lanes[2], shares.blocks, false, Place::global);
  if (!s.ok()) return {};
  const std::string of_blocks = buffer_at(s, grid[0]);
  s.compute_at(of_lanes, grid[0], Place::registers);
  s.hold(of_blocks, grid[0], Place::registers);
  s.bind(grid[0], Axis::grid_x);
  if (!s.ok()) return {};
  std::vector<LoopId> out = spread_partials(s, lanes[0], lanes[1], shares.block, shares.block.unrolled);
  if (s.ok()) combine_threads(s, grid[1], shares.block);
  if (s.ok()) reduce_columns(s, grid[2], RowShares{1, shares.block.threads, 1, 4});
  out.insert(out.begin(), grid[0]);
  return out;
}

/// A pointwise nest over the same tensor, shared out alike.
std::vector<LoopId> share_over_grid(Schedule& s, const LoopId& all, const GridShares& shares) {
  const std::vector<LoopId> parts = s.split(all, {shares.blocks, shares.each()});
  if (!s.ok()) return {};
  s.reorder({parts[1], parts[0], parts[2]});
  s.bind(parts[1], Axis::grid_x);
  if (!s.ok()) return {};
  std::vector<LoopId> out = share_rounds(s, parts[0], parts[2], shares.block, shares.block.unrolled);
  out.insert(out.begin(), parts[1]);
  return out;
}

/// A nest over a tensor that is reduced.
struct Walk {
  LoopId all;  ///< its loops as one
  std::vector<std::int64_t> shape;
  std::int64_t width = 1;
  bool reduces = false;
  std::int64_t elements() const {
    std::int64_t n = 1;
    for (const std::int64_t extent : shape) n *= std::max<std::int64_t>(1, std::min(extent, INT64_MAX / n));
    return n;
  }
};

/// The reductions, and the outputs of the shape of one of them: all that can happen on one walk over the memory.
std::vector<Walk> find_walks(Schedule& s) {
  const auto shape_of = [&](const NestInfo& n) {
    std::vector<std::int64_t> shape;
    for (const LoopId& l : n.loops) shape.push_back(s.max_extent(l));
    return shape;
  };
  std::set<std::vector<std::int64_t>> reduced;
  for (const NestInfo& n : updates(s)) reduced.insert(shape_of(n));
  std::vector<Walk> out;
  for (const NestInfo& n : s.nests()) {
    Walk walk{{}, shape_of(n), 1, n.is_update};
    const bool goes_along = is_pointwise(n) && n.writes_output && reduced.contains(walk.shape);
    if (n.loops.empty() || !(n.is_update || goes_along)) continue;
    const std::vector<LoopId> loops = fuse_contiguous(s, n);
    if (!s.ok()) return {};
    walk.width = natural_width(s, n, loops.back());
    walk.all = fuse_all(s, loops);
    out.push_back(walk);
  }
  for (Walk& a : out)
    for (const Walk& b : out)
      if (a.shape == b.shape) a.width = std::min(a.width, b.width);
  return out;
}

}  // namespace

void schedule_gpu_full_reduction(Schedule& s, Space& k) {
  const std::int64_t threads = k.pick("threads", {512, 256, 128, 64});
  const std::int64_t per_sm = k.pick("blocks_per_sm", {2, 4, 8, 1, 16});
  const std::int64_t unrolled = k.pick("vectors", {8, 4, 2, 1});  // of one thread in flight
  if (k.pick_flag("aligned", true)) s.assume_alignment(16);
  inline_intermediates(s);
  std::map<std::vector<std::int64_t>, std::vector<LoopId>> last;  // walk over a tensor of that shape
  for (const Walk& walk : find_walks(s)) {
    if (!s.ok()) return;
    // Several blocks only when there is a vector for every thread of one; then rather a last one that is not full than a
    // second round.
    const std::int64_t each = threads * walk.width;
    const std::int64_t most = walk.elements() < 2 * each ? 1 : (walk.elements() + each - 1) / each;
    const GridShares shares{std::min<std::int64_t>(per_sm * s.target().workers, most), {1, threads, walk.width, unrolled}};
    const std::vector<LoopId> made = walk.reduces ? reduce_over_grid(s, walk.all, shares) : share_over_grid(s, walk.all, shares);
    if (!s.ok()) return;
    std::vector<LoopId>& before = last[walk.shape];
    if (!before.empty() && !made.empty()) s.attempt([&](Schedule& t) { merge_loops(t, before, made); });
    before = made;
  }
  for (const NestInfo& n : outputs(s)) {
    if (!s.ok() || !is_pointwise(n) || n.loops.empty()) continue;
    s.attempt([&](Schedule& t) { schedule_gpu_pointwise(t, n, 0, 128, 1); });
  }
}

}  // namespace loopwright::schedules
