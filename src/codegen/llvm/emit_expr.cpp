#include "src/codegen/llvm/function_emitter.h"
#include "src/ir/rewrite.h"

namespace loopwright::codegen {

using ir::Expr;

FunctionEmitter::FunctionEmitter(const ir::Kernel& kernel, const CpuTarget& target, llvm::IRBuilder<>& builder,
                                 llvm::Value* callees, llvm::Value* scratch, BufferPlaces places,
                                 BufferPlace scratch_place)
    : kernel_(kernel),
      b_(builder),
      convert_(builder, target.f16c),
      math_(builder, target.fma, callees),
      ops_(builder, convert_, math_, kernel.contract),
      scratch_(scratch),
      places_(std::move(places)),
      scratch_place_(scratch_place),
      scratch_used_(ir::int_imm(0)) {
  forget();
}

llvm::Value* FunctionEmitter::eval(const Expr& e) {
  for (auto level = memo_.rbegin(); level != memo_.rend(); ++level) {
    if (const auto it = level->find(e.get()); it != level->end()) return it->second.value;
  }
  const V value = eval_node(e);
  memo_.back()[e.get()] = {e, value};
  return value;
}

/// The value in the first lane, as a scalar.
llvm::Value* FunctionEmitter::eval_in_lane_0(const Expr& e) {
  if (!is_varying(e)) return eval(e);
  std::vector<Memo> kept(1);
  std::swap(kept, memo_);
  const bool was = std::exchange(in_lane_0_, true);
  const V value = eval(e);
  in_lane_0_ = was;
  std::swap(kept, memo_);
  return value;
}

llvm::Value* FunctionEmitter::eval_node(const Expr& e) {
  return std::visit(
      ir::on{[&](const ir::IntImm& i) -> V { return llvm::ConstantInt::get(convert_.register_type(e->dtype), i.value, true); },
             [&](const ir::FloatImm& f) -> V { return llvm::ConstantFP::get(convert_.register_type(e->dtype), f.value); },
             [&](const ir::VarRef& r) -> V { return eval_var(r); },
             [&](const ir::Unary& u) -> V { return ops_.emit(u.op, u.a->dtype, eval(u.a)); },
             [&](const ir::Binary& x) -> V {
               // The right side of a logical operation may be unsafe to look at.
               const bool logical = x.a->dtype == DType::boolean;
               if (logical && x.op == ir::BinaryOp::and_ && touches_memory(x.b)) {
                 return eval_select(x.a, x.b, ir::int_imm(0, DType::boolean));
               }
               if (logical && x.op == ir::BinaryOp::or_ && touches_memory(x.b)) {
                 return eval_select(x.a, ir::int_imm(1, DType::boolean), x.b);
               }
               const V a = eval(x.a);
               return ops_.emit(x.op, x.a->dtype, a, eval(x.b));
             },
             [&](const ir::Select& s) -> V { return eval_select(s.condition, s.a, s.b); },
             [&](const ir::Cast& c) -> V { return convert_.cast(eval(c.a), c.a->dtype, e->dtype); },
             [&](const ir::Load& l) -> V { return load(l); }},
      e->v);
}

llvm::Value* FunctionEmitter::eval_var(const ir::VarRef& ref) {
  if (in_lane_0_) {
    if (ref.var == vector_->var) return vector_->first;
    if (const auto it = vector_->varying.find(ref.var.id); it != vector_->varying.end()) return eval(it->second);
  }
  const auto it = values_.find(ref.var.id);
  LW_BUG_IF(it == values_.end(), "variable " + ref.var.hint + " is not bound");
  return it->second;
}

llvm::Value* FunctionEmitter::choose(V condition, V a, V b) {
  ops_.match(a, b);
  if (condition->getType()->isVectorTy()) {
    auto count = llvm::cast<llvm::VectorType>(condition->getType())->getElementCount();
    if (!a->getType()->isVectorTy()) a = b_.CreateVectorSplat(count, a), b = b_.CreateVectorSplat(count, b);
  }
  return b_.CreateSelect(condition, a, b);
}

llvm::Value* FunctionEmitter::eval_select(const Expr& condition, const Expr& a, const Expr& b) {
  const V c = eval(condition);
  const bool safe = !touches_memory(a) && !touches_memory(b);
  if (!safe && !c->getType()->isVectorTy()) return eval_branches(c, a, b);
  if (safe) {
    const V value = eval(a);
    return choose(c, value, eval(b));
  }
  const V value = eval_side(c, a);
  return choose(c, value, eval_side(b_.CreateNot(c), b));
}

/// One side of a choice that differs between lanes: its memory is touched only in lanes that chose it.
llvm::Value* FunctionEmitter::eval_side(V condition, const Expr& side) {
  if (!touches_memory(side)) return eval(side);
  const V outer_mask = vector_->mask;
  const V outer_any = vector_->any;
  narrow_mask(condition);
  memo_.emplace_back();
  const V value = eval(side);
  memo_.pop_back();
  vector_->mask = outer_mask;
  vector_->any = outer_any;
  return value;
}

llvm::Value* FunctionEmitter::eval_branches(V condition, const Expr& a, const Expr& b) {
  llvm::BasicBlock* yes = make_block("yes");
  llvm::BasicBlock* no = make_block("no");
  llvm::BasicBlock* after = make_block("chosen");
  b_.CreateCondBr(condition, yes, no);
  const bool varies = is_varying(a) || is_varying(b);
  const auto side = [&](llvm::BasicBlock* block, const Expr& e) {
    b_.SetInsertPoint(block);
    memo_.emplace_back();
    V value = eval(e);
    if (varies && !in_lane_0_ && !value->getType()->isVectorTy()) value = b_.CreateVectorSplat(vector_->lanes, value);
    memo_.pop_back();
    llvm::BasicBlock* end = b_.GetInsertBlock();
    b_.CreateBr(after);
    return std::pair{value, end};
  };
  const auto [value_a, end_a] = side(yes, a);
  const auto [value_b, end_b] = side(no, b);
  b_.SetInsertPoint(after);
  llvm::PHINode* phi = b_.CreatePHI(value_a->getType(), 2);
  phi->addIncoming(value_a, end_a);
  phi->addIncoming(value_b, end_b);
  return phi;
}

bool FunctionEmitter::touches_memory(const Expr& e) {
  bool found = false;
  ir::walk(e, [&](const Expr& x) { found = found || ir::as<ir::Load>(x) != nullptr; });
  return found;
}

bool FunctionEmitter::is_varying(const Expr& e) {
  if (!vector_) return false;
  bool found = false;
  ir::walk(e, [&](const Expr& x) {
    const auto* ref = ir::as<ir::VarRef>(x);
    if (ref != nullptr) found = found || ref->var == vector_->var || vector_->varying.contains(ref->var.id);
  });
  return found;
}

/// By how much an index grows from one lane to the next; empty when that is not one number.
std::optional<std::int64_t> FunctionEmitter::lane_step(const Expr& e) {
  if (!is_varying(e)) return 0;
  if (const auto* ref = ir::as<ir::VarRef>(e)) {
    if (ref->var == vector_->var) return 1;
    return lane_step(vector_->varying.at(ref->var.id));
  }
  const auto* x = ir::as<ir::Binary>(e);
  if (x == nullptr) return std::nullopt;
  const auto a = lane_step(x->a);
  const auto b = lane_step(x->b);
  if (!a || !b) return std::nullopt;
  std::int64_t step = 0;
  bool overflow = true;
  if (x->op == ir::BinaryOp::add) overflow = __builtin_add_overflow(*a, *b, &step);
  if (x->op == ir::BinaryOp::sub) overflow = __builtin_sub_overflow(*a, *b, &step);
  if (x->op == ir::BinaryOp::mul) {
    if (const auto k = ir::as_int(x->b); k) overflow = __builtin_mul_overflow(*a, *k, &step);
    else if (const auto j = ir::as_int(x->a); j) overflow = __builtin_mul_overflow(*b, *j, &step);
  }
  return overflow ? std::nullopt : std::optional(step);
}

}  // namespace loopwright::codegen
