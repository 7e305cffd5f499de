// How far an output may be from the float64 reference, and whether it is nearer than that.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loopwright/graph.h"

namespace loopwright::tuner {

/// An element passes when |value - reference| <= relative * (|reference| + rms), rms over the whole reference output.
/// relative = kSlack * sqrt(sum over the ops that the output depends on of the op's rounding error squared), where an
/// op rounds by u(dtype) of its result (half the distance from 1 to the next number), four times that for
/// transcendental functions, and a reduction over K elements by u(dtype) + (2 + 2 sqrt(K)) u(accumulator).
struct Tolerance {
  double relative = 0;  ///< 0: exact
  /// Share of elements that may differ freely (at least two elements, at most a quarter of fewer than eight), because an op that jumps (comparison, rounding,
  /// cast to an integer, arg-max) looks at rounded floats.
  double jumping_share = 0;
  std::string text() const;
};
inline constexpr double kSlack = 6;
inline constexpr double kJumpingShare = 1e-3;

/// For `value` of `graph`, with reductions as long as they are at `probe`.
Tolerance find_tolerance(const Graph& graph, Value value, const Bindings& probe);

struct Deviation {
  double max_abs = 0;
  double max_rel = 0;            ///< of |reference| + rms, as in Tolerance
  std::int64_t outside = 0;      ///< elements beyond the tolerance
  std::int64_t first = -1;       ///< the first of them, row-major
  double found = 0, expected = 0;  ///< there
  bool passed = true;
};
/// `positions[i]` is where element i (row-major) is stored, in elements; empty = dense.
Deviation compare_output(DType dtype, const void* data, const std::vector<std::int64_t>& positions,
                         const std::vector<double>& expected, const Tolerance& tolerance);

}  // namespace loopwright::tuner
