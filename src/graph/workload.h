// A group with its dtypes, static dims and symbols: the key of the database.
#pragma once

#include <string>

#include "src/graph/group.h"

namespace loopwright::graph {

struct Workload {
  Graph graph;         ///< canonical
  std::string text;    ///< graph.text() with the format version in front
  std::string digest;  ///< sha256 of text
  std::string family;  ///< word for people: elementwise, row_reduction, matmul, ... (not part of the key)
};
inline constexpr int kWorkloadVersion = 1;

Workload make_workload(const Graph& canonical_group);
/// The same work in strict accuracy: what serves it serves this workload too.
Workload make_strict(const Workload& workload);
Result<Workload> parse_workload(std::string_view text);

}  // namespace loopwright::graph
