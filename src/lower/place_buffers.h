// Allocations in scratch shrink to the statements that use them, so that backends, which reuse memory when an Alloc
// ends, overlap buffers that never live together.
#pragma once

#include "src/lower/passes.h"

namespace loopwright::lower {

Result<ir::Kernel> place_buffers(const ir::Kernel& kernel, const LowerOptions& options);

}  // namespace loopwright::lower
