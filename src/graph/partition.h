// Which nodes go together: the policy behind group_ops.
#pragma once

#include <vector>

#include "loopwright/graph.h"
#include "src/graph/group.h"

namespace loopwright::graph {

struct Partition {
  /// Nodes of each kernel, ascending, in an order in which the kernels can run. Nodes that are recomputed in their
  /// consumers are in none.
  std::vector<std::vector<std::int32_t>> kernels;
  std::vector<bool> recomputed;  ///< by node: has no memory of its own
};

/// Deterministic; no cycle between kernels. The policy, by what a kernel is built around:
///   contraction   one product and pointwise ops of its shape behind it, whatever else they read; with
///                 `thin_products_in_epilogues` also products of few terms that only these read; with
///                 `products_side_by_side` several products of one left operand that meet in them
///   reduction     reductions of one shape over the same axes, pointwise ops of that shape before them, pointwise ops of
///                 the reduced shape behind them; and, when the axes are the trailing ones (rows), of the full shape too; with
///                 `reductions_beside_each_other` all of these that read one tensor and need nothing of each other
///   pointwise     pointwise ops of one shape; a gather, or a view that is needed in memory, in front of them
///   scan, write   one op, with the pointwise ops that only it reads
/// Sources, views, casts, and short pointwise chains over one tensor are recomputed.
Partition partition_ops(const Graph& g, const Grouping& grouping);

}  // namespace loopwright::graph
