// Graph → plan as data: groups, wiring, sizes.
#pragma once

#include <vector>

#include "loopwright/graph.h"
#include "loopwright/runtime.h"
#include "src/graph/workload.h"

namespace loopwright::driver {

struct Planned {
  PlanSpec spec;
  std::vector<graph::Workload> workloads;  ///< one for each kernel of the spec (equal ones repeat)
};
Result<Planned> plan_graph(const Graph& graph);

}  // namespace loopwright::driver
