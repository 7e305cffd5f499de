// Parallel loops inside other loops become serial, and so do vector and unrolled loops whose extent is not a moderate
// number: backends start workers once a launch, and copy or vectorise only what they can count.
#pragma once

#include "src/lower/passes.h"

namespace loopwright::lower {

Result<ir::Kernel> settle_loops(const ir::Kernel& kernel, const LowerOptions& options);

}  // namespace loopwright::lower
