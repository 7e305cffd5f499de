// Rejects kernels whose code, stack or scratch no machine of the target could hold.
#pragma once

#include "src/lower/passes.h"

namespace loopwright::lower {

Result<ir::Kernel> check_resources(const ir::Kernel& kernel, const LowerOptions& options);

}  // namespace loopwright::lower
