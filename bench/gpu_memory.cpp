// Memory-bound kernels on a GPU: tuned by the tuner, looked up by the runtime, timed as replays of a CUDA graph with
// rotated buffers (cold) and with one set of them (reused), beside the ceilings of the machine and any contender.
//
// Usage: bench_gpu_memory [--device cuda:N] [--database FILE] [--minutes M] [--only REGEX] [--json FILE]
//                         [--contender "NAME=COMMAND"]...
// A contender is a command that prints lines `family shape policy TIME us ...` (policy: cold, hot, seed); it is run
// before our own timing, in the same call. --minutes is for tuning what the database lacks, all cases together.
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "bench/support/gpu_timer.h"
#include "loopwright/tune.h"

namespace {

using namespace loopwright;
using bench::GpuTimer;

struct Case {
  std::string family, shape;
  std::string graph;
  Bindings sizes;                ///< of the graph's symbols
  double read = 0, written = 0;  ///< bytes
  bool in_suite = false;         ///< counts for the geometric mean
  std::string name() const { return family + " " + shape; }
};

struct Options {
  std::string device = "cuda:0", database = "gpu_memory.db", only = ".", json;
  double minutes = 10;
  std::vector<std::pair<std::string, std::string>> contenders;
};

std::string dims(std::initializer_list<long> values) {
  std::string text;
  for (const long v : values) text += (text.empty() ? "" : ",") + std::to_string(v);
  return "[" + text + "]";
}

/// The `mem` suite: bf16, weights of the row's length.
void add_suite(std::vector<Case>& cases) {
  constexpr std::array<std::array<long, 2>, 5> kShapes = {
      {{4096, 4096}, {32768, 2048}, {2048, 2880}, {16384, 8192}, {8, 131072}}};
  const std::map<std::string, std::string> bodies = {
      {"softmax", "y = softmax(x, axis=-1)\n"},
      {"layernorm", "y = layer_norm(x, w, w, eps=1e-5)\n"},
      {"rmsnorm",
       "h = cast(x, f32)\ny = cast(mul(mul(h, rsqrt(add(mean(mul(h, h), axes=[-1], keepdim=true), 1e-5))), "
       "cast(w, f32)), bf16)\n"},
      {"gelu_mul", "y = mul(gelu_tanh(x), w)\n"},
      {"sum", "y = sum(cast(x, f32))\n"},
      {"colsum", "y = sum(cast(x, f32), axes=[0])\n"}};
  for (const auto& [rows, columns] : kShapes)
    for (const char* family : {"softmax", "layernorm", "rmsnorm", "gelu_mul", "sum", "colsum"}) {
      const bool reduces = std::strstr(family, "sum") != nullptr;
      const bool weighs = std::strcmp(family, "layernorm") == 0 || std::strcmp(family, "rmsnorm") == 0 ||
                          std::strcmp(family, "gelu_mul") == 0;
      std::string graph =
          std::string("graph ") + family + "_" + std::to_string(rows) + "_" + std::to_string(columns) + "\n";
      graph += "input x: bf16" + dims({rows, columns}) + "\n";
      if (weighs) graph += "input w: bf16" + dims({columns}) + "\n";
      graph += bodies.at(family) + "output y\n";
      const double bytes = 2.0 * static_cast<double>(rows) * static_cast<double>(columns);
      cases.push_back({family, dims({rows, columns}), graph, {}, bytes, reduces ? 0 : bytes, true});
    }
}

/// One graph over a range of tokens, at the sizes that a decoder meets.
void add_rms_range(std::vector<Case>& cases) {
  for (long s = 1; s <= 2048; s *= 2) {
    const double bytes = 2.0 * 2880 * static_cast<double>(s);
    cases.push_back(
        {"rms-f32",
         dims({s, 2880}),
         "graph rms_range\nsymbol tokens in 1..8192\ninput x: bf16[tokens, 2880]\ninput w: f32[2880]\n"
         "h = cast(x, f32)\ny = cast(mul(mul(h, rsqrt(add(mean(mul(h, h), axes=[-1], keepdim=true), 1e-5))), "
         "w), bf16)\n"
         "output y\n",
         {{"tokens", s}},
         bytes,
         bytes,
         false});
  }
}

void add_others(std::vector<Case>& cases) {
  cases.push_back({"sinsum",
                   "i64[400,400]",
                   "graph sin_sum_gt\ninput x: i64[400, 400] strides [800, 2]\ny = sin(cast(x, f32))\n"
                   "positive = gt(sum(y), 0)\noutput y\noutput positive\n",
                   {},
                   400.0 * 800 * 8,
                   400.0 * 400 * 4,
                   false});
  const auto move = [&](const char* family, const std::string& shape, const std::string& text, double bytes) {
    cases.push_back({family, shape, text, {}, bytes, bytes, false});
  };
  move("transp16", "[8192,8192]",
       "graph transpose_bf16\ninput x: bf16[8192, 8192]\noutput y = copy(permute(x, axes=[1, 0]))\n",
       2.0 * 8192 * 8192);
  move("transp32", "[8192,4096]",
       "graph transpose_f32\ninput x: f32[8192, 4096]\noutput y = copy(permute(x, axes=[1, 0]))\n",
       4.0 * 8192 * 4096);
  move("permute", "[8,2048,32,128]",
       "graph permute_heads\ninput x: bf16[8, 2048, 32, 128]\noutput y = copy(permute(x, axes=[0, 2, 1, "
       "3]))\n",
       2.0 * 8 * 2048 * 32 * 128);
  cases.push_back({"argmax",
                   "[64,128256]",
                   "graph argmax_rows\ninput x: bf16[64, 128256]\noutput y = argmax(x, axes=[-1])\n",
                   {},
                   2.0 * 64 * 128256,
                   0,
                   false});
}

/// What a contender printed: microseconds by `family shape policy`.
std::map<std::string, double> run_contender(const std::string& command) {
  std::map<std::string, double> times;
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return times;
  char line[4096];
  while (std::fgets(line, sizeof line, pipe) != nullptr) {
    std::istringstream words(line);
    std::string family, shape, policy, unit;
    double us = 0;
    if (words >> family >> shape >> policy >> us >> unit && unit == "us")
      times[family + " " + shape + " " + policy] = us;
  }
  ::pclose(pipe);
  return times;
}

double find_time(const std::map<std::string, double>& times, const Case& c, bool cold) {
  for (const char* policy :
       cold ? std::array<const char*, 2>{"cold", "hot"} : std::array<const char*, 2>{"seed", "seed"}) {
    const auto it = times.find(c.name() + " " + policy);
    if (it != times.end()) return it->second;
  }
  return 0;
}

struct Row {
  Case c;
  bench::GpuTime cold, reused;
  double ceiling_us = 0;
  std::string variant, failure;
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

Result<Row> time_case(const Case& c, GpuTimer& timer, const Runtime& runtime) {
  LW_TRY(const Graph graph, Graph::parse(c.graph, c.family));
  LW_TRY(const Plan plan, runtime.plan(graph.name()));
  std::vector<std::int64_t> symbols;
  for (const Symbol& symbol : plan.spec().symbols) symbols.push_back(c.sizes.at(symbol.name));
  symbols.push_back(0);
  Row row{.c = c};
  LW_TRY(row.cold, timer.time_plan(plan, symbols, true));
  LW_TRY(row.reused, timer.time_plan(plan, symbols, false));
  LW_TRY(row.ceiling_us, timer.ceiling_us(c.read, c.written));
  if (const auto choices = plan.choose({symbols.data(), symbols.size() - 1}); choices.ok())
    for (const Plan::Choice& choice : *choices)
      row.variant += (row.variant.empty() ? "" : " + ") + choice.label;
  return row;
}

void print_table(const std::vector<Row>& rows, const Options& options,
                 const std::vector<std::map<std::string, double>>& theirs) {
  std::printf("\n%-10s %-16s %9s %14s %7s %7s %9s", "case", "shape", "cold us", "p10-p90", "GB/s", "x ceil",
              "reused us");
  for (const auto& [name, command] : options.contenders)
    std::printf(" %10s %6s %10s %6s", name.substr(0, 10).c_str(), "ratio", "reused", "ratio");
  std::printf("  variant\n");
  std::vector<double> log_sum(theirs.size(), 0), count(theirs.size(), 0), worst(theirs.size(), 1e9);
  for (const Row& row : rows) {
    if (!row.failure.empty()) {
      std::printf("%-10s %-16s %s\n", row.c.family.c_str(), row.c.shape.c_str(), row.failure.c_str());
      continue;
    }
    std::printf("%-10s %-16s %9.2f %6.2f-%-7.2f %7.0f %7.2f %9.2f", row.c.family.c_str(), row.c.shape.c_str(),
                row.cold.median_us, row.cold.p10_us, row.cold.p90_us,
                (row.c.read + row.c.written) * 1e-3 / row.cold.median_us, row.cold.median_us / row.ceiling_us,
                row.reused.median_us);
    for (std::size_t i = 0; i < theirs.size(); ++i) {
      const double cold = find_time(theirs[i], row.c, true), seed = find_time(theirs[i], row.c, false);
      std::printf(" %10.2f %6.2f %10.2f %6.2f", cold, cold / row.cold.median_us, seed,
                  seed / row.reused.median_us);
      if (!row.c.in_suite || cold == 0) continue;
      log_sum[i] += std::log(cold / row.cold.median_us);
      count[i] += 1;
      worst[i] = std::min(worst[i], cold / row.cold.median_us);
    }
    std::printf("  %s\n", row.variant.substr(0, 120).c_str());
  }
  for (std::size_t i = 0; i < theirs.size(); ++i)
    if (count[i] > 0)
      std::printf("mem suite, cold: geometric mean %.2f x %s over %.0f rows, worst %.2f\n",
                  std::exp(log_sum[i] / count[i]), options.contenders[i].first.c_str(), count[i], worst[i]);
}

void write_json(const std::vector<Row>& rows, const Options& options,
                const std::vector<std::map<std::string, double>>& theirs) {
  nlohmann::json out = nlohmann::json::array();
  for (const Row& row : rows) {
    nlohmann::json j = {
        {"case", row.c.family}, {"shape", row.c.shape}, {"bytes", row.c.read + row.c.written}};
    if (!row.failure.empty()) j["failure"] = row.failure;
    else
      j.update({{"cold_us", row.cold.median_us},
                {"cold_p10_us", row.cold.p10_us},
                {"cold_p90_us", row.cold.p90_us},
                {"reused_us", row.reused.median_us},
                {"ceiling_us", row.ceiling_us},
                {"variant", row.variant}});
    for (std::size_t i = 0; i < theirs.size(); ++i)
      j["contenders"][options.contenders[i].first] = {{"cold_us", find_time(theirs[i], row.c, true)},
                                                      {"reused_us", find_time(theirs[i], row.c, false)}};
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
    else if (name == "--contender" && value.find('=') != std::string::npos)
      options.contenders.emplace_back(value.substr(0, value.find('=')), value.substr(value.find('=') + 1));
    else {
      std::fprintf(stderr, "unknown option %s %s\n", name.c_str(), value.c_str());
      std::exit(2);
    }
  }
  return options;
}

Status run(const Options& options) {
  std::vector<Case> all, cases;
  add_suite(all);
  add_rms_range(all);
  add_others(all);
  const std::regex only(options.only);
  for (const Case& c : all)
    if (std::regex_search(c.name(), only)) cases.push_back(c);
  LW_TRY(const Target target, device_target(options.device));
  std::map<std::string, std::vector<Bindings>> graphs;  // by text: sizes of one range are tuned together
  for (const Case& c : cases)
    if (!c.sizes.empty()) graphs[c.graph].push_back(c.sizes);
    else graphs[c.graph];
  std::map<std::string, std::string> failures;
  double left_s = options.minutes * 60;
  std::size_t left = graphs.size();
  std::map<std::string, bool> done;
  for (const Case& c : cases) {
    if (done[c.graph]) continue;
    done[c.graph] = true;
    const auto from = std::chrono::steady_clock::now();
    if (const Status tuned =
            tune_case(c, options, target, left_s / static_cast<double>(left--), graphs[c.graph]);
        !tuned.ok())
      failures[c.graph] = tuned.error().message();
    left_s = std::max(
        1.0, left_s - std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count());
  }
  std::vector<std::map<std::string, double>> theirs;
  for (const auto& [name, command] : options.contenders) theirs.push_back(run_contender(command));

  LW_TRY(GpuTimer timer, GpuTimer::open(options.device));
  LW_TRY(const Runtime runtime, Runtime::open({.databases = {options.database}, .device = options.device}));
  for (const std::string& note : runtime.notes()) std::fprintf(stderr, "%s\n", note.c_str());
  LW_TRY(const std::string ceilings, timer.describe_ceilings());
  std::printf("%s", ceilings.c_str());
  std::vector<Row> rows;
  for (const Case& c : cases) {
    auto row = time_case(c, timer, runtime);
    if (row.ok()) rows.push_back(std::move(*row));
    else
      rows.push_back(
          {.c = c, .failure = failures.count(c.graph) != 0 ? failures[c.graph] : row.error().message()});
  }
  print_table(rows, options, theirs);
  if (!options.json.empty()) write_json(rows, options, theirs);
  return Unit{};
}

}  // namespace

int main(int argc, char** argv) {
  const Status status = run(parse(argc, argv));
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.error().message().c_str());
  return status.ok() ? 0 : 1;
}
