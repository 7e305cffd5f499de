#include "src/codegen/llvm/ops.h"

#include <llvm/IR/Intrinsics.h>

#include <cmath>

namespace loopwright::codegen {
namespace {

using ir::BinaryOp;
using ir::UnaryOp;

bool is_unsigned(DType t) { return t == DType::u8 || t == DType::boolean; }

/// Results that are representable in every float dtype that represents the operands.
bool is_exact(UnaryOp op) {
  switch (op) {
    case UnaryOp::neg:
    case UnaryOp::abs:
    case UnaryOp::sign:
    case UnaryOp::floor:
    case UnaryOp::ceil:
    case UnaryOp::round:
    case UnaryOp::trunc:
    case UnaryOp::is_nan:
    case UnaryOp::is_inf:
    case UnaryOp::round_tf32: return true;
    default: return false;
  }
}

bool is_compare(BinaryOp op) { return op >= BinaryOp::eq && op <= BinaryOp::ge; }

}  // namespace

void OpEmitter::match(V& a, V& b) {
  auto* va = llvm::dyn_cast<llvm::VectorType>(a->getType());
  auto* vb = llvm::dyn_cast<llvm::VectorType>(b->getType());
  if (va != nullptr && vb == nullptr) b = b_.CreateVectorSplat(va->getElementCount(), b);
  if (vb != nullptr && va == nullptr) a = b_.CreateVectorSplat(vb->getElementCount(), a);
}

llvm::Value* OpEmitter::emit(UnaryOp op, DType t, V a) {
  if (!is_float(t)) return emit_int(op, t, a);
  V result = emit_float(op, t, a);
  return is_exact(op) ? result : convert_.round(t, result);
}

llvm::Value* OpEmitter::emit(BinaryOp op, DType t, V a, V b) {
  match(a, b);
  if (is_compare(op)) return compare(op, t, a, b);
  if (!is_float(t)) return emit_int(op, t, a, b);
  const V result = emit_float(op, t, a, b);
  return op == BinaryOp::min || op == BinaryOp::max ? result : convert_.round(t, result);
}

llvm::Value* OpEmitter::emit_float(UnaryOp op, DType t, V a) {
  llvm::Type* type = a->getType();
  const auto intrinsic = [&](llvm::Intrinsic::ID id) { return b_.CreateIntrinsic(id, {type}, {a}); };
  const V zero = llvm::ConstantFP::get(type, 0.0);
  const V one = llvm::ConstantFP::get(type, 1.0);
  switch (op) {
    case UnaryOp::neg: return b_.CreateFNeg(a);
    case UnaryOp::abs: return intrinsic(llvm::Intrinsic::fabs);
    case UnaryOp::sign: {
      const V unit = b_.CreateIntrinsic(llvm::Intrinsic::copysign, {type}, {one, a});
      return b_.CreateSelect(b_.CreateFCmpONE(a, zero), unit, a);
    }
    case UnaryOp::floor: return intrinsic(llvm::Intrinsic::floor);
    case UnaryOp::ceil: return intrinsic(llvm::Intrinsic::ceil);
    case UnaryOp::round: return intrinsic(llvm::Intrinsic::nearbyint);
    case UnaryOp::trunc: return intrinsic(llvm::Intrinsic::trunc);
    case UnaryOp::is_nan: return b_.CreateFCmpUNO(a, a);
    case UnaryOp::is_inf: return b_.CreateFCmpOEQ(intrinsic(llvm::Intrinsic::fabs), llvm::ConstantFP::get(type, INFINITY));
    case UnaryOp::reciprocal: return b_.CreateFDiv(one, a);
    case UnaryOp::round_tf32: return round_tf32(a);
    case UnaryOp::logical_not:
    case UnaryOp::bit_not: throw_bug(__FILE__, __LINE__, "float operation", std::string(name(t)));
    default: return math_.emit(op, a);
  }
}

llvm::Value* OpEmitter::round_tf32(V a) {
  constexpr std::uint32_t kCut = 0x1fff, kExponent = 0x7f800000;
  llvm::Type* word = b_.getInt32Ty();
  if (auto* lanes = llvm::dyn_cast<llvm::VectorType>(a->getType())) word = llvm::VectorType::get(word, lanes->getElementCount());
  const auto n = [&](std::uint32_t v) { return llvm::ConstantInt::get(word, v); };
  const V bits = b_.CreateBitCast(a, word);
  const V up = b_.CreateAdd(n(kCut / 2), b_.CreateAnd(b_.CreateLShr(bits, n(13)), n(1)));
  const V rounded = b_.CreateAnd(b_.CreateAdd(bits, up), n(~kCut));
  const V is_number = b_.CreateICmpNE(b_.CreateAnd(bits, n(kExponent)), n(kExponent));
  return b_.CreateSelect(is_number, b_.CreateBitCast(rounded, a->getType()), a);
}

llvm::Value* OpEmitter::emit_int(UnaryOp op, DType t, V a) {
  const V zero = llvm::Constant::getNullValue(a->getType());
  switch (op) {
    case UnaryOp::neg: return b_.CreateNeg(a);
    case UnaryOp::abs: return is_unsigned(t) ? a : b_.CreateIntrinsic(llvm::Intrinsic::abs, {a->getType()}, {a, b_.getFalse()});
    case UnaryOp::sign: {
      const V positive = is_unsigned(t) ? b_.CreateICmpUGT(a, zero) : b_.CreateICmpSGT(a, zero);
      const V one = b_.CreateZExt(positive, a->getType());
      return is_unsigned(t) ? one : b_.CreateSub(one, b_.CreateZExt(b_.CreateICmpSLT(a, zero), a->getType()));
    }
    case UnaryOp::logical_not:
    case UnaryOp::bit_not: return b_.CreateNot(a);
    default: throw_bug(__FILE__, __LINE__, "integer operation", std::string(ir::name(op)));
  }
}

llvm::Value* OpEmitter::arithmetic(llvm::Instruction::BinaryOps op, V a, V b) {
  const V result = b_.CreateBinOp(op, a, b);
  if (auto* instruction = llvm::dyn_cast<llvm::Instruction>(result); instruction != nullptr && contract_) {
    instruction->setHasAllowContract(true);
  }
  return result;
}

/// min or max: NaN when either side is. `a` is where a running value stands, and has the short path.
llvm::Value* OpEmitter::pick(bool larger, V a, V b) {
  const V take = larger ? b_.CreateFCmpOGT(b, a) : b_.CreateFCmpOLT(b, a);
  return b_.CreateSelect(b_.CreateFCmpUNO(b, b), b, b_.CreateSelect(take, b, a));
}

/// The remainder with the sign of the divisor.
llvm::Value* OpEmitter::floored_mod(V a, V b) {
  const V r = math_.emit(BinaryOp::fmod, a, b);
  const V zero = llvm::ConstantFP::get(r->getType(), 0.0);
  const V opposite = b_.CreateXor(b_.CreateFCmpOLT(r, zero), b_.CreateFCmpOLT(b, zero));
  return b_.CreateSelect(b_.CreateAnd(b_.CreateFCmpONE(r, zero), opposite), b_.CreateFAdd(r, b), r);
}

llvm::Value* OpEmitter::emit_float(BinaryOp op, DType t, V a, V b) {
  switch (op) {
    case BinaryOp::add: return arithmetic(llvm::Instruction::FAdd, a, b);
    case BinaryOp::sub: return arithmetic(llvm::Instruction::FSub, a, b);
    case BinaryOp::mul: return arithmetic(llvm::Instruction::FMul, a, b);
    case BinaryOp::div: return b_.CreateFDiv(a, b);
    case BinaryOp::floor_div:
      return b_.CreateIntrinsic(llvm::Intrinsic::floor, {a->getType()}, {convert_.round(t, b_.CreateFDiv(a, b))});
    case BinaryOp::mod: return floored_mod(a, b);
    case BinaryOp::min: return pick(false, a, b);
    case BinaryOp::max: return pick(true, a, b);
    case BinaryOp::pow:
    case BinaryOp::atan2:
    case BinaryOp::fmod: return math_.emit(op, a, b);
    default: throw_bug(__FILE__, __LINE__, "float operation", std::string(ir::name(op)) + " of " + std::string(name(t)));
  }
}

llvm::Value* OpEmitter::emit_int(BinaryOp op, DType t, V a, V b) {
  const auto intrinsic = [&](llvm::Intrinsic::ID id) { return b_.CreateIntrinsic(id, {a->getType()}, {a, b}); };
  switch (op) {
    case BinaryOp::add: return b_.CreateAdd(a, b);
    case BinaryOp::sub: return b_.CreateSub(a, b);
    case BinaryOp::mul: return b_.CreateMul(a, b);
    case BinaryOp::div:
    case BinaryOp::floor_div:
    case BinaryOp::mod:
    case BinaryOp::fmod: return divide(op, t, a, b);
    case BinaryOp::min: return intrinsic(is_unsigned(t) ? llvm::Intrinsic::umin : llvm::Intrinsic::smin);
    case BinaryOp::max: return intrinsic(is_unsigned(t) ? llvm::Intrinsic::umax : llvm::Intrinsic::smax);
    case BinaryOp::pow: return power(t, a, b);
    case BinaryOp::and_: return b_.CreateAnd(a, b);
    case BinaryOp::or_: return b_.CreateOr(a, b);
    case BinaryOp::xor_: return b_.CreateXor(a, b);
    case BinaryOp::shl:
    case BinaryOp::shr: return shift(op, t, a, b);
    default: throw_bug(__FILE__, __LINE__, "integer operation", std::string(ir::name(op)));
  }
}

llvm::Value* OpEmitter::compare(BinaryOp op, DType t, V a, V b) {
  using P = llvm::CmpInst::Predicate;
  const auto choose = [&](P of_float, P of_signed, P of_unsigned) {
    if (is_float(t)) return b_.CreateFCmp(of_float, a, b);
    return b_.CreateICmp(is_unsigned(t) ? of_unsigned : of_signed, a, b);
  };
  switch (op) {
    case BinaryOp::eq: return choose(P::FCMP_OEQ, P::ICMP_EQ, P::ICMP_EQ);
    case BinaryOp::ne: return choose(P::FCMP_UNE, P::ICMP_NE, P::ICMP_NE);
    case BinaryOp::lt: return choose(P::FCMP_OLT, P::ICMP_SLT, P::ICMP_ULT);
    case BinaryOp::le: return choose(P::FCMP_OLE, P::ICMP_SLE, P::ICMP_ULE);
    case BinaryOp::gt: return choose(P::FCMP_OGT, P::ICMP_SGT, P::ICMP_UGT);
    case BinaryOp::ge: return choose(P::FCMP_OGE, P::ICMP_SGE, P::ICMP_UGE);
    default: throw_bug(__FILE__, __LINE__, "comparison", std::string(ir::name(op)));
  }
}

llvm::Value* OpEmitter::divide(BinaryOp op, DType t, V a, V b) {
  llvm::Type* type = a->getType();
  const V zero = llvm::Constant::getNullValue(type);
  const V one = llvm::ConstantInt::get(type, 1);
  const bool wants_quotient = op == BinaryOp::div || op == BinaryOp::floor_div;
  const V by_zero = b_.CreateICmpEQ(b, zero);
  if (is_unsigned(t)) {
    const V safe = b_.CreateSelect(by_zero, one, b);
    return b_.CreateSelect(by_zero, zero, wants_quotient ? b_.CreateUDiv(a, safe) : b_.CreateURem(a, safe));
  }
  const auto* divisor = llvm::dyn_cast<llvm::ConstantInt>(b);
  if (divisor != nullptr && divisor->getValue().isPowerOf2() && op != BinaryOp::div && op != BinaryOp::fmod) {
    if (op == BinaryOp::mod) return b_.CreateAnd(a, b_.CreateSub(b, one));
    return b_.CreateAShr(a, llvm::ConstantInt::get(type, divisor->getValue().logBase2()));
  }
  // The smallest number over -1 overflows: that divisor is a negation.
  const V by_minus_one = b_.CreateICmpEQ(b, llvm::Constant::getAllOnesValue(type));
  const V safe = b_.CreateSelect(b_.CreateOr(by_zero, by_minus_one), one, b);
  const V quotient = b_.CreateSDiv(a, safe);
  const V remainder = b_.CreateSub(a, b_.CreateMul(quotient, safe));
  // Toward minus infinity when there is a remainder and the signs differ.
  const V below = b_.CreateAnd(b_.CreateICmpNE(remainder, zero), b_.CreateICmpSLT(b_.CreateXor(a, safe), zero));
  if (wants_quotient) {
    V result = quotient;
    if (op == BinaryOp::floor_div) result = b_.CreateSelect(below, b_.CreateSub(quotient, one), quotient);
    result = b_.CreateSelect(by_minus_one, b_.CreateNeg(a), result);
    return b_.CreateSelect(by_zero, zero, result);
  }
  // a - a/1*1 is 0 for the guarded divisors, as it must be.
  return op == BinaryOp::mod ? b_.CreateSelect(below, b_.CreateAdd(remainder, b), remainder) : remainder;
}

llvm::Value* OpEmitter::shift(BinaryOp op, DType t, V a, V b) {
  llvm::Type* type = a->getType();
  const unsigned width = type->getScalarSizeInBits();
  const V last = llvm::ConstantInt::get(type, width - 1);
  const V zero = llvm::Constant::getNullValue(type);
  const V inside = b_.CreateICmpULE(b, last);
  const V count = b_.CreateSelect(inside, b, last);
  if (op == BinaryOp::shl) return b_.CreateSelect(inside, b_.CreateShl(a, count), zero);
  if (is_unsigned(t)) return b_.CreateSelect(inside, b_.CreateLShr(a, count), zero);
  return b_.CreateAShr(a, count);
}

/// By squaring, as a loop over all lanes at once.
llvm::Value* OpEmitter::power(DType t, V a, V b) {
  llvm::Type* type = a->getType();
  const V zero = llvm::Constant::getNullValue(type);
  const V one = llvm::ConstantInt::get(type, 1);
  const V minus_one = llvm::Constant::getAllOnesValue(type);
  llvm::BasicBlock* before = b_.GetInsertBlock();
  auto* loop = llvm::BasicBlock::Create(b_.getContext(), "power", before->getParent());
  auto* done = llvm::BasicBlock::Create(b_.getContext(), "powered", before->getParent());
  const V first = is_unsigned(t) ? b : b_.CreateIntrinsic(llvm::Intrinsic::smax, {type}, {b, zero});
  b_.CreateBr(loop);
  b_.SetInsertPoint(loop);
  llvm::PHINode* product = b_.CreatePHI(type, 2);
  llvm::PHINode* base = b_.CreatePHI(type, 2);
  llvm::PHINode* exponent = b_.CreatePHI(type, 2);
  const V odd = b_.CreateICmpNE(b_.CreateAnd(exponent, one), zero);
  const V next_product = b_.CreateSelect(odd, b_.CreateMul(product, base), product);
  const V next_exponent = b_.CreateLShr(exponent, one);
  product->addIncoming(one, before);
  product->addIncoming(next_product, loop);
  base->addIncoming(a, before);
  base->addIncoming(b_.CreateMul(base, base), loop);
  exponent->addIncoming(first, before);
  exponent->addIncoming(next_exponent, loop);
  V more = b_.CreateICmpNE(next_exponent, zero);
  if (type->isVectorTy()) more = b_.CreateOrReduce(more);
  b_.CreateCondBr(more, loop, done);
  b_.SetInsertPoint(done);
  if (is_unsigned(t)) return next_product;
  // A negative exponent: only 1 and -1 have an inverse.
  const V alternating = b_.CreateSelect(b_.CreateICmpEQ(b_.CreateAnd(b, one), zero), one, minus_one);
  V inverse = b_.CreateSelect(b_.CreateICmpEQ(a, minus_one), alternating, zero);
  inverse = b_.CreateSelect(b_.CreateICmpEQ(a, one), one, inverse);
  return b_.CreateSelect(b_.CreateICmpSLT(b, zero), inverse, next_product);
}

llvm::Value* OpEmitter::reduce(ir::Monoid monoid, DType t, V state, V lanes) {
  using ir::Monoid;
  if (!is_float(t)) {
    switch (monoid) {
      case Monoid::sum: return b_.CreateAdd(state, b_.CreateAddReduce(lanes));
      case Monoid::product: return b_.CreateMul(state, b_.CreateMulReduce(lanes));
      case Monoid::any: return b_.CreateOr(state, b_.CreateOrReduce(lanes));
      case Monoid::all: return b_.CreateAnd(state, b_.CreateAndReduce(lanes));
      case Monoid::min: return emit(BinaryOp::min, t, state, b_.CreateIntMinReduce(lanes, !is_unsigned(t)));
      case Monoid::max: return emit(BinaryOp::max, t, state, b_.CreateIntMaxReduce(lanes, !is_unsigned(t)));
      default: break;
    }
  }
  const unsigned count = llvm::cast<llvm::FixedVectorType>(lanes->getType())->getNumElements();
  if (monoid == Monoid::min || monoid == Monoid::max) {
    // Exact in any order: halve until one lane is left.
    V rest = lanes;
    for (unsigned n = count; n > 1; n = (n + 1) / 2) {
      std::vector<int> low;
      std::vector<int> high;
      for (unsigned i = 0; i < (n + 1) / 2; ++i) low.push_back(i), high.push_back(std::min((n + 1) / 2 + i, n - 1));
      rest = pick(monoid == Monoid::max, b_.CreateShuffleVector(rest, low), b_.CreateShuffleVector(rest, high));
    }
    return pick(monoid == Monoid::max, state, b_.CreateExtractElement(rest, std::uint64_t{0}));
  }
  LW_BUG_IF(monoid != Monoid::sum && monoid != Monoid::product, "cannot reduce lanes by " + std::string(name(t)));
  const BinaryOp op = monoid == Monoid::sum ? BinaryOp::add : BinaryOp::mul;
  for (unsigned i = 0; i < count; ++i) state = emit(op, t, state, b_.CreateExtractElement(lanes, std::uint64_t{i}));
  return state;
}

}  // namespace loopwright::codegen
