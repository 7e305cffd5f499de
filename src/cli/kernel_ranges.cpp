#include "src/cli/kernel_ranges.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "src/driver/planner.h"

namespace loopwright::cli {
namespace {

bool lies_over(const Guard& guard) {
  return guard.alignment_bytes > 1 || std::any_of(guard.symbols.begin(), guard.symbols.end(), [](const SymbolGuard& s) { return s.multiple_of > 1; });
}

std::vector<std::int64_t> list_los(const Guard& guard) {
  std::vector<std::int64_t> los;
  for (const SymbolGuard& s : guard.symbols) los.push_back(s.lo);
  return los;
}

auto place_of(const db::BestRow& best) { return std::tie(best.device, best.toolchain, best.policy); }

using Names = std::map<std::string, std::string>;  ///< of the graph, by the workload's

Names list_names(const PlanSpec& spec, const PlanKernel& kernel) {
  Names names;
  for (std::size_t i = 0; i < kernel.symbols.size(); ++i)
    names[kernel.symbol_names[i]] = spec.symbols[static_cast<std::size_t>(kernel.symbols[i])].name;
  return names;
}

void rename(Guard& guard, const Names& names) {
  for (SymbolGuard& s : guard.symbols) {
    if (const auto name = names.find(s.name); name != names.end()) s.name = name->second;
  }
  std::sort(guard.symbols.begin(), guard.symbols.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
}

/// By position: kernel.symbols[i] is the workload's i-th symbol, and canonical names are in order of appearance.
Bindings rename_probe(const Bindings& values, const std::vector<Symbol>& workload, const std::vector<Symbol>& graph) {
  Bindings own;
  for (std::size_t i = 0; i < workload.size(); ++i) {
    if (const auto at = values.find(workload[i].name); at != values.end()) own[graph[i].name] = at->second;
  }
  return own;
}

}  // namespace

std::string name_schedule(const db::CandidateRow& candidate) {
  std::string out = candidate.template_name;
  const nlohmann::json picks = nlohmann::json::parse(candidate.picks, nullptr, false);
  for (const auto& [name, value] : picks.items()) out += " " + name + "=" + value.dump();
  return out;
}

namespace {

Result<std::vector<KernelRanges>> list_of_plan(const db::Query& query, const driver::Planned& planned) {
  std::vector<KernelRanges> out;
  for (std::size_t k = 0; k < planned.spec.kernels.size(); ++k) {
    const PlanKernel& kernel = planned.spec.kernels[k];
    KernelRanges own{.kernel = static_cast<int>(k), .family = kernel.family, .workload = kernel.workload};
    for (const std::int32_t s : kernel.symbols) own.symbols.push_back(planned.spec.symbols[static_cast<std::size_t>(s)]);
    LW_TRY(own.ranges, query.list_best({.workload = kernel.workload}));
    if (own.ranges.empty() && !kernel.strict_workload.empty()) {
      own.workload = kernel.strict_workload;
      LW_TRY(own.ranges, query.list_best({.workload = own.workload}));
    }
    const Names names = list_names(planned.spec, kernel);
    for (db::BestEntry& e : own.ranges) rename(e.range.guard, names);
    std::stable_sort(own.ranges.begin(), own.ranges.end(), [](const db::BestEntry& a, const db::BestEntry& b) {
      if (place_of(a.best) != place_of(b.best)) return place_of(a.best) < place_of(b.best);
      const bool over_a = lies_over(a.range.guard), over_b = lies_over(b.range.guard);
      return over_a != over_b ? over_a : list_los(a.range.guard) < list_los(b.range.guard);
    });
    out.push_back(std::move(own));
  }
  return out;
}

}  // namespace

Result<std::vector<KernelRanges>> list_kernel_ranges(const db::Query& query, const Graph& graph) {
  // Which kernels there are depends on the kind of device; the rows say which one was tuned.
  std::vector<KernelRanges> most;
  std::size_t most_tuned = 0;
  for (const TargetKind kind : {TargetKind::cpu, TargetKind::cuda}) {
    LW_TRY(const driver::Planned planned, driver::plan_graph(graph, kind));
    LW_TRY(std::vector<KernelRanges> kernels, list_of_plan(query, planned));
    std::size_t tuned = 0;
    for (const KernelRanges& k : kernels) tuned += k.ranges.size();
    if (!most.empty() && tuned <= most_tuned) continue;
    most_tuned = tuned;
    most = std::move(kernels);
  }
  return most;
}

void keep_newest(KernelRanges& kernel, const std::string& device) {
  std::erase_if(kernel.ranges, [&](const db::BestEntry& e) {
    return !device.empty() && !e.best.device.starts_with(device) && e.device_model.find(device) == std::string::npos;
  });
  if (kernel.ranges.empty()) return;
  const db::BestRow newest = std::max_element(kernel.ranges.begin(), kernel.ranges.end(), [](const auto& a, const auto& b) {
                               return a.best.updated_ns < b.best.updated_ns;
                             })->best;
  std::erase_if(kernel.ranges, [&](const db::BestEntry& e) { return place_of(e.best) != place_of(newest); });
}

Result<std::vector<MeasuredShape>> list_measured(const db::Query& query, const KernelRanges& kernel) {
  std::vector<MeasuredShape> out;
  if (kernel.ranges.empty()) return out;
  const db::BestRow& place = kernel.ranges.front().best;
  LW_TRY(const db::WorkloadRow row, query.find_workload(kernel.workload));
  LW_TRY(const graph::Workload workload, graph::parse_workload(row.text));
  LW_TRY(const auto probes, query.list_probes(kernel.workload));
  LW_TRY(const auto candidates, query.list_candidates(kernel.workload));
  LW_TRY(const auto trials, query.list_trials({.workload = kernel.workload, .device = place.device, .toolchain = place.toolchain, .policy = place.policy}));
  std::map<std::pair<db::Digest, db::Digest>, double> medians;  // by probe and candidate; the last one measured
  for (const db::TrialRow& t : trials) {
    if (t.outcome == Outcome::ok && t.n > 0) medians[{t.probe, t.candidate}] = t.median_ns;
  }
  // What was only searched was measured at other moments: finalists are those that were measured where nobody searches.
  std::set<db::Digest> finalists, defaults;
  for (const db::BestEntry& e : kernel.ranges) finalists.insert(e.best.candidate);
  for (const db::ProbeRow& p : probes) {
    if (p.role != "held_out" && p.role != "ragged") continue;
    for (const db::CandidateRow& c : candidates) {
      if (medians.contains({p.digest, c.digest})) finalists.insert(c.digest);
    }
  }
  for (const db::CandidateRow& c : candidates) {
    if (c.is_default) defaults.insert(c.digest), finalists.insert(c.digest);
  }
  for (const db::ProbeRow& p : probes) {
    MeasuredShape shape{.values = rename_probe(p.values, workload.graph.symbols(), kernel.symbols), .held_out = p.role == "held_out"};
    const auto server = std::find_if(kernel.ranges.begin(), kernel.ranges.end(), [&](const db::BestEntry& e) { return e.range.guard.holds(shape.values); });
    if (server == kernel.ranges.end()) continue;
    shape.range = static_cast<int>(server - kernel.ranges.begin());
    for (const db::Digest& c : finalists) {
      const auto at = medians.find({p.digest, c});
      if (at == medians.end()) continue;
      if (c == server->best.candidate) shape.served_ns = at->second;
      else shape.others_ns.push_back(at->second);
      if (defaults.contains(c)) shape.default_ns = at->second;
      shape.best_ns = shape.best_ns == 0 ? at->second : std::min(shape.best_ns, at->second);
    }
    if (shape.served_ns > 0) out.push_back(std::move(shape));
  }
  std::sort(out.begin(), out.end(), [](const MeasuredShape& a, const MeasuredShape& b) { return a.values < b.values; });
  return out;
}

}  // namespace loopwright::cli
