// The extension `loopwright._core`.
#include <nanobind/nanobind.h>

#include "python/module/call.h"
#include "python/module/plan.h"

NB_MODULE(_core, module) {
  module.doc() = "The compiled part of loopwright; see _core.pyi.";
  module.attr("__version__") = LOOPWRIGHT_VERSION;
  loopwright::python::bind_graph(module);
  loopwright::python::bind_plan(module);
  loopwright::python::bind_tuning(module);
  loopwright::python::bind_database(module);
  loopwright::python::bind_call(module);
}
