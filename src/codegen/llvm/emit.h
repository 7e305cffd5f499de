// From an emittable kernel to an LLVM module with one function for each launch.
#pragma once

#include <llvm/IR/Module.h>

#include <memory>
#include <string>
#include <vector>

#include "loopwright/artifact.h"
#include "src/codegen/llvm/machine.h"
#include "src/ir/kernel.h"

namespace loopwright::codegen {

struct EmittedLaunch {
  std::string function;  ///< of type CpuEntry
  SizeExpr extent;
  SizeExpr scratch_bytes;
};

struct EmittedModule {
  std::unique_ptr<llvm::Module> module;
  std::vector<ArtifactArg> args;  ///< parameters, then workspaces
  std::vector<EmittedLaunch> launches;
};

/// compile_failed when a size is not a formula over symbols.
Result<EmittedModule> emit_module(const ir::Kernel& kernel, const Machine& machine, llvm::LLVMContext& context);

}  // namespace loopwright::codegen
