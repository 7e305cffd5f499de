// Buffers of the kernel's own become one-dimensional, and every access to them an offset.
#pragma once

#include "src/lower/passes.h"

namespace loopwright::lower {

Result<ir::Kernel> flatten_indices(const ir::Kernel& kernel, const LowerOptions& options);

}  // namespace loopwright::lower
