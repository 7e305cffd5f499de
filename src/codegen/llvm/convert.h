// How values of each dtype are held in registers and in memory, and the way between them.
//
// In registers a bool is an i1; integers are themselves; f16 and bf16 are floats whose value the dtype can represent,
// so that every operation rounds its result once and nothing else needs to know. In memory a bool is a byte 0 or 1,
// f16 is a half and bf16 an i16.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include "loopwright/base.h"

namespace loopwright::codegen {

/// All functions take scalars and vectors.
class ConvertEmitter {
 public:
  ConvertEmitter(llvm::IRBuilder<>& builder, bool f16c) : b_(builder), f16c_(f16c) {}

  /// Element types; `lanes` 0 is a scalar.
  llvm::Type* register_type(DType dtype, unsigned lanes = 0) const;
  llvm::Type* memory_type(DType dtype, unsigned lanes = 0) const;
  llvm::Value* from_memory(DType dtype, llvm::Value* stored);
  llvm::Value* to_memory(DType dtype, llvm::Value* value);
  /// Rounds a float to what `dtype` can represent; does nothing for other dtypes than f16 and bf16.
  llvm::Value* round(DType dtype, llvm::Value* value);
  /// nodes.h: saturating, NaN to 0, one rounding.
  llvm::Value* cast(llvm::Value* value, DType from, DType to);

 private:
  using V = llvm::Value*;
  llvm::Type* like(V x, llvm::Type* element) const;
  V bits(V x, std::int64_t value) const;  ///< an i32 constant of x's lanes
  V as_bits(V x) { return b_.CreateBitCast(x, like(x, b_.getInt32Ty())); }
  V as_float(V x) { return b_.CreateBitCast(x, like(x, b_.getFloatTy())); }
  V number(V x, double value) const;
  V round_bf16(V value);
  V extend_half(V value);
  V round_f16(V value);
  V f16_from_memory(V stored);
  V f16_to_memory(V value);
  V narrow_to_odd(V value);

  llvm::IRBuilder<>& b_;
  bool f16c_;
};

}  // namespace loopwright::codegen
