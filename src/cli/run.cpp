// run: a graph once on random data, checked against float64.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "loopwright/compile.h"
#include "src/cli/command.h"
#include "src/cli/output.h"
#include "src/cli/rehearsal.h"

namespace loopwright::cli {
namespace {

/// Without --symbol the float64 reference, which is plain loops, should take no more than seconds.
constexpr std::int64_t kModestSize = 64;

struct RunArguments {
  std::string file;
  std::vector<std::string> databases = {"loopwright.db"}, symbols;
  std::uint64_t seed = 1;
  std::string on_miss = "jit", device, accuracy;
};

Result<Exit> run_once(const RunArguments& a, const Context& context) {
  LW_TRY(const Graph graph, load_graph(a.file, a.accuracy));
  LW_TRY(const Bindings bindings, parse_bindings(a.symbols, graph.symbols(), [](const Symbol& s) {
           return std::clamp(kModestSize, s.lo, s.hi);
         }));
  const OnMiss on_miss = a.on_miss == "strict"    ? OnMiss::strict
                         : a.on_miss == "default" ? OnMiss::fallback
                                                  : OnMiss::jit;
  LW_TRY(const Target target, device_target(a.device));
  note_older_driver(target, context);
  note_unreadable(a.databases, context);
  const Result<Plan> made =
      make_plan(graph, {.target = target, .databases = a.databases, .on_miss = on_miss, .device = a.device});
  if (!made.ok()) return made.error().code == ErrorCode::no_variant ? blame_databases(made.error(), a.databases) : made.error();
  const Plan& plan = *made;
  LW_TRY(Rehearsal rehearsal, Rehearsal::make(graph, plan, bindings, a.seed));
  LW_CHECK(rehearsal.run());
  LW_TRY(const auto outputs, rehearsal.compare());
  bool passed = true;
  std::string details;
  Table table({"output", "max abs error", "max rel error", "verdict", "tolerance"});
  nlohmann::json rows = nlohmann::json::array();
  for (const Rehearsal::Output& o : outputs) {
    passed &= o.passed;
    table.add({o.name, fmt::format("{:.3g}", o.max_abs), fmt::format("{:.3g}", o.max_rel),
               o.passed ? "ok" : "WRONG", o.tolerance});
    if (!o.passed) details += o.name + ": " + o.detail + "\n";
    rows.push_back({{"output", o.name},
                    {"max_abs_error", o.max_abs},
                    {"max_rel_error", o.max_rel},
                    {"tolerance", o.tolerance},
                    {"passed", o.passed},
                    {"detail", o.detail}});
  }
  const std::string device = rehearsal.gpu() == nullptr ? "cpu" : fmt::format("cuda:{}", rehearsal.gpu()->info().ordinal);
  if (context.json) {
    print_json({{"graph", graph.name()}, {"device", device}, {"symbols", bindings}, {"outputs", rows}});
  } else {
    std::string shape;
    for (const auto& [symbol, value] : bindings) shape += fmt::format(" {}={}", symbol, value);
    const std::size_t kernels = plan.spec().kernels.size();
    const std::string where = rehearsal.gpu() == nullptr ? "" : fmt::format(" on {} ({})", device, rehearsal.gpu()->info().name);
    fmt::print("{}{}: {} kernel{}{}\n{}{}", graph.name(), shape, kernels, kernels == 1 ? "" : "s", where, table.text(), details);
  }
  return passed ? kOk : kFailed;
}

}  // namespace

void add_run(CLI::App& app, Context& context) {
  auto a = std::make_shared<RunArguments>();
  CLI::App* run = app.add_subcommand("run", "run a graph on random data and check it against float64");
  run->add_option("file", a->file, "graph file (.lw)")->required()->check(CLI::ExistingFile);
  run->add_option("--db", a->databases, "databases, most important first")->capture_default_str();
  run->add_option("--symbol", a->symbols, "a symbol's value: tokens=17");
  run->add_option("--seed", a->seed, "of the random data")->check(kCount)->capture_default_str();
  run->add_option("--on-miss", a->on_miss,
                  "kernels without a tuned variant: fail, take the general one, compile now")
      ->check(CLI::IsMember({"strict", "default", "jit"}))
      ->capture_default_str();
  add_device_option(run, a->device);
  add_accuracy_option(run, a->accuracy);
  set_body(run, context, [a, &context] { return run_once(*a, context); });
}

}  // namespace loopwright::cli
