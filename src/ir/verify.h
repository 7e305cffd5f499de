// What a kernel must satisfy at its level.
#pragma once

#include "src/ir/kernel.h"

namespace loopwright::ir {

/// malformed_ir with the place marked: dtypes, ranks, scopes, unique names, and what the level forbids.
Status verify(const Kernel& k);
/// The same at another level than the kernel states.
Status verify(const Kernel& k, Level level);

}  // namespace loopwright::ir
