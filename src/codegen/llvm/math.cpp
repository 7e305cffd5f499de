#include "src/codegen/llvm/math.h"

#include <llvm/IR/Intrinsics.h>

#include <cmath>

namespace loopwright::codegen {
namespace {

using llvm::Intrinsic::ID;

// ln 2 in two parts; the first has 15 significant bits, so that its products with exponents are exact.
constexpr double kLn2High = 0x1.62e4p-1;
constexpr double kLn2Low = 0x1.7f7d1cf79abc9e3bp-20;
constexpr double kLog2E = 1.4426950408889634074;

}  // namespace

llvm::Type* MathEmitter::type_like(V x, llvm::Type* element) {
  if (auto* vector = llvm::dyn_cast<llvm::VectorType>(x->getType())) {
    return llvm::VectorType::get(element, vector->getElementCount());
  }
  return element;
}

llvm::Value* MathEmitter::number(V like, double value) { return llvm::ConstantFP::get(like->getType(), value); }

llvm::Value* MathEmitter::integer(V like, std::int64_t value) {
  const unsigned bits = like->getType()->getScalarSizeInBits();
  return llvm::ConstantInt::get(type_like(like, llvm::IntegerType::get(like->getContext(), bits)), value, true);
}

llvm::Value* MathEmitter::intrinsic(ID id, std::initializer_list<V> args) {
  return b_.CreateIntrinsic(id, {(*args.begin())->getType()}, args);
}

llvm::Value* MathEmitter::mul_add(V a, V b, V c) {
  if (fma_) return intrinsic(llvm::Intrinsic::fma, {a, b, c});
  return b_.CreateFAdd(b_.CreateFMul(a, b), c);
}

llvm::Value* MathEmitter::polynomial(V x, std::initializer_list<double> ascending) {
  const double* at = ascending.end() - 1;
  V sum = number(x, *at);
  while (at != ascending.begin()) sum = mul_add(sum, x, number(x, *--at));
  return sum;
}

/// Keeps NaN.
llvm::Value* MathEmitter::clamp(V x, double lo, double hi) {
  const V low = number(x, lo);
  const V high = number(x, hi);
  x = b_.CreateSelect(b_.CreateFCmpOLT(x, low), low, x);
  return b_.CreateSelect(b_.CreateFCmpOGT(x, high), high, x);
}

MathEmitter::Reduced MathEmitter::reduce_exponent(V x, bool wide) {
  const V magic = number(x, wide ? kRoundF64 : kRoundF32);
  const V shifted = mul_add(x, number(x, kLog2E), magic);
  const V n = b_.CreateFSub(shifted, magic);
  const V zero = integer(x, 0);
  const V bits = b_.CreateSub(b_.CreateBitCast(shifted, zero->getType()), b_.CreateBitCast(magic, zero->getType()));
  V r = mul_add(n, number(x, -kLn2High), x);
  r = mul_add(n, number(x, -kLn2Low), r);
  return {n, bits, r};
}

llvm::Value* MathEmitter::scale_small_f32(V value, V exponent) {
  const V bits = b_.CreateShl(b_.CreateAdd(exponent, integer(value, 127)), integer(value, 23));
  return b_.CreateFMul(value, b_.CreateBitCast(bits, value->getType()));
}

llvm::Value* MathEmitter::scale_f32(V value, V exponent) {
  const V half = b_.CreateAShr(exponent, integer(value, 1));
  return scale_small_f32(scale_small_f32(value, half), b_.CreateSub(exponent, half));
}

llvm::Value* MathEmitter::exp_f32(V x, bool any_exponent) {
  if (any_exponent) x = clamp(x, -104.5, 89.0);
  const Reduced e = reduce_exponent(x, false);
  const V q = polynomial(e.r, {5.000000000e-01, 1.666666716e-01, 4.166625068e-02, 8.333267644e-03, 1.394729945e-03,
                               1.991661411e-04});
  const V p = b_.CreateFAdd(mul_add(b_.CreateFMul(e.r, e.r), q, e.r), number(x, 1.0));
  return any_exponent ? scale_f32(p, e.n_bits) : scale_small_f32(p, e.n_bits);
}

llvm::Value* MathEmitter::exp2_f32(V x) {
  x = clamp(x, -151.0, 129.0);
  const V magic = number(x, kRoundF32);
  const V shifted = b_.CreateFAdd(x, magic);
  const V r = b_.CreateFSub(x, b_.CreateFSub(shifted, magic));
  llvm::Type* bits = integer(x, 0)->getType();
  const V n = b_.CreateSub(b_.CreateBitCast(shifted, bits), b_.CreateBitCast(magic, bits));
  const V q = polynomial(r, {6.931471825e-01, 2.402265072e-01, 5.550410971e-02, 9.618032724e-03, 1.333342632e-03,
                             1.546839485e-04, 1.531614907e-05});
  return scale_f32(mul_add(q, r, number(x, 1.0)), n);
}

llvm::Value* MathEmitter::expm1_f32(V x) {
  const V bounded = clamp(x, -18.0, 89.0);
  const Reduced e = reduce_exponent(bounded, false);
  const V p = polynomial(e.r, {5.000000000e-01, 1.666666716e-01, 4.166634008e-02, 8.333275095e-03, 1.394210965e-03,
                               1.991327008e-04});
  const V q = mul_add(b_.CreateFMul(e.r, e.r), p, e.r);
  // 2^n (q + 1) - 1 = 2^n (q + (1 - 2^-n)); -n stays within normal exponents, and 2^-n is then nothing beside 1.
  const V n = b_.CreateIntrinsic(llvm::Intrinsic::smin, {e.n_bits->getType()}, {e.n_bits, integer(x, 126)});
  const V inverse = scale_small_f32(number(x, 1.0), b_.CreateNeg(n));
  const V sum = b_.CreateFAdd(q, b_.CreateFSub(number(x, 1.0), inverse));
  return intrinsic(llvm::Intrinsic::copysign, {scale_f32(sum, e.n_bits), x});
}

llvm::Value* MathEmitter::log_f32(V x) {
  const V one = number(x, 1.0);
  const V tiny = b_.CreateFCmpOLT(x, number(x, 0x1p-126));
  const V normal = b_.CreateSelect(tiny, b_.CreateFMul(x, number(x, 0x1p23)), x);
  const V zero = integer(x, 0);
  const V bits = b_.CreateBitCast(normal, zero->getType());
  // Mantissa in [sqrt(1/2), sqrt(2)).
  const V e = b_.CreateAShr(b_.CreateSub(bits, integer(x, 0x3f3504f3)), integer(x, 23));
  const V mantissa = b_.CreateBitCast(b_.CreateSub(bits, b_.CreateShl(e, integer(x, 23))), x->getType());
  V exponent = b_.CreateSIToFP(e, x->getType());
  exponent = b_.CreateSelect(tiny, b_.CreateFSub(exponent, number(x, 23.0)), exponent);
  const V f = b_.CreateFSub(mantissa, one);
  const V f2 = b_.CreateFMul(f, f);
  const V p = polynomial(f, {3.333331048e-01, -2.499998659e-01, 2.000222653e-01, -1.666924953e-01, 1.421865523e-01,
                             -1.238437667e-01, 1.187302843e-01, -1.178966090e-01, 6.915079057e-02});
  V t = b_.CreateFMul(b_.CreateFMul(f2, f), p);
  t = mul_add(exponent, number(x, kLn2Low), t);
  t = b_.CreateFAdd(f, mul_add(f2, number(x, -0.5), t));
  V result = mul_add(exponent, number(x, kLn2High), t);
  result = b_.CreateSelect(b_.CreateFCmpOEQ(x, number(x, 0.0)), number(x, -INFINITY), result);
  result = b_.CreateSelect(b_.CreateFCmpOLT(x, number(x, 0.0)), number(x, NAN), result);
  // +inf and NaN stand for themselves.
  return b_.CreateSelect(b_.CreateFCmpULT(x, number(x, INFINITY)), b_.CreateSelect(b_.CreateFCmpUNO(x, x), x, result), x);
}

llvm::Value* MathEmitter::tanh_f32(V x) {
  const V u = b_.CreateFMul(x, x);
  const V p = polynomial(u, {-3.333332539e-01, 1.333299577e-01, -5.392212048e-02, 2.157582343e-02, -7.892156951e-03,
                             1.901781652e-03});
  const V small = mul_add(b_.CreateFMul(x, u), p, x);
  const V magnitude = intrinsic(llvm::Intrinsic::fabs, {x});
  const V twice = b_.CreateFMul(clamp(magnitude, 0.0, 9.5), number(x, 2.0));
  const V denominator = b_.CreateFAdd(exp_f32(twice, false), number(x, 1.0));
  const V large = b_.CreateFSub(number(x, 1.0), b_.CreateFDiv(number(x, 2.0), denominator));
  return b_.CreateSelect(b_.CreateFCmpOLT(magnitude, number(x, 0.69)), small,
                         intrinsic(llvm::Intrinsic::copysign, {large, x}));
}

/// e / (1 + e) or 1 / (1 + e) with e = exp(-|x|), which never overflows and keeps the denormal results of very negative
/// x. In f32 the roundings of the sum and of the quotient are undone, as exp has used up most of the allowed error.
llvm::Value* MathEmitter::sigmoid(V x) {
  const V e = emit(ir::UnaryOp::exp, b_.CreateFNeg(intrinsic(llvm::Intrinsic::fabs, {x})));
  const V one = number(x, 1.0);
  const V negative = b_.CreateFCmpOLT(x, number(x, 0.0));
  const V numerator = b_.CreateSelect(negative, e, one);
  if (x->getType()->getScalarType()->isFloatTy() && !fma_) {
    llvm::Type* wide = type_like(x, b_.getDoubleTy());
    const V sum = b_.CreateFAdd(b_.CreateFPExt(e, wide), llvm::ConstantFP::get(wide, 1.0));
    return b_.CreateFPTrunc(b_.CreateFDiv(b_.CreateFPExt(numerator, wide), sum), x->getType());
  }
  const V sum = b_.CreateFAdd(one, e);
  const V quotient = b_.CreateFDiv(numerator, sum);
  if (!x->getType()->getScalarType()->isFloatTy()) return quotient;
  const V lost = b_.CreateFSub(e, b_.CreateFSub(sum, one));
  const V remainder = mul_add(b_.CreateFNeg(quotient), lost, mul_add(b_.CreateFNeg(quotient), sum, numerator));
  // 1 / sum, well enough to scale a remainder.
  const V inverse = b_.CreateSelect(negative, b_.CreateFSub(one, quotient), quotient);
  return mul_add(remainder, inverse, quotient);
}

llvm::Value* MathEmitter::erf_f32(V x) {
  const V u = b_.CreateFMul(x, x);
  const V q = polynomial(u, {1.283791671e-01, -3.761263192e-01, 1.128366366e-01, -2.685770579e-02, 5.196951795e-03,
                             -8.097699028e-04, 8.185076877e-05});
  const V small = mul_add(x, q, x);
  const V magnitude = intrinsic(llvm::Intrinsic::fabs, {x});
  const V t = clamp(magnitude, 0.0, 3.95);
  const V log_erfc = polynomial(t, {-1.774441771e-04, -1.127749801e+00, -6.370593309e-01, -1.040377468e-01,
                                    2.227729000e-02, -3.055662150e-03, 1.971877355e-04});
  const V large = b_.CreateFSub(number(x, 1.0), exp_f32(log_erfc, false));
  return b_.CreateSelect(b_.CreateFCmpOLT(magnitude, number(x, 0.93)), small,
                         intrinsic(llvm::Intrinsic::copysign, {large, x}));
}

llvm::Value* MathEmitter::emit_f32(ir::UnaryOp op, V x) {
  using enum ir::UnaryOp;
  switch (op) {
    case exp: return exp_f32(x, true);
    case exp2: return exp2_f32(x);
    case expm1: return expm1_f32(x);
    case log: return log_f32(x);
    case log2: return log2_f32(x);
    case log1p: return log1p_f32(x);
    case tanh: return tanh_f32(x);
    case erf: return erf_f32(x);
    case sin:
    case cos:
    case tan: return circular_f32(op, x);
    default: return call(ir::name(op), x, nullptr);
  }
}

llvm::Value* MathEmitter::emit(ir::UnaryOp op, V x) {
  if (op == ir::UnaryOp::sigmoid) return sigmoid(x);
  if (op == ir::UnaryOp::sqrt) return intrinsic(llvm::Intrinsic::sqrt, {x});
  if (op == ir::UnaryOp::rsqrt) return b_.CreateFDiv(number(x, 1.0), intrinsic(llvm::Intrinsic::sqrt, {x}));
  if (x->getType()->getScalarType()->isFloatTy()) return emit_f32(op, x);
  return call(ir::name(op), x, nullptr);
}

llvm::Value* MathEmitter::emit(ir::BinaryOp op, V x, V y) {
  if (op == ir::BinaryOp::pow && x->getType()->getScalarType()->isFloatTy()) return pow_f32(x, y);
  return call(ir::name(op), x, y);
}

}  // namespace loopwright::codegen
