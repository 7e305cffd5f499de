// GPU: reductions of a whole tensor in one launch. Each block walks over its share with several vectors in flight and
// leaves one value; the block that finishes last combines those and does what follows.
#include <algorithm>

#include "schedules/families.h"
#include "schedules/gpu_nests.h"
#include "schedules/nests.h"

namespace loopwright::schedules {
namespace {

void reduce_over_grid(Schedule& s, const NestInfo& n, std::int64_t blocks, std::int64_t threads, std::int64_t unrolled) {
  const std::vector<LoopId> loops = fuse_contiguous(s, n);
  if (!s.ok() || loops.empty()) return;
  const RowShares shares{threads, natural_width(s, n, loops.back()), unrolled};
  const LoopId all = fuse_all(s, loops);
  if (!s.ok()) return;
  const std::int64_t each = shares.threads * shares.width;
  if (blocks == 1) return reduce_columns(s, all, shares);
  // A partial result for each lane of each thread of each block; those of a block stay in its registers.
  const std::vector<LoopId> lanes = s.reduce_across(all, blocks * each, true, Place::global);
  if (!s.ok()) return;
  const std::string of_lanes = buffer_at(s, lanes[0]);
  const std::vector<LoopId> grid = s.reduce_across(lanes[2], blocks, false, Place::global);
  if (!s.ok()) return;
  const std::string of_blocks = buffer_at(s, grid[0]);
  s.compute_at(of_lanes, grid[0], Place::registers);
  s.hold(of_blocks, grid[0], Place::registers);
  s.bind(grid[0], Axis::grid_x);
  if (!s.ok()) return;
  spread_partials(s, lanes[0], lanes[1], shares, unrolled);
  if (s.ok()) combine_threads(s, grid[1], threads);
  if (s.ok()) reduce_columns(s, grid[2], RowShares{threads, 1, 4});
}

void schedule_blocks(Schedule& s, Space& k) {
  const std::int64_t threads = k.pick("threads", {256, 512, 128, 64});
  const std::int64_t per_sm = k.pick("blocks_per_sm", {4, 8, 2, 1, 16});
  const std::int64_t unrolled = k.pick("vectors", {8, 4, 2, 1});  // of one thread in flight
  if (k.pick_flag("aligned", true)) s.assume_alignment(16);
  inline_intermediates(s);
  for (const NestInfo& n : updates(s)) {
    if (!s.ok()) return;
    // A block has its own share when there are some rounds for every thread of it.
    std::int64_t elements = 1;
    for (const LoopId& l : n.loops) elements *= std::max<std::int64_t>(1, std::min(s.max_extent(l), INT64_MAX / elements));
    const std::int64_t most = std::max<std::int64_t>(1, elements / (threads * 8));
    reduce_over_grid(s, n, std::min<std::int64_t>(per_sm * s.target().workers, most), threads, unrolled);
  }
  for (const NestInfo& n : outputs(s)) {
    if (!s.ok() || !is_pointwise(n) || n.loops.empty()) continue;
    s.attempt([&](Schedule& t) { schedule_gpu_pointwise(t, n, 0, 128, 1); });
  }
}

}  // namespace

void schedule_gpu_full_reduction(Schedule& s, Space& k) {
  if (!s.attempt([&](Schedule& t) { schedule_blocks(t, k); })) schedule_gpu_general(s, k);
}

}  // namespace loopwright::schedules
