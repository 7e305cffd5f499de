// What a run must know to go on in another process; stored with the run as JSON.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "loopwright/tune.h"

namespace loopwright::tuner {

/// A graph that the same command tunes after this one.
struct NextGraph {
  std::string name, text;  ///< the text of a graph, or of a workload
  std::vector<Bindings> probes;
  std::vector<ShapeCount> shapes;
};

struct RunState {
  TuneOptions options;
  std::string graph_name, graph_text;
  double elapsed_s = 0;
  std::map<std::string, std::int64_t> ended_searches;  ///< see RunContext

  std::vector<NextGraph> next;
  double whole_budget_s = 0;  ///< for this graph and the next ones together; options.budget_s is this one's

  /// The run after this one, which took `used_s`. There is one when `next` is not empty.
  RunState follow(double used_s) const;
  /// Gives this graph its part of the whole budget.
  void take_share() { options.budget_s = whole_budget_s / static_cast<double>(next.size() + 1); }
  std::string text() const;
  /// unsupported for another version, syntax for damaged text.
  static Result<RunState> parse(const std::string& text);
};

}  // namespace loopwright::tuner
