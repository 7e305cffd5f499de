// How a kernel's buffers are described to whoever launches it, the same for every backend.
#pragma once

#include "src/ir/kernel.h"

namespace loopwright::codegen {

/// The size as a formula over the kernel's symbols; compile_failed naming `what` when it is none.
Result<SizeExpr> to_size(const ir::Expr& e, const ir::Kernel& kernel, const std::string& what);
Result<ArtifactArg> make_arg(const ir::Kernel& kernel, const ir::BufferInfo& buffer, ArgRole role);

}  // namespace loopwright::codegen
