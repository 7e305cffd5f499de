// quickstart: the whole way once. Tune what the database does not hold, look it up, run it, check it, compare.
#include <algorithm>
#include <memory>

#include "db/query.h"
#include "loopwright/runtime.h"
#include "src/cli/command.h"
#include "src/cli/comparison.h"
#include "src/cli/output.h"
#include "src/cli/report.h"
#include "src/cli/tune_files.h"
#include "src/support/digest.h"
#include "tuner/tuner.h"

namespace loopwright::cli {
namespace {

struct QuickstartArguments {
  std::vector<std::string> files;
  std::string database = "loopwright.db", budget = "60s";
};

/// Whether a search for each kernel of the graph came to its end on just this machine. A plan alone says little: it is
/// stored when a run begins.
Result<bool> is_tuned(const std::string& database, const Graph& graph, const db::DeviceMatch& here) {
  LW_TRY(const db::Query query, db::Query::open(database));
  LW_TRY(const db::PlanRow plan, query.find_plan(sha256_hex(graph.text())));
  LW_TRY(const PlanSpec spec, PlanSpec::parse(plan.plan_json));
  for (const PlanKernel& kernel : spec.kernels) {
    LW_TRY(db::VariantList found, query.find_variants(kernel.workload, here));
    if (found.variants.empty() && !kernel.strict_workload.empty()) {
      LW_TRY(found, query.find_variants(kernel.strict_workload, here));
    }
    const auto is_whole = [](const db::Variant& v) { return v.best.complete && !v.artifact.empty() && !v.artifact_is_foreign; };
    if (std::none_of(found.variants.begin(), found.variants.end(), is_whole)) return false;
  }
  return true;
}

Result<Exit> run_quickstart(const QuickstartArguments& a, const Context& context) {
  LW_TRY(const double budget_s, parse_duration_s(a.budget));
  TuneOptions options;
  options.database = a.database;
  LW_TRY(options.target, find_target(options.device));
  const tuner::Workbench bench = tuner::make_workbench();
  db::DeviceMatch here{.toolchain = bench.toolchain(options), .policy = {}, .worst = Match::exact};
  LW_TRY(here.device, bench.fingerprint(options));
  std::vector<std::string> missing;
  for (const std::string& file : a.files) {
    LW_TRY(const Graph graph, Graph::load(file));
    const Result<bool> tuned = is_tuned(a.database, graph, here);
    if (!tuned.ok() || !*tuned) missing.push_back(file);  // what is wrong with the file tuning says
  }
  if (missing.empty()) {
    print_note(a.database + " holds tuned kernels for every graph: nothing to tune", context.json);
  } else {
    LW_TRY(const std::vector<TuneReport> reports, tune_files(missing, options, budget_s, {}, context));
    const bool is_cancelled = reports.back().cancelled;
    // One document: the tuning's when it is all there is.
    const Exit exit = context.json && !is_cancelled ? kOk : print_reports(reports, a.database, context.json);
    if (is_cancelled) return exit;
    if (stop_watching_interrupts()) return kPartial;  // it came when the last trial was over
  }
  std::vector<ComparisonRow> rows;
  for (const std::string& file : a.files) {
    LW_TRY(const Graph graph, Graph::load(file));
    LW_TRY(auto more, compare_default_and_tuned(graph, {a.database}, typical_shapes(graph), "cpu", 1, context));
    rows.insert(rows.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  }
  return print_comparison(rows, context.json);
}

}  // namespace

void add_quickstart(CLI::App& app, Context& context) {
  auto a = std::make_shared<QuickstartArguments>();
  CLI::App* command = app.add_subcommand("quickstart", "tune, look up, run, check and compare in one go");
  command->add_option("files", a->files, "graph files (.lw)")->required()->check(CLI::ExistingFile);
  command->add_option("--db", a->database, "the database; made when missing")->capture_default_str();
  command->add_option("--budget", a->budget, "wall time for tuning")->capture_default_str();
  set_body(command, context, [a, &context] { return run_quickstart(*a, context); });
}

}  // namespace loopwright::cli
