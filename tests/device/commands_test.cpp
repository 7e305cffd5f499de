// run, bench and rebuild on a real GPU: what the commands of the program are made of.
#include <filesystem>
#include <sstream>

#include "db/exchange.h"
#include "loopwright/compile.h"
#include "loopwright/tune.h"
#include "src/cli/comparison.h"
#include "src/cli/rehearsal.h"
#include "tests/device/device_test_support.h"

namespace loopwright::device_tests {
namespace {

class Commands : public OnGpu {
 protected:
  void SetUp() override {
    OnGpu::SetUp();
    std::string pattern = (std::filesystem::temp_directory_path() / "lw-device-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override {
    std::filesystem::remove_all(folder_);
    OnGpu::TearDown();
  }
  static Graph parse(const std::string& text) {
    auto graph = Graph::parse("graph g\n" + text);
    if (!graph.ok()) throw std::runtime_error(graph.error().message());
    return std::move(*graph);
  }
  TuneOptions options(const std::string& name) const {
    TuneOptions o;
    o.database = (folder_ / name).string();
    o.target = device().target();
    o.device = "cuda:0";
    o.budget_s = 30;
    o.max_trials = 4;
    return o;
  }
  /// One run at each shape, compared with float64.
  static void check_run(const std::string& text, const std::vector<Bindings>& shapes, const std::string& on = "cuda:0") {
    const Graph graph = parse(text);
    const auto target = device_target(on);
    ASSERT_TRUE(target.ok()) << target.error().message();
    const auto plan = make_plan(graph, {.target = *target, .databases = {}, .on_miss = OnMiss::jit, .device = on});
    ASSERT_TRUE(plan.ok()) << text << plan.error().message();
    for (const Bindings& shape : shapes) {
      auto rehearsal = cli::Rehearsal::make(graph, *plan, shape, 3);
      ASSERT_TRUE(rehearsal.ok()) << rehearsal.error().message();
      ASSERT_NE(rehearsal->gpu(), nullptr);
      EXPECT_EQ(rehearsal->gpu()->info().ordinal, on.back() - '0');
      for (int again = 0; again < 2; ++again) {
        const Status ran = rehearsal->run();
        ASSERT_TRUE(ran.ok()) << text << ran.error().message();
        const auto outputs = rehearsal->compare();
        ASSERT_TRUE(outputs.ok()) << outputs.error().message();
        for (const auto& o : *outputs) EXPECT_TRUE(o.passed) << text << o.name << ": " << o.detail;
      }
    }
  }

  std::filesystem::path folder_;
};

constexpr const char* kNorm = "symbol n in 1..512\ninput x: bf16[n, 2880]\noutput y = softmax(x, axis=-1)\n";

TEST_F(Commands, RunPassesAgainstFloat64) {
  check_run(kNorm, {{{"n", 1}}, {{"n", 17}}, {{"n", 512}}});
  check_run("symbol n in 1..300\ninput x: f32[n, 1000]\noutput s = sum(x, axes=[1])\noutput y = exp(x)\n", {{{"n", 299}}});
  check_run("input a: bf16[256, 512]\ninput b: bf16[512, 128]\noutput y = matmul(a, b)\n", {{}});
  check_run("symbol n in 1..16\nsymbol m in 1..16\ninput x: f32[n]\ni = iota(shape=[m], axis=0, dtype=f32)\n"
            "s = sum(i)\noutput y = add(x, s)\n",
            {{{"n", 5}, {"m", 3}}});
}

/// Layers x w + (x a) b: the first two products of each run at the same time, and memory is used again and again.
TEST_F(Commands, RunPassesWhereKernelsOverlap) {
  for (const char* dtype : {"f32", "bf16"}) {
    const std::string type(dtype);
    std::string text = "symbol n in 1..300\ninput x0: " + type + "[n, 256]\n";
    for (const char* i : {"1", "2", "3", "4", "5", "6"})
      text += std::string("input w") + i + ": " + type + "[256, 256]\ninput a" + i + ": " + type + "[256, 16]\ninput b" + i + ": " + type + "[16, 256]\n";
    for (int i = 1; i <= 6; ++i) {
      const std::string s = std::to_string(i), before = std::to_string(i - 1);
      text += "m" + s + " = matmul(x" + before + ", w" + s + ")\nl" + s + " = matmul(x" + before + ", a" + s + ")\nc" + s + " = matmul(l" + s + ", b" + s + ")\n" +
              "s" + s + " = add(m" + s + ", c" + s + ")\nx" + s + " = mul(s" + s + ", 0.0625)\n";
    }
    check_run(text + "output x6\n", {{{"n", 5}}, {{"n", 64}}, {{"n", 5}}, {{"n", 300}}});
  }
}

TEST_F(Commands, RunUsesTheGpuThatWasNamed) {
  const auto all = runtime::list_cuda_devices();
  if (!all.ok() || all->size() < 2) GTEST_SKIP() << "needs two GPUs";
  check_run(kNorm, {{{"n", 33}}}, "cuda:1");
}

TEST_F(Commands, BenchGivesTheTimesOfTheTuner) {
  const Graph graph = parse("input x: bf16[8192, 4096]\noutput y = softmax(x, axis=-1)\n");
  const auto report = tune(graph, options("t.db"));
  ASSERT_TRUE(report.ok()) << report.error().message();
  const TunedWorkload& tuned = report->workloads.at(0);
  const cli::Context context{.json = true};
  const auto rows = cli::compare_default_and_tuned(graph, {options("t.db").database}, {{}}, "cuda:0", 1, context);
  ASSERT_TRUE(rows.ok()) << rows.error().message();
  ASSERT_EQ(rows->size(), 1u);
  const cli::ComparisonRow& row = rows->front();
  EXPECT_TRUE(row.passed);
  std::printf("tuner: default %.0f ns, best %.0f ns; bench: default %.0f ns, tuned %.0f ns\n", tuned.default_ns, tuned.best_ns,
              row.default_schedule.median_ns, row.tuned.median_ns);
  EXPECT_NEAR(row.tuned.median_ns / tuned.best_ns, 1, 0.05);
  EXPECT_NEAR(row.default_schedule.median_ns / tuned.default_ns, 1, 0.05);
}

TEST_F(Commands, BenchWithBuffersThatStayInTheCachesIsFaster) {
  const Graph graph = parse("input x: f32[512, 2048]\noutput y = exp(x)\n");
  ASSERT_TRUE(tune(graph, options("t.db")).ok());
  const cli::Context context{.json = true};
  double ns[2] = {};
  for (int reused = 0; reused < 2; ++reused) {
    const auto rows = cli::compare_default_and_tuned(graph, {options("t.db").database}, {{}}, reused == 1 ? "cuda:0+reused" : "cuda:0", 1, context);
    ASSERT_TRUE(rows.ok()) << rows.error().message();
    ns[reused] = rows->front().tuned.median_ns;
  }
  std::printf("rotated %.0f ns, reused %.0f ns\n", ns[0], ns[1]);
  EXPECT_LT(ns[1], ns[0]);
}

TEST_F(Commands, RebuildServesWhatWasImported) {
  const Graph graph = parse(kNorm);
  TuneOptions mine = options("mine.db");
  ASSERT_TRUE(tune(graph, options("theirs.db")).ok());
  std::stringstream lines;
  ASSERT_TRUE(db::export_lines(options("theirs.db").database, lines, {}).ok());
  ASSERT_TRUE(db::import_lines(mine.database, lines, {}).ok());
  const PlanOptions strict{.target = mine.target, .databases = {mine.database}, .on_miss = OnMiss::strict, .device = "cuda:0"};
  EXPECT_FALSE(make_plan(graph, strict).ok()) << "no unverified schedule is served";
  const auto report = rebuild(mine);
  ASSERT_TRUE(report.ok()) << report.error().message();
  EXPECT_TRUE(report->unverified_why.empty());
  ASSERT_FALSE(report->variants.empty());
  for (const RebuiltVariant& v : report->variants) EXPECT_TRUE(v.served) << v.note;
  EXPECT_TRUE(make_plan(graph, strict).ok());
}

}  // namespace
}  // namespace loopwright::device_tests
