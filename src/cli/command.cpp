#include "src/cli/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <utility>

#include "db/query.h"
#include "loopwright/runtime.h"
#include "src/cli/output.h"
#include "src/support/digest.h"
#include "tuner/tuner.h"

namespace loopwright::cli {
namespace {

std::atomic<bool> interrupted{false};

extern "C" void note_interrupt(int) {
  if (interrupted.exchange(true)) std::_Exit(130);
}

}  // namespace

Exit exit_code(const Error& error) {
  switch (error.code) {
    case ErrorCode::unsupported:  // a library, a file or a program of a version that does not do
    case ErrorCode::unsupported_target: return kUsage;
    case ErrorCode::no_variant:
    case ErrorCode::no_template: return kNoVariant;
    case ErrorCode::db_read_only:
    case ErrorCode::db_corrupt:
    case ErrorCode::db_newer:
    case ErrorCode::db_foreign:
    case ErrorCode::db_full:
    case ErrorCode::db_other: return kDatabase;
    case ErrorCode::db_locked:
    case ErrorCode::busy: return kBusy;
    case ErrorCode::cancelled: return kPartial;
    default: break;
  }
  const int number = static_cast<int>(error.code);
  const bool is_input = (number >= 100 && number < 300) || error.code == ErrorCode::wrong_arguments ||
                        error.code == ErrorCode::out_of_range || error.code == ErrorCode::not_found ||
                        error.code == ErrorCode::io;
  return is_input ? kUsage : kFailed;
}

void set_body(CLI::App* command, Context& context, std::function<Result<Exit>()> body) {
  command->callback([&context, body = std::move(body)] {
    const Result<Exit> result = body();
    if (result.ok()) {
      context.exit = *result;
    } else {
      print_error(result.error(), context.json);
      context.exit = exit_code(result.error());
    }
  });
}

const std::atomic<bool>& watch_interrupts() {
  struct sigaction action{};
  action.sa_handler = note_interrupt;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  return interrupted;
}

bool stop_watching_interrupts() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  return interrupted;
}

Error blame_databases(Error error, const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    const auto query = db::Query::open(path);
    if (!query.ok() && exit_code(query.error()) == kDatabase) return query.error();
  }
  return error;
}

Result<Plan> find_plan_of(const Graph& graph, const Runtime& runtime, const std::vector<std::string>& databases) {
  Result<Plan> found = runtime.plan(sha256_hex(graph.text()));
  if (found.ok()) return found;
  Error error = found.error();
  if (error.code == ErrorCode::not_found) {
    const Result<Plan> of_name = runtime.plan(graph.name());
    if (!of_name.ok() && of_name.error().code == ErrorCode::not_found) error = of_name.error();
    else error = {ErrorCode::not_found, "find the plan of graph " + graph.name(), "the stored plan of this name is of another graph", "",
                  "loopwright tune with this file: it was changed since it was tuned, or two graphs have one name"};
  }
  return blame_databases(std::move(error), databases);
}

void note_unreadable(const std::vector<std::string>& paths, const Context& context) {
  for (const std::string& path : paths) {
    const auto query = db::Query::open(path);
    if (query.ok() || (query.error().code == ErrorCode::not_found && path == kDefaultDatabase)) continue;
    print_note(path + ": not used: " + query.error().message(), context.json);
  }
}

void add_accuracy_option(CLI::App* command, std::string& accuracy) {
  command->add_option("--accuracy", accuracy, "strict or tf32, instead of what the graph file says")->check(CLI::IsMember({"strict", "tf32"}));
}

Result<Graph> load_graph(const std::string& file, const std::string& accuracy) {
  LW_TRY(Graph graph, Graph::load(file));
  if (const auto asked = parse_accuracy(accuracy)) graph.allow(*asked);
  return graph;
}

void add_device_option(CLI::App* command, std::string& device) {
  command->add_option("--device", device, "cpu, cuda or cuda:N")->default_val("cpu");
}

Result<Target> find_target(const std::string& device) { return device_target(device.substr(0, device.find('+'))); }

void note_older_driver(const Target& target, const Context& context) {
  static bool is_said = false;
  const std::string doubt = tuner::describe_older_driver(target);
  if (!doubt.empty() && !std::exchange(is_said, true)) print_note(doubt, context.json);
}

const CLI::Validator kCount(
    [](std::string& text) {
      const bool is_count = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
      return is_count ? std::string() : "`" + text + "` is no count; 0 or a positive whole number works";
    },
    "COUNT");

Result<Bindings> parse_bindings(const std::vector<std::string>& texts, const std::vector<Symbol>& symbols,
                                const std::function<std::int64_t(const Symbol&)>& missing, const std::string& option) {
  Bindings given;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    char* end = nullptr;
    errno = 0;
    const std::int64_t value =
        equals == std::string::npos ? 0 : std::strtoll(text.c_str() + equals + 1, &end, 10);
    if (equals == std::string::npos || end == text.c_str() + equals + 1 || *end != '\0' || errno != 0)
      return Error{ErrorCode::syntax, "a symbol's value", "`" + text + "`", option, option + " tokens=17"};
    const std::string name = text.substr(0, equals);
    if (!given.emplace(name, value).second)
      return Error{ErrorCode::wrong_arguments, "a value for symbol " + name, "it is given twice", option, "one value"};
  }
  Bindings bindings;
  std::string known;
  for (const Symbol& s : symbols) {
    known += (known.empty() ? "" : ", ") + s.name;
    auto it = given.find(s.name);
    const std::int64_t value = it != given.end() ? it->second : missing(s);
    if (value < s.lo || value > s.hi)
      return Error{ErrorCode::out_of_range, "a value for symbol " + s.name, std::to_string(value), option,
                   std::to_string(s.lo) + " to " + std::to_string(s.hi)};
    bindings[s.name] = value;
    if (it != given.end()) given.erase(it);
  }
  if (!given.empty())
    return Error{ErrorCode::unknown_name, "a symbol of the graph", "`" + given.begin()->first + "`",
                 option, known.empty() ? "the graph has no symbols" : known};
  return bindings;
}

Result<double> parse_duration_s(const std::string& text, double most_days) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const std::string unit = end;
  constexpr double kDay_s = 24 * 3600;
  const double scale = unit.empty() || unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : unit == "d" ? kDay_s : 0;
  if (end == text.c_str() || scale == 0 || !(number > 0) || number * scale > most_days * kDay_s)
    return Error{ErrorCode::syntax, "a duration", "`" + text + "`", "",
                 fmt::format("a positive number with s, m, h or d, at most {:.0f}d: 90s, 30m, 2h, 30d", most_days)};
  return number * scale;
}

}  // namespace loopwright::cli
