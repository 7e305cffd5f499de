// What a graph means, computed a second time: each op as plain loops in double or int64 over whole tensors. Shares no
// code or definition with src/graph/ops.cpp, so that a mistake there is not repeated here.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "loopwright/graph.h"
#include "src/ir/interpret.h"

namespace loopwright::test {

/// Where floats lose precision in the reference.
enum class Rounding : std::uint8_t {
  none,         ///< nowhere: everything float is float64
  casts,        ///< where the graph casts explicitly
  every_value,  ///< every op's result is rounded to its dtype once
};

/// Outputs by name, and the new contents of updated inputs by the input's name. Outputs are dense. Floats come back as
/// f64 with Rounding::none, else in the dtype of the output. `inputs` may be strided; their shapes must fit the graph.
std::map<std::string, ir::Array> reference_outputs(const Graph& g, const Bindings& bindings,
                                                   const std::map<std::string, ir::Array>& inputs,
                                                   Rounding rounding = Rounding::casts);

/// |got - want| <= absolute + relative * |want|.
struct Allowance {
  double absolute = 0;
  double relative = 0;
};
/// For results of `dtype` from sums of `reduction_length` terms of magnitude about 1, carried in the accumulator's dtype.
/// Zero for integers and bool.
Allowance tolerance_for(DType dtype, std::int64_t reduction_length = 1);

/// Empty when all elements agree (NaN agrees with NaN, an infinity with itself), else the worst place with both values.
std::string describe_difference(const ir::Array& got, const ir::Array& want, Allowance tolerance);

/// The whole check most tests want: random inputs from `seed`, the interpreted naive kernel against the reference, and
/// the kernel's own text through parser and verifier. Empty when all is well.
std::string check_naive_kernel(const Graph& g, const Bindings& bindings, std::uint64_t seed,
                               Allowance tolerance, Rounding rounding = Rounding::every_value);

}  // namespace loopwright::test
