#include "src/runtime/lookup.h"

#include <algorithm>
#include <cstdio>
#include <tuple>

#include "src/runtime/jit_hook.h"
#include "src/support/text.h"

namespace loopwright::runtime {
namespace {

std::string label_of(const db::CandidateRow& candidate) {
  return candidate.template_name +
         (candidate.picks.empty() || candidate.picks == "{}" ? "" : " " + candidate.picks);
}

/// A program without compiler does not know what built the binaries: it takes the file's newest toolchain of its own
/// generator version and kind of device as its own; those of GPUs name a driver.
db::DeviceMatch describe_asker(const Device& device, const db::Query& query) {
  db::DeviceMatch match;
  match.device = device.fingerprint();
  match.toolchain = current_toolchain({});
  const bool on_gpu = device.target().kind == TargetKind::cuda;
  if (auto toolchains = query.list_toolchains(); toolchains.ok())
    for (const db::ToolchainRow& row : *toolchains)
      if (row.generator == kGeneratorVersion && row.driver.empty() != on_gpu) match.toolchain = row;
  return match;
}

std::string list_known_plans(const std::vector<Layer>& layers) {
  std::vector<std::string> names;
  for (const Layer& layer : layers) {
    if (!layer.query) continue;
    if (auto plans = layer.query->list_plans(); plans.ok())
      for (const db::PlanRow& plan : *plans)
        names.push_back(plan.name + " (" + plan.graph_digest.substr(0, 12) + ", " + layer.path + ")");
  }
  return names.empty() ? "a database with plans: run `loopwright tune`"
                       : "one of: " + text::join(names, ", ");
}

}  // namespace

bool has_general(const std::vector<Variant>& variants, const PlanKernel& kernel,
                 const std::vector<Symbol>& symbols) {
  const auto covers = [&](const Variant& variant) {
    const Guard guard = Guard::both(variant.guard, variant.artifact->guard);
    const auto covers_symbol = [&](const SymbolGuard& g) {
      const auto it = std::find(kernel.symbol_names.begin(), kernel.symbol_names.end(), g.name);
      if (it == kernel.symbol_names.end() || g.multiple_of != 1) return false;
      const Symbol& symbol = symbols[static_cast<std::size_t>(
          kernel.symbols[static_cast<std::size_t>(it - kernel.symbol_names.begin())])];
      return g.lo <= symbol.lo && g.hi >= symbol.hi;
    };
    return guard.alignment_bytes <= 1 &&
           std::all_of(guard.symbols.begin(), guard.symbols.end(), covers_symbol);
  };
  return std::any_of(variants.begin(), variants.end(), covers);
}

std::vector<Layer> open_layers(const std::vector<std::string>& paths) {
  std::vector<Layer> layers;
  for (const std::string& path : paths) {
    Layer layer;
    layer.path = path;
    if (auto query = db::Query::open(path); query.ok()) {
      const auto generation = query->generation();
      layer.note = path + ": opened, " + query->access() + (generation.ok() ? ", generation " + std::to_string(*generation) : "");
      layer.query = std::move(query).value();
    } else {
      layer.note =
          path + ": not used: " + query.error().message() + "; the other databases are searched without it";
    }
    layers.push_back(std::move(layer));
  }
  return layers;
}

Result<PlanSpec> find_plan(const std::vector<Layer>& layers, const std::string& name_or_digest) {
  std::string trouble;
  for (const Layer& layer : layers) {
    if (!layer.query) {
      trouble += "\n" + layer.note;
      continue;
    }
    auto row = layer.query->find_plan(name_or_digest);
    if (!row.ok()) {
      if (row.error().code != ErrorCode::not_found)
        trouble += "\n" + layer.path + ": " + row.error().message();
      continue;
    }
    auto spec = PlanSpec::parse(row->plan_json);
    if (spec.ok()) return spec;
    trouble += "\n" + layer.path + ": " + spec.error().message();
  }
  return Error{
      ErrorCode::not_found, "find the plan `" + name_or_digest + "`",
      "no readable plan of that name or graph digest in " + std::to_string(layers.size()) +
          (layers.size() == 1 ? " database" : " databases"),
      trouble.empty() ? "" : trouble.substr(1), list_known_plans(layers)};
}

struct Lookup::Found {
  Variant variant;
  bool is_stricter = false;  ///< of the strict workload
  bool is_stale = false;
  double distance = 0;    ///< between the devices
  std::size_t order = 0;  ///< layer first, then place within the file
};

KernelVariants Lookup::find_variants(const PlanKernel& kernel, const std::vector<Symbol>& symbols,
                                     OnMiss on_miss) const {
  KernelVariants out;
  std::vector<Found> found;
  for (const Layer& layer : layers_)
    if (layer.query) read_layer(layer, kernel, kernel.workload, found, out);
  for (const Layer& layer : layers_)
    if (layer.query && !kernel.strict_workload.empty()) read_layer(layer, kernel, kernel.strict_workload, found, out);
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    const bool a_untuned = a.variant.match == Match::untuned, b_untuned = b.variant.match == Match::untuned;
    return std::tie(a_untuned, a.is_stricter, a.variant.match, a.is_stale, a.distance, a.order) <
           std::tie(b_untuned, b.is_stricter, b.variant.match, b.is_stale, b.distance, b.order);
  });

  std::vector<Found> tuned;
  for (Found& item : found) {
    const auto same = [&](const Found& kept) { return kept.variant.guard == item.variant.guard; };
    if (item.variant.match == Match::untuned) continue;
    if (std::any_of(tuned.begin(), tuned.end(), same)) {
      out.notes.push_back(item.variant.label + " for " + item.variant.guard.text() +
                          ": a more important row has the same range");
      continue;
    }
    tuned.push_back(std::move(item));
  }
  for (const Found& item : tuned) out.variants.push_back(item.variant);
  if (on_miss == OnMiss::strict) return out;
  for (Found& item : found)
    if (item.variant.match == Match::untuned && item.variant.artifact != nullptr)
      out.variants.push_back(std::move(item.variant));
  // A default schedule is made for every size: better compiled now than code that was tuned for other sizes.
  if (on_miss == OnMiss::jit && !has_general(out.variants, kernel, symbols)) add_compiled(out);
  if (!has_general(out.variants, kernel, symbols)) add_stand_ins(tuned, out);
  return out;
}

void Lookup::read_layer(const Layer& layer, const PlanKernel& kernel, const std::string& workload, std::vector<Found>& found,
                        KernelVariants& out) const {
  const db::Query& query = *layer.query;
  if (auto row = query.find_workload(workload); row.ok()) {
    if (out.workload_text.empty() && workload == kernel.workload) out.workload_text = row->text;
  }
  auto list = query.find_variants(workload, describe_asker(device_, query));
  if (!list.ok()) {
    out.notes.push_back(layer.path + ": " + list.error().message());
    return;
  }
  if (list->damaged_rows > 0)
    out.notes.push_back(layer.path + ": " + std::to_string(list->damaged_rows) +
                        " damaged rows; run `loopwright db doctor`");
  const std::string rebuild = device_.target().kind == TargetKind::cuda ? "`loopwright db rebuild --device cuda`" : "`loopwright db rebuild`";
  if (list->unverified > 0)
    out.notes.push_back(layer.path + ": " + std::to_string(list->unverified) +
                        " imported winners are not verified here yet; run " + rebuild);
  for (const db::Variant& row : list->variants) {
    const auto leave_out = [&](const std::string& why) {
      out.notes.push_back(layer.path + ": " + label_of(row.candidate) + " for " + row.guard.text() + ": " +
                          why);
    };
    const auto is_known = [&](const SymbolGuard& s) {
      return std::find(kernel.symbol_names.begin(), kernel.symbol_names.end(), s.name) != kernel.symbol_names.end();
    };
    const auto strange = std::find_if_not(row.guard.symbols.begin(), row.guard.symbols.end(), is_known);
    if (strange != row.guard.symbols.end()) {
      leave_out("`" + strange->name + "` is not a symbol of the workload");
      continue;
    }
    if (row.artifact.empty()) {
      leave_out("no machine code for this machine is stored; " + rebuild + " makes it from its trace");
      continue;
    }
    if (row.artifact_is_foreign) {
      leave_out("its machine code came from another database and is not loaded; " + rebuild + " makes it from its trace");
      continue;
    }
    auto artifact = query.load_artifact(row.artifact);
    if (!artifact.ok()) {
      leave_out(artifact.error().message());
      continue;
    }
    if (const Status runs = check_runs_on(device_.target(), artifact->target); !runs.ok()) {
      leave_out(runs.error().message());
      continue;
    }
    Variant variant;
    variant.guard = row.guard;
    variant.artifact = std::make_shared<const Artifact>(std::move(artifact).value());
    variant.label = label_of(row.candidate);
    if (!row.mismatch.empty() && row.quality != Match::untuned) variant.label += " [" + row.mismatch + "]";
    variant.loss_mean = row.best.mean_loss;
    variant.loss_worst = row.best.worst_loss;
    variant.match = row.quality;
    const bool is_stricter = workload != kernel.workload;
    if (is_stricter) variant.label += " [strict]";
    variant.origin = row.quality == Match::untuned ? Origin::stored : Origin::tuned;
    variant.median_ns = row.best.median_ns;
    found.push_back({std::move(variant), is_stricter, row.best.state == db::BestState::stale, row.distance, found.size()});
  }
}

/// Code that was tuned for a range is right wherever its own guard holds: better a variant tuned for other sizes than
/// none.
void Lookup::add_stand_ins(const std::vector<Found>& tuned, KernelVariants& out) {
  for (const Found& item : tuned) {
    Variant variant = item.variant;
    if (variant.guard == variant.artifact->guard) continue;
    variant.guard = Guard{};
    variant.match = Match::untuned;
    variant.origin = Origin::stored;
    variant.median_ns = 0;
    variant.label += " (outside its tuned range)";
    out.variants.push_back(std::move(variant));
    ++out.stand_ins;
  }
}

void Lookup::add_compiled(KernelVariants& out) const {
  const JitHook hook = find_jit_hook();
  if (hook == nullptr || out.workload_text.empty()) {
    out.notes.push_back(hook == nullptr ? "not compiled: link loopwright_compiler and call enable_jit()"
                                        : "not compiled: no database holds the workload's text");
    return;
  }
  auto artifacts = hook(out.workload_text, device_.target());
  if (!artifacts.ok()) {
    out.notes.push_back("compiling the default schedule failed: " + artifacts.error().message());
    return;
  }
  for (std::shared_ptr<const Artifact>& artifact : *artifacts) {
    Variant variant;
    variant.artifact = std::move(artifact);
    variant.label = "default schedule, compiled now";
    variant.match = Match::untuned;
    out.variants.push_back(std::move(variant));
  }
}

std::string Lookup::explain(const PlanKernel& kernel, const Bindings& values) const {
  std::string out;
  for (const Layer& layer : layers_) {
    out += "  " + layer.path + ": ";
    if (!layer.query) {
      out += "not used\n";
      continue;
    }
    out += explain_workload(*layer.query, kernel.workload, values);
    if (!kernel.strict_workload.empty()) out += "    in strict accuracy: " + explain_workload(*layer.query, kernel.strict_workload, values);
  }
  return out;
}

std::string Lookup::explain_workload(const db::Query& query, const std::string& workload, const Bindings& values) const {
  constexpr std::size_t kAlternatives = 5;
  auto answer = query.explain(workload, describe_asker(device_, query), values, kBlockAlignment);
  if (!answer.ok()) return std::string(name(answer.error().code)) + ": " + answer.error().found + "\n";
  std::string out = answer->summary + "\n";
  for (const db::Considered& item : answer->considered)
    out += "    " + label_of(item.variant.candidate) + ", " + item.variant.guard.text() + ": " + item.reason + "\n";
  for (std::size_t i = 0; i < std::min(kAlternatives, answer->alternatives.size()); ++i) {
    const db::Alternative& item = answer->alternatives[i];
    char ratio[64];
    std::snprintf(ratio, sizeof ratio, "%.0f ns, %.2fx the best", item.median_ns, item.ratio);
    out += "    measured nearby: " + label_of(item.candidate) + ": " + ratio + "\n";
  }
  return out;
}

}  // namespace loopwright::runtime
