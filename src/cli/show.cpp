// show: any form of a graph's kernels, and what a database serves them with.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "loopwright/compile.h"
#include "src/cli/command.h"
#include "src/cli/kernel_ranges.h"
#include "src/cli/output.h"
#include "src/support/read_file.h"

namespace loopwright::cli {
namespace {

const std::map<std::string, Form> kForms = {
    {"graph", Form::graph},         {"groups", Form::groups}, {"naive", Form::naive},
    {"scheduled", Form::scheduled}, {"trace", Form::trace},   {"flat", Form::flat},
    {"emittable", Form::emittable}, {"source", Form::source}, {"assembly", Form::assembly},
};

constexpr const char* kRanges = "ranges";  ///< the form that a database knows
constexpr std::size_t kMostTraceBytes = 4 << 20;

struct ShowArguments {
  std::string file, form = "graph", target, picks, trace_file, accuracy;
  std::string database = kDefaultDatabase;
  ShowOptions options;
};

Result<Exit> show_ranges(const Graph& graph, const std::string& database, const Context& context) {
  LW_TRY(const db::Query query, db::Query::open(database));
  LW_TRY(const auto kernels, list_kernel_ranges(query, graph));
  Table table({"kernel", "family", {"", "workload"}, "range", {"median", "median_ns"}, "ratio", {"loss mean", "mean_loss"}, {"worst", "worst_loss"},
               {"held out", "held_out_probes"}, "state", "device", "policy", "variant"});
  bool has_any = false;
  for (const KernelRanges& k : kernels) {
    const Cell number = count_cell(k.kernel);
    if (k.ranges.empty()) table.add({number, k.family, digest_cell(k.workload), "not tuned"});
    for (const db::BestEntry& e : k.ranges) {
      has_any = true;
      table.add({number, k.family, digest_cell(k.workload), e.range.guard.text(), time_cell(e.best.median_ns), ratio_cell(e.best.speedup),
                 percent_cell(e.best.mean_loss), percent_cell(e.best.worst_loss), count_cell(e.best.held_out_probes),
                 std::string(e.best.verified ? name(e.best.state) : "unverified"), e.device_model, e.policy_name,
                 name_schedule(e.candidate)});
    }
  }
  if (context.json) print_json(table.to_json());
  else fmt::print("{}", table.text());
  return has_any ? kOk : kNoVariant;
}

Result<Exit> run_show(ShowArguments arguments, const Context& context) {
  LW_TRY(const Graph graph, load_graph(arguments.file, arguments.accuracy));
  if (arguments.form == kRanges) return show_ranges(graph, arguments.database, context);
  arguments.options.target = host_target();
  if (!arguments.target.empty()) {
    LW_TRY(arguments.options.target, Target::parse(arguments.target));
  }
  LW_TRY(arguments.options.picks, parse_picks(arguments.picks));
  if (!arguments.trace_file.empty()) {
    LW_TRY(arguments.options.trace, read_file(arguments.trace_file, kMostTraceBytes));
  }
  LW_TRY(const std::string text, show(graph, kForms.at(arguments.form), arguments.options));
  if (context.json) print_json({{"form", arguments.form}, {"text", text}});
  else fmt::print("{}", text);
  return kOk;
}

}  // namespace

void add_show(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<ShowArguments>();
  std::vector<std::string> forms{kRanges};
  for (const auto& [form, value] : kForms) forms.push_back(form);
  CLI::App* command = app.add_subcommand("show", "print any form of a graph's kernels, or the ranges that a database serves them with");
  command->add_option("file", arguments->file, "graph file (.lw)")->required()->check(CLI::ExistingFile);
  command->add_option("form", arguments->form, "which form")
      ->check(CLI::IsMember(forms))
      ->capture_default_str();
  command->add_option("--db", arguments->database, "ranges: the database")->capture_default_str();
  command->add_option("--target", arguments->target, "what to compile for, e.g. cuda:sm_90a (default: this CPU)");
  command->add_option("--group", arguments->options.group, "one kernel of the graph (default: all)");
  command->add_option("--template", arguments->options.template_name,
                      "schedule template (default: the first that fits)");
  command->add_option("--picks", arguments->picks, "choices of the template: \"tile_m=64 tile_n=128\"");
  command->add_option("--trace", arguments->trace_file,
                      "a file with a trace to replay instead of a template");
  add_accuracy_option(command, arguments->accuracy);
  set_body(command, context, [arguments, &context] { return run_show(*arguments, context); });
}

}  // namespace loopwright::cli
