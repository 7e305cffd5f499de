// Meanings of the ops that are more than one line of the table.
#pragma once

#include "src/graph/ops.h"

namespace loopwright::graph {

ir::Expr define_iota(const Call& call, const Read& read, const Index& index);
ir::Expr define_reshape(const Call& call, const Read& read, const Index& index);
ir::Expr define_permute(const Call& call, const Read& read, const Index& index);
ir::Expr define_broadcast(const Call& call, const Read& read, const Index& index);
ir::Expr define_slice(const Call& call, const Read& read, const Index& index);
ir::Expr define_concat(const Call& call, const Read& read, const Index& index);
ir::Expr define_pad(const Call& call, const Read& read, const Index& index);
ir::Expr define_flip(const Call& call, const Read& read, const Index& index);
ir::Expr define_gather(const Call& call, const Read& read, const Index& index);
ir::Expr define_embedding(const Call& call, const Read& read, const Index& index);
ir::Expr define_index_select(const Call& call, const Read& read, const Index& index);

/// One value a reduced element, carried in `state`; the result is the state.
ReductionParts reduce_axes(const Call& call, ir::Monoid monoid, DType state);
ReductionParts define_mean(const Call& call);
ReductionParts define_variance(const Call& call);
ReductionParts define_arg_reduce(const Call& call, ir::Monoid monoid);
ReductionParts define_matmul(const Call& call);
ReductionParts define_group_of(const Call& call);
ReductionParts define_matmul_at(const Call& call);

WriteParts define_scatter(const Call& call, const Read& read, const Index& index);
WriteParts define_slice_update(const Call& call, const Read& read, const Index& index);

}  // namespace loopwright::graph
