// The extension `loopwright._core`.
#include <nanobind/nanobind.h>

#include "python/module/call.h"
#include "python/module/plan.h"

namespace nb = nanobind;

NB_MODULE(_core, module) {
  module.doc() = "The compiled part of loopwright; see _core.pyi.";
  module.attr("__version__") = LOOPWRIGHT_VERSION;
  nb::set_leak_warnings(false);  // callables in the globals of a script are alive when the interpreter ends
  loopwright::python::bind_graph(module);
  loopwright::python::bind_plan(module);
  loopwright::python::bind_tuning(module);
  loopwright::python::bind_database(module);
  loopwright::python::bind_call(module);
}
