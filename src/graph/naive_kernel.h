// A group's graph → the plainest loop nests, straight from the op definitions.
//
// The kernel of a graph has its inputs and outputs as parameters in order of declaration. Every op of the graph becomes
// perfectly nested serial loops that write the op's own dense buffer (Memory::global Alloc for intermediates):
//   pointwise, views, gather   for axes: t[axes] = expr
//   reductions, matmul         for axes: t[axes] = identity;  for axes: for reduced: update ...;  then, where the result
//                              dtype is not the accumulator's or a finish is needed, one more pointwise nest
//   scatter, cumulative sum    the nests of their definition
// Names: the buffer of a value is its name; loops are `<buffer>_<axis>`, reduced axes `<buffer>_r<k>`; loops of the
// initialising nest `<buffer>_init_<axis>`. The accumulator of a reduction whose result needs a cast or finish is
// `<buffer>_acc`. Schedules address loops and buffers by these names.
#pragma once

#include "loopwright/graph.h"
#include "src/ir/kernel.h"

namespace loopwright::graph {

/// Level::naive. Zero-size dims give loops that run no iteration (reductions give the identity).
Result<ir::Kernel> naive_kernel(const Graph& group);

}  // namespace loopwright::graph
