#include "schedules/gpu_nests.h"

#include <algorithm>

#include "schedules/nests.h"

namespace loopwright::schedules {
namespace {

constexpr std::int64_t kAccessBytes = 16;
constexpr std::int64_t kMostUnrolled = 32;  ///< vectors of a thread that stand apart in the code

/// Unrolls a loop over a thread's vectors when they are few.
void unroll_few(Schedule& s, const LoopId& loop) {
  const auto extent = s.constant_extent(loop);
  if (extent && *extent <= kMostUnrolled) s.attempt([&](Schedule& t) { t.unroll(loop); });
}

/// The vectors of a thread: `unrolled` at a time, all of them for 0. Returns their loops.
std::vector<LoopId> unroll_rounds(Schedule& s, const LoopId& round, std::int64_t unrolled) {
  if (unrolled == 0) unroll_few(s, round);
  if (unrolled <= 1) return {round};
  std::vector<LoopId> parts = s.split(round, {unrolled});
  if (s.ok()) unroll_few(s, parts[1]);
  return parts;
}

/// A loop over the threads that share a row, those of one block of the cluster after those of another.
std::vector<LoopId> bind_shares(Schedule& s, const LoopId& loop, const RowShares& shares) {
  std::vector<LoopId> parts{loop};
  if (shares.blocks > 1) parts = s.split(loop, {shares.threads});
  if (!s.ok()) return {};
  if (shares.blocks > 1) s.bind(parts[0], Axis::cluster_x);
  s.bind(parts.back(), Axis::thread_x);
  return parts;
}

}  // namespace

void unroll_each(Schedule& s, const std::vector<LoopId>& loops) {
  for (const LoopId& l : loops) s.attempt([&](Schedule& t) { t.unroll(l); });
}

std::string buffer_at(const Schedule& s, const LoopId& loop) {
  for (const NestInfo& n : s.nests())
    if (std::find(n.loops.begin(), n.loops.end(), loop) != n.loops.end()) return n.buffer;
  return {};
}

std::int64_t natural_width(const Schedule& s, const NestInfo& nest, const LoopId& inner) {
  int bytes = size_bytes(s.buffer(nest.buffer).dtype);
  for (const ReadInfo& r : nest.reads)
    if (!nest.loops.empty() && !r.dims.empty() && r.dims.back() == nest.loops.back().name) bytes = std::min(bytes, size_bytes(s.buffer(r.buffer).dtype));
  std::int64_t width = kAccessBytes / bytes;
  const auto extent = s.constant_extent(inner);
  while (extent && width > 1 && *extent % width != 0) width /= 2;
  return width;
}

void bind_flat(Schedule& s, const LoopId& loop, std::int64_t threads, std::int64_t unrolled) {
  if (unrolled == 1) {
    const std::vector<LoopId> parts = s.split(loop, {threads});
    if (!s.ok()) return;
    s.bind(parts[0], Axis::grid_x);
    return s.bind(parts[1], Axis::thread_x);
  }
  const std::vector<LoopId> parts = s.split(loop, {unrolled, threads});
  if (!s.ok()) return;
  s.reorder({parts[0], parts[2], parts[1]});
  s.bind(parts[0], Axis::grid_x);
  s.bind(parts[2], Axis::thread_x);
  if (s.ok()) unroll_few(s, parts[1]);
}

void schedule_gpu_pointwise(Schedule& s, const NestInfo& nest, std::int64_t lanes, std::int64_t threads, std::int64_t unrolled) {
  std::vector<LoopId> loops = fuse_contiguous(s, nest);
  if (!s.ok()) return;
  std::int64_t width = natural_width(s, nest, loops.back());
  // Rows of unknown length begin anywhere: no vector of theirs is aligned.
  if (loops.size() > 1 && !s.constant_extent(loops.back())) width = 1;
  if (lanes > 0 && lanes < width) width = lanes;
  if (width > 1) {
    const std::vector<LoopId> parts = s.split(loops.back(), {width});
    if (!s.ok()) return;
    s.vectorize(parts[1]);
    loops.back() = parts[0];
  }
  bind_flat(s, fuse_all(s, loops), threads, unrolled);
}

void pick_stream(Schedule& s, Space& k) {
  if (!s.ok() || !k.pick_flag("stream")) return;
  for (const NestInfo& n : outputs(s)) s.attempt([&](Schedule& t) { t.stream(n.buffer); });
}

void pick_loads(Schedule& s, Space& k) {
  if (!s.ok() || s.target().capability < 80) return;
  const std::int64_t loads = k.pick("loads", {0, 1, 2, 3});
  if (loads == 0) return;
  std::vector<std::string> inputs;
  std::size_t most = 0;  // dimensions
  for (const NestInfo& n : s.nests())
    for (const ReadInfo& r : n.reads) {
      if (!s.buffer(r.buffer).is_param || std::find(inputs.begin(), inputs.end(), r.buffer) != inputs.end()) continue;
      inputs.push_back(r.buffer);
      most = std::max(most, s.buffer(r.buffer).shape.size());
    }
  for (const std::string& input : inputs) {
    const bool is_large = s.buffer(input).shape.size() == most;
    const Caching policy = !is_large ? (loads == 3 ? Caching::evict_last : Caching::normal) : loads == 1 ? Caching::no_allocate : Caching::evict_first;
    s.attempt([&](Schedule& t) { t.cache(input, policy); });
  }
}

std::vector<LoopId> share_rounds(Schedule& s, const LoopId& round, const LoopId& share, const RowShares& shares, std::int64_t unrolled) {
  const std::vector<LoopId> parts = s.split(share, {shares.width});
  if (!s.ok()) return {};
  s.reorder({parts[0], round, parts[1]});
  std::vector<LoopId> out = bind_shares(s, parts[0], shares);
  if (!s.ok()) return {};
  if (shares.width > 1) s.attempt([&](Schedule& t) { t.vectorize(parts[1]); });
  const std::vector<LoopId> rounds = unroll_rounds(s, round, unrolled);
  out.insert(out.end(), rounds.begin(), rounds.end());
  out.push_back(parts[1]);
  return out;
}

std::vector<LoopId> share_columns(Schedule& s, const LoopId& columns, const RowShares& shares) {
  const std::vector<LoopId> parts = s.split(columns, {shares.blocks * shares.threads * shares.width});
  if (!s.ok()) return {};
  return share_rounds(s, parts[0], parts[1], shares, shares.unrolled);
}

void merge_loops(Schedule& s, const std::vector<LoopId>& first, const std::vector<LoopId>& second) {
  for (std::size_t i = 0; i < first.size() && i < second.size(); ++i) {
    if (i == 0) s.merge(first[0], second[0]);
    else if (!s.attempt([&](Schedule& t) { t.merge(first[i], second[i]); })) return;
  }
}

std::vector<LoopId> spread_partials(Schedule& s, const LoopId& way, const LoopId& round, const RowShares& shares, std::int64_t unrolled) {
  const NestInfo zero = init_of(s, buffer_at(s, way));
  if (zero.loops.empty()) s.reject("no nest that begins the partial results");
  std::vector<LoopId> out = share_rounds(s, round, way, shares, unrolled);
  if (!s.ok()) return {};
  const std::vector<LoopId> z = s.split(zero.loops.back(), {shares.width});
  if (!s.ok()) return {};
  bind_shares(s, z[0], shares);
  if (s.ok() && shares.width > 1) s.unroll(z[1]);
  return out;
}

void combine_threads(Schedule& s, const LoopId& combination, const RowShares& shares) {
  const std::int64_t threads = shares.blocks * shares.threads;
  if (threads == 1) return s.unroll(combination);
  const std::vector<LoopId> c = s.reduce_across(combination, threads, false, Place::registers);
  if (!s.ok()) return;
  bind_shares(s, c[0], shares);
  if (s.ok()) unroll_few(s, c[1]);
  if (shares.blocks == 1) return s.bind(c[2], Axis::across);
  const std::vector<LoopId> b = s.reduce_across(c[2], shares.blocks, false, Place::registers);
  if (!s.ok()) return;
  s.bind(b[0], Axis::cluster_x);
  s.bind(b[1], Axis::across);
  s.bind(b[2], Axis::across);
}

namespace {

/// The columns of one block of the cluster, once each block has partial results of its own.
LoopId separate_blocks(Schedule& s, const LoopId& columns, const RowShares& shares) {
  const std::vector<LoopId> parts = s.split(columns, {shares.blocks, shares.threads * shares.width});
  if (!s.ok()) return {};
  s.reorder({parts[1], parts[0], parts[2]});
  const std::vector<LoopId> b = s.reduce_across(parts[1], shares.blocks, false, Place::registers);
  if (!s.ok()) return {};
  s.bind(b[0], Axis::cluster_x);
  s.unroll(b[1]);
  s.bind(b[2], Axis::across);
  return s.fuse(parts[0], parts[2]);
}

}  // namespace

void reduce_places(Schedule& s, const LoopId& columns, const RowShares& shares) {
  const LoopId of_block = shares.blocks > 1 ? separate_blocks(s, columns, shares) : columns;
  RowShares block = shares;
  block.blocks = 1;
  const std::vector<LoopId> r = s.reduce_across(of_block, block.threads * block.width, true, Place::registers);
  if (!s.ok()) return;
  const std::int64_t group = shares.one_search ? block.width : 1;
  const std::vector<LoopId> p = s.value_first(r[2], group);
  if (!s.ok()) return;
  spread_partials(s, r[0], r[1], block, shares.unrolled);
  combine_threads(s, r[2], block);
  if (!s.ok()) return;
  // Few threads have anything to look for: what they look at next need not be neighbours.
  const std::vector<LoopId> ways = group > 1 ? std::vector<LoopId>{p[0], p[2]} : s.split(p[0], {block.width});
  if (!s.ok()) return;
  s.bind(ways[0], Axis::thread_x);
  if (s.ok() && block.width > 1) s.unroll(ways[1]);
  if (s.ok() && shares.unrolled == 0) unroll_few(s, p[1]);
  combine_threads(s, p.back(), block);
}

std::vector<LoopId> reduce_columns(Schedule& s, const LoopId& columns, const RowShares& shares) {
  const std::int64_t ways = shares.blocks * shares.threads * shares.width;
  if (ways == 1) return {columns};
  const std::vector<LoopId> r = s.reduce_across(columns, ways, true, Place::registers);
  if (!s.ok()) return {};
  std::vector<LoopId> out = spread_partials(s, r[0], r[1], shares, shares.unrolled);
  if (s.ok()) combine_threads(s, r[2], shares);
  return out;
}

}  // namespace loopwright::schedules
