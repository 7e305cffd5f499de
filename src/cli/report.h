// The summary of tuning runs.
#pragma once

#include <vector>

#include "loopwright/tune.h"
#include "src/cli/command.h"

namespace loopwright::cli {

/// Prints a table of the tuned workloads, why some have no candidate, and the command that goes on where something is left
/// to do. Without reports a run was stopped before it could say what it did.
Exit print_reports(const std::vector<TuneReport>& reports, const std::string& database, bool json);

}  // namespace loopwright::cli
