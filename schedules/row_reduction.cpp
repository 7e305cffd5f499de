// Rows: sums, softmax, layer and RMS norm along the last axes; one worker keeps a row while everything is done to it.
#include <algorithm>

#include "schedules/families.h"
#include "schedules/nests.h"

namespace loopwright::schedules {

bool is_row_reduction(const Schedule& s) { return outputs(s).size() == 1 && reduces_rows(s); }

void schedule_row_reduction(Schedule& s, Space& k) {
  const bool keeps_rows = !find_shared_rows(s).empty() && k.pick_flag("keep_row", true);
  const std::int64_t accumulators = k.pick("accumulators", {4, 2, 8, 1});
  const std::int64_t vectors = k.pick("vectors", {4, 1, 2, 8});
  const std::int64_t rows_per_task = k.pick("rows_per_task", {1, 4, 16});
  const bool is_parallel = k.pick_flag("parallel", true);

  inline_intermediates(s, keeps_rows ? find_shared_rows(s) : std::vector<std::string>{});
  const int row_count = count_row_loops(s);
  if (!s.ok() || row_count < 1) return s.reject("reductions over different rows");
  const NestInfo last = outputs(s)[0];
  if (k.pick_flag("stream", is_beyond_caches(s, last.buffer)))
    s.attempt([&](Schedule& t) { t.stream(last.buffer); });
  LoopId row = fuse_all(s, {last.loops.begin(), last.loops.begin() + row_count});
  if (rows_per_task > 1) {
    const std::vector<LoopId> parts = s.split(row, {rows_per_task});
    if (!s.ok()) return;
    if (is_parallel) s.parallel(parts[0]);
    row = parts[1];
  } else if (is_parallel) {
    s.parallel(row);
  }
  for (const std::string& buffer : intermediates_backwards(s)) {
    const bool is_sum = nest_of(s, buffer).is_update;
    s.compute_at(buffer, row, is_sum ? Place::registers : Place::shared);
    if (!s.ok()) return;
  }
  for (const NestInfo& n : s.nests()) {
    if (n.is_init) continue;
    if (n.is_update) {
      const LoopId r = fuse_all(s, n.reduction);
      if (s.ok()) s.attempt([&](Schedule& t) { reduce_in_vectors(t, r, natural_lanes(t, n), accumulators); });
    } else if (!n.loops.empty() && !(n.loops.back() == row)) {
      s.attempt([&](Schedule& t) { vectorize_inner(t, n.loops.back(), natural_lanes(t, n) * vectors); });
    }
    if (!s.ok()) return;
  }
}

}  // namespace loopwright::schedules
