// Reductions of a whole tensor: blocks for the workers, vector accumulators inside a block, then one combination.
#include <algorithm>

#include "schedules/families.h"
#include "schedules/nests.h"

namespace loopwright::schedules {

bool is_full_reduction(const Schedule& s) {
  const std::vector<NestInfo> sums = updates(s);
  return !sums.empty() &&
         std::all_of(sums.begin(), sums.end(), [](const NestInfo& n) { return n.spatial.empty(); });
}

void schedule_full_reduction(Schedule& s, Space& k) {
  const std::int64_t blocks = k.pick("blocks", {16, 1, 4, 64});
  const std::int64_t accumulators = k.pick("accumulators", {4, 2, 8, 1});
  inline_intermediates(s);
  for (const NestInfo& n : updates(s)) {
    if (!s.ok()) return;
    const std::int64_t lanes = natural_lanes(s, n);
    std::vector<LoopId> loops = fuse_contiguous(s, n);
    if (!s.ok() || loops.empty()) return;
    LoopId inner = loops.back();
    if (blocks > 1) {
      const std::vector<LoopId> parts = s.reduce_across(loops.front(), blocks, false, Place::global);
      if (!s.ok()) return;
      s.parallel(parts[0]);
      inner = loops.size() == 1 ? parts[1] : loops.back();
    }
    s.attempt([&](Schedule& t) { reduce_in_vectors(t, inner, lanes, accumulators); });
  }
  for (const NestInfo& n : outputs(s)) {
    if (!s.ok() || !is_pointwise(n) || n.loops.empty()) continue;
    const std::vector<LoopId> loops = fuse_contiguous(s, n);
    if (loops.empty()) return;
    s.attempt([&](Schedule& t) {
      const LoopId outer = vectorize_inner(t, loops.back(), 4 * natural_lanes(t, n));
      t.parallel(loops.size() == 1 ? outer : loops.front());
    });
  }
}

}  // namespace loopwright::schedules
