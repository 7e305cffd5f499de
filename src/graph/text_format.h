// Graphs as .lw text, both ways (docs/lw.md).
#pragma once

#include "loopwright/graph.h"

namespace loopwright::graph {

inline constexpr std::size_t kMaxTextBytes = 4 << 20;
inline constexpr int kMaxNesting = 100;

/// True for a name that the text format can hold: no keyword, dtype or other word with a meaning of its own.
bool is_name(std::string_view text);
/// Canonical text: the accuracy where it is not strict, symbols, then one node a line, outputs, updates. Parses back to an equal graph.
std::string print_graph(const Graph& g);
Result<Graph> parse_graph(std::string_view text, const std::string& file);

}  // namespace loopwright::graph
