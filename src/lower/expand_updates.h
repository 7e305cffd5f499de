// Updates become loads, the monoid's combination, and stores. An update that gathers all lanes of a vector loop into
// one element stays: backends reduce the vector first.
#pragma once

#include "src/lower/passes.h"

namespace loopwright::lower {

Result<ir::Kernel> expand_updates(const ir::Kernel& kernel, const LowerOptions& options);

}  // namespace loopwright::lower
