// Whatever no other family takes: the naive nests, with what is certainly legal made parallel and vectorized.
#include "schedules/families.h"
#include "schedules/nests.h"

namespace loopwright::schedules {

bool is_anything(const Schedule&) { return true; }

void schedule_general(Schedule& s, Space& k) {
  const bool inlines = k.pick_flag("inline", true);
  const bool is_parallel = k.pick_flag("parallel", true);
  const bool is_vector = k.pick_flag("vectorize", true);
  if (inlines) inline_intermediates(s);
  for (const NestInfo& n : s.nests()) {
    if (n.loops.empty()) continue;
    if (is_vector && (is_pointwise(n) || n.is_init)) {
      s.attempt([&](Schedule& t) {
        if (n.loops.size() == 1 && is_parallel) {
          const std::vector<LoopId> parts =
              t.split(n.loops[0], {64, clamp_width(t, n.loops[0], natural_lanes(t, n))});
          if (!t.ok()) return;
          t.vectorize(parts[2]);
          t.parallel(parts[0]);
        } else {
          vectorize_inner(t, n.loops.back(), natural_lanes(t, n));
        }
      });
    }
    if (is_parallel) s.attempt([&](Schedule& t) { t.parallel(n.loops.front()); });
  }
}

}  // namespace loopwright::schedules
