#include <llvm/IR/Metadata.h>

#include "src/codegen/llvm/function_emitter.h"
#include "src/ir/monoid.h"
#include "src/ir/rewrite.h"

namespace loopwright::codegen {

using ir::Expr;
using ir::Stmt;

llvm::BasicBlock* FunctionEmitter::make_block(const char* name) {
  return llvm::BasicBlock::Create(b_.getContext(), name, b_.GetInsertBlock()->getParent());
}

Status FunctionEmitter::emit(const Stmt& s) {
  return std::visit(ir::on{[&](const ir::Loop& l) { return emit_loop(l); },
                           [&](const ir::Store& x) -> Status {
                             forget();
                             store(x.buffer, x.index, eval(x.value));
                             return Unit{};
                           },
                           [&](const ir::Update& u) -> Status {
                             forget();
                             emit_update(u);
                             return Unit{};
                           },
                           [&](const ir::If& i) { return emit_if(i); },
                           [&](const ir::Let& l) { return emit_let(l); },
                           [&](const ir::Alloc& a) { return allocate(a); },
                           [&](const ir::Seq& q) -> Status {
                             for (const Stmt& item : q.items) LW_CHECK(emit(item));
                             return Unit{};
                           }},
                    s->v);
}

Status FunctionEmitter::emit_loop(const ir::Loop& l) {
  forget();
  const auto extent = ir::as_int(l.extent);
  if (extent && *extent <= 0) return Unit{};
  if (extent && *extent > 1 && l.kind == ir::LoopKind::vectorize && !vector_ && can_vectorize(l)) return emit_vector(l, *extent);
  return emit_counted(l.var, eval(l.extent), l.body, l.kind == ir::LoopKind::unroll && extent);
}

Status FunctionEmitter::emit_counted(const ir::Var& var, V extent, const Stmt& body, bool full_unroll) {
  llvm::BasicBlock* before = b_.GetInsertBlock();
  llvm::BasicBlock* loop = make_block(var.hint.c_str());
  llvm::BasicBlock* done = make_block("done");
  b_.CreateCondBr(b_.CreateICmpSGT(extent, b_.getInt64(0)), loop, done);
  b_.SetInsertPoint(loop);
  llvm::PHINode* value = b_.CreatePHI(b_.getInt64Ty(), 2, var.hint);
  value->addIncoming(b_.getInt64(0), before);
  values_[var.id] = value;
  LW_CHECK(emit(body));
  const V next = b_.CreateAdd(value, b_.getInt64(1), "", true, true);
  value->addIncoming(next, b_.GetInsertBlock());
  llvm::BranchInst* back = b_.CreateCondBr(b_.CreateICmpSLT(next, extent), loop, done);
  if (full_unroll) {
    llvm::LLVMContext& context = b_.getContext();
    auto* full = llvm::MDNode::get(context, {llvm::MDString::get(context, "llvm.loop.unroll.full")});
    llvm::MDNode* id = llvm::MDNode::getDistinct(context, {nullptr, full});
    id->replaceOperandWith(0, id);
    back->setMetadata(llvm::LLVMContext::MD_loop, id);
  }
  b_.SetInsertPoint(done);
  return Unit{};
}

// ---------------------------------------------------------------- vector loops

namespace {

/// Lanes emitted at once: all of them when that is a moderate number, else a divisor of it.
unsigned choose_lanes(std::int64_t extent) {
  for (std::int64_t lanes = 64; lanes > 1; --lanes) {
    if (extent % lanes == 0) return static_cast<unsigned>(lanes);
  }
  return 1;
}

}  // namespace

Status FunctionEmitter::emit_vector(const ir::Loop& l, std::int64_t extent) {
  const unsigned lanes = choose_lanes(extent);
  if (lanes == 1) return emit_counted(l.var, b_.getInt64(static_cast<std::uint64_t>(extent)), l.body, false);
  const auto emit_block = [&](V first) {
    vector_ = VectorLoop{l.var, lanes, first, nullptr, nullptr, {}};
    std::vector<llvm::Constant*> offsets;
    for (unsigned i = 0; i < lanes; ++i) offsets.push_back(b_.getInt64(i));
    values_[l.var.id] = b_.CreateAdd(b_.CreateVectorSplat(lanes, first), llvm::ConstantVector::get(offsets));
    const Status status = emit(l.body);
    vector_.reset();
    return status;
  };
  if (lanes == extent) return emit_block(b_.getInt64(0));
  llvm::BasicBlock* before = b_.GetInsertBlock();
  llvm::BasicBlock* loop = make_block(l.var.hint.c_str());
  llvm::BasicBlock* done = make_block("done");
  b_.CreateBr(loop);
  b_.SetInsertPoint(loop);
  llvm::PHINode* first = b_.CreatePHI(b_.getInt64Ty(), 2, l.var.hint);
  first->addIncoming(b_.getInt64(0), before);
  LW_CHECK(emit_block(first));
  const V next = b_.CreateAdd(first, b_.getInt64(lanes), "", true, true);
  first->addIncoming(next, b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateICmpSLT(next, b_.getInt64(static_cast<std::uint64_t>(extent))), loop, done);
  b_.SetInsertPoint(done);
  return Unit{};
}

/// Whether all lanes may go through the body in step. Otherwise the loop runs serially, which means the same.
bool FunctionEmitter::can_vectorize(const ir::Loop& l) {
  vector_ = VectorLoop{l.var, 2, nullptr, nullptr, nullptr, {}};
  bool possible = can_vectorize_body(l.body, l.var);
  vector_.reset();
  // A reduction into one element must be the only one to look at it.
  const ir::Accesses accesses = ir::buffers_of(l.body);
  ir::walk(
      l.body,
      [&](const Stmt& s) {
        const auto* u = ir::as<ir::Update>(s);
        if (u == nullptr || ir::uses(s, l.var) == false) return;
        bool fixed = true;
        for (const Expr& e : u->index) fixed = fixed && !ir::uses(e, l.var);
        if (!fixed) return;
        for (const ir::Buffer& b : u->buffers) {
          int writers = 0;
          ir::walk(l.body, [&](const Stmt& t) {
            const auto* store = ir::as<ir::Store>(t);
            const auto* other = ir::as<ir::Update>(t);
            if (store != nullptr && store->buffer == b) ++writers;
            if (other != nullptr) writers += static_cast<int>(std::count(other->buffers.begin(), other->buffers.end(), b));
          }, [&](const Expr& e) {
            const auto* load = ir::as<ir::Load>(e);
            if (load != nullptr && load->buffer == b) possible = false;
          });
          if (writers > 1) possible = false;
        }
      },
      [](const Expr&) {});
  return possible;
}

bool FunctionEmitter::can_vectorize_body(const Stmt& s, const ir::Var& var) {
  const auto varies = [&](const std::vector<Expr>& index) {
    for (const Expr& e : index) {
      if (is_varying(e)) return true;
    }
    return false;
  };
  return std::visit(ir::on{[&](const ir::Loop& l) { return !is_varying(l.extent) && can_vectorize_body(l.body, var); },
                           [&](const ir::Store& x) { return varies(x.index); },
                           [&](const ir::Update& u) { return varies(u.index) || u.buffers.size() == 1; },
                           [&](const ir::If& i) { return can_vectorize_body(i.then, var); },
                           [&](const ir::Let& l) {
                             if (is_varying(l.value)) vector_->varying[l.var.id] = l.value;
                             return can_vectorize_body(l.body, var);
                           },
                           [&](const ir::Alloc&) { return false; },  // one array for each lane
                           [&](const ir::Seq& q) {
                             for (const Stmt& item : q.items) {
                               if (!can_vectorize_body(item, var)) return false;
                             }
                             return true;
                           }},
                    s->v);
}

// ---------------------------------------------------------------- conditions, bindings, updates

Status FunctionEmitter::emit_guarded(V condition, const Stmt& body) {
  llvm::BasicBlock* inside = make_block("then");
  llvm::BasicBlock* after = make_block("after");
  b_.CreateCondBr(condition, inside, after);
  b_.SetInsertPoint(inside);
  LW_CHECK(emit(body));
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
  forget();
  return Unit{};
}

/// Turns off the lanes for which the condition does not hold.
void FunctionEmitter::narrow_mask(V condition) {
  // Logical, as what is computed in lanes that are off may be anything.
  vector_->mask = vector_->mask == nullptr ? condition : b_.CreateLogicalAnd(vector_->mask, condition);
  vector_->any = b_.CreateOrReduce(vector_->mask);
}

namespace {

bool is_short(const Stmt& s) {
  int statements = 0;
  ir::walk(s, [&](const Stmt& x) { statements += ir::as<ir::Loop>(x) != nullptr ? 100 : 1; }, [](const Expr&) {});
  return statements <= 8;
}

}  // namespace

/// A body under a condition that differs between lanes. A short one is passed through even when every lane is off.
Status FunctionEmitter::emit_masked(V condition, const Stmt& body) {
  const V outer_mask = vector_->mask;
  const V outer_any = vector_->any;
  narrow_mask(condition);
  Status status = Unit{};
  if (is_short(body)) {
    status = emit(body);
  } else {
    const V any = std::exchange(vector_->any, nullptr);
    status = emit_guarded(any, body);
  }
  vector_->mask = outer_mask;
  vector_->any = outer_any;
  forget();
  return status;
}

Status FunctionEmitter::emit_if(const ir::If& i) {
  forget();
  // The part of the condition that is the same for all lanes is a branch, the rest a mask.
  const auto* both = ir::as<ir::Binary>(i.condition);
  if (vector_ && both != nullptr && both->op == ir::BinaryOp::and_ && is_varying(i.condition)) {
    return emit_if(ir::If{both->a, ir::if_then(both->b, i.then)});
  }
  const V condition = eval(i.condition);
  return condition->getType()->isVectorTy() ? emit_masked(condition, i.then) : emit_guarded(condition, i.then);
}

Status FunctionEmitter::emit_let(const ir::Let& l) {
  forget();
  values_[l.var.id] = eval(l.value);
  if (is_varying(l.value)) vector_->varying[l.var.id] = l.value;
  return emit(l.body);
}

void FunctionEmitter::emit_update(const ir::Update& u) {
  bool varies = !vector_;
  for (const Expr& e : u.index) varies = varies || is_varying(e);
  if (!varies) return emit_lane_reduction(u);
  std::vector<Expr> state;
  std::vector<Expr> values;
  const auto name_value = [&](V value, DType dtype, const Expr& meaning) {
    const ir::Var named = ir::fresh_var("t");
    values_[named.id] = value;
    if (vector_ && is_varying(meaning)) vector_->varying[named.id] = meaning;
    return ir::var(named, dtype);
  };
  for (std::size_t i = 0; i < u.buffers.size(); ++i) {
    const Expr loaded = ir::load(u.buffers[i], u.index);
    state.push_back(name_value(eval(loaded), loaded->dtype, loaded));
    values.push_back(name_value(eval(u.values[i]), u.values[i]->dtype, u.values[i]));
  }
  std::vector<V> results;
  for (const Expr& e : ir::combine(u.monoid, state, values)) results.push_back(eval(e));
  for (std::size_t i = 0; i < results.size(); ++i) store(u.buffers[i], u.index, results[i]);
}

/// All lanes go into one element.
void FunctionEmitter::emit_lane_reduction(const ir::Update& u) {
  const DType t = u.buffers[0]->dtype;
  V lanes = eval(u.values[0]);
  if (!lanes->getType()->isVectorTy()) lanes = b_.CreateVectorSplat(vector_->lanes, lanes);
  if (vector_->mask != nullptr) lanes = choose(vector_->mask, lanes, eval(ir::identity(u.monoid, {t})[0]));
  const V state = eval(ir::load(u.buffers[0], u.index));
  store(u.buffers[0], u.index, ops_.reduce(u.monoid, t, state, lanes));
}

}  // namespace loopwright::codegen
