// The program `loopwright`.
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>

#include "src/cli/command.h"
#include "src/cli/output.h"
#include "src/graph/ops.h"

namespace {

std::string join_arguments(int argc, char** argv) {
  std::string out;
  for (int i = 0; i < argc; ++i) out += (i ? " " : "") + std::string(argv[i]);
  return out;
}

using namespace loopwright;
using namespace loopwright::cli;

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) names.push_back(command->get_name());
  return names;
}

bool wants_json(int argc, char** argv) {
  return std::any_of(argv + 1, argv + argc, [](const char* word) { return std::strcmp(word, "--json") == 0; });
}

/// A standard stream that the caller closed must not become the number of a file that is opened later: what is printed
/// would go into it. Writing to the stand-in fails, as writing to a closed stream does.
void occupy_standard_streams() {
  while (true) {
    const int fd = ::open("/dev/null", O_RDONLY);
    if (fd > STDERR_FILENO) ::close(fd);
    if (fd < 0 || fd > STDERR_FILENO) return;
  }
}

/// What was printed counts only when it arrived.
int finish_output(int exit, bool json) {
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0;
  if ((flushed && std::ferror(stdout) == 0) || exit != kOk) return exit;
  print_error({ErrorCode::io, "write the result", errno != 0 ? std::strerror(errno) : "the stream does not take any more",
               "standard output", "a stream that is open, and space where it ends"}, json);
  return kFailed;
}

/// Says which commands there are where one is missing or unknown, and else what the argument library says.
int report_usage(CLI::App& app, const CLI::ParseError& e, int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const bool json = wants_json(argc, argv);
  CLI::App* level = &app;
  std::string path = "loopwright";
  std::vector<std::string> names = command_names(app);
  for (const std::string& word : words) {
    if (names.empty()) break;
    if (word.starts_with("-")) continue;
    const bool is_command = std::find(names.begin(), names.end(), word) != names.end();
    if (!is_command) {
      print_error({ErrorCode::unknown_name, "a command", "`" + word + "`" + graph::suggestion(word, names), "",
                   fmt::format("{}", fmt::join(names, ", "))}, json);
      return kUsage;
    }
    level = level->get_subcommand(word);
    path += " " + word;
    names = command_names(*level);
  }
  const std::string works = names.empty() ? path + " --help lists what it takes"
                                          : fmt::format("{}", fmt::join(names, ", "));
  print_error({ErrorCode::wrong_arguments, "read the command line", e.what(), "", works}, json);
  return kUsage;
}

int run(int argc, char** argv) {
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
  add_report(app, context);
  add_lookup(app, context);
  add_devices(app, context);
  add_db(app, context);
  add_quickstart(app, context);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
    return report_usage(app, e, argc, argv);
  }
  return context.exit;
}

}  // namespace

int main(int argc, char** argv) {
  occupy_standard_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // a file at its size limit is then an error of the write, as a full disk is
  const bool json = wants_json(argc, argv);
  try {
    return finish_output(run(argc, argv), json);
  } catch (const std::bad_alloc&) {
    print_error({ErrorCode::out_of_memory, "do what was asked", "there is not enough memory", "",
                 "smaller sizes (--symbol), or a machine with more memory"}, json);
    return kFailed;
  } catch (const std::exception& e) {
    if (std::ferror(stdout) != 0) return finish_output(kOk, json);  // printing throws when nothing takes it
    print_error({ErrorCode::bug, "do what was asked", e.what(), "", "a report of this bug with the command line"}, json);
    return kFailed;
  }
}
