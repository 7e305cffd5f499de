// Unrolled loops become copies of their bodies, with the loop variable a number in each.
#pragma once

#include "src/lower/passes.h"

namespace loopwright::lower {

Result<ir::Kernel> expand_unroll(const ir::Kernel& kernel, const LowerOptions& options);

}  // namespace loopwright::lower
