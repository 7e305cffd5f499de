// bench: default against tuned schedules.
#include <memory>

#include "src/cli/command.h"
#include "src/cli/comparison.h"

namespace loopwright::cli {
namespace {

struct BenchArguments {
  std::vector<std::string> files, databases = {"loopwright.db"}, symbols;
  std::uint64_t seed = 1;
  std::string device, accuracy;
};

Result<Exit> run_bench(const BenchArguments& a, const Context& context) {
  std::vector<ComparisonRow> rows;
  for (const std::string& file : a.files) {
    LW_TRY(const Graph graph, load_graph(file, a.accuracy));
    std::vector<Bindings> shapes = typical_shapes(graph);
    if (!a.symbols.empty()) {
      LW_TRY(Bindings only, parse_bindings(a.symbols, graph.symbols(), [](const Symbol& s) { return s.hi; }));
      shapes = {std::move(only)};
    }
    LW_TRY(auto more, compare_default_and_tuned(graph, a.databases, shapes, a.device, a.seed, context));
    rows.insert(rows.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  }
  return print_comparison(rows, context.json);
}

}  // namespace

void add_bench(CLI::App& app, Context& context) {
  auto a = std::make_shared<BenchArguments>();
  CLI::App* bench =
      app.add_subcommand("bench", "time default against tuned schedules, interleaved, with the error");
  bench->add_option("files", a->files, "graph files (.lw)")->required()->check(CLI::ExistingFile);
  bench->add_option("--db", a->databases, "databases, most important first")->capture_default_str();
  bench->add_option("--symbol", a->symbols, "a symbol's value: tokens=17 (default: a few typical shapes)");
  bench->add_option("--seed", a->seed, "of the random data")->check(kCount)->capture_default_str();
  bench->add_option("--device", a->device, "cpu, cuda or cuda:N (+reused: with buffers that stay in the caches)")
      ->default_val("cpu");
  add_accuracy_option(bench, a->accuracy);
  set_body(bench, context, [a, &context] { return run_bench(*a, context); });
}

}  // namespace loopwright::cli
