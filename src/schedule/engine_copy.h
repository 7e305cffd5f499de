// What the copy engine of a GPU can do, for the steps that give it copies.
#pragma once

#include <string>

#include "src/ir/engine.h"
#include "src/schedule/site.h"

namespace loopwright::schedule {

/// What keeps the engine from the copy; empty for nothing.
std::string find_copy_obstacle(const ir::Kernel& k, const ir::BulkCopy& c, const ir::Facts& facts);
/// The same for one row of neighbouring elements, which threads read afterwards: no tensor map, any dtype.
std::string find_row_copy_obstacle(const ir::Kernel& k, const ir::BulkCopy& c, const ir::Facts& facts);

}  // namespace loopwright::schedule
