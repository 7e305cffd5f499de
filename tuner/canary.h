// Whether stored times still hold: some winners measured again.
#pragma once

#include "tuner/tuner.h"

namespace loopwright::tuner {

Result<CanaryReport> check_drift_with(const Workbench& bench, const TuneOptions& options, int count, const TuneStop& stop);

}  // namespace loopwright::tuner
