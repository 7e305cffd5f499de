#include "python/module/plan.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <charconv>
#include <string>
#include <vector>

#include "loopwright/compile.h"
#include "python/module/errors.h"

namespace nb = nanobind;

namespace loopwright::python {
namespace {

using Strings = std::vector<std::string>;

OnMiss parse_on_miss(const std::string& text) {
  if (text == "strict") return OnMiss::strict;
  if (text == "default") return OnMiss::fallback;
  if (text == "jit") return OnMiss::jit;
  raise(Error{ErrorCode::bad_argument, "on_miss", "\"" + text + "\"", "",
              "\"strict\", \"default\" or \"jit\""});
}

/// The device's name has been accepted by the runtime.
DLDevice find_device(const std::string& name) {
  if (!name.starts_with("cuda")) return {kDLCPU, 0};
  std::int32_t index = 0;
  if (name.size() > 5) std::from_chars(name.data() + 5, name.data() + name.size(), index);
  return {kDLCUDA, index};
}

LoadedPlan plan_graph(const Graph& graph, const Strings& databases, const std::string& on_miss,
                      const std::string& device, const std::string& cache, const std::string& record) {
  const OnMiss miss = parse_on_miss(on_miss);
  PlanReport report;
  const nb::gil_scoped_release others_run;  // code generation takes a second
  auto made = [&]() -> Result<Plan> {
    LW_TRY(Target target, device_target(device));
    return make_plan(graph,
                     {.target = std::move(target), .databases = databases, .on_miss = miss, .device = device,
                      .cache = cache, .record = record},
                     &report);
  }();
  const nb::gil_scoped_acquire back;
  return {unwrap(std::move(made)), find_device(device), nullptr, std::move(report)};
}

LoadedPlan load_plan(const std::string& name, const Strings& databases, const std::string& on_miss,
                     const std::string& device) {
  const OnMiss miss = parse_on_miss(on_miss);
  if (miss == OnMiss::jit) enable_jit();
  auto runtime = std::make_shared<const Runtime>(
      unwrap(Runtime::open({.databases = databases, .on_miss = miss, .device = device})));
  return {unwrap(runtime->plan(name)), find_device(device), runtime, {}};
}

/// Values of the plan's symbols, in its order.
std::vector<std::int64_t> read_sizes(const LoadedPlan& self, const nb::dict& sizes) {
  std::vector<std::int64_t> values;
  for (const Symbol& symbol : self.plan.spec().symbols) {
    if (!sizes.contains(symbol.name.c_str()))
      raise(Error{ErrorCode::bad_symbol, "explain " + self.plan.spec().name,
                  "no value for the symbol " + symbol.name, "", "a value of each symbol by name"});
    values.push_back(nb::cast<std::int64_t>(sizes[symbol.name.c_str()]));
  }
  return values;
}

std::string explain_plan(const LoadedPlan& self, const nb::dict& sizes) {
  const std::vector<std::int64_t> values = read_sizes(self, sizes);
  if (self.runtime) return unwrap(self.runtime->explain(self.plan.spec().graph_digest, values));
  return unwrap(self.plan.explain(values));
}

/// One dict for each kernel.
nb::list choose_variants(const LoadedPlan& self, const nb::dict& sizes) {
  nb::list out;
  for (const Plan::Choice& c : unwrap(self.plan.choose(read_sizes(self, sizes)))) {
    nb::dict row;
    row["family"] = c.family;
    row["workload"] = c.workload;
    row["label"] = c.label;
    row["guard"] = c.guard;
    row["origin"] = std::string(name(c.origin));
    row["match"] = std::string(name(c.match));
    row["median_ns"] = c.median_ns;
    row["loss_mean"] = c.loss_mean;
    row["loss_worst"] = c.loss_worst;
    out.append(std::move(row));
  }
  return out;
}

Strings list_names(const LoadedPlan& self, bool outputs) {
  Strings names;
  for (const PlanTensor& t : self.plan.spec().tensors)
    if (t.role != ArgRole::workspace && (t.role == ArgRole::output) == outputs) names.push_back(t.name);
  return names;
}

}  // namespace

void bind_plan(nb::module_& module) {
  nb::class_<LoadedPlan>(module, "Plan")
      .def_prop_ro("name", [](const LoadedPlan& self) { return self.plan.spec().name; })
      .def_prop_ro("inputs", [](const LoadedPlan& self) { return list_names(self, false); })
      .def_prop_ro("outputs", [](const LoadedPlan& self) { return list_names(self, true); })
      .def_prop_ro("symbols",
                   [](const LoadedPlan& self) {
                     nb::dict out;
                     for (const Symbol& s : self.plan.spec().symbols)
                       out[s.name.c_str()] = nb::make_tuple(s.lo, s.hi);
                     return out;
                   })
      .def_prop_ro("kernels",
                   [](const LoadedPlan& self) {
                     Strings out;
                     for (const PlanKernel& k : self.plan.spec().kernels) out.push_back(k.family);
                     return out;
                   })
      .def_prop_ro("notes",
                   [](const LoadedPlan& self) { return self.runtime ? self.runtime->notes() : Strings{}; })
      .def_prop_ro("compiled", [](const LoadedPlan& self) { return self.report.compiled; })
      .def_prop_ro("kept", [](const LoadedPlan& self) { return self.report.kept; })
      .def_prop_ro("trouble", [](const LoadedPlan& self) { return self.report.trouble; })
      .def("explain", explain_plan, nb::arg("sizes"))
      .def("choose", choose_variants, nb::arg("sizes"))
      .def("flush_wanted", [](const LoadedPlan& self) {
        if (self.runtime) unwrap(self.runtime->flush_wanted());
      });
  module.def("plan_graph", plan_graph, nb::arg("graph"), nb::arg("databases"), nb::arg("on_miss"),
             nb::arg("device"), nb::arg("cache") = "", nb::arg("record") = "");
  module.def("write_recordings", [] { unwrap(write_recordings()); });
  module.def("load_plan", load_plan, nb::arg("name"), nb::arg("databases"), nb::arg("on_miss"),
             nb::arg("device"));
}

}  // namespace loopwright::python
