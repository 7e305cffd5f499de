// GPU: whatever no other family takes: a thread for each element of a result.
#include "schedules/families.h"
#include "schedules/gpu_nests.h"
#include "schedules/nests.h"

namespace loopwright::schedules {

void schedule_gpu_general(Schedule& s, Space& k) {
  const bool inlines = k.pick_flag("inline", true);
  const std::int64_t threads = k.pick("general_threads", {128, 256, 64, 32});
  if (inlines) inline_intermediates(s);
  for (const NestInfo& n : s.nests()) {
    if (!s.ok()) return;
    if (n.spatial.empty() || n.is_init) continue;
    // Results outside, the reduction inside. Not every nest can be turned, and what cannot runs in one thread.
    s.attempt([&](Schedule& t) {
      if (!n.reduction.empty()) {
        std::vector<LoopId> order = n.spatial;
        order.insert(order.end(), n.reduction.begin(), n.reduction.end());
        t.reorder(order);
      }
      const LoopId all = fuse_all(t, n.spatial);
      if (n.is_update) t.attempt([&](Schedule& u) { u.hold(n.buffer, all, Place::registers); });
      bind_flat(t, all, threads, 1);
    });
  }
  // What begins a reduction and could not move to it.
  for (const NestInfo& n : s.nests())
    if (n.is_init && !n.loops.empty()) s.attempt([&](Schedule& t) { bind_flat(t, fuse_all(t, n.loops), threads, 1); });
}

}  // namespace loopwright::schedules
