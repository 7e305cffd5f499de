#include "src/codegen/llvm/jit.h"

#include <llvm/IR/LLVMContext.h>
#include <llvm/Support/raw_ostream.h>

#include "src/codegen/llvm/emit.h"
#include "src/codegen/llvm/image.h"
#include "src/codegen/llvm/machine.h"

namespace loopwright::codegen {

Result<Artifact> compile_cpu(const ir::Kernel& emittable, const CpuTarget& target) {
  llvm::LLVMContext context;
  LW_TRY(const Machine machine, Machine::create(target));
  LW_TRY(EmittedModule emitted, emit_module(emittable, machine, context));
  LW_CHECK(machine.optimise(*emitted.module));
  LW_TRY(const auto object, machine.emit_object(*emitted.module));
  LW_TRY(Image image, make_image(object));
  Artifact artifact;
  artifact.target = target.text;
  for (const ir::SymbolParam& s : emittable.symbols) artifact.symbols.push_back(s.symbol.name);
  artifact.args = std::move(emitted.args);
  artifact.guard = emittable.guard;
  for (const EmittedLaunch& launch : emitted.launches) {
    artifact.launches.push_back(CpuLaunch{image.functions.at(launch.function), launch.extent, launch.scratch_bytes});
  }
  artifact.image = std::move(image.bytes);
  return artifact;
}

Result<std::string> assembly_text(const ir::Kernel& emittable, const CpuTarget& target) {
  llvm::LLVMContext context;
  LW_TRY(const Machine machine, Machine::create(target));
  LW_TRY(const EmittedModule emitted, emit_module(emittable, machine, context));
  LW_CHECK(machine.optimise(*emitted.module));
  return machine.emit_assembly(*emitted.module);
}

Result<std::string> llvm_ir_text(const ir::Kernel& emittable, const CpuTarget& target, bool optimised) {
  llvm::LLVMContext context;
  LW_TRY(const Machine machine, Machine::create(target));
  LW_TRY(const EmittedModule emitted, emit_module(emittable, machine, context));
  if (optimised) LW_CHECK(machine.optimise(*emitted.module));
  std::string text;
  llvm::raw_string_ostream stream(text);
  emitted.module->print(stream, nullptr);
  return text;
}

}  // namespace loopwright::codegen
