// A group's graph → the plainest loop nests, straight from the op definitions.
//
// The kernel of a graph has its inputs and outputs as parameters in order of declaration. Every op of the graph becomes
// perfectly nested serial loops that write the op's own dense buffer (Memory::global Alloc for intermediates):
//   pointwise, views, gather   for axes: t[axes] = expr
//   reductions, matmul         for axes: t[axes] = identity;  for axes: for reduced: update ...;  then, where the result
//                              dtype is not the accumulator's or a finish is needed, one more pointwise nest
//   cumulative sum             for the other axes: for the axis: t[axes] = t[axis - 1] + x[axes]
//   scatter, slice_update      for axes: t[axes] = x[axes];  for axes of the written part: if inside: t[..] = value
// Constants are written where they are used. Values that no output or update needs are left out.
// `update x = scatter(x, ...)` (or slice_update) where nothing else reads x has only the last nest, straight into x; any
// other update is a copy `<input>_update_<axis>` at the end, after all reads.
// Names: the buffer of a value is its name; loops are `<buffer>_<axis>`, reduced axes `<buffer>_r<k>`; loops of the
// initialising nest `<buffer>_init_<axis>`. The accumulator of a reduction whose result needs a cast or finish is
// `<buffer>_acc`, or `<buffer>_acc0`, `<buffer>_acc1`, ... for a tuple, with loops `<buffer>_acc_<axis>`,
// `<buffer>_acc_r<k>` and `<buffer>_acc_init_<axis>`. Reduced axes that keepdim leaves have no loop outside.
// Schedules address loops and buffers by these names.
#pragma once

#include "loopwright/graph.h"
#include "src/ir/kernel.h"

namespace loopwright::graph {

/// True when the update needs no copy of the whole tensor: it writes only the scattered part, in the input itself.
bool is_written_in_place(const Graph& g, const Graph::Update& update);
/// The dtype in which a scatter adds.
DType carried_in_write(DType dtype);

/// Level::naive. Zero-size dims give loops that run no iteration (reductions give the identity).
Result<ir::Kernel> naive_kernel(const Graph& group);

}  // namespace loopwright::graph
