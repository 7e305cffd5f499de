#include "src/codegen/llvm/emit.h"

#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/MDBuilder.h>

#include <algorithm>

#include "src/codegen/arguments.h"
#include "src/codegen/llvm/function_emitter.h"
#include "src/codegen/llvm/launches.h"
#include "src/ir/rewrite.h"

namespace loopwright::codegen {
namespace {

using ir::Expr;

/// Emits the functions of a kernel one after the other.
class ModuleEmitter {
 public:
  ModuleEmitter(const ir::Kernel& kernel, const Machine& machine, llvm::LLVMContext& context)
      : kernel_(kernel), machine_(machine), context_(context), b_(context) {}

  Result<EmittedModule> emit() {
    out_.module = std::make_unique<llvm::Module>(kernel_.name, context_);
    machine_.prepare(*out_.module);
    LW_TRY(const LaunchPlan plan, plan_launches(kernel_));
    for (const ir::Param& p : kernel_.params) {
      LW_TRY(ArtifactArg arg, make_arg(kernel_, *p.buffer, p.role));
      out_.args.push_back(std::move(arg));
      buffers_.push_back(p.buffer.get());
    }
    for (const ir::Buffer& w : plan.workspaces) {
      LW_TRY(ArtifactArg arg, make_arg(kernel_, *w, ArgRole::workspace));
      out_.args.push_back(std::move(arg));
      buffers_.push_back(w.get());
    }
    make_scopes();
    for (const LaunchBody& launch : plan.launches) LW_CHECK(emit_launch(launch));
    return std::move(out_);
  }

 private:
  using V = llvm::Value*;

  /// One alias scope for each buffer and one for scratch: none of them overlap. (Inputs may overlap inputs, but nothing
  /// is written there.)
  void make_scopes() {
    llvm::MDBuilder metadata(context_);
    llvm::MDNode* domain = metadata.createAnonymousAliasScopeDomain(kernel_.name);
    std::vector<llvm::Metadata*> scopes;
    for (const ArtifactArg& arg : out_.args) scopes.push_back(metadata.createAnonymousAliasScope(domain, arg.name));
    scopes.push_back(metadata.createAnonymousAliasScope(domain, "scratch"));
    for (std::size_t i = 0; i < scopes.size(); ++i) {
      std::vector<llvm::Metadata*> others = scopes;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
      BufferPlace place;
      place.scope = llvm::MDNode::get(context_, {scopes[i]});
      place.apart_from = llvm::MDNode::get(context_, others);
      scopes_.push_back(place);
    }
  }

  /// A field of CpuCall, or an element of one of its arrays: constant while the launch runs.
  llvm::LoadInst* load_constant(llvm::Type* type, V base, std::uint64_t element) {
    auto* loaded = b_.CreateLoad(type, b_.CreateConstInBoundsGEP1_64(type, base, element));
    loaded->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context_, {}));
    return loaded;
  }

  /// The symbol's range, as far as both the symbol and the guard promise.
  void annotate_symbol(llvm::LoadInst* value, const Symbol& symbol) {
    std::int64_t lo = symbol.lo;
    std::int64_t hi = symbol.hi;
    for (const SymbolGuard& g : kernel_.guard.symbols) {
      if (g.name == symbol.name) lo = std::max(lo, g.lo), hi = std::min(hi, g.hi);
    }
    if (lo > hi || hi == INT64_MAX) return;
    llvm::MDBuilder metadata(context_);
    value->setMetadata(llvm::LLVMContext::MD_range, metadata.createRange(llvm::APInt(64, static_cast<std::uint64_t>(lo)),
                                                                        llvm::APInt(64, static_cast<std::uint64_t>(hi) + 1)));
  }

  llvm::Function* make_function(const std::string& name) {
    auto* type = llvm::FunctionType::get(b_.getVoidTy(), {b_.getPtrTy(), b_.getInt64Ty(), b_.getInt64Ty()}, false);
    auto* function = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, name, *out_.module);
    machine_.add_attributes(*function);
    function->getArg(0)->setName("call");
    function->addParamAttr(0, llvm::Attribute::NoAlias);
    function->addParamAttr(0, llvm::Attribute::NoUndef);
    b_.SetInsertPoint(llvm::BasicBlock::Create(context_, "entry", function));
    return function;
  }

  Status emit_launch(const LaunchBody& launch) {
    const std::string name = "launch" + std::to_string(out_.launches.size());
    llvm::Function* function = make_function(name);
    const V call = function->getArg(0);
    llvm::Type* pointer = b_.getPtrTy();
    const V addresses = load_constant(pointer, call, 0);
    const V symbols = load_constant(pointer, call, 1);
    const V scratch = load_constant(pointer, call, 2);
    const V callees = load_constant(pointer, call, 3);
    BufferPlaces places;
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      BufferPlace place = scopes_[i];
      place.address = load_constant(pointer, addresses, i);
      place.address->setName(out_.args[i].name);
      place.is_streamed = std::any_of(kernel_.params.begin(), kernel_.params.end(), [&](const ir::Param& p) {
        return p.buffer.get() == buffers_[i] && p.is_streamed;
      });
      places[buffers_[i]] = place;
    }
    FunctionEmitter emitter(kernel_, machine_.target(), b_, callees, scratch, std::move(places), scopes_.back());
    for (std::size_t i = 0; i < kernel_.symbols.size(); ++i) {
      llvm::LoadInst* value = load_constant(b_.getInt64Ty(), symbols, i);
      value->setName(kernel_.symbols[i].symbol.name);
      annotate_symbol(value, kernel_.symbols[i].symbol);
      emitter.bind(kernel_.symbols[i].var, value);
    }
    LW_CHECK(emit_range(launch, function, emitter));
    LW_TRY(const SizeExpr extent, to_size(launch.extent, kernel_, "the extent of a parallel loop"));
    out_.launches.push_back({name, extent, emitter.scratch_bytes()});
    return Unit{};
  }

  /// for (i = begin; i < end; ++i) body
  Status emit_range(const LaunchBody& launch, llvm::Function* function, FunctionEmitter& emitter) {
    const V begin = function->getArg(1);
    const V end = function->getArg(2);
    llvm::BasicBlock* before = b_.GetInsertBlock();
    auto* loop = llvm::BasicBlock::Create(context_, "range", function);
    auto* done = llvm::BasicBlock::Create(context_, "return", function);
    b_.CreateCondBr(b_.CreateICmpSLT(begin, end), loop, done);
    b_.SetInsertPoint(loop);
    if (!launch.parallel_var) {
      LW_CHECK(emitter.emit(launch.body));
      b_.CreateBr(done);
    } else {
      llvm::PHINode* value = b_.CreatePHI(b_.getInt64Ty(), 2, launch.parallel_var->hint);
      value->addIncoming(begin, before);
      emitter.bind(*launch.parallel_var, value);
      LW_CHECK(emitter.emit(launch.body));
      const V next = b_.CreateAdd(value, b_.getInt64(1), "", true, true);
      value->addIncoming(next, b_.GetInsertBlock());
      b_.CreateCondBr(b_.CreateICmpSLT(next, end), loop, done);
    }
    b_.SetInsertPoint(done);
    // Whoever is told that this range is done must see stores that went past the caches.
    if (emitter.has_streamed()) b_.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {}, {});
    b_.CreateRetVoid();
    return Unit{};
  }

  const ir::Kernel& kernel_;
  const Machine& machine_;
  llvm::LLVMContext& context_;
  llvm::IRBuilder<> b_;
  EmittedModule out_;
  std::vector<const ir::BufferInfo*> buffers_;  ///< in the order of EmittedModule::args
  std::vector<BufferPlace> scopes_;             ///< of each buffer, then of scratch
};

}  // namespace

Result<EmittedModule> emit_module(const ir::Kernel& kernel, const Machine& machine, llvm::LLVMContext& context) {
  return ModuleEmitter(kernel, machine, context).emit();
}

}  // namespace loopwright::codegen
