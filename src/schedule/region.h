// Which box of a buffer the accesses of a loop body fall in.
#pragma once

#include <string>
#include <vector>

#include "src/ir/simplify.h"
#include "src/schedule/access.h"

namespace loopwright::schedule {

/// Elements base .. base + extent of one dimension, in variables that are bound outside the body.
struct Range {
  ir::Expr base, extent;
  bool whole = false;  ///< the whole dimension: base 0, extent the shape
  bool exact =
      false;  ///< every element of the range that is inside the buffer is accessed, for any in other dims
  bool exceeds = false;  ///< base + extent may lie beyond the shape; elements there are never accessed
};
using Region = std::vector<Range>;

/// The box of one access; `facts` is what is known in front of the body that was its root. `padded`: of a constant extent
/// even where that is beyond a smaller buffer, as tensor cores take whole tiles.
Region region_of(const Access& access, const ir::Facts& facts, bool padded = false);
/// A box around both. `exact` is kept only where one side is exact and covers the other.
Region join(const Region& a, const Region& b, const ir::Buffer& buffer, const ir::Facts& facts);
/// The box of every access of these buffers (all of one shape) that `wanted` keeps; the whole buffer when there is none.
Region region_of(const std::vector<Access>& accesses, const std::vector<ir::Buffer>& buffers,
                 const ir::Facts& facts, bool reads_only, bool padded = false);
/// The same box: equal bases and extents.
bool same_box(const Region& a, const Region& b, const ir::Facts& facts);
/// `[i*8 .. +8, 0 .. n]`.
std::string text(const Region& region);

}  // namespace loopwright::schedule
