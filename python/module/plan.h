// A plan together with where it runs and what it needs to stay alive.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "loopwright/compile.h"
#include "loopwright/runtime.h"
#include "python/module/dlpack.h"

namespace loopwright::python {

struct LoadedPlan {
  Plan plan;
  DLDevice device;
  std::shared_ptr<const Runtime> runtime;  ///< of a plan that came from databases by name; else null
  PlanReport report;                       ///< of a plan that was made of a graph
};

void bind_plan(nanobind::module_& module);
void bind_graph(nanobind::module_& module);
void bind_tuning(nanobind::module_& module);
void bind_database(nanobind::module_& module);

}  // namespace loopwright::python
