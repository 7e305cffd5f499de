// How often this program called operator new, in any thread.
#pragma once

#include <cstdint>

// The sanitizers' own operator new cannot be replaced.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer) || __has_feature(memory_sanitizer)
#define LW_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define LW_SANITIZED 1
#endif

namespace loopwright::runtime::testing {

/// Always 0 under a sanitizer.
std::int64_t count_allocations();

}  // namespace loopwright::runtime::testing
