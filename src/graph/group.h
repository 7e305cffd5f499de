// Which ops of a graph share one kernel, and how the kernels are wired.
#pragma once

#include <string>
#include <vector>

#include "loopwright/graph.h"

namespace loopwright::graph {

/// One kernel of a partitioned graph. `graph` is the group as a canonical graph of its own: inputs, ops and outputs are
/// renamed i0.., t0.., o0.. and symbols s0.. in a fixed order, so that equal work gives equal text wherever it occurs. Only
/// groups with products of f32 have the graph's accuracy, all others are strict.
struct Group {
  Graph graph;
  std::vector<std::string> inputs;   ///< for each input of `graph`: the name of the value in the whole graph
  std::vector<std::string> outputs;  ///< for each output of `graph`: likewise
  std::vector<std::string>
      updates;  ///< for each update of `graph`: the input of the whole graph that is written
  std::vector<std::string> symbols;  ///< for each symbol of `graph`: the name in the whole graph
};

/// What kernels may hold, which depends on the machine that they are for.
struct Grouping {
  /// A product that sums few terms may be computed in the kernel of another one whose epilogue reads it: it is never in
  /// memory, which costs more than its arithmetic where memory is far. On CPUs its vectors would not run along memory.
  bool thin_products_in_epilogues = false;
  /// Products of one left operand whose results pointwise ops bring together (a gate and what it lets through) may be one kernel,
  /// which loads that operand once and writes neither product. For tensor cores, whose tiles hold several sums.
  bool products_side_by_side = false;
  /// Reductions over the same axes of one tensor, with what belongs to them, are one kernel that reads it once.
  bool reductions_beside_each_other = false;
};

/// Groups in an order in which they can run. Every op is in exactly one group, except cheap pointwise and view ops that
/// are recomputed in each consumer.
std::vector<Group> group_ops(const Graph& g, const Grouping& grouping = {});

/// An error for a graph without outputs and updates: it reads as one, but there is nothing to compute.
Status check_computes(const Graph& g);

}  // namespace loopwright::graph
