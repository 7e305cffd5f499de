// Every operation of the IR as CUDA C++ text. Operands are text without side effects, of the C type of their dtype.
//
// Values: bf16 and f16 are their bits (unsigned short), bool is bool, every other dtype the C type of its width. Errors
// of the float functions are those of the CUDA mathematical functions, at most: exp, exp2, log1p, expm1, sqrt, division 1 ulp
// of f32 (sqrt, division exact), log, log2, cbrt 1, rsqrt 2, sin, cos 2, tan 4, asin, acos, atan 2, sinh, cosh 3, tanh 2,
// erf 2, pow 4, atan2 3; f64 at most 2.
#pragma once

#include <string>

#include "src/ir/nodes.h"

namespace loopwright::codegen {

std::string_view c_type(DType dtype);
/// A literal.
std::string c_number(double value, DType dtype);
std::string c_integer(std::int64_t value, DType dtype);

/// Operands of dtype `t`; i64 operands are `long long`. `contract`: a product may be fused with the sum that uses it.
std::string c_unary(ir::UnaryOp op, DType t, const std::string& a);
/// min or max of two halves in words, each with its own.
std::string c_halves(ir::BinaryOp op, DType t, const std::string& a, const std::string& b);
std::string c_binary(ir::BinaryOp op, DType t, const std::string& a, const std::string& b, bool contract);
std::string c_cast(DType from, DType to, const std::string& a);
/// A value of f16 or bf16 as float, and a float rounded to it.
std::string c_widen(DType t, const std::string& a);
std::string c_narrow(DType t, const std::string& a);

}  // namespace loopwright::codegen
