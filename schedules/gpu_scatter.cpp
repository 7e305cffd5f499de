// GPU: writing where data says. Elements that no two iterations share go to threads side by side; over the axis of the index
// each thread goes in order, so that the last one to write an element, and the order of sums, are what they are in the text.
// Where that leaves most of the GPU without work, threads own parts of the target and skip what falls into others'.
#include <algorithm>

#include "schedules/families.h"
#include "schedules/gpu_nests.h"
#include "schedules/nests.h"

namespace loopwright::schedules {
namespace {

constexpr std::int64_t kIndicesAhead = 8;    ///< that a thread has loaded before it looks at the first
constexpr std::int64_t kManyRows = 1 << 16;  ///< of a target whose size is a symbol

/// The index's elements are loaded some at a time, in front of the writes, which nothing passes.
void load_indices(Schedule& s, const NestInfo& n, const LoopId& axis) {
  if (s.max_extent(axis) < 2 * kIndicesAhead) return;
  const std::vector<LoopId> parts = s.split(axis, {kIndicesAhead});
  if (!s.ok()) return;
  for (const ReadInfo& r : n.reads) {
    const DType t = s.buffer(r.buffer).dtype;
    if (t != DType::i64 && t != DType::i32) continue;
    std::vector<LoopId> copy = s.stage(r.buffer, parts[0], Place::registers);
    std::erase_if(copy, [&](const LoopId& l) { return s.constant_extent(l) == 1; });
    if (!s.ok() || copy.empty()) return;
    if (!s.attempt([&](Schedule& v) { v.vectorize(copy.back()); })) unroll_each(s, copy);
    break;
  }
  s.unroll(parts[1]);
}

/// The axis in order, everything else to threads.
void share_writes(Schedule& s, const NestInfo& n, const LoopId& axis, std::int64_t part,
                  std::int64_t threads) {
  std::vector<LoopId> others;
  if (part > 0) {
    // Outermost, so that the parts are in front of all loops.
    others = s.split_targets(n.loops.front(), part);
    if (!s.ok()) return;
  }
  for (const LoopId& l : n.loops)
    if (l != axis) others.push_back(l);
  if (others.empty()) return s.reject("nothing but the axis of the index");
  std::vector<LoopId> order = others;
  order.push_back(axis);
  if (order.size() > 1) s.reorder(order);
  bind_flat(s, fuse_all(s, others), threads, 1);
  s.attempt([&](Schedule& t) { load_indices(t, n, axis); });
}

/// Parts of the target that keep most of the GPU busy, the best guess first; 0: it is not split.
std::vector<std::int64_t> part_choices(const Schedule& s, const NestInfo& n, const LoopId& axis,
                                       std::int64_t rows) {
  double others = 1;
  for (const LoopId& l : n.loops)
    if (l != axis) others *= static_cast<double>(std::max<std::int64_t>(1, s.max_extent(l)));
  const double wanted =
      256.0 * static_cast<double>(s.target().workers);  // threads: each of them looks at all indices
  std::int64_t part = 1;
  while (part * 2 <= rows && others * static_cast<double>(rows) / static_cast<double>(part * 2) >= wanted)
    part *= 2;
  const bool pays = others < wanted && s.max_extent(axis) >= 32 && rows > 1;
  std::vector<std::int64_t> out{pays ? part : 0};
  for (const std::int64_t p : {std::int64_t{0}, part, part * 4, part * 16})
    if (std::find(out.begin(), out.end(), p) == out.end() && p < rows) out.push_back(p);
  return out;
}

std::optional<NestInfo> find_scatter(const Schedule& s) {
  std::optional<NestInfo> out;
  for (const NestInfo& n : s.nests()) {
    if (!n.scatters) continue;
    if (out || n.loops.empty()) return std::nullopt;
    out = n;
  }
  return out;
}

}  // namespace

bool is_gpu_scatter(const Schedule& s) { return find_scatter(s).has_value(); }

void schedule_gpu_scatter(Schedule& s, Space& k) {
  const std::int64_t threads = k.pick("threads", {128, 256, 64, 512});
  if (k.pick_flag("aligned", true)) s.assume_alignment(16);
  inline_intermediates(s);
  const auto n = find_scatter(s);
  if (!s.ok() || !n) return s.reject("no writes where data says");
  const std::vector<Dim> shape = s.buffer(n->buffer).shape;
  // The axis is the dimension that the write does not index plainly: all its loops but that one may change places.
  const LoopId axis = n->loops[static_cast<std::size_t>(n->scattered_dim)];
  const std::int64_t rows = shape[static_cast<std::size_t>(n->scattered_dim)].constant().value_or(kManyRows);
  const std::int64_t part = k.pick("part", part_choices(s, *n, axis, rows));
  for (const NestInfo& other : s.nests())
    if (!other.scatters && !other.loops.empty())
      s.attempt([&](Schedule& t) { schedule_gpu_pointwise(t, other, 0, 128, 1); });
  share_writes(s, *n, axis, part, threads);
}

}  // namespace loopwright::schedules
