// Times and losses of a kernel over its symbols, with the borders of its ranges.
#pragma once

#include <string>
#include <vector>

#include "src/cli/kernel_ranges.h"
#include "src/cli/svg.h"

namespace loopwright::cli {

/// Draws one kernel below `top`; the y below it. Over one symbol times and losses as curves, over two a map of the box, and
/// of more each symbol's losses.
double draw_kernel(Svg& svg, double top, const KernelRanges& kernel, const std::vector<MeasuredShape>& shapes);

}  // namespace loopwright::cli
