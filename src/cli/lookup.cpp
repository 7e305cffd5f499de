// lookup, explain: what a database would serve, and why.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "loopwright/graph.h"
#include "loopwright/runtime.h"
#include "src/cli/command.h"
#include "src/cli/output.h"

namespace loopwright::cli {
namespace {

struct LookupArguments {
  std::string graph;
  std::vector<std::string> databases = {"loopwright.db"};
  std::vector<std::string> symbols;
  std::string device, accuracy;
};

struct Found {
  Runtime runtime;
  Plan plan;
  std::vector<std::int64_t> symbols;
};

Result<Found> find_plan(const LookupArguments& arguments, const Context& context) {
  std::optional<Graph> file;
  if (arguments.graph.ends_with(".lw")) {
    LW_TRY(file, load_graph(arguments.graph, arguments.accuracy));
  }
  LW_TRY(Runtime runtime, Runtime::open({.databases = arguments.databases, .on_miss = OnMiss::fallback, .device = arguments.device}));
  for (const std::string& note : runtime.notes()) print_note(note, context.json);
  Result<Plan> found = file ? find_plan_of(*file, runtime, arguments.databases) : runtime.plan(arguments.graph);
  if (!found.ok()) return blame_databases(found.error(), arguments.databases);
  Plan plan = std::move(*found);
  LW_TRY(const Bindings bindings,
         parse_bindings(arguments.symbols, plan.spec().symbols, [](const Symbol& s) { return s.hi; }));
  std::vector<std::int64_t> values;
  for (const Symbol& s : plan.spec().symbols) values.push_back(bindings.at(s.name));
  return Found{std::move(runtime), std::move(plan), std::move(values)};
}

Result<Exit> run_lookup(const LookupArguments& arguments, const Context& context) {
  LW_TRY(const Found found, find_plan(arguments, context));
  LW_TRY(const std::vector<Plan::Choice> choices, found.plan.choose(found.symbols));
  if (context.json) {
    nlohmann::json rows = nlohmann::json::array();
    for (const Plan::Choice& c : choices)
      rows.push_back({{"kernel", c.kernel},
                      {"family", c.family},
                      {"workload", c.workload},
                      {"match", std::string(name(c.match))},
                      {"variant", c.label},
                      {"guard", c.guard},
                      {"loss_mean", c.loss_mean},
                      {"loss_worst", c.loss_worst},
                      {"tuned", c.is_tuned}});
    print_json(rows);
    return kOk;
  }
  Table table({"kernel", "family", "workload", "match", "serves", "loss mean", "worst", "variant"});
  for (const Plan::Choice& c : choices)
    table.add({std::to_string(c.kernel), c.family, shorten_digest(c.workload), std::string(name(c.match)),
               c.guard, fmt::format("{:.1f}%", 100 * c.loss_mean), fmt::format("{:.1f}%", 100 * c.loss_worst),
               c.label});
  fmt::print("{}", table.text());
  return kOk;
}

Result<Exit> run_explain(const LookupArguments& arguments, const Context& context) {
  LW_TRY(const Found found, find_plan(arguments, context));
  LW_TRY(const std::string text, found.plan.explain(found.symbols));
  if (context.json) print_json({{"explanation", text}});
  else fmt::print("{}", printable(text));
  return kOk;
}

}  // namespace

void add_lookup(CLI::App& app, Context& context) {
  const auto add = [&](const char* name, const char* help,
                       Result<Exit> (*run)(const LookupArguments&, const Context&)) {
    auto arguments = std::make_shared<LookupArguments>();
    CLI::App* command = app.add_subcommand(name, help);
    command->add_option("graph", arguments->graph, "graph file, or the name or digest of a stored plan")
        ->required();
    command->add_option("--db", arguments->databases, "databases, most important first")
        ->capture_default_str();
    command->add_option("--symbol", arguments->symbols, "a symbol's value: tokens=17 (default: the largest)");
    add_device_option(command, arguments->device);
    add_accuracy_option(command, arguments->accuracy);
    set_body(command, context, [arguments, run, &context] { return run(*arguments, context); });
  };
  add("lookup", "which variant would serve each kernel of a graph", run_lookup);
  add("explain", "why, what else was tried, and what it would cost", run_explain);
}

}  // namespace loopwright::cli
