// Moves that the GPU families share.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "loopwright/schedule.h"

namespace loopwright::schedules {

/// Elements of the smallest accesses of a nest (its write and reads) that 16 bytes hold, as far as that divides `extent`.
std::int64_t natural_width(const Schedule& s, const NestInfo& nest, const LoopId& inner);

/// Blocks of `threads` threads for an outermost loop, each thread with `unrolled` iterations that stand apart.
void bind_flat(Schedule& s, const LoopId& loop, std::int64_t threads, std::int64_t unrolled);

/// How the columns of a row are shared out: vectors of `width` elements, the threads of a row side by side.
struct RowShares {
  std::int64_t threads = 1;
  std::int64_t width = 1;
};
/// A pointwise nest's loop over columns.
void share_columns(Schedule& s, const LoopId& columns, const RowShares& shares);
/// The same for a reduction over columns: partial results of each thread, combined across threads.
void reduce_columns(Schedule& s, const LoopId& columns, const RowShares& shares);

}  // namespace loopwright::schedules
