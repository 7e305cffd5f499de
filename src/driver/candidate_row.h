// A schedule of a workload as the database names it.
#pragma once

#include <string>

#include "db/rows.h"
#include "loopwright/schedule.h"

namespace loopwright::driver {

/// The row of a candidate, with its picks as canonical JSON; its digest field is filled.
db::CandidateRow make_candidate_row(const std::string& workload, const std::string& template_name, const Picks& picks,
                                    const std::string& trace, bool is_default);

}  // namespace loopwright::driver
