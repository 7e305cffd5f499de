// What a cost model sees of a lowered kernel.
#pragma once

#include <string_view>
#include <vector>

#include "loopwright/target.h"
#include "src/ir/kernel.h"

namespace loopwright::tuner {

/// Numbers on a logarithmic scale (log2(1 + x)) or shares in [0, 1], in the order of `feature_names`. Extents are taken
/// at the probe, guards as true, tiles as full.
std::vector<float> extract_features(const ir::Kernel& kernel, const Target& target, const Bindings& probe);
const std::vector<std::string_view>& feature_names();
/// Float operations of one launch.
double count_float_ops(const ir::Kernel& kernel, const Bindings& probe);

}  // namespace loopwright::tuner
