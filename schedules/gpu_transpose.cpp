// GPU: moves that read a tensor along another axis than they write. A block takes a tile through shared memory: it reads
// rows of the input and writes rows of the output, both in wide accesses.
#include <algorithm>

#include "schedules/families.h"
#include "schedules/gpu_nests.h"
#include "schedules/nests.h"

namespace loopwright::schedules {
namespace {

/// The read that walks along another loop than the write, and that loop.
std::pair<std::string, LoopId> find_crossing(const NestInfo& n) {
  for (const ReadInfo& r : n.reads) {
    const bool crosses = !r.dims.empty() && !r.dims.back().empty() && !n.loops.empty() && r.dims.back() != n.loops.back().name &&
                         std::find(r.dims.begin(), r.dims.end(), n.loops.back().name) != r.dims.end();
    if (crosses) return {r.buffer, LoopId{r.dims.back()}};
  }
  return {};
}

/// Rounds of all threads over the vectors of a tile.
void share_vectors(Schedule& s, const LoopId& vectors, const LoopId& lanes, std::int64_t threads) {
  const std::vector<LoopId> parts = s.split(vectors, {threads});
  if (!s.ok()) return;
  s.reorder({parts[1], parts[0], lanes});
  s.bind(parts[1], Axis::thread_x);
  s.attempt([&](Schedule& t) { t.vectorize(lanes); });
  s.attempt([&](Schedule& t) { t.unroll(parts[0]); });
}

void move_tiles(Schedule& s, const NestInfo& n, std::int64_t threads, std::int64_t vectors_down, std::int64_t vectors_along) {
  const auto [source, across] = find_crossing(n);
  if (source.empty()) return s.reject("no read along another axis");
  const LoopId along = n.loops.back();
  const std::int64_t width = 16 / std::max(size_bytes(s.buffer(source).dtype), size_bytes(s.buffer(n.buffer).dtype));
  const std::vector<LoopId> c = s.split(across, {vectors_down * width});
  const std::vector<LoopId> a = s.split(along, {vectors_along * width});
  if (!s.ok()) return;
  std::vector<LoopId> order;
  for (const LoopId& l : n.loops) order.push_back(l == across ? c[0] : l == along ? a[0] : l);
  const std::vector<LoopId> outer = order;
  order.insert(order.end(), {c[1], a[1]});
  s.reorder(order);
  if (!s.ok()) return;
  // In front of the fusion: then the tile is plain to see, also where a size may be zero.
  std::vector<LoopId> copy = s.stage(source, outer.back(), Place::shared);
  s.bind(fuse_all(s, outer), Axis::grid_x);
  if (!s.ok()) return;
  std::erase_if(copy, [&](const LoopId& l) { return s.constant_extent(l) == 1; });
  if (copy.size() != 2) return s.reject("a tile of more than two dimensions");
  const std::vector<LoopId> in = s.split(copy[1], {width});
  const std::vector<LoopId> out = s.split(a[1], {width});
  if (!s.ok()) return;
  share_vectors(s, s.fuse(copy[0], in[0]), in[1], threads);
  if (s.ok()) share_vectors(s, s.fuse(c[1], out[0]), out[1], threads);
}

/// Vectors of a side of a tile: many, so that rows of both tensors are long, where there are tiles for all multiprocessors.
std::vector<std::int64_t> tile_choices(const Schedule& s) {
  constexpr std::int64_t kMost = 16;
  double elements = 0, bytes = 1;
  for (const NestInfo& n : outputs(s)) {
    double all = 1;
    for (const LoopId& l : n.loops) all *= static_cast<double>(s.max_extent(l));
    elements = std::max(elements, all);
    bytes = size_bytes(s.buffer(n.buffer).dtype);
  }
  const double side = static_cast<double>(kMost) * 16 / bytes;
  if (elements / (side * side) >= 2.0 * s.target().workers) return {16, 8, 4};
  return {8, 16, 4};
}

}  // namespace

void schedule_gpu_transpose(Schedule& s, Space& k) {
  const std::int64_t threads = k.pick("threads", {256, 128, 512, 64});
  const std::vector<std::int64_t> vectors = tile_choices(s);
  const std::int64_t down = k.pick("down", vectors);    // vectors of a tile along the axis that the input walks
  const std::int64_t along = k.pick("along", vectors);  // along the axis that the output walks
  if (k.pick_flag("aligned", true)) s.assume_alignment(16);
  inline_intermediates(s);
  for (const NestInfo& n : outputs(s)) {
    if (!s.ok()) return;
    if (find_crossing(n).first.empty()) s.attempt([&](Schedule& t) { schedule_gpu_pointwise(t, n, 0, 128, 1); });
    else move_tiles(s, n, threads, down, along);
  }
  pick_stream(s, k);
}

}  // namespace loopwright::schedules
