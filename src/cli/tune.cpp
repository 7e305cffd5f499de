// tune, resume.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "loopwright/runtime.h"
#include "loopwright/tune.h"
#include "src/cli/command.h"
#include "src/cli/output.h"
#include "src/cli/progress.h"
#include "src/cli/report.h"
#include "src/cli/shapes_file.h"
#include "src/cli/tune_files.h"

namespace loopwright::cli {
namespace {

struct TuneArguments {
  std::vector<std::string> files;
  bool wanted = false;
  std::string budget = "5m";
  TuneOptions options;
  ShapeRequest shapes;
  bool no_cost_model = false;
};

constexpr int kMostBuildThreads = 1024;

/// `tokens=4096,batch=2` → one probe.
Result<std::vector<Bindings>> parse_probes(const std::vector<std::string>& texts, const Graph& graph) {
  std::vector<Bindings> probes;
  for (const std::string& text : texts) {
    std::vector<std::string> parts;
    for (std::size_t at = 0; at <= text.size();) {
      const std::size_t comma = std::min(text.find(',', at), text.size());
      parts.push_back(text.substr(at, comma - at));
      at = comma + 1;
    }
    LW_TRY(Bindings probe, parse_bindings(parts, graph.symbols(), [](const Symbol& s) { return s.hi; }, "--shapes"));
    probes.push_back(std::move(probe));
  }
  return probes;
}

/// Ends the process when a run is stopped and does not come to its end in time: the compiler has no other way out.
TuneStop stop_at_once(ProgressView& view, const std::string& database, const Context& context) {
  return {.cancel = &watch_interrupts(), .abandon = [&view, database, json = context.json](const std::vector<TuneReport>& reports) {
            view.finish();
            const Exit exit = print_reports(reports, database, json);
            std::fflush(stdout);
            std::fflush(stderr);
            std::_Exit(exit);
          }};
}

/// `go` with a view of its progress.
using Tuning = std::function<Result<std::vector<TuneReport>>(const TuneOptions&, const TuneObserver&, const TuneStop&)>;
Result<std::vector<TuneReport>> watch(TuneOptions options, double budget_s, const Context& context, const Tuning& go) {
  LW_TRY(options.target, find_target(options.device));
  note_older_driver(options.target, context);
  options.budget_s = budget_s;
  options.command_line = context.command_line;
  ProgressView view(ProgressView::choose(context.json, context.plain));
  return go(options, [&](const TuneProgress& p) { view.update(p); }, stop_at_once(view, options.database, context));
}

Result<Exit> run_tune(TuneArguments arguments, const Context& context) {
  const bool has_shapes = !arguments.shapes.probes.empty() || !arguments.shapes.counted_in.empty() || !arguments.shapes.accuracy.empty();
  if (arguments.wanted == !arguments.files.empty() || (arguments.wanted && has_shapes))
    return Error{ErrorCode::wrong_arguments, "tune", arguments.wanted ? "--wanted beside files, --shapes, --shapes-from or --accuracy" : "neither files nor --wanted",
                 "", "graph files, with shapes or without; or --wanted alone, which takes what programs asked the database for"};
  LW_TRY(const double budget_s, parse_duration_s(arguments.budget));
  arguments.options.cost_model = !arguments.no_cost_model;
  LW_TRY(const std::vector<TuneReport> reports,
         arguments.wanted ? watch(arguments.options, budget_s, context, tune_wanted)
                          : tune_files(arguments.files, arguments.options, budget_s, arguments.shapes, context));
  if (arguments.wanted && reports.empty()) {
    if (context.json) print_json(nlohmann::json::array());
    else fmt::print("nothing is wanted of {}\n", arguments.options.database);
    return Exit::kOk;
  }
  return print_reports(reports, arguments.options.database, context.json);
}

Result<Exit> run_resume(const std::string& database, const std::string& run, const Context& context) {
  ProgressView view(ProgressView::choose(context.json, context.plain));
  LW_TRY(const std::vector<TuneReport> reports,
         resume(database, run, [&](const TuneProgress& p) { view.update(p); }, stop_at_once(view, database, context)));
  view.finish();
  return print_reports(reports, database, context.json);
}

}  // namespace

Result<std::vector<TuneReport>> tune_files(const std::vector<std::string>& files, TuneOptions options, double budget_s,
                                           const ShapeRequest& shapes, const Context& context) {
  std::vector<TuneJob> jobs;
  for (const std::string& file : files) {
    LW_TRY(Graph graph, load_graph(file, shapes.accuracy));
    LW_TRY(auto probes, parse_probes(shapes.probes, graph));
    std::vector<ShapeCount> counts;
    if (!shapes.counted_in.empty()) {
      LW_TRY(counts, read_shape_counts(shapes.counted_in, graph.symbols()));
    }
    jobs.push_back({std::move(graph), std::move(probes), std::move(counts)});
  }
  return watch(std::move(options), budget_s, context, [&](const TuneOptions& o, const TuneObserver& observer, const TuneStop& stop) {
    return tune_all(jobs, o, observer, stop);
  });
}

void add_tune(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<TuneArguments>();
  CLI::App* tune =
      app.add_subcommand("tune", "tune the kernels of graph files for this machine into a database");
  tune->add_option("files", arguments->files, "graph files (.lw)")->check(CLI::ExistingFile);
  tune->add_flag("--wanted", arguments->wanted, "instead of files: what programs looked up in the database and did not find");
  tune->add_option("--db", arguments->options.database, "the database; made when missing")
      ->default_val("loopwright.db");
  tune->add_option("--budget", arguments->budget, "wall time for everything: 90s, 30m, 2h")
      ->capture_default_str();
  tune->add_option("--max-trials", arguments->options.max_trials,
                   "trials for each workload; 0 = as the budget allows")
      ->check(kCount);
  tune->add_option("--seed", arguments->options.seed, "seed of the search")->check(kCount)->capture_default_str();
  tune->add_option("--search", arguments->options.search, "how candidates are proposed")
      ->check(CLI::IsMember({"evolution", "random"}))
      ->capture_default_str();
  tune->add_flag("--no-cost-model", arguments->no_cost_model, "propose without the learned ranking");
  tune->add_option("--jobs", arguments->options.build_threads, "threads that compile; 0 = all cores")
      ->check(kCount)
      ->check(CLI::Range(0, kMostBuildThreads));
  tune->add_option("--shapes", arguments->shapes.probes, "a shape to tune for besides the range's own: tokens=4096");
  tune->add_option("--shapes-from", arguments->shapes.counted_in,
                   "a file that says how often each shape is used: what the ranges are made for");
  tune->add_option("--max-variants", arguments->options.max_variants, "different schedules that may serve one kernel")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  tune->add_option("--worker", arguments->options.worker_path,
                   "the program that measures (default: beside this one)");
  tune->add_option("--device", arguments->options.device,
                   "cpu, cuda or cuda:N (+reused: measure with buffers that stay in the caches)")
      ->default_val("cpu");
  add_accuracy_option(tune, arguments->shapes.accuracy);
  set_body(tune, context, [arguments, &context] { return run_tune(*arguments, context); });

  auto database = std::make_shared<std::string>();
  auto run = std::make_shared<std::string>();
  CLI::App* resume = app.add_subcommand("resume", "go on with a tuning run that was stopped or killed");
  resume->add_option("run", *run, "the run, or a prefix of it (default: the newest that was stopped)");
  resume->add_option("--db", *database, "the database")->default_val("loopwright.db");
  set_body(resume, context, [database, run, &context] { return run_resume(*database, *run, context); });
}

}  // namespace loopwright::cli
