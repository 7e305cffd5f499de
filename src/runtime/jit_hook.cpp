#include "src/runtime/jit_hook.h"

#include <atomic>

namespace loopwright::runtime {
namespace {
std::atomic<JitHook> current_hook{nullptr};
}

void set_jit_hook(JitHook hook) { current_hook.store(hook, std::memory_order_release); }
JitHook find_jit_hook() { return current_hook.load(std::memory_order_acquire); }

}  // namespace loopwright::runtime
