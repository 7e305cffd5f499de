// Where an op that jumps (comparison, rounding, cast to an integer, arg-max) decides so narrowly on rounded floats that a
// correct kernel may decide otherwise.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "loopwright/artifact.h"
#include "loopwright/graph.h"
#include "loopwright/target.h"

namespace loopwright::tuner {

/// A graph on the inputs of `graph` that computes, for each output and updated input in which something may jump, how far
/// each element may be from the reference for that reason: f64, of the same shape, named `doubt_name`. Nothing when no
/// output depends on a jump over rounded floats.
///
/// An op that jumps is in doubt where its operands, each moved by the error that find_tolerance allows it (reductions as
/// long as the symbols' ranges allow), give another result; elsewhere its doubt is zero. What follows passes doubts on:
/// exactly where an op is linear in them, else as kUnbounded.
Result<std::optional<Graph>> make_doubt_graph(const Graph& graph);
/// Compiled as the reference is; null for nothing.
Result<std::shared_ptr<const Artifact>> build_doubt(const Graph& graph, const Target& target);
/// Of the tensor that holds the doubt of an output or updated input.
std::string doubt_name(const std::string& tensor);
/// The doubt of an element that is not checked at all.
inline constexpr double kUnbounded = 1e100;  ///< products of two are still finite

}  // namespace loopwright::tuner
