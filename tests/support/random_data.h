// Arguments for a kernel, filled at random, and the comparison of what two kernels made of them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "src/ir/interpret.h"

namespace loopwright::test {

using Arguments = std::map<std::string, ir::Array>;

/// Inputs hold numbers of both signs around 0.5 (floats), 0..3 (integers), or both bools; outputs are zero.
Arguments random_arguments(const ir::Kernel& k, const Bindings& symbols, std::uint64_t seed);

/// How far apart results may be: `relative` of the larger magnitude, which counts as at least `floor`. 0 = equal bits
/// (any NaN equals any NaN).
struct Tolerance {
  double relative = 0;
  double floor = 1;
  bool signless_zero = false;  ///< -0 equals +0: compiled min and max do not tell them apart
};
/// For results whose sums were regrouped, by the dtype of the buffer.
Tolerance regrouped(DType dtype);

/// Interprets `k` on a copy of the arguments, races and uninitialised reads checked.
Result<Arguments> interpret_copy(const ir::Kernel& k, const Bindings& symbols, const Arguments& arguments);

/// The first difference between outputs of `k`, in words; empty when there is none.
std::optional<std::string> find_difference(const ir::Kernel& k, const Arguments& expected,
                                           const Arguments& found, bool may_regroup,
                                           bool signless_zero = false);

}  // namespace loopwright::test
