// Shape rules of the op table. Each sets call.result.shape and rewrites axes to count from the front.
#pragma once

#include "src/graph/ops.h"

namespace loopwright::graph {

Status broadcast_shapes(Call& call);  ///< all operands together, as NumPy does
Status scalar_shape(Call& call);      ///< rank 0
Status attribute_shape(Call& call);   ///< attribute `shape`; `axis` inside it when present
Status reshape_shape(Call& call);     ///< same number of elements; one size may be -1
Status permute_shape(Call& call);
Status broadcast_to_shape(Call& call);
Status slice_shape(Call& call);
Status concat_shape(Call& call);
Status pad_shape(Call& call);
Status same_shape_axes(Call& call);  ///< operand 0's shape; `axes` or `axis` checked
Status reduce_shape(Call& call);
Status arg_reduce_shape(Call& call);  ///< reduce_shape over axes that are never empty
Status matmul_shape(Call& call);
Status group_of_shape(Call& call);   ///< attribute `shape`, one size; one axis of offsets, never empty
Status matmul_at_shape(Call& call);  ///< [rows, k] and [matrices, k, n], an index for each row
Status gather_shape(Call& call);
Status embedding_shape(Call& call);
Status index_select_shape(Call& call);
Status scatter_shape(Call& call);
Status slice_update_shape(Call& call);

}  // namespace loopwright::graph
