// Implements `make_plan` and `enable_jit` of compile.h.
#include <map>

#include "loopwright/compile.h"
#include "src/driver/build.h"
#include "src/driver/planner.h"
#include "src/runtime/jit_hook.h"
#include "src/runtime/lookup.h"
#include "src/runtime/plan.h"

namespace loopwright {
namespace {

/// The first template whose default picks are not rejected, compiled.
Result<Variant> compile_default(const graph::Workload& workload, const Target& target) {
  LW_TRY(const driver::Job job, driver::make_job(workload));
  Error last;
  for (const Template* t : driver::templates_for(job, target)) {
    Space space;
    const Result<driver::Scheduled> scheduled = driver::run_template(job, *t, space, target);
    const Result<Artifact> artifact =
        scheduled.ok() ? driver::build(*scheduled, target) : Result<Artifact>(scheduled.error());
    if (artifact.ok())
      return Variant{.guard = {},
                     .artifact = std::make_shared<const Artifact>(*artifact),
                     .label = std::string(t->name) + " (default schedule, compiled now)",
                     .match = Match::untuned};
    last = artifact.error();
  }
  return std::move(last).with_context("default schedule of workload " + workload.digest.substr(0, 12));
}

Result<std::shared_ptr<const Artifact>> compile_on_miss(std::string_view workload_text, const Guard&,
                                                        const Target& target) {
  LW_TRY(const graph::Workload workload, graph::parse_workload(workload_text));
  LW_TRY(const Variant variant, compile_default(workload, target));
  return variant.artifact;
}

}  // namespace

Result<Plan> make_plan(const Graph& graph, const PlanOptions& options) {
  LW_TRY(driver::Planned planned, driver::plan_graph(graph));
  LW_TRY(const auto device, options.device.empty() ? runtime::open_device_for(options.target)
                                                   : runtime::open_device(options.device));
  const std::vector<runtime::Layer> layers = runtime::open_layers(options.databases);
  const runtime::Lookup lookup(layers, *device);
  const OnMiss from_databases = options.on_miss == OnMiss::strict ? OnMiss::strict : OnMiss::fallback;
  runtime::PlanParts parts;
  parts.device = device;
  std::map<std::string, Variant> compiled;  // by digest: equal workloads are compiled once
  for (std::size_t k = 0; k < planned.spec.kernels.size(); ++k) {
    const PlanKernel& kernel = planned.spec.kernels[k];
    runtime::KernelVariants found = lookup.find_variants(kernel, planned.spec.symbols, from_databases);
    if (options.on_miss ==
        OnMiss::jit)  // a default compiled here serves better than code tuned for other sizes
      found.variants.erase(found.variants.end() - static_cast<std::ptrdiff_t>(found.stand_ins),
                           found.variants.end());
    if (options.on_miss == OnMiss::jit &&
        !runtime::has_general(found.variants, kernel, planned.spec.symbols)) {
      auto it = compiled.find(kernel.workload);
      if (it == compiled.end()) {
        LW_TRY(Variant variant, compile_default(planned.workloads[k], options.target));
        it = compiled.emplace(kernel.workload, std::move(variant)).first;
      }
      found.variants.push_back(it->second);
    }
    if (found.variants.empty())
      return Error{ErrorCode::no_variant, "a plan of " + graph.name(),
                   "no variant for kernel " + std::to_string(k) + " (" + kernel.family + ")",
                   found.notes.empty() ? "" : found.notes.front(),
                   "tune the graph, or allow compiling on a miss"};
    parts.variants.push_back(std::move(found.variants));
    parts.notes.push_back(std::move(found.notes));
  }
  parts.spec = std::move(planned.spec);
  return runtime::PlanAccess::make(std::move(parts));
}

void enable_jit() { runtime::set_jit_hook(compile_on_miss); }

}  // namespace loopwright
