// How far an output may be from the float64 reference, and whether it is nearer than that.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loopwright/graph.h"

namespace loopwright::tuner {

/// An element passes when |value - reference| <= relative * (|reference| + rms) + absolute + doubt, rms over the whole
/// reference output, doubt of tuner/doubt.h.
/// relative = kSlack * sqrt(sum over the ops that the output depends on of the op's rounding error squared), where an
/// op rounds by u(dtype) of its result (half the distance from 1 to the next number), four times that for
/// transcendental functions, and a reduction over K elements by u(dtype) + (2 + 2 sqrt(K)) u(accumulator); a product of f32 in
/// a graph that allows tf32 by sqrt(2) 2^-11 more.
/// absolute = kSlack * sum over the same ops of what the op's dtype may not tell from zero, times sqrt(K) for reductions:
/// the smallest normal number, as hardware may flush what is smaller; for f16, which is computed in f32, its spacing there.
struct Tolerance {
  double relative = 0;
  double absolute = 0;
  bool is_exact() const { return relative == 0 && absolute == 0; }
  std::string text() const;
};
inline constexpr double kSlack = 6;
/// The largest finite number.
double largest_of(DType dtype);

/// For `value` of `graph`, with reductions as long as they are at `probe`.
Tolerance find_tolerance(const Graph& graph, Value value, const Bindings& probe);

struct Deviation {
  double max_abs = 0;
  double max_rel = 0;            ///< of |reference| + rms, where the distance is more than absolute + doubt
  std::int64_t outside = 0;      ///< elements beyond the tolerance
  std::int64_t first = -1;       ///< the first of them, row-major
  double found = 0, expected = 0;  ///< there
  bool passed = true;
};
/// `positions[i]` is where element i (row-major) is stored, in elements; empty = dense. `doubt`: by element, empty = none.
Deviation compare_output(DType dtype, const void* data, const std::vector<std::int64_t>& positions,
                         const std::vector<double>& expected, const std::vector<double>& doubt, const Tolerance& tolerance);

}  // namespace loopwright::tuner
