#include "tests/support/golden.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "loopwright/graph.h"
#include "src/graph/naive_kernel.h"
#include "src/ir/text.h"
#include "src/ir/verify.h"
#include "src/schedule/trace.h"
#include "tests/support/random_data.h"

namespace loopwright::test {

namespace {

Result<ir::Kernel> read_input(const std::string& text) {
  if (text.rfind("kernel ", 0) == 0) return ir::parse_kernel(text);
  LW_TRY(const Graph graph, Graph::parse(text, "input"));
  return graph::naive_kernel(graph);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) out.push_back(line);
  return out;
}

/// Steps without the version line that a whole trace begins with.
std::string whole_trace(const std::string& steps) {
  if (steps.rfind("trace ", 0) == 0) return steps;
  return "trace " + std::to_string(schedule::kTraceVersion) + "\n" + steps;
}

/// Text that does not parse back to itself.
std::string check_round_trip(const ir::Kernel& k) {
  const std::string once = ir::print(k);
  const auto again = ir::parse_kernel(once);
  if (!again.ok()) return "printed kernel does not parse: " + again.error().message() + "\n" + once;
  if (ir::print(*again) != once)
    return "printed kernel reads back as another:\n" + once + "---\n" + ir::print(*again);
  if (auto status = ir::verify(k); !status.ok())
    return "kernel does not verify: " + status.error().message() + "\n" + once;
  return {};
}

struct Outcome {
  std::optional<ir::Kernel> kernel;
  std::optional<Error> error;
  std::vector<schedule::TracedStep> steps;
};

Outcome apply_steps(const ir::Kernel& input, const std::string& text) {
  Outcome out;
  const auto steps = schedule::parse_trace(whole_trace(text));
  if (!steps.ok()) {
    out.error = steps.error();
    return out;
  }
  ir::Kernel k = input;
  for (const schedule::TracedStep& s : *steps) {
    auto applied = schedule::apply_step(k, s.step);
    if (applied.ok() && !s.made.empty() && s.made != applied->made)
      out.error = Error{
          ErrorCode::bad_trace, schedule::text(s), "it makes " + text::join(applied->made, " "), {}, {}};
    if (!applied.ok()) out.error = applied.error();
    if (out.error) return out;
    out.steps.push_back({s.step, applied->made});
    k = std::move(applied->kernel);
  }
  out.kernel = std::move(k);
  return out;
}

std::string check_replay(const ir::Kernel& input, const Outcome& outcome) {
  const std::string trace = schedule::print_trace(outcome.steps);
  const auto parsed = schedule::parse_trace(trace);
  if (!parsed.ok()) return "printed trace does not parse: " + parsed.error().message();
  if (schedule::print_trace(*parsed) != trace) return "printed trace reads back as another:\n" + trace;
  const auto again = schedule::replay(input, *parsed);
  if (!again.ok()) return "trace does not replay: " + again.error().message();
  if (ir::print(*again) != ir::print(*outcome.kernel))
    return "the replayed trace gives another kernel:\n" + ir::print(*again);
  return {};
}

std::string check_error(const Section& section, const Outcome& outcome) {
  if (!outcome.error)
    return "expected " + section.argument + ", but every step was accepted:\n" + ir::print(*outcome.kernel);
  const std::string message = outcome.error->message();
  if (name(outcome.error->code) != section.argument)
    return "expected " + section.argument + ", found " + message;
  for (const std::string& line : lines_of(section.body))
    if (message.find(line) == std::string::npos) return "the message lacks `" + line + "`:\n" + message;
  return {};
}

/// `n = 1 3 4` lines: the i-th value of each; a single value stands for all.
std::vector<Bindings> read_runs(const std::string& body) {
  std::map<std::string, std::vector<std::int64_t>> values;
  std::size_t runs = 1;
  for (const std::string& line : lines_of(body)) {
    std::istringstream in(line);
    std::string name, equals;
    in >> name >> equals;
    for (std::int64_t v; in >> v;) values[name].push_back(v);
    runs = std::max(runs, values[name].size());
  }
  std::vector<Bindings> out(runs);
  for (const auto& [name, list] : values)
    for (std::size_t i = 0; i < runs; ++i) out[i][name] = list[std::min(i, list.size() - 1)];
  return out;
}

std::string check_runs(const std::string& body, const ir::Kernel& input, const Outcome& outcome) {
  const bool regroups = std::any_of(
      outcome.steps.begin(), outcome.steps.end(),
      [](const schedule::TracedStep& s) {
        return std::holds_alternative<schedule::ReduceAcross>(s.step) || std::holds_alternative<schedule::ScanAcross>(s.step) ||
               std::holds_alternative<schedule::Separate>(s.step) || std::holds_alternative<schedule::RoundFactors>(s.step);
      });
  std::uint64_t seed = 1;
  for (const Bindings& symbols : read_runs(body)) {
    const Arguments arguments = random_arguments(input, symbols, ++seed);
    const auto expected = interpret_copy(input, symbols, arguments);
    if (!expected.ok()) return "input does not run: " + expected.error().message();
    const auto found = interpret_copy(*outcome.kernel, symbols, arguments);
    if (!found.ok())
      return "result does not run: " + found.error().message() + "\n" + ir::print(*outcome.kernel);
    if (const auto difference = find_difference(input, *expected, *found, regroups))
      return "run gives another result: " + *difference + "\n" + ir::print(*outcome.kernel);
  }
  return {};
}

bool is_known(const std::string& section) {
  for (const char* known : {"input", "steps", "expect", "error", "run"})
    if (section == known) return true;
  return false;
}

}  // namespace

const Section* Golden::find(const std::string& name) const {
  for (const Section& s : sections)
    if (s.name == name) return &s;
  return nullptr;
}

std::string Golden::text() const {
  std::string out = comment;
  for (const Section& s : sections)
    out += "--- " + s.name + (s.argument.empty() ? "" : " " + s.argument) + "\n" + s.body;
  return out;
}

Golden split_sections(const std::string& text) {
  Golden golden;
  std::istringstream in(text);
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.rfind("--- ", 0) == 0) {
      const std::size_t blank = line.find(' ', 4);
      golden.sections.push_back(
          {line.substr(4, blank - 4), blank == std::string::npos ? "" : line.substr(blank + 1), "", number});
    } else {
      (golden.sections.empty() ? golden.comment : golden.sections.back().body) += line + "\n";
    }
  }
  return golden;
}

std::string run_golden(Golden& golden, bool update) {
  for (const Section& s : golden.sections)
    if (!is_known(s.name)) return "line " + std::to_string(s.line) + ": no section is called " + s.name;
  const Section* source = golden.find("input");
  if (!source) return "there is no input section";
  const auto input = read_input(source->body);
  if (!input.ok()) return "input: " + input.error().message();
  if (const std::string wrong = check_round_trip(*input); !wrong.empty()) return "input: " + wrong;

  const Section* steps = golden.find("steps");
  Outcome outcome;
  if (steps) outcome = apply_steps(*input, steps->body);
  else outcome.kernel = *input;
  if (const Section* error = golden.find("error")) return check_error(*error, outcome);
  if (outcome.error) return outcome.error->message();
  if (const std::string wrong = check_round_trip(*outcome.kernel); !wrong.empty()) return "result: " + wrong;
  if (const std::string wrong = check_replay(*input, outcome); !wrong.empty()) return wrong;

  for (Section& s : golden.sections) {
    if (s.name != "expect") continue;
    const std::string printed = ir::print(*outcome.kernel);
    if (update) s.body = printed;
    if (s.body != printed)
      return "line " + std::to_string(s.line) + ": expected another kernel; found\n" + printed;
  }
  const Section* run = golden.find("run");
  if (!run) return steps ? "there is no run section" : "";
  return check_runs(run->body, *input, outcome);
}

}  // namespace loopwright::test
