#include "src/codegen/arguments.h"

namespace loopwright::codegen {

using ir::Expr;

Result<SizeExpr> to_size(const Expr& e, const ir::Kernel& kernel, const std::string& what) {
  if (auto size = ir::to_size_expr(e, kernel.symbols)) return *size;
  return Error{ErrorCode::compile_failed, "compiling kernel `" + kernel.name + "`",
               what + " is not a formula over the kernel's symbols", "", ""};
}

Result<ArtifactArg> make_arg(const ir::Kernel& kernel, const ir::BufferInfo& buffer, ArgRole role) {
  ArtifactArg arg{buffer.name, buffer.dtype, role, {}, {}};
  SizeExpr stride = 1;
  arg.strides.resize(buffer.shape.size());
  for (std::size_t d = buffer.shape.size(); d-- > 0;) {
    LW_TRY(const SizeExpr extent, to_size(buffer.shape[d], kernel, "the shape of `" + buffer.name + "`"));
    arg.shape.insert(arg.shape.begin(), extent);
    arg.strides[d] = stride;
    if (!buffer.strides.empty()) {
      LW_TRY(arg.strides[d], to_size(buffer.strides[d], kernel, "a stride of `" + buffer.name + "`"));
    } else if (stride == SizeExpr(1)) {
      stride = extent;
    } else if (d > 0) {
      stride = SizeExpr::apply(SizeExpr::Op::mul, stride, extent);
    }
  }
  return arg;
}

}  // namespace loopwright::codegen
