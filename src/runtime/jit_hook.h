// How the runtime reaches the compiler without linking it.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "loopwright/artifact.h"
#include "loopwright/target.h"

namespace loopwright::runtime {

/// Compiles the default schedules of a workload for a target, preferred first; the last one takes all sizes and addresses.
/// Called from `Runtime::plan`, never from a launch, by one thread at a time for each Runtime.
using JitHook = Result<std::vector<std::shared_ptr<const Artifact>>> (*)(std::string_view workload_text, const Target& target);

/// For enable_jit (compile.h). Null takes it away.
void set_jit_hook(JitHook hook);
/// Null when this program has no compiler.
JitHook find_jit_hook();

}  // namespace loopwright::runtime
