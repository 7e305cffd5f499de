// From an emittable kernel to CUDA C++ text with one function for each launch. The text includes nothing.
#pragma once

#include <string>
#include <vector>

#include "loopwright/artifact.h"
#include "loopwright/target.h"
#include "src/ir/kernel.h"

namespace loopwright::codegen {

struct CudaText {
  std::string functions;            ///< the kernels alone: texts of several candidates may be joined behind one prelude
  std::vector<ArtifactArg> args;    ///< parameters, then workspaces, then counters
  std::vector<CudaLaunch> launches;
};

/// `entry` begins the names of the functions, which must differ within a program. compile_failed when a size is not a
/// formula over symbols or a loop is bound in a way that a GPU cannot carry out; resource_exceeded beyond the target.
Result<CudaText> emit_cuda(const ir::Kernel& kernel, const Target& target, const std::string& entry);
/// A whole program: the functions behind what they call.
std::string cuda_program(const std::string& functions);

/// Through NVRTC: a cubin with its launches.
Result<Artifact> compile_cuda(const ir::Kernel& kernel, const Target& target);
/// Machine code as text, by the toolkit's cuobjdump, behind what ptxas says of each function. not_found without cuobjdump.
Result<std::string> cuda_assembly(const ir::Kernel& kernel, const Target& target);

}  // namespace loopwright::codegen
