// show: any form of a graph's kernels.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "loopwright/compile.h"
#include "src/cli/command.h"
#include "src/cli/output.h"
#include "src/support/read_file.h"

namespace loopwright::cli {
namespace {

const std::map<std::string, Form> kForms = {
    {"graph", Form::graph},         {"groups", Form::groups}, {"naive", Form::naive},
    {"scheduled", Form::scheduled}, {"trace", Form::trace},   {"flat", Form::flat},
    {"emittable", Form::emittable}, {"source", Form::source}, {"assembly", Form::assembly},
};

constexpr std::size_t kMostTraceBytes = 4 << 20;

struct ShowArguments {
  std::string file, form = "graph", target, picks, trace_file;
  ShowOptions options;
};

Result<Exit> run_show(ShowArguments arguments, const Context& context) {
  LW_TRY(const Graph graph, Graph::load(arguments.file));
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
  std::vector<std::string> forms;
  for (const auto& [form, value] : kForms) forms.push_back(form);
  CLI::App* command = app.add_subcommand("show", "print any form of a graph's kernels");
  command->add_option("file", arguments->file, "graph file (.lw)")->required()->check(CLI::ExistingFile);
  command->add_option("form", arguments->form, "which form")
      ->check(CLI::IsMember(forms))
      ->capture_default_str();
  command->add_option("--target", arguments->target, "what to compile for, e.g. cuda:sm_90a (default: this CPU)");
  command->add_option("--group", arguments->options.group, "one kernel of the graph (default: all)");
  command->add_option("--template", arguments->options.template_name,
                      "schedule template (default: the first that fits)");
  command->add_option("--picks", arguments->picks, "choices of the template: \"tile_m=64 tile_n=128\"");
  command->add_option("--trace", arguments->trace_file,
                      "a file with a trace to replay instead of a template");
  set_body(command, context, [arguments, &context] { return run_show(*arguments, context); });
}

}  // namespace loopwright::cli
