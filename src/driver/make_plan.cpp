// Implements `make_plan` and `enable_jit` of compile.h.
#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <optional>
#include <thread>

#include "loopwright/compile.h"
#include "src/driver/build.h"
#include "src/driver/planner.h"
#include "src/runtime/jit_hook.h"
#include "src/runtime/lookup.h"
#include "src/runtime/plan.h"

namespace loopwright {
namespace {

/// What a variant may assume of addresses.
enum class Addresses : std::uint8_t { aligned, any };

/// The first template whose default picks are not rejected, compiled. For any addresses: the first whose code assumes no
/// more of them than the dtypes ask for; not every template has such a variant.
Result<Variant> compile_default(const graph::Workload& workload, const Target& target, Addresses addresses) {
  LW_TRY(const driver::Job job, driver::make_job(workload));
  Error last;
  for (const Template* t : driver::templates_for(job, target)) {
    Space space(addresses == Addresses::any ? Picks{{"aligned", 0}} : Picks{});
    const Result<driver::Scheduled> scheduled = driver::run_template(job, *t, space, target);
    const Result<Artifact> artifact =
        scheduled.ok() ? driver::build(*scheduled, target) : Result<Artifact>(scheduled.error());
    const bool fits = artifact.ok() && (addresses == Addresses::aligned || artifact->guard.alignment_bytes <= 1);
    if (fits)
      return Variant{.guard = {},
                     .artifact = std::make_shared<const Artifact>(*artifact),
                     .label = std::string(t->name) + " (default schedule, compiled now)",
                     .match = Match::untuned};
    if (!artifact.ok()) last = artifact.error();
  }
  return std::move(last).with_context("default schedule of workload " + workload.digest.substr(0, 12));
}

/// The default, and where it assumes aligned addresses another one behind it that does not: views may begin anywhere.
Result<std::vector<Variant>> compile_defaults(const graph::Workload& workload, const Target& target) {
  std::vector<Variant> out;
  LW_TRY(Variant first, compile_default(workload, target, Addresses::aligned));
  out.push_back(std::move(first));
  if (out.front().artifact->guard.alignment_bytes <= 1) return out;
  LW_TRY(Variant unaligned, compile_default(workload, target, Addresses::any));
  out.push_back(std::move(unaligned));
  return out;
}

/// Default schedules of workloads that differ.
class Defaults {
 public:
  /// Asks for a workload, which outlives this object; equal ones are compiled once.
  void want(const graph::Workload& workload) { by_digest_.try_emplace(workload.digest, Entry{&workload, {}, {}}); }
  /// Compiles on all cores what is wanted.
  void compile(const Target& target) {
    std::vector<Entry*> entries;
    for (auto& [digest, entry] : by_digest_) entries.push_back(&entry);
    std::atomic<std::size_t> next{0};
    const auto work = [&] {
      for (std::size_t i = next++; i < entries.size(); i = next++) {
        try {
          entries[i]->variants = compile_defaults(*entries[i]->workload, target);
        } catch (...) {
          entries[i]->thrown = std::current_exception();  // for the thread that asks for it
        }
      }
    };
    std::vector<std::jthread> others;  // the calling thread is one more
    const std::size_t most = std::max(1U, std::thread::hardware_concurrency());
    for (std::size_t t = 1; t < std::min(most, entries.size()); ++t) others.emplace_back(work);
    work();
  }
  /// Of a workload that was wanted, after `compile`.
  const Result<std::vector<Variant>>& of(const graph::Workload& workload) const {
    const Entry& entry = by_digest_.at(workload.digest);
    if (entry.thrown) std::rethrow_exception(entry.thrown);
    return *entry.variants;
  }

 private:
  struct Entry {
    const graph::Workload* workload;
    std::optional<Result<std::vector<Variant>>> variants;
    std::exception_ptr thrown;
  };
  std::map<std::string, Entry> by_digest_;
};

Result<std::vector<std::shared_ptr<const Artifact>>> compile_on_miss(std::string_view workload_text, const Target& target) {
  LW_TRY(const graph::Workload workload, graph::parse_workload(workload_text));
  LW_TRY(const std::vector<Variant> variants, compile_defaults(workload, target));
  std::vector<std::shared_ptr<const Artifact>> out;
  for (const Variant& v : variants) out.push_back(v.artifact);
  return out;
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
  std::vector<runtime::KernelVariants> found;
  std::vector<bool> lacks_general;
  Defaults defaults;
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
  defaults.compile(options.target);
  for (std::size_t k = 0; k < found.size(); ++k) {
    if (lacks_general[k]) {
      LW_TRY(const std::vector<Variant>& variants, defaults.of(planned.workloads[k]));
      found[k].variants.insert(found[k].variants.end(), variants.begin(), variants.end());
    }
    if (found[k].variants.empty())
      return Error{ErrorCode::no_variant, "a plan of " + graph.name(),
                   "no variant for kernel " + std::to_string(k) + " (" + planned.spec.kernels[k].family + ")",
                   found[k].notes.empty() ? "" : found[k].notes.front(),
                   "tune the graph, or allow compiling on a miss"};
    parts.variants.push_back(std::move(found[k].variants));
    parts.notes.push_back(std::move(found[k].notes));
  }
  parts.spec = std::move(planned.spec);
  return runtime::PlanAccess::make(std::move(parts));
}

void enable_jit() { runtime::set_jit_hook(compile_on_miss); }

}  // namespace loopwright
