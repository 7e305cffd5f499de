// The CPU backend: an emittable kernel to machine code that runs without the compiler. Safe to call from many threads.
#pragma once

#include <string>

#include "loopwright/artifact.h"
#include "src/codegen/llvm/cpu_target.h"
#include "src/ir/kernel.h"

namespace loopwright::codegen {

/// compile_failed when the kernel needs something that only a library or the interpreter has.
Result<Artifact> compile_cpu(const ir::Kernel& emittable, const CpuTarget& target);
/// Assembly (AT&T syntax) of the same code, and LLVM IR before or after optimisation, for reading.
Result<std::string> assembly_text(const ir::Kernel& emittable, const CpuTarget& target);
Result<std::string> llvm_ir_text(const ir::Kernel& emittable, const CpuTarget& target, bool optimised = false);

}  // namespace loopwright::codegen
