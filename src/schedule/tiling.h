// Whether the boxes that the iterations of some loops touch are disjoint and cover a buffer.
#pragma once

#include "src/schedule/region.h"
#include "src/schedule/site.h"

namespace loopwright::schedule {

/// `region` is the box of `buffer` that one iteration of `loops` (outermost first) touches. Empty when different
/// iterations have disjoint boxes that cover the buffer together; else what is wrong.
std::optional<std::string> explain_no_tiling(const Region& region, const ir::Buffer& buffer,
                                             const std::vector<ir::Stmt>& loops, const ir::Facts& facts);

}  // namespace loopwright::schedule
