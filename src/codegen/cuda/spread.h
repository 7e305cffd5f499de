// How a register buffer that is allocated outside the thread loops is spread over the threads of a block or a cluster.
//
// Every access indexes it as outer * (stride * threads) + thread * stride + inner, with 0 <= inner < stride. Then the
// element belongs to one thread, whichever access names it, and lies at outer * stride + inner of what that thread holds.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "src/ir/simplify.h"

namespace loopwright::codegen {

/// The axis of threads that carries out such a loop: 0 is x, 1 is y, 2 the blocks of a cluster.
std::optional<int> thread_axis(ir::LoopKind kind);

/// A loop whose iterations are threads.
struct ThreadLoop {
  int axis = 0;
  std::int64_t threads = 1;
};

struct SpreadLevel {
  int axis = 0;
  std::int64_t stride = 1, threads = 1;
  bool operator==(const SpreadLevel&) const = default;
};
/// Outermost level first; empty: no thread variable is in the index.
using Spread = std::vector<SpreadLevel>;

struct SpreadIndex {
  Spread spread;
  ir::Expr local;  ///< the index in what one thread holds
};
/// Takes a linear index apart. `threads` are the thread loops that count; empty when the index is not of the form above.
std::optional<SpreadIndex> spread_index(const ir::Expr& index, const std::map<ir::Var, ThreadLoop>& threads,
                                        const ir::Facts& facts);
/// Elements that one thread holds of `count`.
std::int64_t count_held(std::int64_t count, const Spread& spread);

}  // namespace loopwright::codegen
