// Graph → plan as data: groups, wiring, sizes.
#pragma once

#include <vector>

#include "loopwright/graph.h"
#include "loopwright/runtime.h"
#include "loopwright/target.h"
#include "src/graph/group.h"
#include "src/graph/workload.h"

namespace loopwright::driver {

struct Planned {
  PlanSpec spec;
  std::vector<graph::Workload> workloads;  ///< one for each kernel of the spec (equal ones repeat)
};
/// How ops share kernels on a machine of this kind.
graph::Grouping grouping_for(TargetKind kind);
Result<Planned> plan_graph(const Graph& graph, TargetKind kind);

}  // namespace loopwright::driver
