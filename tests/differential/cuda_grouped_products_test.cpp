// Products over groups of rows on GPUs, without one: the lowered kernel means what the naive one means whatever the offsets are,
// NVRTC compiles its text without spills, and texts that need no copy engine run on the emulated GPU. Flag: --candidates=N.
#include <gtest/gtest.h>

#include <cstring>

#include "src/codegen/cuda/emit.h"
#include "src/codegen/cuda/nvrtc.h"
#include "src/driver/build.h"
#include "src/driver/planner.h"
#include "src/graph/group.h"
#include "src/ir/interpret.h"
#include "src/ir/text.h"
#include "tests/differential/cuda_emulation.h"
#include "tests/support/flag.h"
#include "tests/support/random_data.h"

namespace loopwright::test {
namespace {

struct Grouped {
  std::int64_t groups = 5, n = 136, k = 72;
  std::string rows = "m", dtype = "bf16";
  bool transposed = true;
  std::string offsets = "i32", result = "p";
  std::string text() const {
    const auto number = [](std::int64_t v) { return std::to_string(v); };
    const std::string matrix = transposed ? number(n) + ", " + number(k) : number(k) + ", " + number(n);
    return "graph g\nsymbol m in 0..200\ninput x: " + dtype + "[" + rows + ", " + number(k) +
           "]\ninput w: " + dtype + "[" + number(groups) + ", " + matrix + "]\ninput ends: " + offsets + "[" +
           number(groups) + "]\ninput b: " + dtype + "[" + number(n) + "]\np = grouped_matmul(x, w, ends" +
           (transposed ? ", transpose_b=true" : "") + ")\noutput y = " + result + "\n";
  }
};

/// Where five groups of `rows` rows end: in order, with empty groups, all in one, rows behind them, out of order, out of range.
std::vector<std::vector<std::int64_t>> offsets_for(std::int64_t rows) {
  return {{rows / 7, rows / 3, rows / 2, rows - rows / 5, rows},
          {0, rows / 2, rows / 2, rows / 2, rows},
          {0, 0, rows, rows, rows},
          {1, 2, 3, 4, rows / 2},
          {rows / 2, rows / 4, rows, rows / 3, -5},
          {-1, -70000, rows / 3, rows * 9, 70000},
          {0, 0, 0, 0, 0},
          {rows, rows, rows, rows, rows}};
}

struct Built {
  std::string what;
  std::shared_ptr<const driver::Job> job;
  ir::Kernel lowered;
  codegen::CudaText text;
};

/// Empty when the picks are rejected, or need more than a block has; a default may not be.
std::optional<Built> build(const Grouped& g, std::uint64_t seed, const Picks& kept,
                           const char* arch = "sm_90a") {
  const Target target = *Target::parse(std::string("cuda:") + arch);
  const auto graph = Graph::parse(g.text(), "test.lw");
  EXPECT_TRUE(graph.ok()) << graph.error().message();
  const auto groups = graph::group_ops(*graph, driver::grouping_for(TargetKind::cuda));
  EXPECT_EQ(groups.size(), 1u) << g.text();
  const auto job = driver::make_job(graph::make_workload(groups[0].graph));
  const Template& t = *driver::templates_for(*job, target).front();
  EXPECT_STREQ(t.name, "gpu_matmul") << g.text();
  Space space = seed == 0 ? Space(kept) : Space(seed, kept);
  const auto scheduled = driver::run_template(*job, t, space, target);
  const std::string what = g.text() + print_picks(space.picks());
  if (!scheduled.ok()) {
    EXPECT_NE(seed, 0u) << what << "\n" << scheduled.error().message();
    return std::nullopt;
  }
  EXPECT_NE(scheduled->trace.find("\nalign_rows "), std::string::npos) << what;
  const auto lowered = driver::lower_kernel(scheduled->kernel, target);
  EXPECT_TRUE(lowered.ok()) << what << "\n" << lowered.error().message();
  if (!lowered.ok()) return std::nullopt;
  const auto text = codegen::emit_cuda(*lowered, target, "k");
  if (!text.ok()) {
    EXPECT_TRUE(seed != 0 && text.error().code == ErrorCode::resource_exceeded) << what << "\n"
                                                                                << text.error().message();
    return std::nullopt;
  }
  const bool ahead = scheduled->trace.find(" ahead -> ") != std::string::npos;
  EXPECT_EQ(text->launches.size(), ahead ? 2u : 1u) << what;
  return Built{what, std::make_shared<const driver::Job>(*job), *lowered, *text};
}

/// `spills`: where lanes' registers are short, and rows of an odd length loaded one element at a time, some may.
void compile(const Built& b, bool spills = false) {
  const auto nvrtc = codegen::Nvrtc::shared();
  if (!nvrtc.ok()) return;
  const auto program =
      (*nvrtc)->compile({"grouped.cu", codegen::cuda_program(b.text.functions), "sm_90a", {}});
  ASSERT_TRUE(program.ok()) << b.what << "\n" << program.error().message();
  for (const codegen::KernelFigures& figures : program->report.kernels)
    EXPECT_TRUE(spills || figures.spill_store_bytes == 0) << b.what;
}

/// Arguments with these offsets; the result is junk before.
Arguments arguments_for(const Built& b, const Bindings& bindings, const std::vector<std::int64_t>& offsets,
                        std::uint64_t seed) {
  Arguments out = random_arguments(b.job->naive, bindings, seed);
  for (auto& [name, array] : out)
    if (is_integer(array.dtype))
      for (std::size_t e = 0; e < offsets.size(); ++e)
        array.set_int({static_cast<std::int64_t>(e)}, offsets[e]);
  return out;
}

void check(const Built& b, std::int64_t rows, std::uint64_t seed,
           const std::function<Status(const Bindings&, Arguments&)>& run) {
  Bindings bindings;
  for (const ir::SymbolParam& s : b.job->naive.symbols) bindings[s.symbol.name] = rows;
  for (const std::vector<std::int64_t>& offsets : offsets_for(rows)) {
    const Arguments arguments = arguments_for(b, bindings, offsets, seed);
    Arguments expected = arguments, found = arguments;
    ASSERT_TRUE(ir::interpret(b.job->naive, bindings, expected).ok()) << b.what;
    const Status ran = run(bindings, found);
    ASSERT_TRUE(ran.ok()) << ran.error().message() << "\n" << b.what;
    const auto difference = find_difference(b.job->naive, expected, found, true);
    ASSERT_FALSE(difference) << *difference << "\nrows " << rows << ", offsets " << offsets[0] << " "
                             << offsets[1] << " " << offsets[2] << " " << offsets[3] << " " << offsets[4]
                             << "\n"
                             << b.what;
  }
}

void interpret_all(const Built& b, std::initializer_list<std::int64_t> rows, std::uint64_t seed) {
  for (const std::int64_t n : rows)
    check(b, n, seed, [&](const Bindings& bindings, Arguments& found) {
      return ir::interpret(b.lowered, bindings, found);
    });
}

const Picks kTensor{{"thin", 0}, {"tensor", 1}};

TEST(CudaGroupedProducts, defaults_mean_what_the_naive_kernel_means) {
  for (const bool transposed : {true, false}) {
    const auto built = build({.n = transposed ? 24 : 64,
                              .transposed = transposed,
                              .offsets = transposed ? "i32" : "i64",
                              .result = transposed ? "p" : "max(add(p, b), 0)"},
                             0, kTensor);
    ASSERT_TRUE(built);
    EXPECT_EQ(built->text.launches[0].tensor_maps.size(), 3u) << built->what;  // with the result
    compile(*built);
    interpret_all(*built, {0, 1, 70}, 3);
  }
  for (const char* rows : {"70", "64"}) {
    const auto fixed = build({.n = 16, .rows = rows, .dtype = "f16"}, 0, kTensor);
    ASSERT_TRUE(fixed);
    compile(*fixed);
    interpret_all(*fixed, {std::atoi(rows)}, 4);
  }
}

TEST(CudaGroupedProducts, random_picks_mean_the_same) {
  const std::uint64_t candidates = flag("candidates", 6);
  std::uint64_t made = 0;
  for (std::uint64_t seed = 1; seed <= candidates; ++seed) {
    Picks kept = kTensor;
    if (seed % 3 == 0) kept.push_back({"turns", 2});
    if (seed % 4 == 1) kept.push_back({"swap", 1});
    const auto built = build({.n = seed % 3 == 1 ? 136 : 128,
                              .k = 40,
                              .rows = seed % 2 == 0 ? "m" : "50",
                              .dtype = seed % 4 < 2 ? "bf16" : "f16",
                              .transposed = seed % 5 != 0},
                             seed, kept);
    if (!built) continue;
    ++made;
    compile(*built);
    interpret_all(*built, {50}, seed);
  }
  EXPECT_GE(made * 3, candidates);
}

std::size_t count_of(const std::string& text, const std::string& wanted) {
  std::size_t count = 0;
  for (std::size_t at = text.find(wanted); at != std::string::npos; at = text.find(wanted, at + 1)) ++count;
  return count;
}

TEST(CudaGroupedProducts, warpgroups_that_take_turns_do_not_wait_for_each_other) {
  const auto built = build(
      {.n = 256}, 0, {{"thin", 0}, {"tensor", 1}, {"swap", 0}, {"turns", 2}, {"tiles", 1}, {"columns", 128}});
  ASSERT_TRUE(built);
  const std::string text = built->text.functions;
  ASSERT_NE(text.find("lw_turns"), std::string::npos) << built->what;
  EXPECT_EQ(text.find("lw_row_barrier(2, 256);"), std::string::npos) << built->what;
  // The producer, either warpgroup in its own turn and in the others' before and behind it look for their tiles.
  EXPECT_EQ(count_of(text, "int tiles_passed"), 4u) << text;
}

TEST(CudaGroupedProducts, full_tiles_leave_by_the_engine_and_others_by_threads) {
  for (const std::int64_t turns : {1, 2}) {
    const auto built = build({.n = 136, .k = 40}, 0,
                             {{"thin", 0},
                              {"tensor", 1},
                              {"swap", 0},
                              {"turns", turns},
                              {"groups", 2},
                              {"tiles", 1},
                              {"columns", 128},
                              {"exit", 64}});
    ASSERT_TRUE(built);
    const std::string text = built->text.functions;
    EXPECT_EQ(built->text.launches[0].tensor_maps.size(), 3u) << built->what;
    EXPECT_EQ(count_of(text, "lw_copy_out_2(lw_shared_address"), 2u) << text;
    EXPECT_EQ(count_of(text, "= *(const uint4*)&o0_tile"), 2u) << text;
    // 128 columns of a row: in pairs, four of them at once, of both halves of the rows.
    EXPECT_EQ(count_of(text, "lw_store_matrices(lw_shared_address"), 8u) << text;
    compile(*built);
    interpret_all(*built, {0, 70}, 7);
  }
}

TEST(CudaGroupedProducts, tiles_that_are_looked_for_in_front_mean_the_same) {
  for (const std::int64_t turns : {1, 2}) {
    const auto built = build({.n = 24}, 0,
                             {{"thin", 0}, {"tensor", 1}, {"swap", 0}, {"turns", turns}, {"columns", 16}, {"ahead", 1}});
    ASSERT_TRUE(built);
    ASSERT_EQ(built->text.launches.size(), 2u) << built->what;
    EXPECT_EQ(count_of(built->text.functions, "int tiles_passed"), 1u) << built->what;
    compile(*built);
    interpret_all(*built, {0, 1, 70}, 8);
  }
}

TEST(CudaGroupedProducts, numbers_that_threads_find_together_guide_no_ring) {
  const auto built = build({.n = 64}, 0, kTensor);
  ASSERT_TRUE(built);
  std::string text = ir::print(built->lowered);
  const std::string statement = "tiles_passed[0] = 0i32";
  const std::size_t at = text.find(statement), line = text.rfind('\n', at) + 1;
  ASSERT_NE(at, std::string::npos) << text;
  text.replace(at, statement.size(),
               "for together in 0..128 thread_x\n" + std::string(at - line + 2, ' ') + statement);
  const auto kernel = ir::parse_kernel(text);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message();
  const auto found = codegen::emit_cuda(*kernel, *Target::parse("cuda:sm_90a"), "k");
  ASSERT_FALSE(found.ok());
  EXPECT_NE(found.error().message().find("is computed by threads together"), std::string::npos)
      << found.error().message();
}

/// Runs the text on the emulated GPU.
Status emulate(const EmulatedProgram& program, const Built& b, const Bindings& bindings,
               Arguments& arguments) {
  struct alignas(16) Vector {
    std::uint8_t bytes[16];
  };
  std::vector<std::vector<Vector>> memory;
  std::vector<void*> buffers;
  for (const ArtifactArg& a : b.text.args) {
    const std::vector<std::uint8_t>& data = arguments.at(a.name).data;
    memory.emplace_back(data.size() / 16 + 1);
    std::memcpy(memory.back().data(), data.data(), data.size());
    buffers.push_back(memory.back().data());
  }
  std::vector<std::int64_t> symbols;
  for (const ir::SymbolParam& s : b.lowered.symbols) symbols.push_back(bindings.at(s.symbol.name));
  LW_CHECK(program.run(b.text, buffers, symbols, {}));
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    std::vector<std::uint8_t>& data = arguments.at(b.text.args[i].name).data;
    std::memcpy(data.data(), buffers[i], data.size());
  }
  return Unit{};
}

TEST(CudaGroupedProducts, by_warps_mean_the_same_on_an_emulated_gpu) {
  for (const std::int64_t swapped : {0, 1})
    for (const char* dtype : {"bf16", "f32"}) {
      const auto built =
          build({.n = 24, .k = 136, .rows = "m", .dtype = dtype}, 0, {{"thin", 1}, {"swap", swapped}});
      ASSERT_TRUE(built);
      EXPECT_TRUE(built->text.launches[0].tensor_maps.empty());
      compile(*built, true);
      interpret_all(*built, {0, 23}, 5);
      const auto program = EmulatedProgram::compile({&built->text});
      ASSERT_TRUE(program.ok()) << program.error().message();
      for (const std::int64_t rows : {0, 1, 23})
        check(*built, rows, 6, [&](const Bindings& bindings, Arguments& found) {
          return emulate(*program, *built, bindings, found);
        });
    }
}

TEST(CudaGroupedProducts, in_plain_arithmetic_mean_the_same_on_an_emulated_gpu) {
  for (std::uint64_t seed = 0; seed <= 2; ++seed) {
    const Grouped g{.n = 20,
                    .k = 12,
                    .rows = seed % 2 == 0 ? "m" : "30",
                    .dtype = seed < 1 ? "f32" : "bf16",
                    .transposed = seed % 2 == 0,
                    .offsets = "i64"};
    const auto built = build(g, seed, {{"thin", 0}, {"tensor", 0}, {"rows", 16}, {"columns", 16}}, "sm_80");
    ASSERT_TRUE(built);
    const auto program = EmulatedProgram::compile({&built->text});
    ASSERT_TRUE(program.ok()) << program.error().message();
    for (const std::int64_t rows : {0, 30})
      if (rows > 0 || g.rows == "m")
        check(*built, rows, 6, [&](const Bindings& bindings, Arguments& found) {
          return emulate(*program, *built, bindings, found);
        });
  }
}

}  // namespace
}  // namespace loopwright::test
