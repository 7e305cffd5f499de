// report: times, losses and ranges of a graph's kernels as a drawing.
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "src/cli/command.h"
#include "src/cli/output.h"
#include "src/cli/range_plot.h"

namespace loopwright::cli {
namespace {

constexpr double kReportWidth = 980, kMargin = 24;

struct ReportArguments {
  std::string file, database = kDefaultDatabase, device, out, accuracy;
};

Status write_whole_file(const std::string& path, const std::string& text) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (file != nullptr) written = std::fclose(file) == 0 && written;
  if (!written) return Error{ErrorCode::io, "write the report", std::strerror(errno), path, "a path in a folder that may be written"};
  return Unit{};
}

Result<Exit> run_report(const ReportArguments& arguments, const Context& context) {
  LW_TRY(const Graph graph, load_graph(arguments.file, arguments.accuracy));
  LW_TRY(const db::Query query, db::Query::open(arguments.database));
  LW_TRY(auto kernels, list_kernel_ranges(query, graph));
  Svg svg(kReportWidth);
  svg.text(kMargin, 34, "Graph " + graph.name(), 20, Svg::Anchor::start, "#111", true);
  double y = 56;
  int drawn = 0;
  for (KernelRanges& kernel : kernels) {
    keep_newest(kernel, arguments.device);
    if (kernel.ranges.empty()) {
      svg.text(kMargin, y + 14, fmt::format("Kernel {}: {} {}: not tuned", kernel.kernel, kernel.family, shorten_digest(kernel.workload)), 13);
      y += 30;
      continue;
    }
    LW_TRY(const auto shapes, list_measured(query, kernel));
    y = draw_kernel(svg, y, kernel, shapes);
    ++drawn;
  }
  if (drawn == 0)
    return Error{ErrorCode::no_variant, "report the ranges of " + graph.name(), "no kernel of it was tuned" + (arguments.device.empty() ? "" : " on `" + arguments.device + "`"),
                 arguments.database, "loopwright tune " + arguments.file + " --db " + arguments.database};
  LW_CHECK(write_whole_file(arguments.out, svg.document(y + kMargin)));
  if (context.json) print_json({{"file", arguments.out}, {"kernels", drawn}});
  else fmt::print("{} of {} kernels drawn in {}\n", drawn, kernels.size(), arguments.out);
  return kOk;
}

}  // namespace

void add_report(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<ReportArguments>();
  CLI::App* command = app.add_subcommand("report", "draw time, loss and ranges of a graph's kernels over their symbols (SVG)");
  command->add_option("file", arguments->file, "graph file (.lw)")->required()->check(CLI::ExistingFile);
  command->add_option("--db", arguments->database, "the database")->capture_default_str();
  command->add_option("--device", arguments->device, "of a file with several: a part of the model's name, or the digest (default: measured last)");
  command->add_option("--out", arguments->out, "where the drawing goes")->default_val("report.svg");
  add_accuracy_option(command, arguments->accuracy);
  set_body(command, context, [arguments, &context] { return run_report(*arguments, context); });
}

}  // namespace loopwright::cli
