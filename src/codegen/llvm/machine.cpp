#include "src/codegen/llvm/machine.h"

#include <llvm/Analysis/CGSCCPassManager.h>
#include <llvm/Analysis/LoopAnalysisManager.h>
#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/PassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetOptions.h>

namespace loopwright::codegen {
namespace {

Error make_error(std::string found) {
  return Error{ErrorCode::compile_failed, "compiling a kernel for the CPU", std::move(found), "", ""};
}

/// Nothing of the C library exists where the code will run.
llvm::TargetLibraryInfoImpl make_empty_library() {
  llvm::TargetLibraryInfoImpl library{llvm::Triple(kTriple)};
  library.disableAllFunctions();
  return library;
}

}  // namespace

Result<Machine> Machine::create(const CpuTarget& target) {
  std::string message;
  const llvm::Target* llvm_target = llvm::TargetRegistry::lookupTarget(kTriple, message);
  if (llvm_target == nullptr) return make_error("LLVM says: " + message);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;  // only where the instruction carries `contract`
  options.MCOptions.AsmVerbose = true;                   // names spills in assembly text
  Machine m;
  m.target_ = target;
  m.machine_.reset(llvm_target->createTargetMachine(kTriple, target.base, target.features, options, llvm::Reloc::PIC_,
                                                    llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default));
  if (m.machine_ == nullptr) return make_error("LLVM has no code generator for `" + target.text + "`");
  return m;
}

void Machine::prepare(llvm::Module& module) const {
  module.setTargetTriple(kTriple);
  module.setDataLayout(machine_->createDataLayout());
  module.setPICLevel(llvm::PICLevel::BigPIC);
}

void Machine::add_attributes(llvm::Function& function) const {
  function.addFnAttr("target-cpu", target_.base);
  function.addFnAttr("tune-cpu", target_.tune);
  if (!target_.features.empty()) function.addFnAttr("target-features", target_.features);
  function.addFnAttr("no-builtins");
  function.addFnAttr("frame-pointer", "none");
  function.addFnAttr(llvm::Attribute::NoUnwind);
  function.setDSOLocal(true);
}

Status Machine::optimise(llvm::Module& module, const OptimiseOptions& options) const {
  std::string message;
  llvm::raw_string_ostream stream(message);
  if (llvm::verifyModule(module, &stream)) return make_error("the emitted module is malformed: " + message);

  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = options.vectorise_loops;
  tuning.LoopInterleaving = options.vectorise_loops;
  tuning.SLPVectorization = options.vectorise_slp;
  llvm::PassBuilder builder(machine_.get(), tuning);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager sccs;
  llvm::ModuleAnalysisManager modules;
  functions.registerPass([] { return llvm::TargetLibraryAnalysis(make_empty_library()); });
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2).run(module, modules);
  return Unit{};
}

namespace {

Status run_codegen(llvm::TargetMachine& machine, llvm::Module& module, llvm::CodeGenFileType type,
                   llvm::SmallVectorImpl<char>& out) {
  llvm::raw_svector_ostream stream(out);
  llvm::legacy::PassManager passes;
  passes.add(new llvm::TargetLibraryInfoWrapperPass(make_empty_library()));
  if (machine.addPassesToEmitFile(passes, stream, nullptr, type)) return make_error("LLVM cannot emit this file type");
  passes.run(module);
  return Unit{};
}

}  // namespace

Result<std::vector<std::uint8_t>> Machine::emit_object(llvm::Module& module) const {
  llvm::SmallVector<char, 0> out;
  LW_CHECK(run_codegen(*machine_, module, llvm::CodeGenFileType::ObjectFile, out));
  return std::vector<std::uint8_t>(out.begin(), out.end());
}

Result<std::string> Machine::emit_assembly(llvm::Module& module) const {
  llvm::SmallVector<char, 0> out;
  LW_CHECK(run_codegen(*machine_, module, llvm::CodeGenFileType::AssemblyFile, out));
  return std::string(out.begin(), out.end());
}

}  // namespace loopwright::codegen
