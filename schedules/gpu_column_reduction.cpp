// GPU: columns. A block owns a tile of neighbouring columns and a share of the rows: threads side by side read vectors of
// a row, threads above each other take rows in turn. The block's threads meet in shared memory, the shares of the rows in
// the block that finishes last of a tile. Several reductions of one shape happen on one walk.
#include <algorithm>

#include "schedules/families.h"
#include "schedules/gpu_nests.h"
#include "schedules/nests.h"

namespace loopwright::schedules {
namespace {

struct Columns {
  std::int64_t across = 32;  ///< threads side by side
  std::int64_t down = 8;     ///< threads above each other
  std::int64_t width = 1;    ///< elements of a vector
  std::int64_t unrolled = 8;
  std::int64_t tile() const { return across * width; }
};

void unroll_all(Schedule& s, const std::vector<LoopId>& loops) {
  for (const LoopId& l : loops) s.attempt([&](Schedule& t) { t.unroll(l); });
}

/// The loops over a tile of columns, each element by one thread.
void share_tile(Schedule& s, std::vector<LoopId> loops, const Columns& c) {
  std::erase_if(loops, [&](const LoopId& l) { return s.constant_extent(l) == 1; });
  if (loops.empty()) return;
  const LoopId all = fuse_all(s, loops);
  const std::vector<LoopId> parts = s.split(all, {c.across});
  if (!s.ok()) return;
  s.bind(parts[0], Axis::thread_y);
  s.bind(parts[1], Axis::thread_x);
}

/// The loops of one reduction that walk over the input, outermost first, and the one that finishes tiles, if any.
struct ColumnWalk {
  std::vector<LoopId> loops;
  LoopId last;
};

/// Inside a block: `rows` over its rows, `vector` and `lane` over its columns, all of one nest that updates `tile`. Returns
/// the loops that walk.
std::vector<LoopId> reduce_block(Schedule& s, const LoopId& rows, const LoopId& vector, const LoopId& lane, const Columns& c) {
  const std::vector<LoopId> r = s.reduce_across(rows, c.down, true, Place::shared);
  if (!s.ok()) return {};
  const std::string partial = buffer_at(s, r[0]);
  s.reorder({r[0], vector, r[1], lane});
  const std::vector<LoopId> back = s.hold(partial, vector, Place::registers);
  if (!s.ok()) return {};
  unroll_all(s, init_of(s, buffer_at(s, lane)).loops);
  s.bind(r[0], Axis::thread_y);
  s.bind(vector, Axis::thread_x);
  if (!s.ok()) return {};
  if (c.width > 1) s.attempt([&](Schedule& t) { t.vectorize(lane); });
  if (c.width > 1) s.attempt([&](Schedule& t) { t.vectorize(back.back()); });
  const std::vector<LoopId> rounds = s.split(r[1], {c.unrolled});
  if (!s.ok()) return {};
  s.unroll(rounds[1]);
  // The rows of threads meet.
  std::vector<LoopId> columns = nest_with(s, r[2]).loops;
  std::erase(columns, r[2]);
  std::vector<LoopId> order = columns;
  order.push_back(r[2]);
  s.reorder(order);
  if (!s.ok()) return {};
  s.unroll(r[2]);
  share_tile(s, columns, c);
  return {r[0], vector, rounds[0], rounds[1], lane};
}

/// What follows a tile of the sum that `loop` completes: the pointwise output that reads it, or the copy back. Returns its loops.
std::vector<LoopId> finish_tile(Schedule& s, const std::string& sum, const LoopId& loop) {
  std::vector<LoopId> out;
  for (const NestInfo& n : s.nests()) {
    if (!is_pointwise(n) || !n.writes_output) continue;
    if (std::none_of(n.reads.begin(), n.reads.end(), [&](const ReadInfo& r) { return r.buffer == sum; })) continue;
    if (s.attempt([&](Schedule& t) { out = t.fuse_epilogue(n.buffer, loop, Place::registers); })) return out;
  }
  return s.hold(sum, loop, Place::registers);
}

/// The shares of the rows meet: `share` is the loop over them of the nest that sums them up. Returns the loop over tiles.
LoopId combine_shares(Schedule& s, const LoopId& share, std::size_t outer_count, const NestInfo& sum, const Columns& c) {
  std::vector<LoopId> loops = nest_with(s, share).loops;
  std::erase(loops, share);
  std::vector<LoopId> order = loops;
  order.push_back(share);
  s.reorder(order);
  if (!s.ok() || outer_count == 0) {
    s.reject("no tiles");
    return {};
  }
  // What is held at the tile moves there before the loops around are one: then its box is plain to see.
  const LoopId innermost = loops[outer_count - 1];
  const std::vector<LoopId> after = finish_tile(s, sum.buffer, innermost);
  const LoopId tile = fuse_all(s, {loops.begin(), loops.begin() + static_cast<std::ptrdiff_t>(outer_count)});
  if (!s.ok()) return {};
  const NestInfo combine = nest_with(s, share);
  share_tile(s, init_of(s, combine.buffer).loops, c);
  share_tile(s, {loops.begin() + static_cast<std::ptrdiff_t>(outer_count), loops.end()}, c);
  share_tile(s, after, c);
  const auto count = s.constant_extent(share);
  if (count && *count <= 32) s.unroll(share);
  s.bind(tile, Axis::last_block);
  return tile;
}

ColumnWalk reduce_down(Schedule& s, const NestInfo& n, Columns c, std::int64_t blocks) {
  const LoopId column = n.spatial.back();
  NestInfo along = n;
  along.loops = {column};
  c.width = s.constant_extent(column) ? natural_width(s, along, column) : 1;
  c.across = std::max<std::int64_t>(1, std::min(c.across, s.max_extent(column) / c.width));
  const LoopId rows = fuse_all(s, n.reduction);
  const std::vector<LoopId> parts = s.split(column, {c.across, c.width});
  if (!s.ok()) return {};
  std::vector<LoopId> outer(n.spatial.begin(), n.spatial.end() - 1);
  outer.push_back(parts[0]);
  std::vector<LoopId> order{rows};
  order.insert(order.end(), outer.begin(), outer.end());
  order.insert(order.end(), {parts[1], parts[2]});
  s.reorder(order);
  if (!s.ok()) return {};
  std::int64_t tiles = 1;
  for (const LoopId& l : outer) tiles *= std::max<std::int64_t>(1, s.max_extent(l));
  const std::int64_t most = s.max_extent(rows) / (c.down * c.unrolled);
  const std::int64_t shares = std::clamp<std::int64_t>(blocks / tiles, 1, std::clamp<std::int64_t>(most, 1, 1024));
  if (shares == 1) {
    std::rotate(order.begin(), order.begin() + 1, order.begin() + 1 + static_cast<std::ptrdiff_t>(outer.size()));
    s.reorder(order);
    const std::vector<LoopId> back = finish_tile(s, n.buffer, outer.back());
    ColumnWalk out{{fuse_all(s, outer)}, {}};
    s.bind(out.loops[0], Axis::grid_x);
    if (!s.ok()) return {};
    const std::string held = buffer_at(s, rows);
    const std::vector<LoopId> walk = reduce_block(s, rows, parts[1], parts[2], c);
    share_tile(s, init_of(s, held).loops, c);
    share_tile(s, back, c);
    out.loops.insert(out.loops.end(), walk.begin(), walk.end());
    return out;
  }
  const std::vector<LoopId> r = s.reduce_across(rows, shares, true, Place::global);
  if (!s.ok()) return {};
  const std::string partial = buffer_at(s, r[0]);
  order.assign(outer.begin(), outer.end());
  order.insert(order.end(), {r[0], r[1], parts[1], parts[2]});
  s.reorder(order);
  const std::vector<LoopId> back = s.hold(partial, r[0], Place::registers);
  if (!s.ok()) return {};
  const std::string held = buffer_at(s, r[1]);
  ColumnWalk out{{fuse_all(s, outer), r[0]}, {}};
  s.bind(out.loops[0], Axis::grid_x);
  s.bind(r[0], Axis::grid_y);
  if (!s.ok()) return {};
  const std::vector<LoopId> walk = reduce_block(s, r[1], parts[1], parts[2], c);
  out.loops.insert(out.loops.end(), walk.begin(), walk.end());
  share_tile(s, init_of(s, held).loops, c);
  share_tile(s, back, c);
  if (s.ok()) out.last = combine_shares(s, r[2], outer.size(), n, c);
  return out;
}

/// Reductions of one shape walk over the input together, and the same block finishes their tiles.
void walk_together(Schedule& s, const ColumnWalk& first, const ColumnWalk& second) {
  if (first.loops.size() != second.loops.size() || first.last.name.empty() != second.last.name.empty()) return;
  const std::ptrdiff_t grids = first.last.name.empty() ? 1 : 2;
  s.attempt([&](Schedule& t) {
    for (std::ptrdiff_t i = 0; i < grids; ++i) t.merge(first.loops[static_cast<std::size_t>(i)], second.loops[static_cast<std::size_t>(i)]);
    if (grids > 1) t.merge(first.last, second.last);
    t.attempt([&](Schedule& u) { merge_loops(u, {first.loops.begin() + grids, first.loops.end()}, {second.loops.begin() + grids, second.loops.end()}); });
  });
}

/// Threads above each other: not more than there are rows.
std::vector<std::int64_t> down_choices(const Schedule& s) {
  std::int64_t rows = 1;
  for (const NestInfo& n : updates(s)) {
    std::int64_t extent = 1;
    for (const LoopId& l : n.reduction) extent *= std::min<std::int64_t>(s.max_extent(l), 1 << 20);
    rows = std::max(rows, extent);
  }
  std::vector<std::int64_t> out;
  for (const std::int64_t down : {32, 16, 8, 4, 2})
    if (down / 2 < rows || down == 2) out.push_back(down);
  return out;
}

}  // namespace

void schedule_gpu_column_reduction(Schedule& s, Space& k) {
  Columns c;
  c.across = k.pick("across", {16, 32, 64, 8, 128});
  c.down = k.pick("down", down_choices(s));
  c.unrolled = k.pick("vectors", {4, 8, 2, 1});  // of one thread in flight
  const std::int64_t per_sm = k.pick("blocks_per_sm", {1, 2, 4, 8});
  if (c.across * c.down > s.target().max_threads_per_block) return s.reject("more threads than a block has");
  if (k.pick_flag("aligned", true)) s.assume_alignment(16);
  inline_intermediates(s);
  std::vector<ColumnWalk> walks;
  for (const NestInfo& n : updates(s)) {
    if (!s.ok()) return;
    walks.push_back(reduce_down(s, n, c, per_sm * s.target().workers));
    if (s.ok() && walks.size() > 1) walk_together(s, walks[walks.size() - 2], walks.back());
  }
  for (const NestInfo& n : outputs(s)) {
    if (!s.ok() || !is_pointwise(n) || n.loops.empty()) continue;
    s.attempt([&](Schedule& t) { schedule_gpu_pointwise(t, n, 0, 128, 1); });
  }
}

}  // namespace loopwright::schedules
