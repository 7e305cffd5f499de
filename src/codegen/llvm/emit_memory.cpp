#include <llvm/IR/Intrinsics.h>

#include "src/codegen/llvm/function_emitter.h"
#include "src/ir/rewrite.h"

namespace loopwright::codegen {
namespace {

using ir::Expr;

constexpr std::int64_t kLargestRegisterBuffer = 16 << 10;  ///< bytes; larger ones go to scratch
constexpr std::int64_t kScratchAlignment = 64;

/// Elements from the first to the last, as an expression.
Expr count_elements(const ir::BufferInfo& buffer) {
  Expr count = ir::int_imm(1);
  if (buffer.strides.empty()) {
    for (const Expr& extent : buffer.shape) count = count * extent;
    return count;
  }
  for (std::size_t d = 0; d < buffer.shape.size(); ++d) {
    count = count + ir::max(buffer.shape[d] - ir::int_imm(1), ir::int_imm(0)) * buffer.strides[d];
  }
  return count;
}

}  // namespace

Expr FunctionEmitter::linear_index(const ir::BufferInfo& buffer, const std::vector<Expr>& index) const {
  Expr sum = ir::int_imm(0);
  Expr stride = ir::int_imm(1);
  for (std::size_t d = index.size(); d-- > 0;) {
    const Expr& step = buffer.strides.empty() ? stride : buffer.strides[d];
    const Expr term = ir::as_int(step) == 1 ? index[d] : index[d] * step;
    sum = ir::as_int(sum) == 0 ? term : term + sum;
    if (buffer.strides.empty()) stride = ir::as_int(stride) == 1 ? buffer.shape[d] : stride * buffer.shape[d];
  }
  return sum;
}

const BufferPlace& FunctionEmitter::place_of(const ir::Buffer& buffer) const {
  const auto it = places_.find(buffer.get());
  LW_BUG_IF(it == places_.end(), "buffer " + buffer->name + " has no place");
  return it->second;
}

llvm::Align FunctionEmitter::alignment(DType dtype) const { return llvm::Align(static_cast<std::uint64_t>(size_bytes(dtype))); }

template <class Instruction>
Instruction* FunctionEmitter::annotate(Instruction* access, const BufferPlace& place) {
  if (place.scope != nullptr) access->setMetadata(llvm::LLVMContext::MD_alias_scope, place.scope);
  if (place.apart_from != nullptr) access->setMetadata(llvm::LLVMContext::MD_noalias, place.apart_from);
  return access;
}

llvm::Value* FunctionEmitter::element_address(const ir::BufferInfo& buffer, const BufferPlace& place, V index) {
  return b_.CreateGEP(convert_.memory_type(buffer.dtype), place.address, {index});
}

/// Where a scalar may be loaded from under a mask: elsewhere when no lane wants it.
llvm::Value* FunctionEmitter::address_if_any(V address) {
  if (!vector_ || vector_->any == nullptr) return address;
  if (nowhere_ == nullptr) {
    llvm::BasicBlock& entry = b_.GetInsertBlock()->getParent()->getEntryBlock();
    llvm::IRBuilder<> at_entry(&entry, entry.begin());
    nowhere_ = at_entry.CreateAlloca(b_.getInt64Ty());
    at_entry.CreateStore(b_.getInt64(0), nowhere_);
  }
  return b_.CreateSelect(vector_->any, address, nowhere_);
}

/// Whether these elements lie on the stack, whichever lanes are on.
bool FunctionEmitter::is_private(const BufferPlace& place, V first, unsigned count) const {
  const auto* at = llvm::dyn_cast<llvm::ConstantInt>(first);
  return at != nullptr && at->getSExtValue() >= 0 && at->getSExtValue() + count <= place.private_elements;
}

llvm::Value* FunctionEmitter::load(const ir::Load& l) {
  const ir::BufferInfo& buffer = *l.buffer;
  const BufferPlace& place = place_of(l.buffer);
  const Expr index = linear_index(buffer, l.index);
  if (!is_varying(index) || in_lane_0_) {
    const V at = eval(index);
    V address = element_address(buffer, place, at);
    if (!is_private(place, at, 1)) address = address_if_any(address);
    llvm::LoadInst* loaded = b_.CreateAlignedLoad(convert_.memory_type(buffer.dtype), address, alignment(buffer.dtype));
    return convert_.from_memory(buffer.dtype, annotate(loaded, place));
  }
  const auto step = lane_step(index);
  if (step == 1) return load_contiguous(buffer, place, eval_in_lane_0(index), false);
  if (step == -1) {
    const V first = eval_in_lane_0(index);
    return load_contiguous(buffer, place, b_.CreateSub(first, b_.getInt64(vector_->lanes - 1)), true);
  }
  return load_lanes(buffer, place, eval(index));
}

llvm::Value* FunctionEmitter::load_contiguous(const ir::BufferInfo& buffer, const BufferPlace& place, V first, bool backward) {
  llvm::Type* type = convert_.memory_type(buffer.dtype, vector_->lanes);
  const V address = element_address(buffer, place, first);
  const llvm::Align align = alignment(buffer.dtype);
  std::vector<int> reversed;
  for (unsigned i = vector_->lanes; i-- > 0;) reversed.push_back(static_cast<int>(i));
  llvm::Instruction* loaded = nullptr;
  if (vector_->mask == nullptr || is_private(place, first, vector_->lanes)) {
    loaded = b_.CreateAlignedLoad(type, address, align);
  } else {
    const V mask = backward ? b_.CreateShuffleVector(vector_->mask, reversed) : vector_->mask;
    loaded = b_.CreateMaskedLoad(type, address, align, mask, llvm::Constant::getNullValue(type));
  }
  annotate(loaded, place);
  return convert_.from_memory(buffer.dtype, backward ? b_.CreateShuffleVector(loaded, reversed) : loaded);
}

llvm::Value* FunctionEmitter::load_lanes(const ir::BufferInfo& buffer, const BufferPlace& place, V indices) {
  llvm::Type* type = convert_.memory_type(buffer.dtype, vector_->lanes);
  const llvm::Align align = alignment(buffer.dtype);
  if (vector_->mask != nullptr) {
    const V addresses = element_address(buffer, place, indices);
    auto* loaded = b_.CreateMaskedGather(type, addresses, align, vector_->mask, llvm::Constant::getNullValue(type));
    return convert_.from_memory(buffer.dtype, annotate(loaded, place));
  }
  V all = llvm::PoisonValue::get(type);
  for (unsigned lane = 0; lane < vector_->lanes; ++lane) {
    const V address = element_address(buffer, place, b_.CreateExtractElement(indices, std::uint64_t{lane}));
    auto* one = annotate(b_.CreateAlignedLoad(convert_.memory_type(buffer.dtype), address, align), place);
    all = b_.CreateInsertElement(all, one, std::uint64_t{lane});
  }
  return convert_.from_memory(buffer.dtype, all);
}

void FunctionEmitter::store(const ir::Buffer& target, const std::vector<Expr>& where, V value) {
  const ir::BufferInfo& buffer = *target;
  const BufferPlace& place = place_of(target);
  const Expr index = linear_index(buffer, where);
  const llvm::Align align = alignment(buffer.dtype);
  if (!is_varying(index)) {
    const V stored = convert_.to_memory(buffer.dtype, value);
    LW_BUG_IF(stored->getType()->isVectorTy(), "lanes stored to one element of " + buffer.name);
    annotate(b_.CreateAlignedStore(stored, element_address(buffer, place, eval(index)), align), place);
    return;
  }
  if (!value->getType()->isVectorTy()) value = b_.CreateVectorSplat(vector_->lanes, value);
  value = convert_.to_memory(buffer.dtype, value);
  if (lane_step(index) != 1) return store_lanes(buffer, place, eval(index), value);
  const V first = eval_in_lane_0(index);
  const V address = element_address(buffer, place, first);
  if (vector_->mask != nullptr && is_private(place, first, vector_->lanes)) {
    // A plain store keeps the array in registers.
    value = b_.CreateSelect(vector_->mask, value, b_.CreateAlignedLoad(value->getType(), address, align));
    annotate(b_.CreateAlignedStore(value, address, align), place);
  } else if (vector_->mask == nullptr) {
    if (place.is_streamed) store_streamed(value, address, align, place);
    else annotate(b_.CreateAlignedStore(value, address, align), place);
  } else {
    annotate(b_.CreateMaskedStore(value, address, align, vector_->mask), place);
  }
}

/// Such stores exist for aligned addresses alone, which is looked at here: it costs nothing beside the memory's time.
/// 16 bytes are what allocators give; LLVM splits wider vectors, and the cache line is filled all the same.
void FunctionEmitter::store_streamed(V value, V address, llvm::Align align, const BufferPlace& place) {
  auto* type = llvm::cast<llvm::FixedVectorType>(value->getType());
  constexpr std::uint64_t kStreamedBytes = 16;
  if (type->getNumElements() * type->getScalarSizeInBits() / 8 % kStreamedBytes != 0) {
    annotate(b_.CreateAlignedStore(value, address, align), place);
    return;
  }
  llvm::BasicBlock* past = make_block("streamed");
  llvm::BasicBlock* plain = make_block("plain");
  llvm::BasicBlock* after = make_block("stored");
  const V low = b_.CreateAnd(b_.CreatePtrToInt(address, b_.getInt64Ty()), b_.getInt64(kStreamedBytes - 1));
  b_.CreateCondBr(b_.CreateICmpEQ(low, b_.getInt64(0)), past, plain);
  b_.SetInsertPoint(past);
  llvm::StoreInst* streamed = annotate(b_.CreateAlignedStore(value, address, llvm::Align(kStreamedBytes)), place);
  streamed->setMetadata(llvm::LLVMContext::MD_nontemporal,
                        llvm::MDNode::get(b_.getContext(), llvm::ConstantAsMetadata::get(b_.getInt32(1))));
  b_.CreateBr(after);
  b_.SetInsertPoint(plain);
  annotate(b_.CreateAlignedStore(value, address, align), place);
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
  has_streamed_ = true;
}

void FunctionEmitter::store_lanes(const ir::BufferInfo& buffer, const BufferPlace& place, V indices, V value) {
  const llvm::Align align = alignment(buffer.dtype);
  if (vector_->mask != nullptr) {
    annotate(b_.CreateMaskedScatter(value, element_address(buffer, place, indices), align, vector_->mask), place);
    return;
  }
  for (unsigned lane = 0; lane < vector_->lanes; ++lane) {
    const V address = element_address(buffer, place, b_.CreateExtractElement(indices, std::uint64_t{lane}));
    annotate(b_.CreateAlignedStore(b_.CreateExtractElement(value, std::uint64_t{lane}), address, align), place);
  }
}

// ---------------------------------------------------------------- allocation

Status FunctionEmitter::allocate(const ir::Alloc& a) {
  const ir::BufferInfo& buffer = *a.buffer;
  std::int64_t count = 1;
  bool small = true;
  for (const Expr& extent : buffer.shape) {
    const std::int64_t n = ir::as_int(extent).value_or(-1);
    small = small && n >= 0 && n <= kLargestRegisterBuffer;
    count = small ? count * n : 0;
    small = small && count * size_bytes(buffer.dtype) <= kLargestRegisterBuffer;
  }
  if (buffer.memory != ir::Memory::registers || !small || !buffer.strides.empty()) return allocate_scratch(a);
  // In the entry block, so that it is one slot however often the Alloc is reached.
  llvm::BasicBlock& entry = b_.GetInsertBlock()->getParent()->getEntryBlock();
  llvm::IRBuilder<> at_entry(&entry, entry.begin());
  llvm::Type* type = llvm::ArrayType::get(convert_.memory_type(buffer.dtype), static_cast<std::uint64_t>(std::max<std::int64_t>(count, 1)));
  llvm::AllocaInst* slot = at_entry.CreateAlloca(type, nullptr, buffer.name);
  slot->setAlignment(llvm::Align(kScratchAlignment));
  BufferPlace place;
  place.address = slot;
  place.private_elements = std::max<std::int64_t>(count, 1);
  places_[a.buffer.get()] = place;
  return emit(a.body);
}

/// A piece of the worker's scratch. Buffers of disjoint Allocs share it, so all of scratch is one alias scope.
Status FunctionEmitter::allocate_scratch(const ir::Alloc& a) {
  const ir::BufferInfo& buffer = *a.buffer;
  const Expr bytes = count_elements(buffer) * ir::int_imm(size_bytes(buffer.dtype));
  const Expr rounded = ir::ceil_div(bytes, ir::int_imm(kScratchAlignment)) * ir::int_imm(kScratchAlignment);
  const Expr end = scratch_used_ + rounded;
  const auto size = ir::to_size_expr(end, kernel_.symbols);
  if (!size) {
    return Error{ErrorCode::compile_failed, "allocating `" + buffer.name + "`",
                 "its shape is not a formula over the kernel's symbols", "", "shapes over symbols and numbers"};
  }
  scratch_peak_ = scratch_peak_ == SizeExpr(0) ? *size : SizeExpr::apply(SizeExpr::Op::max, scratch_peak_, *size);
  BufferPlace place = scratch_place_;
  forget();
  place.address = b_.CreateGEP(b_.getInt8Ty(), scratch_, {eval(scratch_used_)}, buffer.name);
  places_[a.buffer.get()] = place;
  const Expr before = std::exchange(scratch_used_, end);
  LW_CHECK(emit(a.body));
  scratch_used_ = before;
  return Unit{};
}

}  // namespace loopwright::codegen
