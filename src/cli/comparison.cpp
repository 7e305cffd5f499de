#include "src/cli/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "loopwright/compile.h"
#include "loopwright/runtime.h"
#include "src/cli/gpu_time.h"
#include "src/cli/output.h"
#include "src/cli/rehearsal.h"
#include "tuner/device_choice.h"

namespace loopwright::cli {

std::vector<Bindings> typical_shapes(const Graph& graph) {
  std::vector<Bindings> shapes;
  for (const std::int64_t size : {std::int64_t{1}, std::int64_t{16}, std::int64_t{128}}) {
    Bindings b;
    for (const Symbol& s : graph.symbols()) b[s.name] = std::clamp(size, s.lo, s.hi);
    if (shapes.empty() || !(shapes.back() == b)) shapes.push_back(std::move(b));
  }
  return shapes;
}

namespace {

/// Of a launch of each.
Result<std::vector<Timing>> time_plans(Rehearsal& a, Rehearsal& b, bool reuse_buffers, std::uint64_t seed, const Context& context) {
  if (a.gpu() != nullptr) {
    LW_TRY(GpuTimes times, time_on_gpu({&a, &b}, reuse_buffers, seed));
    if (times.throttled) print_note("heat or power holds the GPU's clocks down", context.json);
    return std::move(times.of);
  }
  std::vector<void*> at = a.pointers(), bt = b.pointers();
  return time_interleaved({[&] { a.plan().launch(at.data(), a.symbols().data()); },
                           [&] { b.plan().launch(bt.data(), b.symbols().data()); }});
}

Result<ComparisonRow> compare_shape(const Graph& graph, const Plan& plain, const Plan& tuned, const Bindings& shape,
                                    bool reuse_buffers, std::uint64_t seed, const Context& context) {
  LW_TRY(Rehearsal a, Rehearsal::make(graph, plain, shape, seed));
  LW_TRY(Rehearsal b, Rehearsal::make(graph, tuned, shape, seed));
  LW_CHECK(a.run());
  LW_CHECK(b.run());
  LW_TRY(const auto outputs, b.compare());
  LW_TRY(const auto choices, tuned.choose(b.symbols()));
  ComparisonRow row{.graph = graph.name(), .passed = true};
  for (const auto& [symbol, value] : shape)
    row.shape += fmt::format("{}{}={}", row.shape.empty() ? "" : " ", symbol, value);
  if (row.shape.empty()) row.shape = "-";
  for (const Rehearsal::Output& o : outputs) {
    row.error = std::max(row.error, o.max_rel);
    row.passed &= o.passed;
  }
  Match worst = Match::exact;
  for (const Plan::Choice& c : choices) worst = std::max(worst, c.match);
  row.match = name(worst);
  LW_TRY(const std::vector<Timing> times, time_plans(a, b, reuse_buffers, seed, context));
  row.default_schedule = times[0];
  row.tuned = times[1];
  return row;
}

/// What is stored for a graph should take the graph's tensors: the file may have been made by anybody.
Status check_arguments(const PlanSpec& own, const PlanSpec& stored) {
  const auto list = [](const PlanSpec& spec) {
    std::vector<PlanTensor> tensors;
    std::copy_if(spec.tensors.begin(), spec.tensors.end(), std::back_inserter(tensors),
                 [](const PlanTensor& t) { return t.role != ArgRole::workspace; });
    return tensors;
  };
  if (own.symbols == stored.symbols && list(own) == list(stored)) return Unit{};
  std::string names;
  for (const PlanTensor& t : list(stored)) names += (names.empty() ? "" : ", ") + t.name;
  return Error{ErrorCode::db_corrupt, "use the stored plan of " + own.name, "it has other tensors or symbols than its graph: " + names, "",
               "loopwright tune into a new database"};
}

}  // namespace

Result<std::vector<ComparisonRow>> compare_default_and_tuned(const Graph& graph,
                                                             const std::vector<std::string>& databases,
                                                             const std::vector<Bindings>& shapes,
                                                             const std::string& device, std::uint64_t seed,
                                                             const Context& context) {
  LW_TRY(const Target target, find_target(device));
  LW_TRY(const tuner::DeviceChoice choice, tuner::parse_device(device));
  note_older_driver(target, context);
  LW_TRY(const Plan plain, make_plan(graph, {.target = target, .databases = {}, .on_miss = OnMiss::jit, .device = choice.base}));
  LW_TRY(const Runtime runtime, Runtime::open({.databases = databases, .on_miss = OnMiss::fallback, .device = choice.base}));
  for (const std::string& note : runtime.notes()) print_note(note, context.json);
  LW_TRY(const Plan tuned, find_plan_of(graph, runtime, databases));
  LW_CHECK(check_arguments(plain.spec(), tuned.spec()));
  std::vector<ComparisonRow> rows;
  for (const Bindings& shape : shapes) {
    LW_TRY(ComparisonRow row, compare_shape(graph, plain, tuned, shape, choice.reused, seed, context));
    rows.push_back(std::move(row));
  }
  return rows;
}

Exit print_comparison(const std::vector<ComparisonRow>& rows, bool json) {
  Table table(
      {"graph", "shape", "default", "spread", "tuned", "spread", "ratio", "error", "verdict", "match"});
  nlohmann::json all = nlohmann::json::array();
  bool passed = true;
  double log_ratio = 0;
  for (const ComparisonRow& r : rows) {
    passed &= r.passed;
    const double ratio = r.default_schedule.median_ns / r.tuned.median_ns;
    log_ratio += std::log(ratio);
    table.add({r.graph, r.shape, format_time(r.default_schedule.median_ns),
               fmt::format("{:.0f}%", 100 * r.default_schedule.spread()), format_time(r.tuned.median_ns),
               fmt::format("{:.0f}%", 100 * r.tuned.spread()), fmt::format("{:.2f}x", ratio),
               fmt::format("{:.2g}", r.error), r.passed ? "ok" : "WRONG", r.match});
    all.push_back({{"graph", r.graph},
                   {"shape", r.shape},
                   {"default_ns", r.default_schedule.median_ns},
                   {"default_spread", r.default_schedule.spread()},
                   {"tuned_ns", r.tuned.median_ns},
                   {"tuned_spread", r.tuned.spread()},
                   {"ratio", ratio},
                   {"error", r.error},
                   {"passed", r.passed},
                   {"match", r.match}});
  }
  if (json) {
    print_json(all);
  } else {
    fmt::print("{}", table.text());
    if (rows.size() > 1)
      fmt::print("geometric mean of the ratios: {:.2f}x\n",
                 std::exp(log_ratio / static_cast<double>(rows.size())));
  }
  return passed ? kOk : kFailed;
}

}  // namespace loopwright::cli
