// Implements `make_plan` and `enable_jit` of compile.h.
#include "loopwright/compile.h"

#include <map>

#include "src/driver/defaults.h"
#include "src/driver/kept_defaults.h"
#include "src/driver/planner.h"
#include "src/driver/recording.h"
#include "src/runtime/jit_hook.h"
#include "src/runtime/lookup.h"
#include "src/runtime/plan.h"

namespace loopwright {
namespace {

Result<std::vector<std::shared_ptr<const Artifact>>> compile_on_miss(std::string_view workload_text, const Target& target) {
  LW_TRY(const graph::Workload workload, graph::parse_workload(workload_text));
  LW_TRY(const std::vector<driver::Default> defaults, driver::compile_defaults(workload, target));
  std::vector<std::shared_ptr<const Artifact>> out;
  for (const driver::Default& d : defaults) out.push_back(d.variant.artifact);
  return out;
}

/// Default schedules for the kernels of a plan that lack a general variant: kept ones, else compiled together.
class DefaultSource {
 public:
  DefaultSource(const PlanOptions& options) : target_(options.target), kept_(options.cache, options.target) {}

  void want(const graph::Workload& workload) {
    if (known_.contains(workload.digest)) return;
    std::vector<Variant>& variants = known_[workload.digest];
    variants = kept_.find(workload);
    if (variants.empty()) compiled_.want(workload), missing_.push_back(&workload);
    else ++found_;
  }
  Status compile() {
    compiled_.compile(target_);
    for (const graph::Workload* workload : missing_) {
      LW_TRY(std::vector<driver::Default> made, compiled_.of(*workload));
      for (const driver::Default& d : made) known_[workload->digest].push_back(d.variant);
      kept_.add(*workload, std::move(made));
    }
    kept_.write();
    return Unit{};
  }
  const std::vector<Variant>& of(const graph::Workload& workload) const { return known_.at(workload.digest); }
  PlanReport report() const { return {static_cast<int>(missing_.size()), found_, kept_.trouble()}; }

 private:
  const Target& target_;
  driver::KeptDefaults kept_;
  driver::Defaults compiled_;
  std::map<std::string, std::vector<Variant>> known_;
  std::vector<const graph::Workload*> missing_;
  int found_ = 0;
};

}  // namespace

Result<Plan> make_plan(const Graph& graph, const PlanOptions& options, PlanReport* report) {
  LW_TRY(driver::Planned planned, driver::plan_graph(graph, options.target.kind));
  LW_TRY(const auto device, options.device.empty() ? runtime::open_device_for(options.target)
                                                   : runtime::open_device(options.device));
  const std::vector<runtime::Layer> layers = runtime::open_layers(options.databases);
  const runtime::Lookup lookup(layers, *device);
  const OnMiss from_databases = options.on_miss == OnMiss::strict ? OnMiss::strict : OnMiss::fallback;
  runtime::PlanParts parts;
  parts.device = device;
  std::vector<runtime::KernelVariants> found;
  std::vector<bool> lacks_general;
  DefaultSource defaults(options);
  for (std::size_t k = 0; k < planned.spec.kernels.size(); ++k) {
    const PlanKernel& kernel = planned.spec.kernels[k];
    found.push_back(lookup.find_variants(kernel, planned.spec.symbols, from_databases));
    std::vector<Variant>& variants = found.back().variants;
    if (options.on_miss ==
        OnMiss::jit)  // a default compiled here serves better than code tuned for other sizes
      variants.erase(variants.end() - static_cast<std::ptrdiff_t>(found.back().stand_ins), variants.end());
    lacks_general.push_back(options.on_miss == OnMiss::jit &&
                            !runtime::has_general(variants, kernel, planned.spec.symbols));
    if (lacks_general.back()) defaults.want(planned.workloads[k]);
  }
  LW_CHECK(defaults.compile());
  if (report != nullptr) *report = defaults.report();
  for (std::size_t k = 0; k < found.size(); ++k) {
    if (lacks_general[k]) {
      const std::vector<Variant>& variants = defaults.of(planned.workloads[k]);
      found[k].variants.insert(found[k].variants.end(), variants.begin(), variants.end());
    }
    if (found[k].variants.empty())
      return Error{ErrorCode::no_variant, "a plan of " + graph.name(),
                   "no variant for kernel " + std::to_string(k) + " (" + planned.spec.kernels[k].family + ")",
                   found[k].notes.empty() ? "" : found[k].notes.front(),
                   "tune the graph, or allow compiling on a miss"};
    parts.variants.push_back(std::move(found[k].variants));
    parts.notes.push_back(std::move(found[k].notes));
    if (!options.record.empty())
      parts.misses.push_back(driver::find_recording(options.record, planned.workloads[k], planned.spec.kernels[k].symbol_names));
  }
  parts.spec = std::move(planned.spec);
  return runtime::PlanAccess::make(std::move(parts));
}

Status write_recordings() { return driver::write_recordings(); }

void enable_jit() { runtime::set_jit_hook(compile_on_miss); }

}  // namespace loopwright
