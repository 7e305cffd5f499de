// Matrix products for tensor cores over sampled picks, without a GPU: the lowered kernel means what the naive one means,
// and NVRTC compiles its text without spills and without a word of ptxas on serialisation. The texts run on a device only
// (tests/device/products_test.cpp). Flag: --candidates=N random picks.
#include <gtest/gtest.h>

#include "src/codegen/cuda/emit.h"
#include "src/codegen/cuda/nvrtc.h"
#include "src/driver/build.h"
#include "src/driver/planner.h"
#include "src/graph/group.h"
#include "src/ir/text.h"
#include "tests/support/flag.h"
#include "tests/support/random_data.h"
#include "tests/support/random_kernel.h"

namespace loopwright::test {
namespace {

const Target kHopper = *Target::parse("cuda:sm_90a");

/// `dtype` tf32: f32 in that accuracy.
std::string product_graph(const std::string& rows, std::int64_t n, std::int64_t k, std::string dtype, bool transposed, const std::string& result) {
  const std::string accuracy = dtype == "tf32" ? "accuracy tf32\n" : "";
  if (!accuracy.empty()) dtype = "f32";
  const auto dims = [](std::int64_t a, std::int64_t b) { return "[" + std::to_string(a) + ", " + std::to_string(b) + "]"; };
  return "graph g\n" + accuracy + "symbol m in 1..90\ninput x: " + dtype + "[" + rows + ", " + std::to_string(k) + "]\ninput w: " + dtype + (transposed ? dims(n, k) : dims(k, n)) +
         "\ninput b: " + dtype + "[" + std::to_string(n) + "]\np = matmul(x, w" + (transposed ? ", transpose_b=true" : "") + ")\noutput y = " + result + "\n";
}

/// False when the picks are rejected. `operands`: of all products.
bool check_candidate(const std::string& graph_text, std::uint64_t seed, bool interpreted, const Picks& kept = {{"thin", 0}, {"tensor", 1}}, std::size_t operands = 2) {
  const auto graph = Graph::parse(graph_text, "test.lw");
  EXPECT_TRUE(graph.ok()) << graph.error().message();
  const auto groups = graph::group_ops(*graph, driver::grouping_for(TargetKind::cuda));
  EXPECT_EQ(groups.size(), 1u) << graph_text;
  const auto job = driver::make_job(graph::make_workload(groups[0].graph));
  Space space = seed == 0 ? Space(Picks{{"thin", 0}}) : Space(seed, kept);
  const Template& t = *driver::templates_for(*job, kHopper).front();
  const auto scheduled = driver::run_template(*job, t, space, kHopper);
  const std::string what = graph_text + t.name + " " + print_picks(space.picks());
  if (!scheduled.ok()) {
    EXPECT_NE(seed, 0u) << what << "\n" << scheduled.error().message();
    return false;
  }
  const auto lowered = driver::lower_kernel(scheduled->kernel, kHopper);
  EXPECT_TRUE(lowered.ok()) << what;
  const auto text = codegen::emit_cuda(*lowered, kHopper, "k");
  if (!text.ok()) {
    EXPECT_EQ(text.error().code, ErrorCode::resource_exceeded) << what << "\n" << text.error().message();
    return false;
  }
  // A few rows may be left to families without tensor cores.
  const std::size_t maps = what.find(" tensor=1") != std::string::npos || what.find(" parts=1") != std::string::npos ? operands : 0;
  EXPECT_GE(text->launches.back().tensor_maps.size(), maps) << what;
  EXPECT_LE(text->launches.back().tensor_maps.size(), maps + 1) << what;  // one for a result that leaves by the engine
  if (const auto nvrtc = codegen::Nvrtc::shared(); nvrtc.ok()) {
    const auto program = (*nvrtc)->compile({"product.cu", codegen::cuda_program(text->functions), kHopper.arch, {}});
    EXPECT_TRUE(program.ok()) << what << "\n" << program.error().message();
    if (!program.ok()) return false;
    // Of narrow tiles ptxas may say (C7508) that it leaves the registers of the roles as they are: nobody needs more.
    const bool may_keep_registers = seed != 0 && kept.back().name != "parts";
    for (const codegen::PtxasDiagnostic& d : program->report.diagnostics) EXPECT_TRUE(may_keep_registers && d.code == "C7508") << what << "\n" << d.text;
    for (const codegen::KernelFigures& figures : program->report.kernels) EXPECT_EQ(figures.spill_store_bytes, 0) << what;
  }
  if (!interpreted) return true;
  const Bindings bindings = loopwright::testing::random_bindings(*lowered, seed);
  const Arguments arguments = random_arguments(job->naive, bindings, seed);
  Arguments expected = arguments, found = arguments;
  EXPECT_TRUE(ir::interpret(job->naive, bindings, expected).ok());
  const Status ran = ir::interpret(*lowered, bindings, found);
  EXPECT_TRUE(ran.ok()) << what << "\n" << ran.error().message();
  if (const auto difference = find_difference(job->naive, expected, found, true)) ADD_FAILURE() << *difference << "\n" << what;
  return true;
}

TEST(CudaProducts, mean_what_the_naive_kernel_means) {
  for (const char* rows : {"m", "1", "17", "70"})
    for (const bool transposed : {false, true}) {
      check_candidate(product_graph(rows, 136, 72, "bf16", transposed, "max(add(p, b), 0)"), 0, true);
      check_candidate(product_graph(rows, 64, 136, "f16", transposed, "p"), 0, true);
      check_candidate(product_graph(rows, 136, 72, "bf16", transposed, "cast(p, f32)"), 0, true);
    }
}

TEST(CudaProducts, persistent_blocks_and_turns_mean_the_same) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed)
    check_candidate(product_graph(seed % 2 == 0 ? "m" : "90", 136, 72, "bf16", seed % 4 < 2, "max(add(p, b), 0)"), seed, true, {{"thin", 0}, {"tensor", 1}, {"turns", 2}, {"tiles", 1}});
}

/// A product and an adapter of low rank beside it.
std::string adapted_graph(const std::string& rows, std::int64_t n, std::int64_t k, const std::string& dtype, std::int64_t rank) {
  const std::string columns = std::to_string(n), terms = std::to_string(rank);
  return "graph g\nsymbol m in 1..200\ninput x: " + dtype + "[" + rows + ", " + std::to_string(k) + "]\ninput w: " + dtype + "[" + columns + ", " + std::to_string(k) +
         "]\ninput u: f32[" + rows + ", " + terms + "]\ninput v: f32[" + columns + ", " + terms +
         "]\noutput y = cast(add(cast(linear(x, w), f32), mul(linear(u, v), 2.0)), " + dtype + ")\n";
}

TEST(CudaProducts, with_thin_products_in_the_epilogue_mean_the_same) {
  for (const char* rows : {"m", "1", "17", "70"}) {
    check_candidate(adapted_graph(rows, 136, 72, "bf16", 16), 0, true);
    check_candidate(adapted_graph(rows, 72, 72, "f32", 3), 0, true);
  }
  for (const char* rows : {"1, m", "1, 90"}) check_candidate(adapted_graph(rows, 136, 72, "bf16", 16), 0, true);  // a batch of one
  int made = 0;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) made += check_candidate(adapted_graph(seed % 2 == 0 ? "m" : "150", 136, 72, "f16", 8), seed, true) ? 1 : 0;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) made += check_candidate(adapted_graph("m", 136, 72, "bf16", 16), seed, true, {{"thin", 0}, {"tensor", 1}, {"turns", 2}, {"tiles", 1}}) ? 1 : 0;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) made += check_candidate(adapted_graph("70", 136, 72, "f32", 16), seed, true, {{"thin", 0}, {"parts", 1}}) ? 1 : 0;
  EXPECT_GE(made, 6);
}

/// A gate, what it lets through, and adapters beside both if there is a rank.
std::string gated_graph(const std::string& rows, std::int64_t n, std::int64_t k, const std::string& dtype, bool transposed, std::int64_t rank = 0) {
  const std::string columns = std::to_string(n), terms = std::to_string(rank), depth = std::to_string(k), weights = transposed ? "[" + columns + ", " + depth + "]" : "[" + depth + ", " + columns + "]";
  std::string out = "graph g\nsymbol m in 9..200\ninput x: " + dtype + "[" + rows + ", " + depth + "]\ninput w: " + dtype + weights + "\ninput v: " + dtype + weights + "\n";
  const auto product = [&](const std::string& w) { return "matmul(x, " + w + (transposed ? ", transpose_b=true)" : ")"); };
  if (rank == 0) return out + "output y = mul(silu(" + product("w") + "), " + product("v") + ")\n";
  for (const char* name : {"w", "v"}) {
    out += "input " + std::string(name) + "1: f32[" + rows + ", " + terms + "]\ninput " + name + "2: f32[" + columns + ", " + terms + "]\n";
    out += std::string(name) + "3 = cast(add(cast(" + product(name) + ", f32), mul(linear(" + name + "1, " + name + "2), 2.0)), " + dtype + ")\n";
  }
  return out + "output y = mul(silu(w3), v3)\n";
}

TEST(CudaProducts, a_gate_and_what_it_lets_through_are_sums_of_one_tile) {
  for (const char* rows : {"m", "9", "65", "1, m"}) {
    const bool is_batch = rows[1] == ',';
    check_candidate(gated_graph(rows, 136, 72, "bf16", true), 0, true, {}, 3);
    check_candidate(gated_graph(rows, 136, 72, "bf16", true, 16), 0, true, {}, 3);
    if (!is_batch) check_candidate(gated_graph(rows, 128, 72, "f16", false), 0, true, {}, 3);
  }
  int made = 0;
  const auto attempt = [&](const std::string& graph_text, std::uint64_t seed, const Picks& kept, bool interpreted) { made += check_candidate(graph_text, seed, interpreted, kept, 3) ? 1 : 0; };
  const Picks any = {{"tensor", 1}}, turns = {{"tensor", 1}, {"turns", 2}};
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    attempt(gated_graph(seed % 2 == 0 ? "m" : "150", 136, 72, "f16", true), seed, seed % 3 == 0 ? turns : any, seed % 2 == 0);
    attempt(gated_graph(seed % 2 == 0 ? "m" : "150", 136, 72, "bf16", true, 16), seed, seed % 3 == 0 ? turns : any, seed % 2 == 0);
  }
  EXPECT_GE(made, 4);
}

TEST(CudaProducts, large_tiles_of_several_sums_have_registers_for_them_by_default) {
  check_candidate(gated_graph("4096", 3584, 2048, "bf16", true), 0, false, {}, 3);
  check_candidate(gated_graph("8192", 1024, 2048, "bf16", true, 16), 0, false, {}, 3);
}

TEST(CudaProducts, several_sums_of_one_tile_need_no_tensor_cores) {
  for (const std::int64_t rank : {0, 16})
    for (const char* rows : {"m", "70", "9"}) {
      const auto graph = Graph::parse(gated_graph(rows, 72, 40, "bf16", true, rank), "test.lw");
      const auto groups = graph::group_ops(*graph, driver::grouping_for(TargetKind::cuda));
      ASSERT_EQ(groups.size(), 1u);
      const auto job = driver::make_job(graph::make_workload(groups[0].graph));
      Space space(Picks{{"tensor", 0}});
      const auto scheduled = driver::run_template(*job, *driver::templates_for(*job, kHopper).front(), space, kHopper);
      ASSERT_TRUE(scheduled.ok()) << scheduled.error().message();
      EXPECT_EQ(scheduled->template_name, "gpu_matmul");
      const auto lowered = driver::lower_kernel(scheduled->kernel, kHopper);
      ASSERT_TRUE(lowered.ok()) << lowered.error().message();
      const auto text = codegen::emit_cuda(*lowered, kHopper, "k");
      ASSERT_TRUE(text.ok()) << text.error().message();
      EXPECT_EQ(text->launches.size(), 1u);
      const Bindings bindings = loopwright::testing::random_bindings(*lowered, 3);
      const Arguments arguments = random_arguments(job->naive, bindings, 3);
      Arguments expected = arguments, found = arguments;
      EXPECT_TRUE(ir::interpret(job->naive, bindings, expected).ok());
      const Status ran = ir::interpret(*lowered, bindings, found);
      EXPECT_TRUE(ran.ok()) << ran.error().message();
      if (const auto difference = find_difference(job->naive, expected, found, true)) ADD_FAILURE() << *difference << "\n" << scheduled->trace;
    }
}

TEST(CudaProducts, of_f32_parts_mean_the_same) {
  int made = 0;
  for (std::uint64_t seed = 1; seed <= 7; ++seed)
    made += check_candidate(product_graph(seed % 3 == 0 ? "m" : "70", seed % 4 < 2 ? 136 : 64, seed % 5 == 0 ? 136 : 72, "f32", seed % 4 < 2, seed % 2 == 0 ? "p" : "max(add(p, b), 0)"), seed, true,
                            {{"thin", 0}, {"parts", 1}}) ? 1 : 0;
  EXPECT_GE(made, 5);
  // One tile, and parts that one block makes: no grids.
  EXPECT_TRUE(check_candidate(product_graph("24", 64, 64, "f32", true, "add(p, b)"), 1, true, {{"thin", 0}, {"groups", 1}, {"columns", 64}, {"gathered", 64}, {"exit", 0}, {"depth", 2}, {"persist", 0}, {"parts", 1}}));
}

TEST(CudaProducts, large_ones_in_f32_are_of_parts_by_default) {
  const auto graph = Graph::parse("graph g\ninput x: f32[1024, 1024]\ninput w: f32[1024, 1024]\noutput y = matmul(x, w)\n", "test.lw");
  const auto job = driver::make_job(graph::make_workload(graph::group_ops(*graph)[0].graph));
  Space space;
  const auto scheduled = driver::run_template(*job, *driver::templates_for(*job, kHopper).front(), space, kHopper);
  ASSERT_TRUE(scheduled.ok()) << scheduled.error().message();
  EXPECT_NE(scheduled->trace.find("\nseparate "), std::string::npos);
}

TEST(CudaProducts, of_rounded_f32_mean_the_same) {
  for (const char* rows : {"m", "1", "17", "70"}) {
    EXPECT_TRUE(check_candidate(product_graph(rows, 136, 76, "tf32", true, "max(add(p, b), 0)"), 0, true)) << rows;
    EXPECT_TRUE(check_candidate(product_graph(rows, 64, 136, "tf32", true, "p"), 0, true)) << rows;
  }
  int made = 0;
  for (std::uint64_t seed = 1; seed <= 12; ++seed)
    made += check_candidate(product_graph(seed % 2 == 0 ? "m" : "90", seed % 3 == 0 ? 128 : 136, 72, "tf32", true, seed % 4 < 2 ? "p" : "max(add(p, b), 0)"), seed, true,
                            seed % 2 == 0 ? Picks{{"thin", 0}, {"tensor", 1}, {"turns", 2}, {"tiles", 1}} : Picks{{"thin", 0}, {"tensor", 1}}) ? 1 : 0;
  EXPECT_GE(made, 4);
}

TEST(CudaProducts, are_rounded_only_where_that_is_allowed_and_rows_run_along_the_sum) {
  const auto trace_of = [](const std::string& graph_text) {
    const auto graph = Graph::parse(graph_text, "test.lw");
    const auto job = driver::make_job(graph::make_workload(graph::group_ops(*graph)[0].graph));
    Space space;
    const auto scheduled = driver::run_template(*job, *driver::templates_for(*job, kHopper).front(), space, kHopper);
    return scheduled.ok() ? scheduled->trace : scheduled.error().message();
  };
  const std::string inputs = "symbol m in 1..90\ninput x: f32[4096, 512]\ninput w: f32[1024, 512]\ninput v: f32[512, 1024]\n";
  EXPECT_NE(trace_of("graph g\naccuracy tf32\n" + inputs + "output y = matmul(x, w, transpose_b=true)\n").find("\nround_factors "), std::string::npos);
  for (const std::string& other : {"accuracy tf32\n" + inputs + "output y = matmul(x, v)\n", inputs + "output y = matmul(x, w, transpose_b=true)\n"}) {
    const std::string trace = trace_of("graph g\n" + other);
    EXPECT_EQ(trace.find("\nround_factors "), std::string::npos) << trace;
    EXPECT_NE(trace.find("\nseparate "), std::string::npos) << trace;
  }
}

TEST(CudaProducts, results_of_f32_leave_by_the_engine) {
  for (const char* dtype : {"tf32", "f32"}) {
    const auto graph = Graph::parse(product_graph("4096", 512, 512, dtype, true, "add(p, b)"), "test.lw");
    const auto job = driver::make_job(graph::make_workload(graph::group_ops(*graph)[0].graph));
    Space space(Picks{{"exit", 32}});
    const auto scheduled = driver::run_template(*job, *driver::templates_for(*job, kHopper).front(), space, kHopper);
    ASSERT_TRUE(scheduled.ok()) << scheduled.error().message();
    const auto text = codegen::emit_cuda(*driver::lower_kernel(scheduled->kernel, kHopper), kHopper, "k");
    ASSERT_TRUE(text.ok()) << text.error().message();
    const auto& maps = text->launches.back().tensor_maps;
    ASSERT_EQ(maps.size(), 3u) << scheduled->trace;
    EXPECT_EQ(maps[2].box[0], 32);
    EXPECT_FALSE(maps[2].rounds_tf32);
    EXPECT_EQ(maps[0].rounds_tf32, std::string(dtype) == "tf32");
  }
}

TEST(CudaProducts, random_picks_compile) {
  const std::uint64_t candidates = flag("candidates", 24);
  std::uint64_t made = 0;
  for (std::uint64_t seed = 1; seed <= candidates; ++seed)
    made += check_candidate(product_graph(seed % 3 == 0 ? "33" : "m", 264, 200, seed % 2 == 0 ? "bf16" : "f16", seed % 4 < 2, "add(p, b)"), seed, seed % 8 == 0) ? 1 : 0;
  EXPECT_GE(made * 3, candidates);
  for (std::uint64_t seed = 101; seed <= 112; ++seed) made += check_candidate(product_graph(seed % 3 == 0 ? "33" : "m", 264, 200, "tf32", true, "add(p, b)"), seed, false) ? 1 : 0;
  EXPECT_GE(made * 3, candidates + 12);
}

}  // namespace
}  // namespace loopwright::test
