// What passes that copy statements need: names that stay unique, and a measure of code size.
#pragma once

#include "src/ir/kernel.h"

namespace loopwright::lower {

/// Gives allocations a name no other buffer of the kernel has.
ir::Kernel make_names_unique(const ir::Kernel& kernel);
/// Stores, updates, conditions and bindings in the text, each occurrence counted.
std::int64_t count_statements(const ir::Stmt& s);

}  // namespace loopwright::lower
