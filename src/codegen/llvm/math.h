// Elementary functions as inline LLVM code, for scalars and vectors of any width.
//
// f32, largest error in ulp against a float64 reference over every finite input (docs/accuracy.md has the measurements;
// the bound of 2 holds with and without FMA):
//   own f32 arithmetic                    exp exp2 expm1 log tanh sigmoid erf
//   in f64 arithmetic, rounded once       log2 log1p sin cos tan pow
//   exact operations                      sqrt; rsqrt = 1 / sqrt (two roundings)
//   through CpuCall::callees, in f64      asin acos atan sinh cosh cbrt atan2 fmod; sin, cos and tan beyond 1e6
// f64: through CpuCall::callees, lane by lane.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <string_view>

#include "src/ir/nodes.h"

namespace loopwright::codegen {

// Adding 1.5 * 2^23 (2^52) rounds to an integer, which is then in the low bits.
inline constexpr double kRoundF32 = 12582912.0;
inline constexpr double kRoundF64 = 6755399441055744.0;

/// Emits at the builder's insertion point, and may leave it in another block.
class MathEmitter {
 public:
  /// `callees` is CpuCall::callees; `fma` says that the target multiplies and adds with one rounding.
  MathEmitter(llvm::IRBuilder<>& builder, bool fma, llvm::Value* callees)
      : b_(builder), fma_(fma), callees_(callees) {}

  /// Any transcendental UnaryOp of a float or double, or of a vector of them.
  llvm::Value* emit(ir::UnaryOp op, llvm::Value* x);
  /// pow, atan2 or fmod.
  llvm::Value* emit(ir::BinaryOp op, llvm::Value* x, llvm::Value* y);

 private:
  using V = llvm::Value*;
  // Values of the same number of lanes as `x`.
  static llvm::Type* type_like(V x, llvm::Type* element);
  static V number(V like, double value);
  static V integer(V like, std::int64_t value);
  V mul_add(V a, V b, V c);
  V polynomial(V x, std::initializer_list<double> ascending);
  V clamp(V x, double lo, double hi);
  V intrinsic(llvm::Intrinsic::ID id, std::initializer_list<V> args);

  /// x = n * unit + r with |r| <= unit / 2: n as a float and as an integer.
  struct Reduced {
    V n, n_bits, r;
  };
  Reduced reduce_exponent(V x, bool wide);
  V scale_f32(V value, V exponent);         ///< value * 2^exponent for an exponent in -252..254
  V scale_small_f32(V value, V exponent);   ///< the same for an exponent in -126..127
  V exp_f32(V x, bool any_exponent);
  V exp2_f32(V x);
  V expm1_f32(V x);
  V log_f32(V x);
  V tanh_f32(V x);
  V sigmoid(V x);
  V erf_f32(V x);
  V emit_f32(ir::UnaryOp op, V x);

  // math_wide.cpp: f32 functions in double arithmetic.
  struct LogParts {
    V exponent, log_mantissa;
  };
  LogParts log_wide(V positive);
  V exp_wide(V x);
  V log2_f32(V x);
  V log1p_f32(V x);
  V circular_f32(ir::UnaryOp op, V x);
  V circular_reduced(ir::UnaryOp op, V x);
  V pow_f32(V x, V y);

  V call(std::string_view callee, V x, V y);
  llvm::Function* lane_function(std::string_view callee, llvm::Type* type, bool binary);
  V call_scalar(std::string_view callee, V callees, V x, V y);

  llvm::IRBuilder<>& b_;
  bool fma_;
  V callees_;
};

}  // namespace loopwright::codegen
