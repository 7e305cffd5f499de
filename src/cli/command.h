// What every subcommand shares.
#pragma once

#include <CLI/CLI.hpp>
#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "loopwright/base.h"
#include "loopwright/graph.h"
#include "loopwright/runtime.h"
#include "loopwright/shape.h"
#include "loopwright/target.h"

namespace loopwright::cli {

/// Exit codes; `loopwright --help` lists them.
enum Exit : int {
  kOk = 0,
  kUsage = 1,      ///< wrong arguments or malformed input
  kPartial = 2,    ///< budget spent or interrupted: what there is was committed, `resume` goes on
  kNoVariant = 3,  ///< some workload has no valid candidate
  kDatabase = 4,   ///< a database is damaged, foreign, newer or cannot be written
  kBusy = 5,       ///< another run has the database, or the device is lost
  kFailed = 6,     ///< anything else, a wrong result included
};
/// The exit code that fits an error.
Exit exit_code(const Error& error);

/// Options before the subcommand, and what the subcommand leaves behind.
struct Context {
  bool json = false;
  bool plain = false;        ///< no live view even on a terminal
  std::string command_line;  ///< recorded with tuning runs
  int exit = kOk;            ///< set by the subcommand that ran
};

/// Runs `body` when the subcommand is chosen; its error is printed and becomes the exit code.
void set_body(CLI::App* command, Context& context, std::function<Result<Exit>()> body);

/// Set by the first SIGINT or SIGTERM. A second one ends the process at once.
const std::atomic<bool>& watch_interrupts();
/// From now on either ends the process. True when one came before.
bool stop_watching_interrupts();

/// `error`, or what is wrong with the first of these files that is a damaged, foreign or otherwise unusable database:
/// then nobody knows what it may hold.
Error blame_databases(Error error, const std::vector<std::string>& paths);
/// Says on standard error which of these databases cannot be read; a missing one only when it is not the default's name.
void note_unreadable(const std::vector<std::string>& paths, const Context& context);
inline constexpr const char* kDefaultDatabase = "loopwright.db";

/// The stored plan of just this graph. not_found also where one of its name is of another graph.
Result<Plan> find_plan_of(const Graph& graph, const Runtime& runtime, const std::vector<std::string>& databases);

/// `--accuracy`, for commands that take a graph file; and that file's graph, with this accuracy unless it is empty.
void add_accuracy_option(CLI::App* command, std::string& accuracy);
Result<Graph> load_graph(const std::string& file, const std::string& accuracy);

/// `--device`, for commands that run on one.
void add_device_option(CLI::App* command, std::string& device);
/// What a device as named by it (`+reused` and the like left out) runs code for.
Result<Target> find_target(const std::string& device);

/// Says on standard error that a driver is older than the compiler, where it is; once.
void note_older_driver(const Target& target, const Context& context);

/// For options that count something.
extern const CLI::Validator kCount;

/// `tokens=17`, as given by repeated --symbol options. A name the graph does not know, or a value outside the symbol's
/// range, is an error that names `option`; a symbol that is not given takes `missing(symbol)`.
Result<Bindings> parse_bindings(const std::vector<std::string>& texts, const std::vector<Symbol>& symbols,
                                const std::function<std::int64_t(const Symbol&)>& missing,
                                const std::string& option = "--symbol");
/// `90`, `90s`, `30m`, `2h`, `30d` in seconds.
Result<double> parse_duration_s(const std::string& text, double most_days = 365);

void add_tune(CLI::App& app, Context& context);  // tune, resume
void add_run(CLI::App& app, Context& context);
void add_bench(CLI::App& app, Context& context);
void add_show(CLI::App& app, Context& context);
void add_report(CLI::App& app, Context& context);
void add_lookup(CLI::App& app, Context& context);  // lookup, explain
void add_devices(CLI::App& app, Context& context);
void add_db(CLI::App& app, Context& context);  // db info|list|merge|diff|import|rebuild|export|prune, and add_doctor's
void add_doctor(CLI::App& db, Context& context);  // db doctor
/// Opening a damaged file advises to use the doctor, who could not open it either.
Error advise_otherwise(Error error);
void add_quickstart(CLI::App& app, Context& context);

}  // namespace loopwright::cli
