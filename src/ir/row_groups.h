// Rows in groups: which nest finds the group of each row, and from which offsets.
#pragma once

#include <string>
#include <vector>

#include "src/ir/kernel.h"

namespace loopwright::ir {

/// for r in 0..rows { for e in 0..count { update min group[r] by select(r < offsets[e], e, count) } }: the group of a row is the
/// first whose offset lies behind it. Groups are intervals of rows, whatever the offsets are: group e has the rows from the largest
/// offset in front of e up to its own, and what is behind all offsets is group `count`.
struct RowGroups {
  Buffer group, offsets;
  Expr rows, count;
  Stmt nest;  ///< the outer loop
};
/// All nests of this form.
std::vector<RowGroups> find_row_groups(const Stmt& body);

}  // namespace loopwright::ir
