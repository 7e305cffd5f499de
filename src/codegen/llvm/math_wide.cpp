// f32 functions carried out in double arithmetic, where plain series are accurate enough without any care, and calls
// through the callee table.
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>

#include <array>
#include <cmath>

#include "loopwright/artifact.h"
#include "src/codegen/llvm/math.h"

namespace loopwright::codegen {
namespace {

// pi/2 in two parts; the first has 33 significant bits, so that its products with |n| < 2^20 are exact.
constexpr double kHalfPiHigh = 0x1.921fb544p+0;
constexpr double kHalfPiLow = 0x1.0b4611a626331p-34;
constexpr double kTwoOverPi = 0.63661977236758134308;
constexpr double kReduceLimit = 1e6;  ///< |x| beyond goes to the callees

}  // namespace

/// The exponent as a double, and log of the mantissa in [sqrt(1/2), sqrt(2)), for positive normal finite doubles.
MathEmitter::LogParts MathEmitter::log_wide(V x) {
  llvm::Type* bits_type = integer(x, 0)->getType();
  const V bits = b_.CreateBitCast(x, bits_type);
  const V fraction = b_.CreateAnd(bits, integer(x, 0x000fffffffffffff));
  V mantissa = b_.CreateBitCast(b_.CreateOr(fraction, integer(x, 0x3ff0000000000000)), x->getType());
  // The biased exponent in the low bits of 2^52 becomes a double without an integer conversion.
  const V biased = b_.CreateOr(b_.CreateLShr(bits, integer(x, 52)), integer(x, 0x4330000000000000));
  V exponent = b_.CreateFSub(b_.CreateBitCast(biased, x->getType()), number(x, 0x1p52 + 1023));
  const V high = b_.CreateFCmpOGT(mantissa, number(x, 1.41421356237309504880));
  mantissa = b_.CreateSelect(high, b_.CreateFMul(mantissa, number(x, 0.5)), mantissa);
  exponent = b_.CreateSelect(high, b_.CreateFAdd(exponent, number(x, 1.0)), exponent);
  const V one = number(x, 1.0);
  const V s = b_.CreateFDiv(b_.CreateFSub(mantissa, one), b_.CreateFAdd(mantissa, one));
  const V p = polynomial(b_.CreateFMul(s, s), {2.0, 2.0 / 3, 2.0 / 5, 2.0 / 7, 2.0 / 9, 2.0 / 11, 2.0 / 13, 2.0 / 15,
                                               2.0 / 17});
  return {exponent, b_.CreateFMul(s, p)};
}

/// For |x| < 700, to about 2^-45.
llvm::Value* MathEmitter::exp_wide(V x) {
  const Reduced e = reduce_exponent(x, true);
  const V p = polynomial(e.r, {1.0, 1.0, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320,
                               1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800});
  const V bits = b_.CreateShl(b_.CreateAdd(e.n_bits, integer(x, 1023)), integer(x, 52));
  return b_.CreateFMul(p, b_.CreateBitCast(bits, x->getType()));
}

llvm::Value* MathEmitter::log2_f32(V x) {
  const V wide = b_.CreateFPExt(x, type_like(x, b_.getDoubleTy()));
  const LogParts parts = log_wide(wide);
  const V sum = mul_add(parts.log_mantissa, number(wide, 1.4426950408889634074), parts.exponent);
  V result = b_.CreateFPTrunc(sum, x->getType());
  result = b_.CreateSelect(b_.CreateFCmpOEQ(x, number(x, 0.0)), number(x, -INFINITY), result);
  result = b_.CreateSelect(b_.CreateFCmpOLT(x, number(x, 0.0)), number(x, NAN), result);
  const V ordinary = b_.CreateFCmpOLT(x, number(x, INFINITY));
  return b_.CreateSelect(ordinary, result, x);
}

llvm::Value* MathEmitter::log1p_f32(V x) {
  const V wide = b_.CreateFPExt(x, type_like(x, b_.getDoubleTy()));
  const V one = number(wide, 1.0);
  const V u = b_.CreateFAdd(wide, one);
  // What rounding 1 + x lost, relative to u.
  const V lost = b_.CreateFDiv(b_.CreateFSub(wide, b_.CreateFSub(u, one)), u);
  const LogParts parts = log_wide(u);
  const V sum = mul_add(parts.exponent, number(wide, 0.69314718055994530942), b_.CreateFAdd(parts.log_mantissa, lost));
  V result = intrinsic(llvm::Intrinsic::copysign, {b_.CreateFPTrunc(sum, x->getType()), x});
  result = b_.CreateSelect(b_.CreateFCmpOEQ(x, number(x, -1.0)), number(x, -INFINITY), result);
  result = b_.CreateSelect(b_.CreateFCmpOLT(x, number(x, -1.0)), number(x, NAN), result);
  const V ordinary = b_.CreateFCmpOLT(x, number(x, INFINITY));
  return b_.CreateSelect(ordinary, result, x);
}

/// sin, cos or tan for |x| <= kReduceLimit.
llvm::Value* MathEmitter::circular_reduced(ir::UnaryOp op, V x) {
  const V wide = b_.CreateFPExt(x, type_like(x, b_.getDoubleTy()));
  const V magic = number(wide, kRoundF64);
  const V shifted = mul_add(wide, number(wide, kTwoOverPi), magic);
  const V n = b_.CreateFSub(shifted, magic);
  V quadrant = b_.CreateBitCast(shifted, integer(wide, 0)->getType());  // in the low bits
  V r = mul_add(n, number(wide, -kHalfPiHigh), wide);
  r = mul_add(n, number(wide, -kHalfPiLow), r);
  const V z = b_.CreateFMul(r, r);
  const V sin = b_.CreateFMul(r, polynomial(z, {1.0, -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800,
                                                1.0 / 6227020800.0}));
  const V cos = polynomial(z, {1.0, -1.0 / 2, 1.0 / 24, -1.0 / 720, 1.0 / 40320, -1.0 / 3628800, 1.0 / 479001600.0,
                               -1.0 / 87178291200.0});
  if (op == ir::UnaryOp::cos) quadrant = b_.CreateAdd(quadrant, integer(wide, 1));
  const V zero = integer(wide, 0);
  const V odd = b_.CreateICmpNE(b_.CreateAnd(quadrant, integer(wide, 1)), zero);
  V result = b_.CreateSelect(odd, cos, sin);
  if (op == ir::UnaryOp::tan) {
    result = b_.CreateFDiv(result, b_.CreateSelect(odd, b_.CreateFNeg(sin), cos));
  } else {
    const V sign = b_.CreateShl(b_.CreateAnd(quadrant, integer(wide, 2)), integer(wide, 62));
    result = b_.CreateBitCast(b_.CreateXor(b_.CreateBitCast(result, zero->getType()), sign), wide->getType());
  }
  return b_.CreateFPTrunc(result, x->getType());
}

llvm::Value* MathEmitter::circular_f32(ir::UnaryOp op, V x) {
  const V reduced = circular_reduced(op, x);
  V far = b_.CreateFCmpOGT(intrinsic(llvm::Intrinsic::fabs, {x}), number(x, kReduceLimit));
  const V far_lanes = far;
  if (x->getType()->isVectorTy()) far = b_.CreateOrReduce(far);
  llvm::BasicBlock* here = b_.GetInsertBlock();
  llvm::Function* function = here->getParent();
  auto* slow = llvm::BasicBlock::Create(b_.getContext(), "far", function);
  auto* done = llvm::BasicBlock::Create(b_.getContext(), "near", function);
  b_.CreateCondBr(far, slow, done, llvm::MDBuilder(b_.getContext()).createUnlikelyBranchWeights());
  b_.SetInsertPoint(slow);
  const V called = b_.CreateSelect(far_lanes, call(ir::name(op), x, nullptr), reduced);
  llvm::BasicBlock* slow_end = b_.GetInsertBlock();
  b_.CreateBr(done);
  b_.SetInsertPoint(done);
  llvm::PHINode* result = b_.CreatePHI(x->getType(), 2);
  result->addIncoming(reduced, here);
  result->addIncoming(called, slow_end);
  return result;
}

llvm::Value* MathEmitter::pow_f32(V x, V y) {
  llvm::Type* wide_type = type_like(x, b_.getDoubleTy());
  const V zero = number(x, 0.0);
  const V one = number(x, 1.0);
  const V magnitude = intrinsic(llvm::Intrinsic::fabs, {x});
  const V wide_y = b_.CreateFPExt(y, wide_type);
  const LogParts parts = log_wide(b_.CreateFPExt(magnitude, wide_type));
  const V log = mul_add(parts.exponent, number(wide_y, 0.69314718055994530942), parts.log_mantissa);
  V result = b_.CreateFPTrunc(exp_wide(clamp(b_.CreateFMul(wide_y, log), -200.0, 200.0)), x->getType());

  const V infinity = number(x, INFINITY);
  const V y_magnitude = intrinsic(llvm::Intrinsic::fabs, {y});
  const V y_negative = b_.CreateFCmpOLT(y, zero);
  // |x| of 0 or infinity, then |y| of infinity.
  const V at_zero = b_.CreateSelect(y_negative, infinity, zero);
  const V at_infinity = b_.CreateSelect(y_negative, zero, infinity);
  result = b_.CreateSelect(b_.CreateFCmpOEQ(magnitude, zero), at_zero, result);
  result = b_.CreateSelect(b_.CreateFCmpOEQ(magnitude, infinity), at_infinity, result);
  const V y_infinite = b_.CreateFCmpOEQ(y_magnitude, infinity);
  const V grows = b_.CreateXor(b_.CreateFCmpOGT(magnitude, one), y_negative);
  const V at_limit = b_.CreateSelect(b_.CreateFCmpOEQ(magnitude, one), one, b_.CreateSelect(grows, infinity, zero));
  result = b_.CreateSelect(y_infinite, at_limit, result);
  // Negative x: odd integers keep the sign, even integers drop it, everything else but an infinity has no result.
  const V truncated = intrinsic(llvm::Intrinsic::trunc, {y});
  const V whole = b_.CreateFCmpOEQ(truncated, y);
  const V half = b_.CreateFMul(y, number(x, 0.5));
  const V odd = b_.CreateAnd(b_.CreateAnd(whole, b_.CreateNot(y_infinite)),
                             b_.CreateFCmpONE(intrinsic(llvm::Intrinsic::trunc, {half}), half));
  result = b_.CreateSelect(odd, intrinsic(llvm::Intrinsic::copysign, {result, x}), result);
  const V finite_negative = b_.CreateAnd(b_.CreateFCmpOLT(x, zero), b_.CreateFCmpOLT(magnitude, infinity));
  result = b_.CreateSelect(b_.CreateAnd(finite_negative, b_.CreateNot(whole)), number(x, NAN), result);
  result = b_.CreateSelect(b_.CreateFCmpUNO(x, y), b_.CreateFAdd(x, y), result);
  const V is_one = b_.CreateOr(b_.CreateFCmpOEQ(y, zero), b_.CreateFCmpOEQ(x, one));
  return b_.CreateSelect(is_one, one, result);
}

// ---------------------------------------------------------------- callees

llvm::Value* MathEmitter::call_scalar(std::string_view callee, V callees, V x, V y) {
  std::size_t position = 0;
  while (position < kCpuCallees.size() && kCpuCallees[position] != callee) ++position;
  LW_BUG_IF(position == kCpuCallees.size(), "no callee named " + std::string(callee));
  llvm::Type* wide = b_.getDoubleTy();
  const V slot = b_.CreateConstInBoundsGEP1_64(b_.getPtrTy(), callees, position);
  const V function = b_.CreateLoad(b_.getPtrTy(), slot);
  const bool narrow = !x->getType()->isDoubleTy();
  std::vector<V> args{narrow ? b_.CreateFPExt(x, wide) : x};
  if (y != nullptr) args.push_back(narrow ? b_.CreateFPExt(y, wide) : y);
  auto* type = llvm::FunctionType::get(wide, std::vector<llvm::Type*>(args.size(), wide), false);
  llvm::CallInst* result = b_.CreateCall(type, function, args);
  result->setDoesNotThrow();
  result->setDoesNotAccessMemory();  // as far as kernels can tell: nothing reads errno
  return narrow ? b_.CreateFPTrunc(result, x->getType()) : result;
}

/// An internal function that applies a callee to each lane: rarely run, so it must not grow its callers.
llvm::Function* MathEmitter::lane_function(std::string_view callee, llvm::Type* type, bool binary) {
  auto* vector = llvm::cast<llvm::FixedVectorType>(type);
  const unsigned lanes = vector->getNumElements();
  llvm::Function* caller = b_.GetInsertBlock()->getParent();
  const std::string name = "lanes." + std::string(callee) + "." + std::to_string(lanes) +
                           (vector->getElementType()->isDoubleTy() ? "f64" : "f32");
  llvm::Module& module = *caller->getParent();
  if (llvm::Function* found = module.getFunction(name)) return found;
  std::vector<llvm::Type*> parameters{b_.getPtrTy(), type};
  if (binary) parameters.push_back(type);
  auto* function = llvm::Function::Create(llvm::FunctionType::get(type, parameters, false),
                                          llvm::GlobalValue::InternalLinkage, name, module);
  function->addFnAttrs(llvm::AttrBuilder(b_.getContext(), caller->getAttributes().getFnAttrs()));
  function->setDSOLocal(true);
  function->addFnAttr(llvm::Attribute::NoInline);

  const llvm::IRBuilder<>::InsertPointGuard guard(b_);
  llvm::LLVMContext& context = b_.getContext();
  auto* entry = llvm::BasicBlock::Create(context, "entry", function);
  auto* loop = llvm::BasicBlock::Create(context, "lane", function);
  auto* done = llvm::BasicBlock::Create(context, "done", function);
  b_.SetInsertPoint(entry);
  std::array<V, 2> operands{};
  for (unsigned i = 0; i < (binary ? 2U : 1U); ++i) {
    operands[i] = b_.CreateAlloca(type);
    b_.CreateStore(function->getArg(i + 1), operands[i]);
  }
  b_.CreateBr(loop);
  b_.SetInsertPoint(loop);
  llvm::PHINode* lane = b_.CreatePHI(b_.getInt64Ty(), 2);
  lane->addIncoming(b_.getInt64(0), entry);
  llvm::Type* element = vector->getElementType();
  const V slot = b_.CreateInBoundsGEP(element, operands[0], {lane});
  const V x = b_.CreateLoad(element, slot);
  const V y = binary ? b_.CreateLoad(element, b_.CreateInBoundsGEP(element, operands[1], {lane})) : nullptr;
  b_.CreateStore(call_scalar(callee, function->getArg(0), x, y), slot);
  const V next = b_.CreateAdd(lane, b_.getInt64(1));
  lane->addIncoming(next, loop);
  b_.CreateCondBr(b_.CreateICmpULT(next, b_.getInt64(lanes)), loop, done);
  b_.SetInsertPoint(done);
  b_.CreateRet(b_.CreateLoad(type, operands[0]));
  return function;
}

llvm::Value* MathEmitter::call(std::string_view callee, V x, V y) {
  if (!x->getType()->isVectorTy()) return call_scalar(callee, callees_, x, y);
  std::vector<V> args{callees_, x};
  if (y != nullptr) args.push_back(y);
  return b_.CreateCall(lane_function(callee, x->getType(), y != nullptr), args);
}

}  // namespace loopwright::codegen
