// What every operation computes on one scalar: the builders' folding and the interpreter both use this.
#pragma once

#include <cstdint>
#include <optional>

#include "src/ir/nodes.h"

namespace loopwright::ir {

/// The dtype of the result; empty when the operation does not exist for the operands.
std::optional<DType> result_dtype(UnaryOp op, DType a);
std::optional<DType> result_dtype(BinaryOp op, DType a, DType b);
std::optional<UnaryOp> parse_unary_op(std::string_view text);
std::optional<BinaryOp> parse_binary_op(std::string_view text);
bool is_compare(BinaryOp op);

/// Two's complement, without the undefined behaviour of an overflow.
std::int64_t wrapping_add(std::int64_t a, std::int64_t b);
std::int64_t wrapping_mul(std::int64_t a, std::int64_t b);
/// Keeps the low bits of an integer dtype, sign extended; bool keeps whether it is not zero.
std::int64_t wrap(DType dtype, std::int64_t value);
/// Rounds to the nearest value of a float dtype, ties to even, in one step.
double round_to(DType dtype, double value);
/// The stored bits of f16 and bf16, with one rounding, and back.
std::uint16_t to_f16_bits(double value);
double from_f16_bits(std::uint16_t bits);
std::uint16_t to_bf16_bits(double value);
double from_bf16_bits(std::uint16_t bits);

// Operands are of dtype `t`; integers and bool as int64, every float as a double that is exact in `t`.
std::int64_t apply_int(UnaryOp op, DType t, std::int64_t a);
std::int64_t apply_int(BinaryOp op, DType t, std::int64_t a, std::int64_t b);
double apply_float(UnaryOp op, DType t, double a);
double apply_float(BinaryOp op, DType t, double a, double b);
/// is_nan, is_inf.
bool test_float(UnaryOp op, double a);
bool compare_int(BinaryOp op, std::int64_t a, std::int64_t b);
bool compare_float(BinaryOp op, double a, double b);

std::int64_t cast_to_int(DType to, double value);
double cast_to_float(DType to, std::int64_t value);

std::int64_t floor_div_int(std::int64_t a, std::int64_t b);
std::int64_t mod_int(std::int64_t a, std::int64_t b);

}  // namespace loopwright::ir
