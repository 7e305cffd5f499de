// What a call costs beyond the kernel itself: Plan::launch against calling the entry through its pointer, one kernel, one
// symbol, one thread; then the checked call and chains of kernels.
//
// Usage: bench_launch [Google Benchmark flags]. Prints a table; the last lines give differences and ratios. One thread
// unless LOOPWRIGHT_WORKERS says otherwise: with 2, `launch` is an almost empty parallel region on two workers.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <sys/mman.h>

#include "loopwright/runtime.h"

namespace {

using namespace loopwright;

/// float: b1[i] = b0[i] + b0[i] for i in [begin, end), as x86-64.
const std::vector<std::uint8_t> kTwice = {0x48, 0x8b, 0x07, 0x48, 0x8b, 0x08, 0x48, 0x8b, 0x40,
                                          0x08, 0x48, 0x39, 0xd6, 0x7d, 0x13, 0xf3, 0x0f, 0x10,
                                          0x04, 0xb1, 0xf3, 0x0f, 0x58, 0xc0, 0xf3, 0x0f, 0x11,
                                          0x04, 0xb0, 0x48, 0xff, 0xc6, 0xeb, 0xe8, 0xc3};
constexpr std::int64_t kElements = 8;

std::shared_ptr<Artifact> twice_artifact() {
  const SizeExpr n = SizeExpr::symbol(0);
  auto artifact = std::make_shared<Artifact>();
  artifact->target = "cpu:x86-64";
  artifact->symbols = {"s0"};
  artifact->args = {{"x", DType::f32, ArgRole::input, {n}, {SizeExpr(1)}},
                    {"y", DType::f32, ArgRole::output, {n}, {SizeExpr(1)}}};
  CpuLaunch launch;
  launch.extent = n;
  artifact->launches = {launch};
  artifact->image = kTwice;
  return artifact;
}

/// `kernels` kernels in a row over one symbol; each has `ranges` tuned ranges and a general variant.
Plan make_plan(int kernels, int ranges) {
  const SizeExpr n = SizeExpr::symbol(0);
  PlanSpec spec;
  spec.name = "twice";
  spec.symbols = {{"n", 1, 1 << 20}};
  spec.tensors = {{"x", DType::f32, ArgRole::input, {n}, {SizeExpr(1)}},
                  {"y", DType::f32, ArgRole::output, {n}, {SizeExpr(1)}}};
  for (int k = 1; k < kernels; ++k)
    spec.tensors.push_back({"t" + std::to_string(k), DType::f32, ArgRole::workspace, {n}, {SizeExpr(1)}});
  std::vector<Variant> variants;
  for (int r = 0; r < ranges; ++r) {
    Variant variant;
    const std::int64_t width = 4;
    variant.guard.symbols = {{"s0", r * width, (r + 1) * width - 1, r % 2 == 0 ? 1 : 4}};
    variant.artifact = twice_artifact();
    variants.push_back(variant);
  }
  Variant general;
  general.artifact = twice_artifact();
  variants.push_back(general);
  for (int k = 0; k < kernels; ++k)
    spec.kernels.push_back(
        {"w", "elementwise", {k == 0 ? 0 : k + 1, k == kernels - 1 ? 1 : k + 2}, {0}, {"s0"}});
  auto plan =
      Plan::make(spec, std::vector<std::vector<Variant>>(static_cast<std::size_t>(kernels), variants));
  if (!plan.ok()) {
    std::fprintf(stderr, "%s\n", plan.error().message().c_str());
    std::exit(1);
  }
  return std::move(plan).value();
}

/// One kernel over two symbols whose box is cut into `boxes` ranges along both.
Plan make_box_plan(int boxes) {
  const SizeExpr n = SizeExpr::symbol(0);
  PlanSpec spec;
  spec.name = "boxes";
  spec.symbols = {{"n", 1, 1 << 20}, {"m", 1, 1 << 20}};
  spec.tensors = {{"x", DType::f32, ArgRole::input, {n}, {SizeExpr(1)}}, {"y", DType::f32, ArgRole::output, {n}, {SizeExpr(1)}}};
  spec.kernels = {{"w", "elementwise", {0, 1}, {0, 1}, {"s0", "s1"}}};
  auto artifact = twice_artifact();
  artifact->symbols = {"s0", "s1"};
  std::vector<Variant> variants;
  for (int b = 0; b < boxes; ++b) {
    Variant variant;
    const std::int64_t half = 1 << 4, lo = b / 2 * 4 + 1, hi = b / 2 + 1 == boxes / 2 ? 1 << 20 : lo + 3;
    variant.guard.symbols = {{"s0", lo, hi, 1}, {"s1", b % 2 == 0 ? 1 : half, b % 2 == 0 ? half - 1 : 1 << 20, 1}};
    variant.artifact = artifact;
    variants.push_back(variant);
  }
  auto plan = Plan::make(spec, {variants});
  if (!plan.ok()) {
    std::fprintf(stderr, "%s\n", plan.error().message().c_str());
    std::exit(1);
  }
  return std::move(plan).value();
}

CpuEntry map_entry() {
  void* memory = mmap(nullptr, kTwice.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  std::memcpy(memory, kTwice.data(), kTwice.size());
  mprotect(memory, kTwice.size(), PROT_READ | PROT_EXEC);
  CpuEntry entry = nullptr;
  std::memcpy(&entry, &memory, sizeof entry);
  return entry;
}

struct Buffers {
  alignas(64) float x[kElements] = {1, 2, 3, 4, 5, 6, 7, 8};
  alignas(64) float y[kElements] = {};
  void* pointers[2] = {x, y};
  std::int64_t n = kElements;
};

void call_entry(benchmark::State& state) {
  Buffers b;
  CpuEntry entry = map_entry();
  benchmark::DoNotOptimize(entry);
  for (auto _ : state) {
    const CpuCall call{b.pointers, &b.n, nullptr, nullptr};
    entry(&call, 0, b.n);
    benchmark::ClobberMemory();
  }
}

void launch_plan(benchmark::State& state) {
  Buffers b;
  const Plan plan = make_plan(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
  for (auto _ : state) {
    benchmark::DoNotOptimize(plan.launch(b.pointers, &b.n));
    benchmark::ClobberMemory();
  }
  if (b.y[0] == 0) state.SkipWithError("the kernel did not run");
}

void launch_boxes(benchmark::State& state) {
  Buffers b;
  const Plan plan = make_box_plan(static_cast<int>(state.range(0)));
  const std::int64_t sizes[] = {b.n, 100};
  for (auto _ : state) {
    benchmark::DoNotOptimize(plan.launch(b.pointers, sizes));
    benchmark::ClobberMemory();
  }
  if (b.y[0] == 0) state.SkipWithError("the kernel did not run");
}

void run_plan(benchmark::State& state) {
  Buffers b;
  const Plan plan = make_plan(1, 8);
  const std::int64_t shape[] = {b.n};
  const TensorView views[] = {{b.x, DType::f32, shape, {}}, {b.y, DType::f32, shape, {}}};
  for (auto _ : state) {
    benchmark::DoNotOptimize(plan.run(views).ok());
    benchmark::ClobberMemory();
  }
}

/// Console output, and the fastest repetition of each benchmark.
class Keeper : public benchmark::ConsoleReporter {
 public:
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type != Run::RT_Iteration || run.error_occurred) continue;
      const auto [it, fresh] =
          best_ns.try_emplace(run.run_name.function_name + "/" + run.run_name.args, run.GetAdjustedCPUTime());
      if (!fresh) it->second = std::min(it->second, run.GetAdjustedCPUTime());
    }
    ConsoleReporter::ReportRuns(runs);
  }
  std::map<std::string, double> best_ns;
};

void print_summary(const Keeper& keeper) {
  const auto entry = keeper.best_ns.find("entry/");
  if (entry == keeper.best_ns.end()) return;
  std::printf("\n%-44s %10s %12s %8s\n", "case", "ns", "above entry", "ratio");
  for (const auto& [name, ns] : keeper.best_ns)
    std::printf("%-44s %10.1f %9.1f ns %8.2f\n", name.c_str(), ns, ns - entry->second, ns / entry->second);
  const auto single = keeper.best_ns.find("launch/kernels:1/ranges:1");
  if (single == keeper.best_ns.end()) return;
  const double above = single->second - entry->second;
  std::printf("\none kernel, one symbol, one thread: %.1f ns above the function pointer (limit 100): %s\n",
              above, above <= 100 ? "ok" : "TOO SLOW");
}

}  // namespace

int main(int argc, char** argv) {
  setenv("LOOPWRIGHT_WORKERS", "1", 0);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RegisterBenchmark("entry", call_entry)->Repetitions(5);
  benchmark::RegisterBenchmark("launch", launch_plan)
      ->ArgNames({"kernels", "ranges"})
      ->Repetitions(5)
      ->Args({1, 0})
      ->Args({1, 1})
      ->Args({1, 8})
      ->Args({1, 32})
      ->Args({4, 8})
      ->Args({16, 8});
  benchmark::RegisterBenchmark("two_symbols", launch_boxes)->ArgNames({"ranges"})->Repetitions(5)->Args({6})->Args({12});
  benchmark::RegisterBenchmark("run", run_plan)->Repetitions(5);
  Keeper keeper;
  benchmark::RunSpecifiedBenchmarks(&keeper);
  print_summary(keeper);
  return 0;
}
