// Tuning several graph files one after the other, with a view of the progress.
#pragma once

#include <string>
#include <vector>

#include "loopwright/tune.h"
#include "src/cli/command.h"

namespace loopwright::cli {

/// What a user asked for of the graphs in the files.
struct ShapeRequest {
  std::vector<std::string> probes;  ///< `tokens=4096,batch=2` each
  std::string counted_in;           ///< a file of read_shape_counts; empty: none
  std::string accuracy;             ///< as for load_graph
};

/// The budget is for all files together; what one leaves goes to the next. `options` gives everything but target,
/// budget, shapes and command line. When it is interrupted amid something long, it prints the reports and ends the process.
Result<std::vector<TuneReport>> tune_files(const std::vector<std::string>& files, TuneOptions options, double budget_s,
                                           const ShapeRequest& shapes, const Context& context);

}  // namespace loopwright::cli
