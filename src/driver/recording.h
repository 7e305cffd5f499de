// What plans were called with where no tuned kernel served, counted for a database that `tune --wanted` reads.
#pragma once

#include <memory>
#include <string>

#include "loopwright/base.h"
#include "src/graph/workload.h"
#include "src/runtime/misses.h"

namespace loopwright::driver {

/// The counts of one workload for the database `path`, one table in the whole process. `symbol_names` are the workload's own.
std::shared_ptr<runtime::MissTable> find_recording(const std::string& path, const graph::Workload& workload,
                                                   const std::vector<std::string>& symbol_names);
/// Writes all counts since the last time, making databases that are missing. Counts that cannot be written are kept; the
/// error is that of the first file.
Status write_recordings();

}  // namespace loopwright::driver
