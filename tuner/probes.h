// Shapes at which a workload is tried.
#pragma once

#include <vector>

#include "loopwright/shape.h"

namespace loopwright::tuner {

struct ProbePlan {
  std::vector<Bindings> search;  ///< where candidates are timed; the first is the main probe
  std::vector<Bindings> verify;  ///< where results are compared; the last is the main probe
};
/// Without symbols there is one probe. Main: what the user asked for first, else a middling size (the product of the
/// symbols near 256). With one symbol, further search probes: what else the user asked for, a small and a large value.
/// Verification: every symbol at its lowest, small primes, next to tile edges, and the main probe.
ProbePlan plan_probes(const std::vector<Symbol>& symbols, const std::vector<Bindings>& asked);

}  // namespace loopwright::tuner
