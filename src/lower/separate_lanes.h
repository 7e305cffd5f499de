#pragma once

#include "src/lower/passes.h"

namespace loopwright::lower {

/// Conditions inside a vector loop that is all a thread does: those that are the same for all lanes go outside, and where
/// lanes may differ, full vectors are told from the partial one, whose lanes run one by one. GPUs only.
Result<ir::Kernel> separate_lanes(const ir::Kernel& kernel, const LowerOptions& options);

}  // namespace loopwright::lower
