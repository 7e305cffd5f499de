// Memory-bound kernels on a GPU: tuned by the tuner, looked up by the runtime, timed as replays of a CUDA graph with
// rotated buffers (cold) and with one set of them (reused), beside the ceilings of the machine and any contender.
//
// Usage: bench_gpu_memory [--device cuda:N] [--database FILE] [--minutes M] [--only REGEX] [--json FILE]
//                         [--rounds N] [--contender "NAME=COMMAND"]... [--first-calls N]
// --minutes is for tuning what the database lacks, all cases together. Then, family by family and `rounds` times, every
// contender (see support/gpu_contender.h) and our own kernels in turn; a time is the median of the rounds. The error
// beside it is the largest relative one that the tuner found when it verified the variant.
// --first-calls: nothing but the host time of the first calls of that many graphs that the database has, in a process
// that has the device open.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "bench/support/gpu_cases.h"
#include "bench/support/gpu_contender.h"
#include "bench/support/gpu_database.h"
#include "bench/support/gpu_timer.h"
#include "loopwright/tune.h"

namespace {

using namespace loopwright;
using bench::Case;
using bench::Contender;
using bench::GpuTimer;

struct Options {
  std::string device = "cuda:0", database = "gpu_memory.db", only = ".", json;
  double minutes = 10;
  int rounds = 2, first_calls = 0;
  std::vector<Contender> contenders;
};

/// What the rounds gave for one case.
struct Row {
  Case c;
  std::vector<double> cold_us, reused_us;
  double p10_us = 1e30, p90_us = 0;  ///< of all cold replays
  double ceiling_us = 0;
  double error = -1;  ///< negative where nothing was verified
  std::string variant, failure;
  double cold() const { return bench::median(cold_us); }
  double reused() const { return bench::median(reused_us); }
};

Status tune_case(const Case& c, const Options& options, const Target& target, double budget_s,
                 const std::vector<Bindings>& probes) {
  LW_TRY(const Graph graph, Graph::parse(c.graph, c.family));
  TuneOptions tuning;
  tuning.database = options.database;
  tuning.target = target;
  tuning.device = options.device;
  tuning.budget_s = budget_s;
  tuning.probes = probes;
  tuning.command_line = "bench_gpu_memory";
  LW_TRY(const TuneReport report, tune(graph, tuning));
  std::fprintf(stderr, "tuned %-10s %-16s %6.1f s, %lld trials, %.2f -> %.2f us\n", c.family.c_str(),
               c.shape.c_str(), report.elapsed_s,
               static_cast<long long>(report.workloads.empty() ? 0 : report.workloads[0].trials),
               report.workloads.empty() ? 0 : report.workloads[0].default_ns * 1e-3,
               report.workloads.empty() ? 0 : report.workloads[0].best_ns * 1e-3);
  return Unit{};
}

std::vector<std::int64_t> symbol_values(const Plan& plan, const Case& c) {
  std::vector<std::int64_t> out;
  for (const Symbol& symbol : plan.spec().symbols) out.push_back(c.sizes.at(symbol.name));
  out.push_back(0);
  return out;
}

/// One more round of a case.
Status time_case(Row& row, GpuTimer& timer, const Runtime& runtime, const bench::Database& database) {
  const Case& c = row.c;
  LW_TRY(const Graph graph, Graph::parse(c.graph, c.family));
  LW_TRY(const Plan plan, runtime.plan(graph.name()));
  const std::vector<std::int64_t> symbols = symbol_values(plan, c);
  LW_TRY(const bench::GpuTime cold, timer.time_plan(plan, symbols, {.cold = true, .links = c.links}));
  LW_TRY(const bench::GpuTime reused, timer.time_plan(plan, symbols, {.cold = false, .links = c.links}));
  row.cold_us.push_back(cold.median_us);
  row.reused_us.push_back(reused.median_us);
  row.p10_us = std::min(row.p10_us, cold.p10_us);
  row.p90_us = std::max(row.p90_us, cold.p90_us);
  LW_TRY(row.ceiling_us, timer.ceiling_us(c.read, c.written));
  row.variant.clear();
  LW_TRY(const auto choices, plan.choose({symbols.data(), symbols.size() - 1}));
  for (const Plan::Choice& choice : choices) {
    row.variant += (row.variant.empty() ? "" : " + ") + choice.label;
    row.error = std::max(row.error, database.find_error(choice.workload, choice.label));
  }
  return Unit{};
}

std::string error_text(double error) {
  char text[16];
  std::snprintf(text, sizeof text, "%.0e", error);
  return error < 0 ? "-" : text;
}

void print_table(const std::vector<Row>& rows, const Options& options) {
  std::printf("\n%-10s %-16s %9s %14s %6s %7s %7s %9s", "case", "shape", "cold us", "p10-p90", "error", "GB/s", "x ceil",
              "reused us");
  for (const Contender& other : options.contenders)
    std::printf(" %10s %6s %10s %6s %6s", other.name().substr(0, 10).c_str(), "ratio", "reused", "ratio", "error");
  std::printf("  variant\n");
  struct Mean {
    double log_sum = 0, count = 0, worst = 1e9;
  };
  std::vector<Mean> means(options.contenders.size());
  for (const Row& row : rows) {
    if (!row.failure.empty()) {
      std::printf("%-10s %-16s %s\n", row.c.family.c_str(), row.c.shape.c_str(), row.failure.c_str());
      continue;
    }
    std::printf("%-10s %-16s %9.2f %6.2f-%-7.2f %6s %7.0f %7.2f %9.2f", row.c.family.c_str(), row.c.shape.c_str(), row.cold(),
                row.p10_us, row.p90_us, error_text(row.error).c_str(), (row.c.read + row.c.written) * 1e-3 / row.cold(),
                row.cold() / row.ceiling_us, row.reused());
    for (std::size_t i = 0; i < means.size(); ++i) {
      const Contender& other = options.contenders[i];
      const double cold = other.time_us(row.c.name(), true), seed = other.time_us(row.c.name(), false);
      std::printf(" %10.2f %6.2f %10.2f %6.2f %6s", cold, cold / row.cold(), seed, seed / row.reused(),
                  error_text(other.error(row.c.name())).c_str());
      if (!row.c.in_suite || cold == 0) continue;
      means[i].log_sum += std::log(cold / row.cold());
      means[i].count += 1;
      means[i].worst = std::min(means[i].worst, cold / row.cold());
    }
    std::printf("  %s\n", row.variant.substr(0, 120).c_str());
  }
  for (std::size_t i = 0; i < means.size(); ++i)
    if (means[i].count > 0)
      std::printf("mem suite, cold: geometric mean %.2f x %s over %.0f rows, worst %.2f\n", std::exp(means[i].log_sum / means[i].count),
                  options.contenders[i].name().c_str(), means[i].count, means[i].worst);
}

void write_json(const std::vector<Row>& rows, const Options& options) {
  nlohmann::json out = nlohmann::json::array();
  for (const Row& row : rows) {
    nlohmann::json j = {{"case", row.c.family}, {"shape", row.c.shape}, {"bytes", row.c.read + row.c.written}};
    if (!row.failure.empty()) j["failure"] = row.failure;
    else
      j.update({{"cold_us", row.cold()},
                {"cold_p10_us", row.p10_us},
                {"cold_p90_us", row.p90_us},
                {"reused_us", row.reused()},
                {"rounds_cold_us", row.cold_us},
                {"rounds_reused_us", row.reused_us},
                {"ceiling_us", row.ceiling_us},
                {"max_rel_error", row.error},
                {"variant", row.variant}});
    for (const Contender& other : options.contenders)
      j["contenders"][other.name()] = {{"cold_us", other.time_us(row.c.name(), true)},
                                       {"reused_us", other.time_us(row.c.name(), false)},
                                       {"error", other.error(row.c.name())}};
    out.push_back(j);
  }
  std::ofstream(options.json) << out.dump(1) << "\n";
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--device") options.device = value;
    else if (name == "--database") options.database = value;
    else if (name == "--minutes") options.minutes = std::stod(value);
    else if (name == "--only") options.only = value;
    else if (name == "--json") options.json = value;
    else if (name == "--rounds") options.rounds = std::max(1, std::stoi(value));
    else if (name == "--first-calls") options.first_calls = std::stoi(value);
    else if (name == "--contender" && value.find('=') != std::string::npos)
      options.contenders.emplace_back(value.substr(0, value.find('=')), value.substr(value.find('=') + 1));
    else {
      std::fprintf(stderr, "unknown option %s %s\n", name.c_str(), value.c_str());
      std::exit(2);
    }
  }
  return options;
}

/// Tunes what the database lacks; sizes of one range together. Returns the failures by graph.
std::map<std::string, std::string> tune_all(const std::vector<Case>& cases, const Options& options, const Target& target) {
  std::map<std::string, std::vector<Bindings>> graphs;
  for (const Case& c : cases) {
    auto& sizes = graphs[c.graph];
    if (!c.sizes.empty() && std::find(sizes.begin(), sizes.end(), c.sizes) == sizes.end()) sizes.push_back(c.sizes);
  }
  std::map<std::string, std::string> failures;
  std::map<std::string, bool> done;
  double left_s = options.minutes * 60;
  std::size_t left = graphs.size();
  for (const Case& c : cases) {
    if (std::exchange(done[c.graph], true)) continue;
    const auto from = std::chrono::steady_clock::now();
    const Status tuned = tune_case(c, options, target, left_s / static_cast<double>(left--), graphs[c.graph]);
    if (!tuned.ok()) failures[c.graph] = tuned.error().message();
    left_s = std::max(1.0, left_s - std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count());
  }
  return failures;
}

/// What a program waits for that has its kernels in a database: opening it, plans, loading, and the first run of each.
Status print_first_calls(const std::vector<Case>& cases, const Options& options) {
  using Clock = std::chrono::steady_clock;
  const auto ms = [](Clock::duration d) { return std::chrono::duration<double, std::milli>(d).count(); };
  LW_TRY(GpuTimer timer, GpuTimer::open(options.device));
  const auto from = Clock::now();
  LW_TRY(const Runtime runtime, Runtime::open({.databases = {options.database}, .device = options.device}));
  const double open_ms = ms(Clock::now() - from);
  double plans_ms = 0, launches_ms = 0;
  int count = 0;
  std::map<std::string, bool> done;
  for (const Case& c : cases) {
    if (count == options.first_calls) break;
    if (c.links > 1 || std::exchange(done[c.graph], true)) continue;
    LW_TRY(const Graph graph, Graph::parse(c.graph, c.family));
    const auto begin = Clock::now();
    LW_TRY(const Plan plan, runtime.plan(graph.name()));
    const double plan_ms = ms(Clock::now() - begin);
    LW_TRY(const double first_ms, timer.first_launch_ms(plan, symbol_values(plan, c)));
    std::printf("  %-10s %-16s plan %.2f ms, launch %.2f ms\n", c.family.c_str(), c.shape.c_str(), plan_ms, first_ms);
    plans_ms += plan_ms, launches_ms += first_ms;
    ++count;
  }
  std::printf("first calls of %d graphs: %.2f ms (database %.2f, plans with their code %.2f, launches %.2f)\n", count,
              open_ms + plans_ms + launches_ms, open_ms, plans_ms, launches_ms);
  return Unit{};
}

Status run(Options options) {
  std::vector<Case> cases;
  const std::regex only(options.only);
  for (const Case& c : bench::all_cases())
    if (std::regex_search(c.name(), only)) cases.push_back(c);
  if (options.first_calls > 0) return print_first_calls(cases, options);
  LW_TRY(const Target target, device_target(options.device));
  const std::map<std::string, std::string> failures = tune_all(cases, options, target);

  LW_TRY(GpuTimer timer, GpuTimer::open(options.device));
  LW_TRY(const Runtime runtime, Runtime::open({.databases = {options.database}, .device = options.device}));
  for (const std::string& note : runtime.notes()) std::fprintf(stderr, "%s\n", note.c_str());
  LW_TRY(const bench::Database database, bench::Database::open(options.database));
  LW_TRY(const std::string ceilings, timer.describe_ceilings());
  std::printf("%s", ceilings.c_str());
  std::vector<std::string> families;
  std::vector<Row> rows;
  for (const Case& c : cases) {
    rows.push_back({.c = c});
    if (std::find(families.begin(), families.end(), c.family) == families.end()) families.push_back(c.family);
  }
  for (int round = 0; round < options.rounds; ++round)
    for (const std::string& family : families) {
      for (Contender& other : options.contenders) other.run(family);
      for (Row& row : rows) {
        if (row.c.family != family || !row.failure.empty()) continue;
        const Status timed = time_case(row, timer, runtime, database);
        if (timed.ok()) {
          std::fprintf(stderr, "timed %-10s %-16s cold %.2f reused %.2f us\n", family.c_str(), row.c.shape.c_str(), row.cold_us.back(), row.reused_us.back());
          continue;
        }
        const auto why = failures.find(row.c.graph);
        row.failure = why != failures.end() ? why->second : timed.error().message();
      }
    }
  print_table(rows, options);
  if (!options.json.empty()) write_json(rows, options);
  return Unit{};
}

}  // namespace

int main(int argc, char** argv) {
  const Status status = run(parse(argc, argv));
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.error().message().c_str());
  return status.ok() ? 0 : 1;
}
