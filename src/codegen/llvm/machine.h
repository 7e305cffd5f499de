// LLVM's view of one target: options every module is compiled with, and the way from a module to object code.
#pragma once

#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <vector>

#include "src/codegen/llvm/cpu_target.h"

namespace loopwright::codegen {

struct OptimiseOptions {
  bool vectorise_loops = false;  ///< LLVM's own vectorisers; schedules say `vectorize` instead
  bool vectorise_slp = false;
};

/// One compilation's target machine. Not shared between threads.
class Machine {
 public:
  static Result<Machine> create(const CpuTarget& target);
  /// Sets triple and data layout.
  void prepare(llvm::Module& module) const;
  /// The attributes every function must have: target features, no unwinding, no library calls.
  void add_attributes(llvm::Function& function) const;
  /// compile_failed with LLVM's words when the module is not well-formed.
  Status optimise(llvm::Module& module, const OptimiseOptions& options = {}) const;
  /// An ELF object. Changes the module.
  Result<std::vector<std::uint8_t>> emit_object(llvm::Module& module) const;
  Result<std::string> emit_assembly(llvm::Module& module) const;
  const CpuTarget& target() const { return target_; }

 private:
  CpuTarget target_;
  std::unique_ptr<llvm::TargetMachine> machine_;
};

}  // namespace loopwright::codegen
