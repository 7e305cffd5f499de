// Implements `show` of compile.h.
#include <map>
#include <set>

#include "loopwright/compile.h"
#include "src/codegen/cuda/emit.h"
#include "src/codegen/llvm/jit.h"
#include "src/driver/build.h"
#include "src/driver/planner.h"
#include "src/graph/group.h"
#include "src/ir/text.h"
#include "src/lower/passes.h"

namespace loopwright {
namespace {

/// Whether the text of a kernel comes of it; nothing is compiled.
Status check_emits(const driver::Scheduled& scheduled, const Target& target) {
  LW_TRY(const ir::Kernel emittable, driver::lower_kernel(scheduled.kernel, target));
  if (target.kind != TargetKind::cuda) return Unit{};
  const Result<codegen::CudaText> text = codegen::emit_cuda(emittable, target, "kernel");
  return text.ok() ? Status(Unit{}) : Status(text.error());
}

/// The trace's, the named template's, or that of the first template that code comes of: what serves as the default.
Result<driver::Scheduled> schedule(const driver::Job& job, const ShowOptions& options) {
  if (!options.trace.empty()) return driver::replay(job, options.trace);
  std::string names;
  std::optional<Error> rejection;  // of the template in front
  for (const Template* t : driver::templates_for(job, options.target)) {
    names += (names.empty() ? "" : ", ") + std::string(t->name);
    if (!options.template_name.empty() && options.template_name != t->name) continue;
    Space space(options.picks);
    Result<driver::Scheduled> scheduled = driver::run_template(job, *t, space, options.target);
    if (!options.template_name.empty()) return scheduled;
    const Status emits = scheduled.ok() ? check_emits(*scheduled, options.target) : Status(scheduled.error());
    if (emits.ok()) return scheduled;
    rejection = emits.error();
  }
  if (rejection) return *rejection;
  return Error{ErrorCode::no_template, "template " + options.template_name,
               "it does not apply to this kernel", "", names};
}

/// Picks that no template asked for, and what was asked for instead.
struct UnknownPicks {
  std::map<std::string, std::int64_t> unknown;
  std::set<std::string> known;

  explicit UnknownPicks(const Picks& given) {
    for (const Pick& p : given) unknown[p.name] = p.value;
  }
  /// A template took its value from `given` where the value was in the pick's domain.
  void meet(const Picks& asked) {
    for (const Pick& p : asked) {
      known.insert(p.name);
      const auto at = unknown.find(p.name);
      if (at != unknown.end() && at->second == p.value) unknown.erase(at);
    }
  }
  Status check() const {
    if (unknown.empty()) return Unit{};
    const auto& [name, value] = *unknown.begin();
    std::string names;
    for (const std::string& k : known) names += (names.empty() ? "" : ", ") + k;
    return Error{ErrorCode::unknown_name, "pick " + name + "=" + std::to_string(value),
                 known.contains(name) ? "the value is not in the pick's domain" : "no template asked for such a pick", "--picks",
                 names.empty() ? "no picks: the template has none" : "picks " + names};
  }
};

Result<std::string> show_group(const graph::Workload& workload, Form form, const ShowOptions& options, UnknownPicks& picks) {
  if (form == Form::groups) return workload.text;
  LW_TRY(const driver::Job job, driver::make_job(workload));
  if (form == Form::naive) return ir::print(job.naive);
  LW_TRY(const driver::Scheduled scheduled, schedule(job, options));
  picks.meet(scheduled.picks);
  if (form == Form::scheduled) return ir::print(scheduled.kernel);
  if (form == Form::trace) return scheduled.trace;
  if (form == Form::flat) {
    LW_TRY(const ir::Kernel flat,
           lower::lower_to(scheduled.kernel, ir::Level::flat, {.target = options.target}));
    return ir::print(flat);
  }
  LW_TRY(const ir::Kernel emittable, driver::lower_kernel(scheduled.kernel, options.target));
  if (form == Form::emittable) return ir::print(emittable);
  if (options.target.kind == TargetKind::cuda) {
    if (form == Form::assembly) return codegen::cuda_assembly(emittable, options.target);
    LW_TRY(const codegen::CudaText text, codegen::emit_cuda(emittable, options.target, "kernel"));
    return codegen::cuda_program(text.functions);
  }
  LW_TRY(const codegen::CpuTarget cpu, codegen::parse_cpu_target(options.target.text()));
  if (form == Form::source) return codegen::llvm_ir_text(emittable, cpu);
  return codegen::assembly_text(emittable, cpu);
}

}  // namespace

Result<std::string> show(const Graph& graph, Form form, const ShowOptions& options) {
  if (form == Form::graph) return graph.text();
  LW_CHECK(graph::check_computes(graph));
  const std::vector<graph::Group> groups = graph::group_ops(graph, driver::grouping_for(options.target.kind));
  const int count = static_cast<int>(groups.size());
  if (options.group >= count)
    return Error{ErrorCode::out_of_range, "group " + std::to_string(options.group),
                 "the graph has " + std::to_string(count), "", "0 to " + std::to_string(count - 1)};
  std::string out;
  UnknownPicks picks(options.picks);
  for (int g = 0; g < count; ++g) {
    if (options.group >= 0 && options.group != g) continue;
    const graph::Workload workload = graph::make_workload(groups[static_cast<std::size_t>(g)].graph);
    const Result<std::string> text = show_group(workload, form, options, picks);
    if (!text.ok())
      return Error(text.error()).with_context("group " + std::to_string(g) + " (" + workload.family + ")");
    if (options.group < 0)
      out +=
          "# group " + std::to_string(g) + ": " + workload.family + " " + workload.digest.substr(0, 8) + "\n";
    out += *text;
    if (!out.empty() && out.back() != '\n') out += '\n';
  }
  if (form != Form::groups && form != Form::naive && options.trace.empty()) LW_CHECK(picks.check());
  return out;
}

}  // namespace loopwright
