// Random well-typed graphs over the whole op table, for differential tests.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "loopwright/graph.h"
#include "tests/support/reference.h"

namespace loopwright::test {

/// Largest value of a symbol for which the sizes are small and the tolerances hold.
inline constexpr std::int64_t kRandomGraphSymbol = 5;

struct RandomGraph {
  Graph graph;
  /// For each output and updated input: how far a faithful kernel may be from the reference with Rounding::every_value.
  std::map<std::string, Allowance> tolerances;
};

/// The same graph for the same seed, everywhere. A few inputs (dense, strided, overlapping), one to fourteen ops, symbols,
/// sometimes empty axes, dead values, several outputs, updates. Ops that jump (floor, comparisons, casts to integers) see
/// only values that every faithful kernel computes to the same bits, so that a difference is a mistake.
RandomGraph random_graph_with_tolerances(std::uint64_t seed);
Graph random_graph(std::uint64_t seed);

}  // namespace loopwright::test
