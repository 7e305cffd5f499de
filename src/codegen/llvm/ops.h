// Every operation of the IR on register values, scalars or vectors. Nothing traps and nothing is undefined.
#pragma once

#include "src/codegen/llvm/convert.h"
#include "src/codegen/llvm/math.h"
#include "src/ir/nodes.h"

namespace loopwright::codegen {

class OpEmitter {
 public:
  /// `contract`: products may be fused with the sums that use them.
  OpEmitter(llvm::IRBuilder<>& builder, ConvertEmitter& convert, MathEmitter& math, bool contract)
      : b_(builder), convert_(convert), math_(math), contract_(contract) {}

  /// Operands are of dtype `t`.
  llvm::Value* emit(ir::UnaryOp op, DType t, llvm::Value* a);
  /// One side may be a scalar beside a vector.
  llvm::Value* emit(ir::BinaryOp op, DType t, llvm::Value* a, llvm::Value* b);
  /// The scalar repeated, when one of them is a vector.
  void match(llvm::Value*& a, llvm::Value*& b);
  /// Combines the lanes of a vector into `state`, in the order of the lanes for floats.
  llvm::Value* reduce(ir::Monoid monoid, DType t, llvm::Value* state, llvm::Value* lanes);

 private:
  using V = llvm::Value*;
  V emit_float(ir::UnaryOp op, DType t, V a);
  V emit_int(ir::UnaryOp op, DType t, V a);
  V emit_float(ir::BinaryOp op, DType t, V a, V b);
  V emit_int(ir::BinaryOp op, DType t, V a, V b);
  V compare(ir::BinaryOp op, DType t, V a, V b);
  V divide(ir::BinaryOp op, DType t, V a, V b);
  V shift(ir::BinaryOp op, DType t, V a, V b);
  V power(DType t, V a, V b);
  V pick(bool larger, V a, V b);
  V floored_mod(V a, V b);
  V round_tf32(V a);
  V arithmetic(llvm::Instruction::BinaryOps op, V a, V b);

  llvm::IRBuilder<>& b_;
  ConvertEmitter& convert_;
  MathEmitter& math_;
  bool contract_;
};

}  // namespace loopwright::codegen
