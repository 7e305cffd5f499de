#include "bench/support/contest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "loopwright/tune.h"

namespace loopwright::bench {
namespace {

/// OpenBLAS's workers were seen to spin for more than 0.1 s after a call, on a core that the next contender needs.
constexpr double kSettleS = 0.25;

/// The first line that a command prints, "unknown" when it fails.
std::string first_line(const char* command) {
  std::string line;
  if (FILE* pipe = popen(command, "r")) {
    for (int c = std::fgetc(pipe); c != EOF && c != '\n'; c = std::fgetc(pipe)) line += static_cast<char>(c);
    if (pclose(pipe) != 0) line.clear();
  }
  return line.empty() ? "unknown" : line;
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", std::gmtime(&now));
  return text;
}

void stop(const Error& error) {
  fmt::print(stderr, "{}\n", error.message());
  std::exit(1);
}

}  // namespace

Options Options::parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i], value = argv[i + 1];
    if (flag == "--db") o.database = value;
    else if (flag == "--budget") o.budget_s = std::atof(value.c_str());
    else if (flag == "--out") o.out = value;
    else stop({ErrorCode::bad_argument, "an option", flag, "", "--db FILE, --budget SECONDS, --out FOLDER"});
  }
  return o;
}

Plan tune_and_look_up(const std::string& graph_text, const Options& options) {
  const Result<Graph> graph = Graph::parse(graph_text);
  if (!graph.ok()) stop(graph.error());
  TuneOptions tuning;
  tuning.database = options.database;
  tuning.target = host_target();
  tuning.budget_s = options.budget_s;
  tuning.command_line = "bench";
  const auto report = tune(*graph, tuning);
  if (!report.ok()) stop(report.error());
  const auto runtime =
      Runtime::open({.databases = {options.database}, .on_miss = OnMiss::fallback, .workers = 0});
  if (!runtime.ok()) stop(runtime.error());
  auto plan = runtime->plan(graph->name());
  if (!plan.ok()) stop(plan.error());
  return std::move(plan).value();
}

Contest::Contest(std::string benchmark, Options options)
    : benchmark_(std::move(benchmark)), options_(std::move(options)) {}

void Contest::add(const std::string& name, const std::function<void()>& ours,
                  const std::vector<Contender>& contenders, double error, double target) {
  std::vector<std::function<void()>> all = {ours};
  for (const Contender& c : contenders) all.push_back(c.run);
  const std::vector<Timing> times =
      time_interleaved(all, {.min_sample_s = 5e-3, .rounds = 25, .budget_s = 20, .seed = 1, .settle_s = kSettleS});
  for (std::size_t c = 0; c < contenders.size(); ++c) {
    rows_.push_back({name, contenders[c].name, times[0], times[c + 1], error, target});
    const Row& r = rows_.back();
    fmt::print("{:<40} {:<24} ours {:>10.1f} us  theirs {:>10.1f} us  ratio {:.2f}  error {:.2g}\n", r.name,
               r.contender, r.ours.median_ns / 1e3, r.theirs.median_ns / 1e3,
               r.theirs.median_ns / r.ours.median_ns, r.error);
  }
}

void Contest::finish() const {
  const Target target = host_target();
  const std::string machine = fmt::format("{}-{}cores", target.arch, target.workers);
  const std::string commit = first_line("git rev-parse --short HEAD 2>/dev/null");
  const std::string cpu = first_line("sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1");
  const std::filesystem::path folder = std::filesystem::path(options_.out) / machine;
  std::filesystem::create_directories(folder);
  nlohmann::json all = nlohmann::json::array();
  std::string table = fmt::format(
      "# {}\n\n{} ({}), {} workers, {}, commit {}\n\nratio = contender / ours (above 1: ours is faster); "
      "spread = (p90 - p10) / median.\n\n"
      "| case | contender | ours us | spread | contender us | spread | ratio | target | error "
      "|\n|---|---|---|---|---|---|---|---|---|\n",
      benchmark_, cpu, target.arch, target.workers, today(), commit);
  for (const Row& r : rows_) {
    const double ratio = r.theirs.median_ns / r.ours.median_ns;
    all.push_back({{"case", r.name},
                   {"contender", r.contender},
                   {"ours_us", r.ours.median_ns / 1e3},
                   {"contender_us", r.theirs.median_ns / 1e3},
                   {"ratio", ratio},
                   {"target", r.target},
                   {"spread", r.ours.spread()},
                   {"contender_spread", r.theirs.spread()},
                   {"error", r.error},
                   {"device", cpu},
                   {"target_text", target.text()},
                   {"workers", target.workers},
                   {"commit", commit},
                   {"date", today()}});
    table += fmt::format("| {} | {} | {:.1f} | {:.0f}% | {:.1f} | {:.0f}% | {:.2f} | {} | {:.2g} |\n", r.name,
                         r.contender, r.ours.median_ns / 1e3, 100 * r.ours.spread(), r.theirs.median_ns / 1e3,
                         100 * r.theirs.spread(), ratio, r.target > 0 ? fmt::format("{:.2f}", r.target) : "-",
                         r.error);
  }
  std::ofstream(folder / (benchmark_ + ".json")) << all.dump(1) << "\n";
  std::ofstream(folder / (benchmark_ + ".md")) << table;
  fmt::print("written to {}\n", (folder / (benchmark_ + ".md")).string());
}

double max_relative_error(const float* values, const std::vector<double>& reference) {
  double largest = 0, error = 0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    largest = std::max(largest, std::fabs(reference[i]));
    error = std::max(error, std::fabs(static_cast<double>(values[i]) - reference[i]));
  }
  return largest > 0 ? error / largest : error;
}

}  // namespace loopwright::bench
