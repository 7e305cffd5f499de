// GPU: whatever no other family takes: a thread for each element of a result.
#include "schedules/families.h"
#include "schedules/gpu_nests.h"
#include "schedules/nests.h"

namespace loopwright::schedules {

void schedule_gpu_general(Schedule& s, Space& k) {
  const bool inlines = k.pick_flag("inline", true);
  const std::int64_t threads = k.pick("threads", {128, 256, 64, 32});
  if (inlines) inline_intermediates(s);
  for (const NestInfo& n : s.nests()) {
    if (!s.ok()) return;
    if (n.spatial.empty()) continue;
    // Results outside, the reduction inside. Not every nest can be turned, and what cannot runs in one thread.
    s.attempt([&](Schedule& t) {
      if (!n.reduction.empty()) {
        std::vector<LoopId> order = n.spatial;
        order.insert(order.end(), n.reduction.begin(), n.reduction.end());
        t.reorder(order);
      }
      bind_flat(t, fuse_all(t, n.spatial), threads, 1);
    });
  }
}

}  // namespace loopwright::schedules
