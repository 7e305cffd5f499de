// Pointwise chains, casts, views and gathers: each output is one pass over its elements.
#include <algorithm>

#include "schedules/families.h"
#include "schedules/nests.h"

namespace loopwright::schedules {

bool is_elementwise(const Schedule& s) {
  const std::vector<NestInfo> nests = s.nests();
  return !nests.empty() && std::all_of(nests.begin(), nests.end(), is_pointwise);
}

void schedule_elementwise(Schedule& s, Space& k) {
  const std::int64_t vectors = k.pick("vectors", {4, 2, 1, 8});  // vectors that one iteration works on
  const std::int64_t block =
      k.pick("block", {64, 16, 256, 1024});  // iterations that one worker takes at once
  const bool is_parallel = k.pick_flag("parallel", true);
  inline_intermediates(s);
  const std::vector<NestInfo> written = outputs(s);
  if (s.ok() && !written.empty() && k.pick_flag("stream", is_beyond_caches(s, written[0].buffer)))
    for (const NestInfo& nest : written) s.attempt([&](Schedule& t) { t.stream(nest.buffer); });
  for (const NestInfo& nest : outputs(s)) {
    if (!s.ok()) return;
    const std::vector<LoopId> loops = fuse_contiguous(s, nest);
    if (loops.empty()) continue;
    const std::int64_t width = clamp_width(s, loops.back(), natural_lanes(s, nest) * vectors);
    if (loops.size() == 1) {
      const std::vector<LoopId> parts = s.split(loops[0], {block, width});
      if (!s.ok()) return;
      if (width > 1) s.attempt([&](Schedule& t) { t.vectorize(parts[2]); });
      if (is_parallel) s.attempt([&](Schedule& t) { t.parallel(parts[0]); });
      continue;
    }
    if (width > 1) s.attempt([&](Schedule& t) { vectorize_inner(t, loops.back(), width); });
    if (is_parallel)
      s.attempt([&](Schedule& t) { t.parallel(fuse_all(t, {loops.begin(), loops.end() - 1})); });
  }
}

}  // namespace loopwright::schedules
