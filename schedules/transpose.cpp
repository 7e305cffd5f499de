// Pointwise nests that read a tensor along another axis than they write: tiles that stay in the first cache.
#include <algorithm>

#include "schedules/families.h"
#include "schedules/nests.h"

namespace loopwright::schedules {
namespace {

/// The loop that is innermost in memory for some read although another one is for the write.
LoopId find_crossing_loop(const NestInfo& n) {
  for (const ReadInfo& r : n.reads)
    if (!r.dims.empty() && !r.dims.back().empty() && !n.loops.empty() &&
        r.dims.back() != n.loops.back().name &&
        std::find(r.dims.begin(), r.dims.end(), n.loops.back().name) != r.dims.end())
      return {r.dims.back()};
  return {};
}

}  // namespace

bool is_transpose(const Schedule& s) {
  if (!is_elementwise(s)) return false;
  const std::vector<NestInfo> nests = s.nests();
  return std::any_of(nests.begin(), nests.end(),
                     [](const NestInfo& n) { return !find_crossing_loop(n).name.empty(); });
}

void schedule_transpose(Schedule& s, Space& k) {
  const std::int64_t tile_in = k.pick("tile_in", {16, 8, 32, 64});    // along the axis that the input walks
  const std::int64_t tile_out = k.pick("tile_out", {16, 8, 32, 64});  // along the axis that the output walks
  const bool is_parallel = k.pick_flag("parallel", true);
  inline_intermediates(s);
  for (const NestInfo& n : outputs(s)) {
    if (!s.ok()) return;
    const LoopId across = find_crossing_loop(n);
    if (across.name.empty()) {
      s.attempt([&](Schedule& t) { vectorize_inner(t, n.loops.back(), 4 * natural_lanes(t, n)); });
      continue;
    }
    const LoopId along = n.loops.back();
    const std::vector<LoopId> in = s.split(across, {tile_in});
    const std::vector<LoopId> out = s.split(along, {tile_out});
    if (!s.ok()) return;
    std::vector<LoopId> order;
    for (const LoopId& l : n.loops) order.push_back(l == across ? in[0] : l == along ? out[0] : l);
    order.insert(order.end(), {in[1], out[1]});
    s.reorder(order);
    s.attempt([&](Schedule& t) { t.vectorize(out[1]); });
    if (is_parallel) s.attempt([&](Schedule& t) { t.parallel(order[0]); });
  }
}

}  // namespace loopwright::schedules
