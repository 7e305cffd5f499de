// Default schedules against what a database serves, in one run.
#pragma once

#include <string>
#include <vector>

#include "loopwright/graph.h"
#include "loopwright/measure.h"
#include "src/cli/command.h"

namespace loopwright::cli {

struct ComparisonRow {
  std::string graph, shape;
  Timing default_schedule, tuned;
  double error = 0;  ///< largest relative error of the tuned run against float64
  bool passed = false;
  std::string match;  ///< the worst among the kernels
};
/// One row for each binding, on a device named as for `tune`. CPU: host time of a call; GPU: device time. The tuned side
/// is the stored plan, as a program without the compiler would run it.
Result<std::vector<ComparisonRow>> compare_default_and_tuned(const Graph& graph,
                                                             const std::vector<std::string>& databases,
                                                             const std::vector<Bindings>& shapes,
                                                             const std::string& device, std::uint64_t seed, const Context& context);
/// kFailed when a result is wrong, else kOk.
Exit print_comparison(const std::vector<ComparisonRow>& rows, bool json);
/// Shapes to look at when nobody says: lowest, a modest and a larger size of every symbol.
std::vector<Bindings> typical_shapes(const Graph& graph);

}  // namespace loopwright::cli
