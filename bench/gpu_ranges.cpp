// What a range of shapes costs against tuning each shape alone: kernels tuned once over their symbols, then timed at shapes
// that the tuner never measured, beside the best of a pool of candidates at each of these shapes.
//
// Usage: bench_gpu_ranges [--device cuda:N] [--database FILE] [--minutes M] [--only REGEX] [--held-out N] [--pool N]
//                         [--json FILE]
// --minutes is for tuning what the database lacks, all kernels together. A graph of several kernels is tuned and timed kernel by kernel; its
// time is their sum. The pool of a kernel is what the database has code of and `--pool` random picks of its templates, compiled for the same
// range. All of it is timed at some scouting shapes; who is among the best five at one of them is timed at every held-out shape, in turn
// with our own variant, and counts as the best only where its result agrees with ours. Device time, operands rotated beyond the L2.
// The best of several noisy times is below the true best, so a loss of 1 % is what equal kernels show.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "bench/support/gpu_database.h"
#include "bench/support/gpu_timer.h"
#include "loopwright/tune.h"
#include "src/driver/build.h"
#include "src/driver/planner.h"
#include "src/graph/group.h"
#include "src/runtime/plan.h"

namespace {

using namespace loopwright;
using bench::GpuTimer;

struct Options {
  std::string device = "cuda:0", database = "gpu_ranges.db", only = ".", json;
  double minutes = 5;
  int held_out = 200, pool = 48;
};

struct Problem {
  const char* name;
  const char* text;
};
constexpr Problem kProblems[] = {
    {"rmsnorm",
     "symbol tokens in 1..8192\ninput x: bf16[tokens, 2880]\ninput w: f32[2880]\nh = cast(x, f32)\n"
     "output y = cast(mul(mul(h, rsqrt(add(mean(mul(h, h), axes=[-1], keepdim=true), 1e-5))), w), bf16)\n"},
    {"moe_expert",
     "symbol tokens in 1..8192\ninput x: bf16[tokens, 2048]\ninput gate: bf16[1024, 2048]\ninput up: bf16[1024, 2048]\n"
     "input down: bf16[2048, 1024]\noutput y = linear(mul(silu(linear(x, gate)), linear(x, up)), down)\n"},
    {"batched",
     "symbol batch in 1..64\nsymbol tokens in 1..2048\ninput x: bf16[batch, tokens, 512]\ninput w: bf16[batch, 512, 512]\n"
     "output y = matmul(x, w, transpose_b=true)\n"},
    {"softmax", "symbol rows in 1..16384\ninput x: bf16[rows, 4096]\noutput y = softmax(x, axis=-1)\n"},
};

/// One kernel of a problem, as a graph of its own.
struct Kernel {
  Graph graph;
  std::vector<std::string> symbols;  ///< for each of the graph's the problem's
};

Result<std::vector<Kernel>> kernels_of(const Problem& problem) {
  const std::string name = std::string("range_") + problem.name;
  LW_TRY(const Graph whole, Graph::parse("graph " + name + "\n" + problem.text, problem.name));
  std::vector<Kernel> out;
  for (const graph::Group& group : graph::group_ops(whole, driver::grouping_for(TargetKind::cuda))) {
    const std::string text = group.graph.text();
    LW_TRY(Graph named, Graph::parse("graph " + name + "_" + std::to_string(out.size()) + text.substr(text.find('\n')), name));
    out.push_back({std::move(named), group.symbols});
  }
  return out;
}

/// The fraction of `index` written backwards in a base: points that fill a range evenly, however many are taken.
double spread(std::int64_t index, int base) {
  double value = 0, digit = 1;
  for (; index > 0; index /= base) value += static_cast<double>(index % base) * (digit /= base);
  return value;
}

/// `count` shapes, even over the symbols' logarithms.
std::vector<Bindings> draw_shapes(const std::vector<Symbol>& symbols, int count, std::int64_t first) {
  constexpr int kBases[] = {2, 3, 5, 7};
  std::set<Bindings> shapes;
  for (std::int64_t i = first; static_cast<int>(shapes.size()) < count && i < first + 8 * count; ++i) {
    Bindings shape;
    for (std::size_t s = 0; s < symbols.size(); ++s) {
      const double low = static_cast<double>(symbols[s].lo), ratio = static_cast<double>(symbols[s].hi) / low;
      shape[symbols[s].name] = std::lround(low * std::pow(ratio, spread(i, kBases[s % 4])));
    }
    shapes.insert(shape);
  }
  return {shapes.begin(), shapes.end()};
}

std::vector<std::int64_t> values_of(const Plan& plan, const Kernel& kernel, const Bindings& shape) {
  std::vector<std::int64_t> out;
  for (const Symbol& symbol : plan.spec().symbols) {
    std::size_t s = 0;
    while (kernel.graph.symbols()[s].name != symbol.name) ++s;
    out.push_back(shape.at(kernel.symbols[s]));
  }
  out.push_back(0);
  return out;
}

/// Random picks of the templates of a kernel, compiled on all cores.
Result<std::vector<Plan>> make_pool(const Kernel& kernel, const Plan& own, int count, const std::shared_ptr<const runtime::Device>& device) {
  LW_TRY(const driver::Job job, driver::make_job(graph::make_workload(graph::group_ops(kernel.graph, driver::grouping_for(TargetKind::cuda))[0].graph)));
  const Target target = device->target();
  std::vector<const Template*> templates;
  for (const Template* t : driver::templates_for(job, target))
    if (std::string(t->name) != "gpu_general") templates.push_back(t);
  std::vector<std::future<Result<Artifact>>> building;
  for (int i = 0; i < count && !templates.empty(); ++i)
    building.push_back(std::async(std::launch::async, [&job, &target, i, t = templates[static_cast<std::size_t>(i) % templates.size()]]() -> Result<Artifact> {
      Space space(static_cast<std::uint64_t>(1000 + i), Picks{});
      LW_TRY(const driver::Scheduled scheduled, driver::run_template(job, *t, space, target));
      return driver::build(scheduled, target);
    }));
  std::vector<Plan> out;
  for (auto& one : building) {
    auto artifact = one.get();
    if (!artifact.ok()) continue;
    runtime::PlanParts parts;
    parts.device = device;
    parts.spec = own.spec();
    parts.variants = {{Variant{.guard = {}, .artifact = std::make_shared<const Artifact>(std::move(*artifact)), .label = "random"}}};
    if (auto plan = runtime::PlanAccess::make(std::move(parts)); plan.ok()) out.push_back(std::move(*plan));
  }
  return out;
}

struct Loss {
  double own_us = 0, best_us = 0;
  double value() const { return own_us / best_us - 1; }
};

class Bench {
 public:
  Bench(Options options, GpuTimer timer, Runtime runtime, bench::Database database)
      : options_(std::move(options)), timer_(std::move(timer)), runtime_(std::move(runtime)), database_(std::move(database)) {}

  Status run_problem(const Problem& problem) {
    LW_TRY(const std::vector<Kernel> kernels, kernels_of(problem));
    LW_TRY(const Graph whole, Graph::parse(std::string("graph whole\n") + problem.text, problem.name));
    const std::vector<Bindings> shapes = draw_held_out(kernels, whole.symbols());
    std::vector<Loss> total(shapes.size());
    std::string notes;
    for (const Kernel& kernel : kernels) LW_CHECK(time_kernel(kernel, whole.symbols(), shapes, total, notes));
    report(problem, shapes, total, notes);
    return Unit{};
  }

  void write_json() const {
    if (!options_.json.empty()) std::ofstream(options_.json) << rows_.dump(1) << "\n";
  }

 private:
  /// Shapes at which no kernel was measured by the tuner.
  std::vector<Bindings> draw_held_out(const std::vector<Kernel>& kernels, const std::vector<Symbol>& symbols) const {
    std::set<Bindings> measured;
    for (const Kernel& kernel : kernels)
      if (const auto own = runtime_.plan(kernel.graph.name()); own.ok())
        for (const Bindings& probe : database_.probes_of(own->spec().kernels.front().workload)) {
          Bindings shape;
          for (std::size_t s = 0; s < kernel.symbols.size(); ++s)
            if (const auto value = probe.find(kernel.graph.symbols()[s].name); value != probe.end()) shape[kernel.symbols[s]] = value->second;
          measured.insert(shape);
        }
    std::vector<Bindings> shapes = draw_shapes(symbols, 2 * options_.held_out, 1);
    std::erase_if(shapes, [&](const Bindings& shape) { return measured.contains(shape); });
    // Evenly thinned out: they are in order.
    std::vector<Bindings> out;
    const std::size_t count = std::min<std::size_t>(static_cast<std::size_t>(options_.held_out), shapes.size());
    for (std::size_t i = 0; i < count; ++i) out.push_back(shapes[i * shapes.size() / count]);
    return out;
  }

  /// The fastest of `plans` at a shape, by index; those that fail or are unlike the first are left out.
  Result<std::vector<std::pair<double, std::size_t>>> rank(const std::vector<const Plan*>& plans, const std::vector<std::int64_t>& values) {
    LW_TRY(const auto times, timer_.time_plans(plans, values, {.cold = true}));
    std::vector<std::pair<double, std::size_t>> out;
    for (std::size_t i = 0; i < times.size(); ++i)
      if (times[i].median_us > 0 && times[i].difference < 0.02) out.emplace_back(times[i].median_us, i);
    std::sort(out.begin(), out.end());
    return out;
  }

  Status time_kernel(const Kernel& kernel, const std::vector<Symbol>& symbols, const std::vector<Bindings>& shapes, std::vector<Loss>& total, std::string& notes) {
    constexpr int kScouts = 12;
    constexpr std::size_t kBestOfScout = 5;
    LW_TRY(const Plan own, runtime_.plan(kernel.graph.name()));
    LW_TRY(std::vector<Plan> pool, database_.rivals_of(own.spec(), timer_.device()));
    const std::size_t known = pool.size();
    LW_TRY(std::vector<Plan> random, make_pool(kernel, own, options_.pool, timer_.device()));
    std::move(random.begin(), random.end(), std::back_inserter(pool));
    std::vector<const Plan*> all{&own};
    for (const Plan& p : pool) all.push_back(&p);
    std::set<std::size_t> kept;
    for (const Bindings& shape : draw_shapes(symbols, kScouts, 1001)) {
      LW_TRY(const auto ranked, rank(all, values_of(own, kernel, shape)));
      for (std::size_t i = 0, taken = 0; i < ranked.size() && taken < kBestOfScout; ++i)
        if (ranked[i].second != 0) kept.insert(ranked[i].second), ++taken;
    }
    std::vector<const Plan*> rivals{&own};
    for (const std::size_t i : kept) rivals.push_back(all[i]);
    std::vector<Loss> losses(shapes.size());
    std::set<std::string> serving;
    for (std::size_t s = 0; s < shapes.size(); ++s) {
      const std::vector<std::int64_t> values = values_of(own, kernel, shapes[s]);
      LW_TRY(const auto ranked, rank(rivals, values));
      const auto mine = std::find_if(ranked.begin(), ranked.end(), [](const auto& r) { return r.second == 0; });
      if (mine == ranked.end()) return Error{ErrorCode::launch_failed, "time " + kernel.graph.name(), "our own variant did not run", "", ""};
      losses[s] = {mine->first, ranked.front().first};
      total[s].own_us += losses[s].own_us, total[s].best_us += losses[s].best_us;
      if (const auto choices = own.choose({values.data(), values.size() - 1}); choices.ok()) serving.insert(choices->front().label);
    }
    const auto worst = std::max_element(losses.begin(), losses.end(), [](const Loss& a, const Loss& b) { return a.value() < b.value(); });
    char line[256];
    std::snprintf(line, sizeof line, "  %-16s %2zu variants serve; %zu candidates of the database and %zu random ones, %zu timed at each shape; worst %.1f %%\n",
                  kernel.graph.name().c_str(), serving.size(), known, pool.size() - known, kept.size(), worst->value() * 100);
    notes += line;
    for (const std::string& label : serving) notes += "      " + label + "\n";
    return Unit{};
  }

  void report(const Problem& problem, const std::vector<Bindings>& shapes, const std::vector<Loss>& total, const std::string& notes) {
    std::vector<double> sorted;
    double sum = 0;
    nlohmann::json points = nlohmann::json::array();
    for (std::size_t s = 0; s < total.size(); ++s) {
      sorted.push_back(total[s].value());
      sum += total[s].value();
      nlohmann::json point = {{"own_us", total[s].own_us}, {"best_us", total[s].best_us}};
      for (const auto& [name, value] : shapes[s]) point[name] = value;
      points.push_back(std::move(point));
    }
    const std::size_t worst = static_cast<std::size_t>(std::max_element(sorted.begin(), sorted.end()) - sorted.begin());
    std::string where;
    for (const auto& [name, value] : shapes[worst]) where += " " + name + "=" + std::to_string(value);
    std::sort(sorted.begin(), sorted.end());
    const auto percent = [&](double q) { return sorted[static_cast<std::size_t>(q * static_cast<double>(sorted.size() - 1))] * 100; };
    std::printf("%-12s %3zu shapes: mean loss %.2f %%, median %.2f %%, 95th percentile %.2f %%, worst %.2f %% at%s\n%s", problem.name, total.size(),
                sum / static_cast<double>(total.size()) * 100, percent(0.5), percent(0.95), percent(1), where.c_str(), notes.c_str());
    std::fflush(stdout);
    rows_.push_back({{"case", problem.name}, {"mean", sum / static_cast<double>(total.size())}, {"p95", percent(0.95) / 100}, {"worst", percent(1) / 100}, {"shapes", points}});
  }

  Options options_;
  GpuTimer timer_;
  Runtime runtime_;
  bench::Database database_;
  nlohmann::json rows_ = nlohmann::json::array();
};

Status tune_problems(const std::vector<Problem>& problems, const Options& options) {
  TuneOptions tuning;
  tuning.database = options.database;
  tuning.device = options.device;
  tuning.budget_s = options.minutes * 60;
  tuning.command_line = "bench_gpu_ranges";
  LW_TRY(tuning.target, device_target(options.device));
  std::vector<TuneJob> jobs;
  for (const Problem& problem : problems) {
    LW_TRY(const std::vector<Kernel> kernels, kernels_of(problem));
    for (const Kernel& kernel : kernels) jobs.push_back({kernel.graph, {}, {}});
  }
  LW_TRY(const std::vector<TuneReport> reports, tune_all(jobs, tuning));
  for (const TuneReport& report : reports)
    for (const TunedWorkload& w : report.workloads)
      std::printf("tuned %-16s %-16s %lld trials, %d ranges, loss at the tuner's own held-out shapes: mean %.1f %%, worst %.1f %%\n", report.graph.c_str(), w.family.c_str(),
                  static_cast<long long>(w.trials), w.ranges, w.mean_loss * 100, w.worst_loss * 100);
  return Unit{};
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
    else if (name == "--held-out") options.held_out = std::max(1, std::stoi(value));
    else if (name == "--pool") options.pool = std::max(0, std::stoi(value));
    else {
      std::fprintf(stderr, "unknown option %s %s\n", name.c_str(), value.c_str());
      std::exit(2);
    }
  }
  return options;
}

Status run(const Options& options) {
  std::vector<Problem> problems;
  for (const Problem& p : kProblems)
    if (std::regex_search(p.name, std::regex(options.only))) problems.push_back(p);
  LW_CHECK(tune_problems(problems, options));
  LW_TRY(GpuTimer timer, GpuTimer::open(options.device));
  LW_TRY(Runtime runtime, Runtime::open({.databases = {options.database}, .device = options.device}));
  LW_TRY(bench::Database database, bench::Database::open(options.database));
  Bench bench(options, std::move(timer), std::move(runtime), std::move(database));
  for (const Problem& p : problems)
    if (const Status status = bench.run_problem(p); !status.ok()) std::printf("%-12s %s\n", p.name, status.error().message().c_str());
  bench.write_json();
  return Unit{};
}

}  // namespace

int main(int argc, char** argv) {
  const Status status = run(parse(argc, argv));
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.error().message().c_str());
  return status.ok() ? 0 : 1;
}
