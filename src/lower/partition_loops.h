// Loops with conditions that hold for all but a few iterations are cut where the conditions change, so that the long
// part has none: ragged tails of tiles, borders of padding, seams of concatenations.
#pragma once

#include "src/lower/passes.h"

namespace loopwright::lower {

Result<ir::Kernel> partition_loops(const ir::Kernel& kernel, const LowerOptions& options);

}  // namespace loopwright::lower
