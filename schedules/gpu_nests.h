// Moves that the GPU families share.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "loopwright/schedule.h"

namespace loopwright::schedules {

/// Elements that 16 bytes hold of the smallest type that the nest's last loop walks over, as far as that divides the
/// extent of `inner`: the same loop, perhaps fused with others since `nest` was asked for.
std::int64_t natural_width(const Schedule& s, const NestInfo& nest, const LoopId& inner);

/// Blocks of `threads` threads for an outermost loop, each thread with `unrolled` iterations that stand apart.
void bind_flat(Schedule& s, const LoopId& loop, std::int64_t threads, std::int64_t unrolled);

/// A pointwise nest: vectors of `lanes` elements (0: as many as 16 bytes hold), all of them side by side.
void schedule_gpu_pointwise(Schedule& s, const NestInfo& nest, std::int64_t lanes, std::int64_t threads, std::int64_t unrolled);

/// How the columns of a row are shared out: vectors of `width` elements, the threads of a row side by side, the blocks of
/// a cluster in turn.
struct RowShares {
  std::int64_t blocks = 1;  ///< of the cluster that shares the row
  std::int64_t threads = 1;
  std::int64_t width = 1;
  std::int64_t unrolled = 0;  ///< vectors of a thread in flight; 0: all of them, so that arrays of the row can be registers
  bool value_first = false;   ///< argmin and argmax: the best value, then its place
  bool one_search = false;    ///< one condition for all lanes of a thread, so that most warps skip the search at once
};
/// Loops over the shares of a row, `round` over `share`: threads outside, then their vectors, of which `unrolled` are in
/// flight at once (0: all of them), then the lanes. Returns the loops that they became, outermost first.
std::vector<LoopId> share_rounds(Schedule& s, const LoopId& round, const LoopId& share, const RowShares& shares, std::int64_t unrolled);
/// A pointwise nest's loop over columns. Returns the loops that it became, outermost first.
std::vector<LoopId> share_columns(Schedule& s, const LoopId& columns, const RowShares& shares);
/// The same for a reduction over columns: partial results of each thread, combined across threads.
std::vector<LoopId> reduce_columns(Schedule& s, const LoopId& columns, const RowShares& shares);
/// The same for argmin and argmax: the best value of a block first, then its place, which only those threads look for that
/// have seen the value.
void reduce_places(Schedule& s, const LoopId& columns, const RowShares& shares);
/// Partial results that reduce_across made, one for each lane of each thread: `way` is its loop over them, `round` the
/// loop around that, of which `unrolled` iterations are in flight at once (0: all of them). Returns the
/// loops that they became, outermost first: as share_columns makes them.
std::vector<LoopId> spread_partials(Schedule& s, const LoopId& way, const LoopId& round, const RowShares& shares, std::int64_t unrolled);
/// A loop that combines partial results held by the threads of these shares: first each thread its own, then those of a
/// block together, then the blocks of the cluster.
void combine_threads(Schedule& s, const LoopId& combination, const RowShares& shares);
/// Unrolls those of the loops that can be.
void unroll_each(Schedule& s, const std::vector<LoopId>& loops);
/// Merges loops that were made alike, outermost first, as far as that goes; at least the first of them.
void merge_loops(Schedule& s, const std::vector<LoopId>& first, const std::vector<LoopId>& second);
/// A pick: outputs that nobody reads soon are the first that the caches let go.
void pick_stream(Schedule& s, Space& k);
/// Whether loads ask something of the caches: the largest inputs, which are read once, and for 3 the others, which all blocks read.
void pick_loads(Schedule& s, Space& k);
/// The buffer that the nest with this loop writes.
std::string buffer_at(const Schedule& s, const LoopId& loop);

}  // namespace loopwright::schedules
