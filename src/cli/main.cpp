// The program `loopwright`.
#include <fmt/format.h>

#include <exception>

#include "src/cli/command.h"
#include "src/cli/output.h"

namespace {

std::string join_arguments(int argc, char** argv) {
  std::string out;
  for (int i = 0; i < argc; ++i) out += (i ? " " : "") + std::string(argv[i]);
  return out;
}

int run(int argc, char** argv) {
  using namespace loopwright::cli;
  Context context;
  context.command_line = join_arguments(argc, argv);
  CLI::App app{
      "Loopwright: tunes kernels for tensor graphs, keeps the best in a database, looks them up and runs "
      "them."};
  app.footer(
      "Exit codes: 0 ok, 1 wrong arguments or input, 2 stopped before it was complete (resume goes on),\n"
      "3 no valid candidate, 4 damaged or unusable database, 5 busy, 6 failed.");
  app.require_subcommand(1);
  app.fallthrough();
  app.add_flag("--json", context.json, "results (and progress) as JSON");
  app.add_flag("--plain", context.plain, "progress as lines, also on a terminal");
  app.set_version_flag("--version", "loopwright " LOOPWRIGHT_VERSION);
  add_tune(app, context);
  add_run(app, context);
  add_bench(app, context);
  add_show(app, context);
  add_lookup(app, context);
  add_devices(app, context);
  add_db(app, context);
  add_quickstart(app, context);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? kOk : kUsage;
  }
  return context.exit;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "loopwright: a bug, please report it with the command line: {}\n", e.what());
    return loopwright::cli::kFailed;
  }
}
