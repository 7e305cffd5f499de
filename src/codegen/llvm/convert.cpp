#include "src/codegen/llvm/convert.h"

#include <llvm/IR/Intrinsics.h>

#include <cmath>

namespace loopwright::codegen {

llvm::Type* ConvertEmitter::like(V x, llvm::Type* element) const {
  if (auto* vector = llvm::dyn_cast<llvm::VectorType>(x->getType())) {
    return llvm::VectorType::get(element, vector->getElementCount());
  }
  return element;
}

llvm::Value* ConvertEmitter::bits(V x, std::int64_t value) const {
  return llvm::ConstantInt::get(like(x, b_.getInt32Ty()), static_cast<std::uint32_t>(value));
}

llvm::Value* ConvertEmitter::number(V x, double value) const {
  return llvm::ConstantFP::get(like(x, b_.getFloatTy()), value);
}

llvm::Type* ConvertEmitter::register_type(DType dtype, unsigned lanes) const {
  llvm::Type* element = nullptr;
  switch (dtype) {
    case DType::boolean: element = b_.getInt1Ty(); break;
    case DType::i8:
    case DType::u8: element = b_.getInt8Ty(); break;
    case DType::i16: element = b_.getInt16Ty(); break;
    case DType::i32: element = b_.getInt32Ty(); break;
    case DType::i64: element = b_.getInt64Ty(); break;
    case DType::f16:
    case DType::bf16:
    case DType::f32: element = b_.getFloatTy(); break;
    case DType::f64: element = b_.getDoubleTy(); break;
  }
  return lanes == 0 ? element : llvm::FixedVectorType::get(element, lanes);
}

llvm::Type* ConvertEmitter::memory_type(DType dtype, unsigned lanes) const {
  llvm::Type* element = nullptr;
  switch (dtype) {
    case DType::boolean: element = b_.getInt8Ty(); break;
    case DType::f16: element = f16c_ ? b_.getHalfTy() : b_.getInt16Ty(); break;
    case DType::bf16: element = b_.getInt16Ty(); break;
    default: return register_type(dtype, lanes);
  }
  return lanes == 0 ? element : llvm::FixedVectorType::get(element, lanes);
}

llvm::Value* ConvertEmitter::from_memory(DType dtype, V stored) {
  switch (dtype) {
    case DType::boolean: return b_.CreateICmpNE(stored, llvm::Constant::getNullValue(stored->getType()));
    case DType::bf16: return as_float(b_.CreateShl(b_.CreateZExt(stored, like(stored, b_.getInt32Ty())), bits(stored, 16)));
    case DType::f16: return f16_from_memory(stored);
    default: return stored;
  }
}

llvm::Value* ConvertEmitter::to_memory(DType dtype, V value) {
  switch (dtype) {
    case DType::boolean: return b_.CreateZExt(value, like(value, b_.getInt8Ty()));
    case DType::bf16: return b_.CreateTrunc(b_.CreateLShr(as_bits(value), bits(value, 16)), like(value, b_.getInt16Ty()));
    case DType::f16: return f16_to_memory(value);
    default: return value;
  }
}

llvm::Value* ConvertEmitter::round(DType dtype, V value) {
  if (dtype == DType::bf16) return round_bf16(value);
  if (dtype == DType::f16) return round_f16(value);
  return value;
}

llvm::Value* ConvertEmitter::round_bf16(V value) {
  const V x = as_bits(value);
  const V odd = b_.CreateAnd(b_.CreateLShr(x, bits(value, 16)), bits(value, 1));
  const V rounded = b_.CreateAdd(x, b_.CreateAdd(odd, bits(value, 0x7fff)));
  const V kept = as_float(b_.CreateAnd(rounded, bits(value, 0xffff0000)));
  return b_.CreateSelect(b_.CreateFCmpUNO(value, value), number(value, NAN), kept);
}

/// Half to float, behind a fence: LLVM would move what follows to halves, and for a minimum of those call fminf.
llvm::Value* ConvertEmitter::extend_half(V value) {
  const V wide = b_.CreateFPExt(value, like(value, b_.getFloatTy()));
  return b_.CreateArithmeticFence(wide, wide->getType());
}

llvm::Value* ConvertEmitter::round_f16(V value) {
  if (f16c_) return extend_half(b_.CreateFPTrunc(value, like(value, b_.getHalfTy())));
  const V magnitude = b_.CreateIntrinsic(llvm::Intrinsic::fabs, {value->getType()}, {value});
  const V x = as_bits(magnitude);
  const V odd = b_.CreateAnd(b_.CreateLShr(x, bits(value, 13)), bits(value, 1));
  V rounded = as_float(b_.CreateAnd(b_.CreateAdd(x, b_.CreateAdd(odd, bits(value, 0xfff))), bits(value, 0xffffe000)));
  // Below 2^-14 the last place is 2^-24, that of floats in [0.5, 1).
  const V denormal = b_.CreateFSub(b_.CreateFAdd(magnitude, number(value, 0.5)), number(value, 0.5));
  rounded = b_.CreateSelect(b_.CreateFCmpOLT(magnitude, number(value, 0x1p-14)), denormal, rounded);
  rounded = b_.CreateSelect(b_.CreateFCmpOGT(rounded, number(value, 65504.0)), number(value, INFINITY), rounded);
  rounded = b_.CreateSelect(b_.CreateFCmpUNO(value, value), number(value, NAN), rounded);
  return b_.CreateIntrinsic(llvm::Intrinsic::copysign, {value->getType()}, {rounded, value});
}

llvm::Value* ConvertEmitter::f16_from_memory(V stored) {
  if (f16c_) return extend_half(stored);
  const V x = b_.CreateZExt(stored, like(stored, b_.getInt32Ty()));
  const V sign = b_.CreateShl(b_.CreateAnd(x, bits(x, 0x8000)), bits(x, 16));
  const V magnitude = b_.CreateShl(b_.CreateAnd(x, bits(x, 0x7fff)), bits(x, 13));
  // Reading the fields with f32's bias makes the value 2^112 too small, also for denormals.
  V result = as_bits(b_.CreateFMul(as_float(magnitude), number(x, 0x1p112)));
  const V special = b_.CreateICmpUGE(magnitude, bits(x, 0x7c00 << 13));
  result = b_.CreateSelect(special, b_.CreateOr(magnitude, bits(x, 0x7f800000)), result);
  return as_float(b_.CreateOr(result, sign));
}

/// `value` is representable already.
llvm::Value* ConvertEmitter::f16_to_memory(V value) {
  if (f16c_) return b_.CreateFPTrunc(value, like(value, b_.getHalfTy()));
  const V magnitude = b_.CreateIntrinsic(llvm::Intrinsic::fabs, {value->getType()}, {value});
  const V x = as_bits(magnitude);
  V result = b_.CreateLShr(b_.CreateSub(x, bits(value, 112 << 23)), bits(value, 13));
  const V scaled = b_.CreateFAdd(magnitude, number(value, 0.5));  // multiples of 2^-24 land in the low bits
  const V denormal = b_.CreateSub(as_bits(scaled), bits(value, 0x3f000000));
  result = b_.CreateSelect(b_.CreateFCmpOLT(magnitude, number(value, 0x1p-14)), denormal, result);
  result = b_.CreateSelect(b_.CreateFCmpOEQ(magnitude, number(value, INFINITY)), bits(value, 0x7c00), result);
  result = b_.CreateSelect(b_.CreateFCmpUNO(value, value), bits(value, 0x7e00), result);
  const V sign = b_.CreateAnd(b_.CreateLShr(as_bits(value), bits(value, 16)), bits(value, 0x8000));
  return b_.CreateTrunc(b_.CreateOr(result, sign), like(value, b_.getInt16Ty()));
}

/// Double to float, rounding to odd: a second rounding to fewer bits is then as if it were the first.
llvm::Value* ConvertEmitter::narrow_to_odd(V value) {
  const V nearest = b_.CreateFPTrunc(value, like(value, b_.getFloatTy()));
  const V back = b_.CreateFPExt(nearest, value->getType());
  const V x = as_bits(nearest);
  const auto magnitude = [&](V v) { return b_.CreateIntrinsic(llvm::Intrinsic::fabs, {v->getType()}, {v}); };
  const V too_large = b_.CreateFCmpOGT(magnitude(back), magnitude(value));
  const V step = b_.CreateSelect(too_large, bits(x, -1), bits(x, 1));
  const V even = b_.CreateICmpEQ(b_.CreateAnd(x, bits(x, 1)), bits(x, 0));
  const V adjust = b_.CreateAnd(even, b_.CreateFCmpONE(back, value));
  return as_float(b_.CreateSelect(adjust, b_.CreateAdd(x, step), x));
}

llvm::Value* ConvertEmitter::cast(V value, DType from, DType to) {
  if (from == to) return value;
  llvm::Type* type = like(value, register_type(to));
  const bool from_unsigned = from == DType::boolean || from == DType::u8;
  const V zero = llvm::Constant::getNullValue(value->getType());
  if (is_float(from)) {
    if (to == DType::boolean) return b_.CreateFCmpUNE(value, zero);
    if (!is_float(to)) {
      const auto id = to == DType::u8 ? llvm::Intrinsic::fptoui_sat : llvm::Intrinsic::fptosi_sat;
      return b_.CreateIntrinsic(id, {type, value->getType()}, {value});
    }
    if (to == DType::f64) return b_.CreateFPExt(value, type);
    if (from == DType::f64) return to == DType::f32 ? b_.CreateFPTrunc(value, type) : round(to, narrow_to_odd(value));
    return round(to, value);
  }
  if (to == DType::boolean) return b_.CreateICmpNE(value, zero);
  if (is_float(to)) {
    return round(to, from_unsigned ? b_.CreateUIToFP(value, type) : b_.CreateSIToFP(value, type));
  }
  return b_.CreateIntCast(value, type, !from_unsigned);
}

}  // namespace loopwright::codegen
