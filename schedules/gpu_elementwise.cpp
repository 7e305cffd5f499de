// GPU: pointwise chains, casts, views and gathers. Small blocks, one vector or a few a thread, no loop over the grid.
#include "schedules/families.h"
#include "schedules/gpu_nests.h"
#include "schedules/nests.h"

namespace loopwright::schedules {

void schedule_gpu_elementwise(Schedule& s, Space& k) {
  const std::int64_t threads = k.pick("threads", {128, 256, 64, 512});
  const std::int64_t unrolled = k.pick("vectors", {1, 2, 4});  // of one thread
  const std::int64_t lanes = k.pick("lanes", {0, 1, 2, 4, 8});  // of a vector; 0 = 16 bytes of the smallest type
  if (k.pick_flag("aligned", true)) s.assume_alignment(16);
  inline_intermediates(s);
  for (const NestInfo& nest : outputs(s)) {
    if (!s.ok()) return;
    if (nest.loops.empty()) continue;
    if (s.attempt([&](Schedule& t) { schedule_gpu_pointwise(t, nest, lanes, threads, unrolled); })) continue;
    // A scan, say: its outer loops at least.
    s.attempt([&](Schedule& t) { bind_flat(t, nest.loops.front(), threads, 1); });
  }
  pick_loads(s, k);
  pick_stream(s, k);
}

}  // namespace loopwright::schedules
