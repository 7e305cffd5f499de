// What stands in for this backend in a build without LLVM: such a program tunes and compiles for GPUs, and runs
// tuned CPU code.
#include "src/codegen/llvm/jit.h"

namespace loopwright::codegen {
namespace {

Error without_backend(std::string asked) {
  return {ErrorCode::unsupported_target, std::move(asked), "this program was built without LLVM", "",
          "a build with LOOPWRIGHT_LLVM=ON, or a CUDA target"};
}

}  // namespace

Result<CpuTarget> host_cpu_target() { return without_backend("compile for this machine's CPU"); }
Result<CpuTarget> parse_cpu_target(std::string_view text) {
  return without_backend("compile for `" + std::string(text) + "`");
}
Result<Artifact> compile_cpu(const ir::Kernel&, const CpuTarget& target) {
  return without_backend("compile for " + target.text);
}
Result<std::string> assembly_text(const ir::Kernel&, const CpuTarget& target) {
  return without_backend("assembly for " + target.text);
}
Result<std::string> llvm_ir_text(const ir::Kernel&, const CpuTarget& target, bool) {
  return without_backend("LLVM IR for " + target.text);
}

}  // namespace loopwright::codegen
