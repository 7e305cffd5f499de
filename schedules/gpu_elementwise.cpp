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
    std::vector<LoopId> loops = fuse_contiguous(s, nest);
    if (!s.ok()) return;
    std::int64_t width = natural_width(s, nest_of(s, nest.buffer), loops.back());
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
}

}  // namespace loopwright::schedules
