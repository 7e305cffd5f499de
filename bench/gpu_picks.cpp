// Schedules with forced picks against the default one of the same template, in one interleaved run: what a choice is worth.
//
// Usage: bench_gpu_picks [--device cuda:N] [--only REGEX] [--template NAME] [--picks "name=value .."]...
// Cases are those of bench_gpu_memory and a product in plain arithmetic; --only chooses among their names. Without --picks those that
// the list below has for the template. A line a candidate: time cold (operands rotated beyond the L2) and reused (one set), each with the
// default's time over it, and how far its results are from the default's. Picks that the template refuses are listed with the reason.
#include <cstdio>
#include <cstdlib>
#include <future>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "bench/support/gpu_cases.h"
#include "bench/support/gpu_timer.h"
#include "loopwright/compile.h"
#include "src/driver/build.h"
#include "src/driver/planner.h"
#include "src/graph/group.h"
#include "src/runtime/plan.h"

namespace {

using namespace loopwright;
using bench::Case;
using bench::GpuTimer;

struct Options {
  std::string device = "cuda:0", only = "2048,2880|16384,8192|product", family;
  std::vector<std::string> picks;
};

/// What is tried of a template when nobody says.
const std::map<std::string, std::vector<std::string>> kPicks = {
    {"gpu_row",
     {"ring=4 resident=4", "ring=4 resident=3", "ring=4 resident=6", "ring=2 resident=8", "ring=6 resident=3", "ring=4 resident=4 hold_weights=0",
      "threads=128 rows=1 ring=4 resident=4", "threads=128 rows=1 ring=6 resident=4", "threads=128 rows=1 ring=4 resident=6", "threads=128 rows=1 ring=2 resident=8",
      "loads=1", "loads=2", "loads=3"}},
    {"gpu_matmul", {"slots=2", "slots=3", "slots=4", "slots=3 summands=8", "slots=2 summands=32"}}};

std::vector<Case> list_cases() {
  std::vector<Case> out = bench::all_cases();
  out.push_back({"product", "[4096,3584,256]", "graph product\ninput x: f32[4096, 256]\ninput w: f32[256, 3584]\ny = matmul(x, w)\noutput y\n", {}, 0, 0});
  return out;
}

class Bench {
 public:
  Bench(Options options, GpuTimer timer) : options_(std::move(options)), timer_(std::move(timer)) {}

  Status run_case(const Case& c) {
    LW_TRY(const Graph graph, Graph::parse(c.graph, c.family));
    const Target target = timer_.device()->target();
    const auto groups = graph::group_ops(graph, driver::grouping_for(TargetKind::cuda));
    if (groups.size() != 1) return Error{ErrorCode::bad_argument, "time " + c.name(), std::to_string(groups.size()) + " kernels", "", "a graph of one"};
    LW_TRY(const driver::Job job, driver::make_job(graph::make_workload(groups[0].graph)));
    const Template* family = nullptr;
    for (const Template* t : driver::templates_for(job, target)) {
      Space space;
      const bool wanted = options_.family.empty() ? driver::run_template(job, *t, space, target).ok() : options_.family == t->name;
      if (wanted && family == nullptr) family = t;
    }
    if (family == nullptr) return Error{ErrorCode::not_found, "time " + c.name(), "no such template", "", "one that fits the graph"};
    LW_TRY(const Plan own, make_plan(graph, {.target = target, .databases = {}, .on_miss = OnMiss::jit, .device = options_.device}));
    std::vector<std::string> names{""};
    const auto listed = kPicks.find(family->name);
    const std::vector<std::string>& more = !options_.picks.empty() || listed == kPicks.end() ? options_.picks : listed->second;
    names.insert(names.end(), more.begin(), more.end());
    std::vector<std::future<Result<Plan>>> building;
    for (const std::string& picks : names)
      building.push_back(std::async(std::launch::async, [&, picks] { return make(own, job, *family, picks); }));
    std::vector<Plan> plans;
    std::vector<std::string> made;
    for (std::size_t i = 0; i < names.size(); ++i) {
      auto plan = building[i].get();
      if (!plan.ok() && i == 0) return plan.error();
      if (!plan.ok()) {
        std::printf("%-24s refused: %s (%s)\n", c.name().c_str(), names[i].c_str(), plan.error().message().substr(0, 200).c_str());
        continue;
      }
      plans.push_back(std::move(*plan));
      made.push_back(names[i].empty() ? std::string(family->name) + " by default" : names[i]);
    }
    return time(c, plans, made);
  }

 private:
  Result<Plan> make(const Plan& own, const driver::Job& job, const Template& family, const std::string& text) const {
    LW_TRY(const Picks picks, parse_picks(text));
    Space space(picks);
    LW_TRY(const driver::Scheduled scheduled, driver::run_template(job, family, space, timer_.device()->target()));
    LW_TRY(Artifact artifact, driver::build(scheduled, timer_.device()->target()));
    runtime::PlanParts parts;
    parts.device = timer_.device();
    parts.spec = own.spec();
    parts.variants = {{Variant{.guard = {}, .artifact = std::make_shared<const Artifact>(std::move(artifact)), .label = text}}};
    return runtime::PlanAccess::make(std::move(parts));
  }

  Status time(const Case& c, const std::vector<Plan>& plans, const std::vector<std::string>& names) {
    std::vector<const Plan*> all;
    for (const Plan& p : plans) all.push_back(&p);
    std::vector<std::int64_t> symbols;
    for (const Symbol& s : plans[0].spec().symbols) symbols.push_back(c.sizes.at(s.name));
    symbols.push_back(0);
    LW_TRY(const auto cold, timer_.time_plans(all, symbols, {.cold = true}));
    LW_TRY(const auto reused, timer_.time_plans(all, symbols, {.cold = false}));
    for (std::size_t i = 0; i < all.size(); ++i)
      std::printf("%-24s cold %8.2f us %5.3fx   reused %8.2f us %5.3fx   difference %.1e   %s\n", c.name().c_str(), cold[i].median_us, cold[0].median_us / cold[i].median_us,
                  reused[i].median_us, reused[0].median_us / reused[i].median_us, std::max(cold[i].difference, reused[i].difference), names[i].c_str());
    std::fflush(stdout);
    return Unit{};
  }

  Options options_;
  GpuTimer timer_;
};

Status run(const Options& options) {
  LW_TRY(GpuTimer timer, GpuTimer::open(options.device));
  Bench bench(options, std::move(timer));
  for (const Case& c : list_cases()) {
    if (!std::regex_search(c.name(), std::regex(options.only))) continue;
    if (const Status status = bench.run_case(c); !status.ok()) std::printf("%-24s %s\n", c.name().c_str(), status.error().message().c_str());
  }
  return Unit{};
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--device") options.device = value;
    else if (name == "--only") options.only = value;
    else if (name == "--template") options.family = value;
    else if (name == "--picks") options.picks.push_back(value);
    else {
      std::fprintf(stderr, "unknown option %s %s\n", name.c_str(), value.c_str());
      return 2;
    }
  }
  const Status status = run(options);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.error().message().c_str());
  return status.ok() ? 0 : 1;
}
