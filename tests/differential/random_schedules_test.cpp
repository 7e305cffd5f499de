// Random kernel x random schedule: the interpreter gives the same result before and after, the trace replays, and the
// compiled code agrees. Flags: --seed=N --cases=N (the seed of the first case, cases for each test).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <random>

#include "src/driver/build.h"
#include "src/graph/naive_kernel.h"
#include "src/ir/rewrite.h"
#include "src/ir/text.h"
#include "src/runtime/host_cpu.h"
#include "tests/support/flag.h"
#include "tests/support/random_data.h"
#include "tests/support/random_kernel.h"
#include "tests/support/random_schedule.h"
#include "tests/support/run_image.h"

namespace loopwright::test {
namespace {

constexpr std::uint64_t kCases = 500;
constexpr int kAttempts = 16;
constexpr std::uint64_t kMaxSteps = 3'000'000;  ///< statements; larger random cases are passed over

constexpr std::uint64_t kCompileEvery = 10;  ///< compiling takes longer than all the rest

bool regroups(const std::vector<schedule::TracedStep>& steps) {
  return std::any_of(steps.begin(), steps.end(), [](const schedule::TracedStep& s) {
    return std::holds_alternative<schedule::ReduceAcross>(s.step) || std::holds_alternative<schedule::ScanAcross>(s.step);
  });
}

/// Functions of which the compiled code and the interpreter may differ in the last place.
bool is_approximate(const ir::Kernel& k) {
  bool found = false;
  ir::walk(
      k.body, [](const ir::Stmt&) {},
      [&](const ir::Expr& e) {
        if (const auto* u = ir::as<ir::Unary>(e))
          found = found ||
                  (u->op >= ir::UnaryOp::exp && u->op <= ir::UnaryOp::sigmoid && u->op != ir::UnaryOp::sqrt);
        if (const auto* b = ir::as<ir::Binary>(e))
          found = found || b->op == ir::BinaryOp::pow || b->op == ir::BinaryOp::atan2;
      });
  return found;
}

/// The arguments after a run of the compiled kernel, every buffer on a cache line of its own.
Status run_compiled(const ir::Kernel& k, const Target& target, const Bindings& bindings,
                    Arguments& arguments) {
  LW_TRY(const Artifact artifact, driver::compile_kernel(k, target));
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::vector<std::unique_ptr<void, Free>> memory;
  std::vector<void*> buffers;
  for (const ArtifactArg& arg : artifact.args) {
    if (arg.role == ArgRole::workspace) continue;
    const std::vector<std::uint8_t>& data = arguments.at(arg.name).data;
    memory.emplace_back(std::aligned_alloc(64, (data.size() + 64) / 64 * 64));
    std::copy(data.begin(), data.end(), static_cast<std::uint8_t*>(memory.back().get()));
    buffers.push_back(memory.back().get());
  }
  LW_CHECK(run_artifact(artifact, bindings, buffers, 3));
  std::size_t next = 0;
  for (const ArtifactArg& arg : artifact.args) {
    if (arg.role == ArgRole::workspace) continue;
    std::vector<std::uint8_t>& data = arguments.at(arg.name).data;
    const auto* bytes = static_cast<const std::uint8_t*>(buffers[next++]);
    std::copy(bytes, bytes + data.size(), data.begin());
  }
  return Unit{};
}

std::uint64_t compiled_cases = 0;

/// What is wrong with the lowered or compiled kernel; empty when nothing is.
std::string check_compiled(const ir::Kernel& naive, const RandomSchedule& s, std::uint64_t seed) {
  const int level = runtime::feature_level(runtime::host_cpu().features);
  if (level < 2) return {};
  const Target target = *Target::parse("cpu:x86-64-v" + std::to_string(level));
  ir::Kernel scheduled = s.kernel;
  scheduled.contract = false;
  const auto lowered = driver::lower_kernel(scheduled, target);
  if (!lowered.ok())
    return lowered.error().code == ErrorCode::resource_exceeded
               ? ""
               : "it does not lower: " + lowered.error().message();
  const Bindings bindings = testing::random_bindings(s.kernel, seed);
  const Arguments arguments = testing::random_arguments(naive, bindings, seed);
  Arguments expected = arguments, found = arguments;
  ir::InterpretOptions options;
  options.max_steps = kMaxSteps;
  if (!ir::interpret(naive, bindings, expected, options).ok()) return {};
  const Status ran = ir::interpret(*lowered, bindings, found, options);
  if (!ran.ok())
    return ran.error().code == ErrorCode::timeout ? "" : "the lowered kernel fails: " + ran.error().message();
  if (const auto difference = find_difference(naive, expected, found, regroups(s.steps)))
    return "the lowered kernel: " + *difference + "\n" + ir::print(*lowered);
  if (is_approximate(naive)) return {};
  found = arguments;
  const Status compiled = run_compiled(*lowered, target, bindings, found);
  if (!compiled.ok())
    return compiled.error().code == ErrorCode::unsupported_target
               ? ""
               : "it does not compile: " + compiled.error().message();
  ++compiled_cases;
  if (const auto difference = find_difference(naive, expected, found, regroups(s.steps), true))
    return "the compiled kernel: " + *difference + "\n" + ir::print(*lowered);
  return {};
}

/// What is wrong with a scheduled kernel; empty when nothing is.
std::string check(const ir::Kernel& naive, const RandomSchedule& s, std::uint64_t seed) {
  if (!s.wrong.empty()) return s.wrong;
  const auto replayed = schedule::replay(naive, schedule::print_trace(s.steps));
  if (!replayed.ok()) return "the trace does not replay: " + replayed.error().message();
  if (ir::print(*replayed) != ir::print(s.kernel)) return "the replayed trace gives another kernel";
  ir::InterpretOptions options;
  options.max_steps = kMaxSteps;
  for (std::uint64_t i = 0; i < 2; ++i) {
    const Bindings bindings = testing::random_bindings(s.kernel, seed + i);
    const Arguments arguments = testing::random_arguments(naive, bindings, seed + i);
    Arguments expected = arguments, found = arguments;
    const Status before = ir::interpret(naive, bindings, expected, options);
    if (!before.ok())
      return before.error().code == ErrorCode::timeout
                 ? ""
                 : "the naive kernel fails: " + before.error().message();
    const Status after = ir::interpret(s.kernel, bindings, found, options);
    if (!after.ok())
      return after.error().code == ErrorCode::timeout
                 ? ""
                 : "the scheduled kernel fails: " + after.error().message();
    if (const auto difference = find_difference(naive, expected, found, regroups(s.steps)))
      return *difference;
  }
  return seed % kCompileEvery == 0 ? check_compiled(naive, s, seed) : "";
}

/// Leaves out one step after the other while the case still fails.
RandomSchedule shrink(const ir::Kernel& naive, RandomSchedule s, std::uint64_t seed) {
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (std::size_t i = s.steps.size(); i-- > 0;) {
      std::vector<schedule::TracedStep> fewer = s.steps;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      RandomSchedule candidate = apply_what_applies(naive, fewer);
      if (candidate.steps.size() >= s.steps.size() || check(naive, candidate, seed).empty()) continue;
      s = std::move(candidate);
      smaller = true;
    }
  }
  return s;
}

std::string as_golden(const ir::Kernel& naive, const RandomSchedule& s, std::uint64_t seed,
                      const std::string& wrong) {
  std::string comment;
  for (std::size_t at = 0; at < wrong.size();) {
    const std::size_t end = std::min(wrong.find('\n', at), wrong.size());
    comment += "# " + wrong.substr(at, end - at) + "\n";
    at = end + 1;
  }
  std::string run;
  for (const auto& [name, value] : testing::random_bindings(s.kernel, seed))
    run += name + " = " + std::to_string(value) + "\n";
  std::string steps = schedule::print_trace(s.steps);
  return comment + "--- input\n" + ir::print(naive) + "--- steps\n" + steps.substr(steps.find('\n') + 1) +
         "--- expect\n--- run\n" + run;
}

void run_cases(std::uint64_t first) {
  const std::uint64_t cases = flag("cases", kCases);
  std::uint64_t accepted = 0, rejected = 0;
  int failures = 0;
  for (std::uint64_t seed = first; seed < first + cases && failures < 5; ++seed) {
    const ir::Kernel naive = testing::random_kernel(seed);
    RandomSchedule s = random_schedule(naive, seed, kAttempts);
    accepted += s.steps.size();
    rejected += static_cast<std::uint64_t>(s.rejected);
    if (check(naive, s, seed).empty()) continue;
    ++failures;
    s = shrink(naive, std::move(s), seed);
    const std::string wrong = check(naive, s, seed);
    const std::string golden = as_golden(naive, s, seed, wrong);
    const std::string file = "differential_failure_" + std::to_string(seed) + ".txt";
    std::ofstream(file) << golden;
    ADD_FAILURE() << "seed " << seed << " (replay with --seed=" << seed << " --cases=1; written to " << file
                  << ")\n"
                  << golden;
  }
  std::printf("%llu steps accepted, %llu rejected; %llu kernels compiled\n",
              static_cast<unsigned long long>(accepted), static_cast<unsigned long long>(rejected),
              static_cast<unsigned long long>(compiled_cases));
  if (cases > 100) {
    EXPECT_GT(accepted, cases) << "too few steps apply for the test to mean anything";
  }
}

TEST(RandomSchedules, keep_the_meaning_1) { run_cases(flag("seed", 1)); }
TEST(RandomSchedules, keep_the_meaning_2) { run_cases(flag("seed", 1) + 10'000); }
TEST(RandomSchedules, keep_the_meaning_3) { run_cases(flag("seed", 1) + 20'000); }
TEST(RandomSchedules, keep_the_meaning_4) { run_cases(flag("seed", 1) + 30'000); }

/// A product over groups of rows, with the rows' groups and their number in the epilogue.
ir::Kernel grouped_kernel() {
  const auto graph = Graph::parse(
      "graph g\nsymbol n in 0..17\ninput x: f32[n, 3]\ninput w: f32[3, 3, 4]\ninput ends: i32[3]\ninput b: f32[4]\ng = group_of(ends, [n])\n"
      "p = add(matmul_at(x, w, g), b)\noutput y = mul(p, cast(reshape(add(g, 1), [n, 1]), f32))\n", "test.lw");
  return graph::naive_kernel(*graph).value();
}

TEST(RandomSchedules, of_tiles_that_begin_with_groups_keep_the_meaning) {
  const std::uint64_t first = flag("seed", 1), cases = flag("cases", kCases) / 5;
  const ir::Kernel naive = grouped_kernel();
  std::uint64_t aligned = 0;
  for (std::uint64_t seed = first; seed < first + cases; ++seed) {
    // Some steps, wherever tiles can be aligned then, and more steps.
    std::mt19937_64 random(seed);
    const auto tile = static_cast<std::int64_t>(1 + random() % 5);
    std::vector<schedule::TracedStep> prefix;
    for (const char* pointwise : {"t8", "t9", "t10", "t5", "p"}) prefix.push_back({schedule::InlineBuffer{pointwise}, {}});
    if (random() % 2 == 0) prefix.push_back({schedule::Split{"t5_acc_1", {2}, Tail::guard}, {}});
    prefix.push_back({schedule::Split{"t5_acc_0", {tile}, Tail::guard}, {}});
    RandomSchedule s = random_schedule(apply_what_applies(naive, prefix).kernel, seed, static_cast<int>(random() % 3));
    s.steps.insert(s.steps.begin(), prefix.begin(), prefix.end());
    s = apply_what_applies(naive, s.steps);
    std::vector<schedule::TracedStep> steps = s.steps;
    steps.push_back({schedule::FuseEpilogue{"y", "t5_acc_0_o", Place::registers}, {}});
    steps.push_back({schedule::AlignRows{"t5_acc_0_o", "g", tile}, {}});
    s = apply_what_applies(naive, steps);
    aligned += std::any_of(s.steps.begin(), s.steps.end(), [](const auto& step) { return std::holds_alternative<schedule::AlignRows>(step.step); }) ? 1 : 0;
    const RandomSchedule more = random_schedule(s.kernel, seed + 7, kAttempts);
    s.kernel = more.kernel, s.wrong = more.wrong;
    s.steps.insert(s.steps.end(), more.steps.begin(), more.steps.end());
    const std::string wrong = check(naive, s, seed);
    ASSERT_EQ(wrong, "") << "seed " << seed << "\n" << as_golden(naive, s, seed, wrong);
  }
  EXPECT_GT(aligned * 2, cases);
}

}  // namespace
}  // namespace loopwright::test
