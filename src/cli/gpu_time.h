// Device time of plans on a GPU, measured as the tuner measures candidates.
#pragma once

#include <cstdint>
#include <vector>

#include "loopwright/measure.h"
#include "src/cli/rehearsal.h"

namespace loopwright::cli {

struct GpuTimes {
  std::vector<Timing> of;  ///< each rehearsal's plan
  bool throttled = false;  ///< heat, power or hardware held the clocks down
};
/// Graph replays of each plan in turn, in random order in each round, over sets of the rehearsals' tensors (one set when
/// `reuse_buffers`). All are plans of one GPU, which nobody else measures on meanwhile: busy otherwise.
Result<GpuTimes> time_on_gpu(const std::vector<const Rehearsal*>& rehearsals, bool reuse_buffers, std::uint64_t seed);

}  // namespace loopwright::cli
