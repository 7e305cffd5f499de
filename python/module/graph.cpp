#include "loopwright/graph.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "python/module/errors.h"
#include "python/module/plan.h"

namespace nb = nanobind;

namespace loopwright::python {
namespace {

nb::dict list_types(const Graph& graph, const std::vector<std::pair<std::string, Value>>& values) {
  nb::dict out;
  for (const auto& [name, value] : values) out[name.c_str()] = graph.type(value).text();
  return out;
}

nb::dict list_inputs(const Graph& graph) {
  std::vector<std::pair<std::string, Value>> values;
  for (const Value v : graph.inputs()) values.emplace_back(graph.node(v).name, v);
  return list_types(graph, values);
}

nb::dict list_outputs(const Graph& graph) {
  std::vector<std::pair<std::string, Value>> values;
  for (const Graph::Output& o : graph.outputs()) values.emplace_back(o.name, o.value);
  return list_types(graph, values);
}

}  // namespace

void bind_graph(nb::module_& module) {
  nb::class_<Graph>(module, "Graph",
                    "A tensor graph: symbols, inputs, ops and outputs (docs/lw.md). Immutable; equal when "
                    "its text is; can be "
                    "pickled.\n`parse(text)` and `load(path)` make one; name, text, symbols, inputs and "
                    "outputs tell its parts.")
      .def_static(
          "parse",
          [](const std::string& text, const std::string& file) { return unwrap(Graph::parse(text, file)); },
          nb::arg("text"), nb::arg("file") = "graph")
      .def_static(
          "load", [](const std::string& path) { return unwrap(Graph::load(path)); }, nb::arg("path"))
      .def_prop_ro("name", &Graph::name)
      .def_prop_ro("text", &Graph::text)
      .def_prop_ro("inputs", list_inputs)
      .def_prop_ro("outputs", list_outputs)
      .def_prop_ro("symbols",
                   [](const Graph& graph) {
                     nb::dict out;
                     for (const Symbol& s : graph.symbols()) out[s.name.c_str()] = nb::make_tuple(s.lo, s.hi);
                     return out;
                   })
      .def("__str__", &Graph::text)
      .def("__eq__", [](const Graph& a, const Graph& b) { return a == b; })
      .def("__hash__", [](const Graph& graph) { return std::hash<std::string>{}(graph.text()); })
      .def("__repr__",
           [](const Graph& graph) {
             return "<loopwright.Graph " + graph.name() + ": " + std::to_string(graph.nodes().size()) +
                    " nodes>";
           })
      .def("__getstate__", &Graph::text)
      .def("__setstate__",
           [](Graph& graph, const std::string& text) { new (&graph) Graph(unwrap(Graph::parse(text))); });
}

}  // namespace loopwright::python
