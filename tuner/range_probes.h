// Shapes at which ranges are decided and judged, and how much each stands for.
#pragma once

#include <cstdint>
#include <vector>

#include "loopwright/shape.h"
#include "loopwright/tune.h"

namespace loopwright::tuner {

/// The product of all values, zeros as ones: what is larger takes longer.
double measure_volume(const Bindings& shape);
/// How far two shapes with the same symbols are from each other: the logarithms of their ratios, squared and added up.
double measure_distance(const Bindings& a, const Bindings& b);

/// At most `count` shapes of the box: of each symbol both ends, powers of two and the neighbours of tile edges; of several
/// symbols all combinations where they fit, else the corners and others spread evenly over the logarithms.
std::vector<Bindings> choose_range_probes(const std::vector<Symbol>& symbols, int count);

/// Shapes that are not among `used`, drawn from the seed: three of four from `shapes` where there are such, in proportion
/// to their counts, the others evenly over the logarithm of each symbol.
std::vector<Bindings> choose_held_out(const std::vector<Symbol>& symbols, const std::vector<Bindings>& used, int count,
                                      std::uint64_t seed, const std::vector<ShapeCount>& shapes = {});

/// The share of calls that each probe stands for, being the nearest one; their sum is 1. Calls are spread evenly over the
/// logarithms; where there are `shapes` only a tenth of them is, for what was not counted yet.
std::vector<double> weigh_probes(const std::vector<Symbol>& symbols, const std::vector<Bindings>& probes,
                                 const std::vector<ShapeCount>& shapes = {});

/// Shapes to search at: the weighted median by volume, then a large one and a small one (90 % and 10 %).
std::vector<Bindings> choose_typical(const std::vector<ShapeCount>& shapes);

}  // namespace loopwright::tuner
