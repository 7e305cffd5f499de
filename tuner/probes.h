// Shapes at which a workload is tried.
#pragma once

#include <functional>
#include <vector>

#include "loopwright/shape.h"

namespace loopwright::tuner {

/// Unless it is there already.
void add_unique(std::vector<Bindings>& to, const Bindings& shape);

struct ProbePlan {
  std::vector<Bindings> search;  ///< where candidates are timed; the first is the main probe
  std::vector<Bindings> verify;  ///< where results of every candidate are compared; the largest comes last
  std::vector<Bindings> verify_finals;  ///< where those of finalists are compared too
};
/// Float operations at a probe.
using WorkEstimate = std::function<double(const Bindings&)>;
/// Without symbols there is one probe. Main: what the user asked for first, else a middling size (the product of the
/// symbols near 256, less where that is much work). Further search probes: what else the user asked for, or all symbols
/// large, all small, and of several the first ones alone large. Verification: every symbol at its lowest, small primes,
/// next to tile edges, and the main probe; sizes that would keep the float64 reference busy for long are left to the
/// finalists.
ProbePlan plan_probes(const std::vector<Symbol>& symbols, const std::vector<Bindings>& asked,
                      const WorkEstimate& work = {});

}  // namespace loopwright::tuner
