// How often this program called operator new, in any thread.
#pragma once

#include <cstdint>

namespace loopwright::runtime::testing {

std::int64_t count_allocations();

}  // namespace loopwright::runtime::testing
