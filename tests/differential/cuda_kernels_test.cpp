// GPU families over sampled picks, without a GPU: the scheduled kernel means what the naive one means, its threads do not
// race, NVRTC compiles the text without spills, and the text itself, run thread by thread, gives the same results.
// Flags: --seed=N --candidates=N (for each family).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>

#include "src/codegen/cuda/nvrtc.h"
#include "src/driver/build.h"
#include "src/graph/group.h"
#include "src/ir/text.h"
#include "tests/differential/cuda_emulation.h"
#include "tests/support/flag.h"
#include "tests/support/random_data.h"
#include "tests/support/random_kernel.h"
#include "tests/support/random_schedule.h"

namespace loopwright::test {
namespace {

const Target kTarget = *Target::parse("cuda:sm_90a");

struct Candidate {
  std::string what;  ///< graph, template and picks
  ir::Kernel naive, lowered;
  codegen::CudaText text;
  bool is_default = false;
};

struct Free {
  void operator()(void* p) const { std::free(p); }
};

/// The arguments after a run of the text; each buffer begins at a multiple of 256 bytes.
Status run_text(const EmulatedProgram& program, const Candidate& c, const Bindings& bindings,
                Arguments& arguments, Turns turns) {
  std::vector<std::int64_t> symbols;
  for (const ir::SymbolParam& s : c.lowered.symbols) symbols.push_back(bindings.at(s.symbol.name));
  std::vector<std::unique_ptr<void, Free>> memory;
  std::vector<void*> buffers;
  for (const ArtifactArg& arg : c.text.args) {
    std::size_t bytes = 0;
    if (arg.role == ArgRole::workspace) {
      std::int64_t count = 1;
      for (const SizeExpr& n : arg.shape) count *= std::max<std::int64_t>(n.evaluate(symbols.data()), 1);
      bytes = static_cast<std::size_t>(count * size_bytes(arg.dtype));
    } else {
      bytes = arguments.at(arg.name).data.size();
    }
    void* p = std::aligned_alloc(256, (bytes + 511) / 256 * 256);
    std::fill_n(static_cast<std::uint8_t*>(p), bytes, arg.zeroed ? 0 : 0xa5);
    if (arg.role != ArgRole::workspace) std::copy_n(arguments.at(arg.name).data.data(), bytes, static_cast<std::uint8_t*>(p));
    memory.emplace_back(p);
    buffers.push_back(p);
  }
  LW_CHECK(program.run(c.text, buffers, symbols, turns));
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (c.text.args[i].role == ArgRole::workspace) {
      if (!c.text.args[i].zeroed) continue;
      const auto* count = static_cast<const std::int32_t*>(buffers[i]);
      if (*count != 0) return Error{ErrorCode::wrong_result, "running the text", "a counter is left at " + std::to_string(*count), "", ""};
      continue;
    }
    std::vector<std::uint8_t>& data = arguments.at(c.text.args[i].name).data;
    std::copy_n(static_cast<const std::uint8_t*>(buffers[i]), data.size(), data.data());
  }
  return Unit{};
}

/// The template whose default is tried first and is not rejected; gpu_general, which all fall to, when it is asked for.
const Template& choose_template(const driver::Job& job, const std::string& family) {
  const std::vector<const Template*> templates = driver::templates_for(job, kTarget);
  if (family == "gpu_general") return *templates.back();
  for (const Template* t : templates) {
    Space space;
    if (driver::run_template(job, *t, space, kTarget).ok()) return *t;
  }
  return *templates.back();
}

/// What a family's candidates have in common: picks that stay, and what their texts hold.
struct Kept {
  Picks picks;
  std::string text;
};

/// A candidate of a graph with one group, whose template has to be `family` unless that is empty; nothing when the template
/// refuses the picks.
std::optional<Candidate> make_candidate(const std::string& family, const std::string& graph_text, std::uint64_t seed, int number, const Kept& kept) {
  const auto graph = Graph::parse(graph_text, "test.lw");
  EXPECT_TRUE(graph.ok()) << graph.error().message();
  if (!graph.ok()) return std::nullopt;
  const auto groups = graph::group_ops(*graph, driver::grouping_for(TargetKind::cuda));
  EXPECT_EQ(groups.size(), 1u) << graph_text;
  const auto job = driver::make_job(graph::make_workload(groups[0].graph));
  EXPECT_TRUE(job.ok());
  const Template& t = choose_template(*job, family);
  EXPECT_TRUE(family.empty() || family == t.name) << graph_text << "falls to " << t.name;
  Space space = seed == 0 ? Space(kept.picks) : Space(seed, kept.picks);
  const auto scheduled = driver::run_template(*job, t, space, kTarget);
  const std::string what = graph_text + "template " + t.name + " " + print_picks(space.picks());
  if (!scheduled.ok()) {
    EXPECT_NE(seed, 0u) << "the default is rejected: " << what << "\n" << scheduled.error().message();
    return std::nullopt;
  }
  const auto lowered = driver::lower_kernel(scheduled->kernel, kTarget);
  if (!lowered.ok()) {
    EXPECT_EQ(lowered.error().code, ErrorCode::resource_exceeded) << what << "\n" << lowered.error().message();
    EXPECT_NE(seed, 0u) << "the default does not fit: " << what;
    return std::nullopt;
  }
  Candidate out{what, job->naive, *lowered, {}, seed == 0};
  const auto text = codegen::emit_cuda(*lowered, kTarget, "k" + std::to_string(number));
  if (!text.ok()) {
    EXPECT_EQ(text.error().code, ErrorCode::resource_exceeded) << what << "\n" << text.error().message() << ir::print(*lowered);
    EXPECT_NE(seed, 0u) << "the default does not fit: " << what;
    return std::nullopt;
  }
  // The emulated GPU has no copy engine: cuda_products_test.cpp looks at these.
  if (std::any_of(text->launches.begin(), text->launches.end(), [](const CudaLaunch& l) { return !l.tensor_maps.empty(); })) return std::nullopt;
  out.text = *text;
  EXPECT_NE(text->functions.find(kept.text), std::string::npos) << what;
  return out;
}

/// With these sizes, or random ones.
void check_meaning(const Candidate& c, const EmulatedProgram& program, std::uint64_t seed, const Bindings& sizes = {}) {
  const Bindings bindings = sizes.empty() ? loopwright::testing::random_bindings(c.lowered, seed) : sizes;
  const Arguments arguments = random_arguments(c.naive, bindings, seed);
  Arguments expected = arguments, interpreted = arguments;
  const Status reference = ir::interpret(c.naive, bindings, expected);
  ASSERT_TRUE(reference.ok()) << reference.error().message();
  const Status ran = ir::interpret(c.lowered, bindings, interpreted);
  ASSERT_TRUE(ran.ok()) << c.what << "\n" << ran.error().message();
  if (const auto difference = find_difference(c.naive, expected, interpreted, true))
    FAIL() << "the lowered kernel: " << *difference << "\n" << c.what << "\n" << ir::print(c.lowered);
  const bool copies = c.text.functions.find("lw_copy_") != std::string::npos;
  for (const Turns turns : {Turns{false, false}, {true, false}, {false, true}, {true, true}}) {
    if (turns.late_copies && !copies) continue;
    Arguments found = arguments;
    const Status emulated = run_text(program, c, bindings, found, turns);
    ASSERT_TRUE(emulated.ok()) << c.what << "\n" << emulated.error().message() << c.text.functions;
    if (const auto difference = find_difference(c.naive, expected, found, true))
      FAIL() << "the text: " << *difference << "\n" << c.what << "\n" << c.text.functions;
  }
}

void check_compiled(const std::vector<Candidate>& batch) {
  const auto nvrtc = codegen::Nvrtc::shared();
  if (!nvrtc.ok()) return;
  std::string functions;
  for (const Candidate& c : batch) functions += c.text.functions;
  const auto program = (*nvrtc)->compile({"batch.cu", codegen::cuda_program(functions), kTarget.arch, {}});
  ASSERT_TRUE(program.ok()) << program.error().message();
  EXPECT_TRUE(program->report.diagnostics.empty()) << program->log;
  for (const Candidate& c : batch)
    for (const CudaLaunch& l : c.text.launches) {
      const codegen::KernelFigures* figures = program->find(l.entry);
      ASSERT_NE(figures, nullptr) << l.entry;
      if (!c.is_default) continue;
      EXPECT_EQ(figures->spill_store_bytes, 0) << c.what << "\n" << c.text.functions;
      // An array that is indexed by what is no constant goes to the stack; so does the argument of sin beyond some size, and
      // what a square root's rare path saves where the kernels of a program share that path.
      const std::string& text = c.text.functions;
      const std::vector<std::string> with_stack{"sin", "cos", "tan", "sqrt"};
      const bool may_have = std::any_of(with_stack.begin(), with_stack.end(), [&](const std::string& f) { return text.find(f) != std::string::npos; });
      EXPECT_TRUE(may_have || figures->stack_bytes == 0) << c.what << "\n" << text;
    }
}

/// Candidates of all graphs in turn, all of the template `family`: the default of each, then random picks; those in `kept` stay.
void check_family(const std::string& family, const std::vector<std::string>& graphs, std::uint64_t otherwise = 24, const Kept& kept = {}) {
  const std::uint64_t candidates = flag("candidates", otherwise), seed = flag("seed", 1);
  constexpr std::size_t kBatch = 20;
  std::vector<Candidate> batch;
  std::uint64_t made = 0;
  for (std::uint64_t i = 0; i < candidates * 2 && made < candidates; ++i) {
    const std::string& graph = graphs[i % graphs.size()];
    if (auto c = make_candidate(family, graph, i < graphs.size() ? 0 : seed + i, static_cast<int>(i), kept)) {
      batch.push_back(std::move(*c));
      ++made;
    }
    if (batch.size() < kBatch && i + 1 < candidates * 2 && made < candidates) continue;
    if (batch.empty()) continue;
    std::vector<const codegen::CudaText*> texts;
    for (const Candidate& c : batch) texts.push_back(&c.text);
    const auto program = EmulatedProgram::compile(texts);
    ASSERT_TRUE(program.ok()) << program.error().message();
    for (const Candidate& c : batch) check_meaning(c, *program, seed + i);
    check_compiled(batch);
    if (::testing::Test::HasFailure()) return;
    batch.clear();
  }
  EXPECT_GE(made * 2, candidates) << "most picks are rejected";
}

/// Of sizes that may be zero: one kernel serves them too, and what is reduced over nothing is the neutral element.
TEST(CudaEmpty, tensors_agree) {
  std::vector<std::string> graphs;
  for (const char* body :
       {"input x: bf16[n, 40]\noutput y = cast(gelu_tanh(cast(x, f32)), bf16)\n", "input x: f32[n, 264]\noutput y = softmax(x, axis=-1)\n",
        "input x: f32[3, n]\noutput y = sum(x, axes=[-1])\n", "input x: bf16[3, n]\noutput y = reduce_max(x, axes=[-1])\n", "input x: f32[n, 33]\noutput y = argmax(x, axes=[-1])\n",
        "input x: f32[n, 40]\noutput y = sum(x, axes=[0])\n", "input x: f32[n, 8]\noutput y = sum(x)\n", "input x: f32[n]\noutput y = gt(reduce_max(x), 0)\n",
        "input x: f32[n, 40]\noutput y = permute(x, axes=[1, 0])\n", "input x: f32[n, 40]\noutput y = cumulative_sum(x, axis=1)\n", "input x: bf16[3, n]\noutput y = cumulative_sum(x, axis=1)\n",
        "input x: f32[n, 40]\noutput y = cumulative_sum(x, axis=0)\n", "input x: f32[9, 8]\ninput i: i64[n, 8]\ninput v: f32[n, 8]\noutput y = scatter(x, i, v, axis=0, reduce=add)\n",
        "input t: f32[50, 24]\ninput i: i64[n]\noutput y = index_select(t, i, axis=0)\n", "input a: f32[17, n]\ninput b: f32[n, 9]\noutput y = matmul(a, b)\n"})
    graphs.push_back("graph g\nsymbol n in 0..300\n" + std::string(body));
  std::vector<Candidate> batch;
  for (const std::string& graph : graphs)
    for (const std::uint64_t seed : {0, 7})
      if (auto c = make_candidate("", graph, seed, static_cast<int>(batch.size()), {})) batch.push_back(std::move(*c));
  std::vector<const codegen::CudaText*> texts;
  for (const Candidate& c : batch) texts.push_back(&c.text);
  const auto program = EmulatedProgram::compile(texts);
  ASSERT_TRUE(program.ok()) << program.error().message();
  for (const Candidate& c : batch)
    for (const std::int64_t n : {0, 1, 299}) {
      Bindings sizes;
      for (const ir::SymbolParam& s : c.lowered.symbols) sizes[s.symbol.name] = n;
      check_meaning(c, *program, 3, sizes);
    }
}

std::string row_graph(const std::string& rows, const std::string& columns, const std::string& body) {
  return "graph g\nsymbol n in 1..9\ninput x: bf16[" + rows + ", " + columns + "]\nh = cast(x, f32)\n" + body;
}

TEST(CudaElementwise, agrees) {
  std::vector<std::string> graphs;
  for (const char* shape : {"[1]", "[7, 64]", "[33, 24]", "[3, 5, 17]", "[n, 40]", "[n]"})
    graphs.push_back("graph g\nsymbol n in 1..900\ninput x: bf16" + std::string(shape) + "\ny = cast(gelu_tanh(cast(x, f32)), bf16)\noutput y\n");
  graphs.push_back("graph g\ninput x: bf16[13, 96]\ninput w: f32[96]\noutput y = cast(mul(cast(x, f32), w), bf16)\n");
  graphs.push_back("graph g\ninput x: f32[13, 96]\ninput w: f16[13, 1]\noutput y = cast(div(x, cast(w, f32)), f16)\n");
  graphs.push_back("graph g\ninput x: i64[11, 13]\noutput y = cast(gt(x, 1), i32)\n");
  check_family("gpu_elementwise", graphs);
}

TEST(CudaOps, agree) {
  std::vector<std::string> graphs;
  const auto add = [&](const std::string& dtype, const std::string& body) {
    graphs.push_back("graph g\ninput x: " + dtype + "[5, 24]\ninput z: " + dtype + "[5, 24]\noutput y = " + body + "\n");
  };
  for (const char* dtype : {"f32", "bf16", "f16", "f64"}) {
    std::string sum = "x";
    for (const char* op : {"exp", "exp2", "expm1", "sin", "cos", "atan", "sinh", "cosh", "tanh", "erf", "sigmoid", "cbrt", "floor", "ceil", "round", "trunc", "abs", "neg", "sign"})
      sum = "add(" + sum + ", " + op + "(x))";
    add(dtype, sum);
    add(dtype, "add(log(add(abs(x), 1)), add(log2(add(abs(x), 1)), add(log1p(abs(x)), add(sqrt(abs(x)), rsqrt(add(abs(x), 1))))))");
    add(dtype, "add(min(x, z), add(max(x, z), add(div(x, add(abs(z), 1)), add(atan2(x, z), pow(add(abs(x), 1), z)))))");
    add(dtype, "fmod(x, add(abs(z), 1))");
    add(dtype, "select(lt(x, z), x, select(is_nan(x), z, sub(x, z)))");
    for (const char* to : {"f32", "bf16", "f16", "f64", "i8", "u8", "i16", "i32", "i64", "bool"}) add(dtype, "cast(mul(x, 3), " + std::string(to) + ")");
  }
  for (const char* dtype : {"i8", "u8", "i16", "i32", "i64"}) {
    add(dtype, "add(mul(x, z), sub(max(x, z), min(x, z)))");
    add(dtype, "add(floor_div(x, sub(z, 1)), mod(x, sub(z, 2)))");
    add(dtype, "add(shl(x, z), add(shr(x, z), add(and(x, z), add(or(x, z), add(xor(x, z), add(bit_not(x), add(neg(x), add(abs(x), sign(x)))))))))");
    for (const char* to : {"f32", "bf16", "f16", "f64", "i8", "i64", "bool"}) add(dtype, "cast(x, " + std::string(to) + ")");
  }
  add("bool", "xor(and(x, z), or(x, logical_not(z)))");
  check_family("gpu_elementwise", graphs, graphs.size());
}

TEST(CudaRow, agrees) {
  std::vector<std::string> graphs;
  for (const char* columns : {"1", "16", "31", "33", "64", "130", "255", "264", "520"}) {
    graphs.push_back(row_graph("n", columns, "output y = cast(softmax(h, axis=-1), bf16)\n"));
    graphs.push_back(row_graph("5", columns, "output y = cast(rms_norm(h, eps=1e-5), bf16)\n"));
  }
  graphs.push_back(row_graph("3", "264", "output y = cast(layer_norm(h, eps=1e-5), bf16)\n"));
  graphs.push_back(row_graph("n", "264", "output y = sum(h, axes=[-1])\n"));
  graphs.push_back(row_graph("n", "264", "output y = argmax(x, axes=[-1])\n"));
  graphs.push_back("graph g\nsymbol n in 1..9\nsymbol c in 1..70\ninput x: f32[n, c]\noutput y = softmax(x, axis=-1)\n");
  check_family("gpu_row", graphs);
}

/// Ties go to the first, those of the two zeros too, and so do NaN: the roots of what is negative.
TEST(CudaRow, places_agree_where_values_are_equal_or_no_numbers) {
  std::vector<std::string> graphs;
  for (const char* columns : {"33", "264", "1000", "16384", "20001"})
    for (const char* what : {"argmax(floor(x)", "argmin(floor(h)", "argmax(sqrt(h)", "argmin(cast(x, i32)", "argmax(trunc(min(h, 0.5))", "argmax(mul(h, 3)"})
      graphs.push_back(row_graph("2", columns, "output y = " + std::string(what) + ", axes=[-1])\n"));
  check_family("gpu_row", graphs, graphs.size() * 2);
}

TEST(CudaLongRow, of_a_cluster_agrees) {
  std::vector<std::string> graphs;
  for (const char* columns : {"16384", "33000", "20001"}) {
    graphs.push_back(row_graph("2", columns, "output y = cast(softmax(h, axis=-1), bf16)\n"));
    graphs.push_back(row_graph("n", columns, "output y = cast(rms_norm(h, eps=1e-5), bf16)\n"));
    graphs.push_back(row_graph("2", columns, "output y = cast(layer_norm(h, eps=1e-5), bf16)\n"));
    graphs.push_back(row_graph("2", columns, "output y = argmax(x, axes=[-1])\n"));
    graphs.push_back(row_graph("3", columns, "output y = reduce_max(h, axes=[-1])\n"));
  }
  check_family("gpu_row", graphs, graphs.size() + 9);
}

TEST(CudaRow, of_several_outputs_agrees) {
  std::vector<std::string> graphs;
  for (const char* columns : {"40", "264", "130", "1000"}) {
    graphs.push_back(row_graph("n", columns, "s = sum(h, axes=[-1])\noutput d = sub(reduce_max(h, axes=[-1]), s)\noutput s\n"));
    graphs.push_back(row_graph("5", columns, "y = sin(h)\ns = gt(sum(y, axes=[-1]), 0)\noutput y\noutput s\n"));
    graphs.push_back(row_graph("4", columns, "p = argmin(x, axes=[-1])\noutput d = sub(cast(p, f32), sum(h, axes=[-1]))\noutput p\n"));
    graphs.push_back(row_graph("n", columns, "m = mean(h, axes=[-1], keepdim=true)\nd = sub(h, m)\ny = mul(d, rsqrt(add(mean(mul(d, d), axes=[-1], keepdim=true), 1e-5)))\noutput m\noutput y\n"));
  }
  check_family("gpu_row", graphs);
}

/// Rows that are looked up: a block of several rows ends beyond the last index, which is in front of the rows' own condition.
TEST(CudaRow, of_looked_up_rows_agrees) {
  std::vector<std::string> graphs;
  for (const char* rows : {"n", "13"})
    for (const char* body : {"layer_norm(t)", "softmax(t, axis=-1)", "cast(argmax(t, axes=[-1]), f32)"})
      for (const char* table : {"f32[97, 128]", "f32[97, 16]"}) {
        std::string text = body;
        text.replace(text.find("(t") + 1, 1, "index_select(t, i, axis=0)");
        graphs.push_back("graph g\nsymbol n in 1..9\ninput t: " + std::string(table) + "\ninput i: i64[" + rows + "]\noutput y = " + text + "\n");
      }
  check_family("gpu_row", graphs, graphs.size() + 24);
}

/// Rows of any length, and rows whose reductions several outputs share.
TEST(CudaRow, of_any_length_agrees) {
  std::vector<std::string> graphs;
  for (const char* shape : {"[3, n]", "[n, n]", "[m, 4, n]", "[m, 2, 1, n]"})
    for (const char* body : {"softmax(h, axis=-1)", "log_softmax(h, axis=-1)"})
      graphs.push_back("graph g\nsymbol n in 1..90\nsymbol m in 1..5\ninput x: bf16" + std::string(shape) + "\nh = cast(x, f32)\noutput y = cast(" + body + ", bf16)\n");
  graphs.push_back("graph g\nsymbol n in 1..9\ninput x: f32[n, 128]\nm = mean(x, axes=[-1], keepdim=true)\noutput a = sub(x, m)\noutput b = mul(x, m)\n");
  graphs.push_back("graph g\nsymbol n in 1..9\ninput x: bf16[n, 264]\nh = cast(x, f32)\ns = reduce_max(abs(h), axes=[-1], keepdim=true)\noutput q = cast(round(div(mul(h, 127), add(s, 0.001))), i8)\noutput scale = div(s, 127)\n");
  check_family("gpu_row", graphs, graphs.size() + 24);
}

/// Rows that a ring of bulk copies brings, more of them than blocks and fewer.
TEST(CudaRowRing, agrees) {
  std::vector<std::string> graphs;
  for (const char* rows : {"299", "n", "90"})
    for (const char* body :
         {"output y = cast(rms_norm(h, eps=1e-5), bf16)\n",
          "output y = cast(layer_norm(h, eps=1e-5), bf16)\n", "output y = cast(softmax(h, axis=-1), bf16)\n"})
      graphs.push_back("graph g\nsymbol n in 1..400\ninput x: bf16[" + std::string(rows) +
                       ", 520]\nh = cast(x, f32)\n" + body);
  graphs.push_back(
      "graph g\ninput x: f32[5, 60, 260]\ninput w: f32[260]\noutput y = mul(rms_norm(x, eps=1e-5), w)\n");
  graphs.push_back(
      "graph g\ninput x: f32[300, 260]\ninput z: f32[300, 260]\noutput y = mul(softmax(x, axis=-1), "
      "layer_norm(z, eps=1e-5))\n");
  for (const std::int64_t depth : {2, 4})
    check_family("gpu_row", graphs, graphs.size() + 6,
                 {{{"aligned", 1},
                   {"hold", 1},
                   {"keep_row", 1},
                   {"threads", 16 << depth / 2},
                   {"ring", depth},
                   {"rows", 1},
                   {"resident", 1}},
                  "lw_copy_row"});
}

/// Loads and copies that say what caches shall do.
TEST(CudaRow, with_cache_policies_agrees) {
  std::vector<std::string> graphs;
  for (const char* columns : {"264", "33"})
    graphs.push_back("graph g\nsymbol n in 1..40\ninput x: bf16[n, " + std::string(columns) + "]\ninput w: f32[" + columns + "]\noutput y = cast(mul(rms_norm(cast(x, f32), eps=1e-5), w), bf16)\n");
  graphs.push_back("graph g\ninput x: f32[30, 264]\ninput z: f16[264]\noutput y = add(softmax(x, axis=-1), cast(z, f32))\n");
  check_family("gpu_row", graphs, 6, {{{"loads", 1}}, "lw_load_no_allocate("});
  check_family("gpu_row", graphs, 6, {{{"loads", 3}}, "lw_load_evict_first("});
  check_family("gpu_row", {graphs[0]}, 2, {{{"aligned", 1}, {"hold", 1}, {"threads", 32}, {"ring", 2}, {"rows", 1}, {"resident", 1}, {"loads", 3}}, "lw_copy_row_evict_first("});
}

/// What reads one tensor and needs nothing of each other is one kernel that reads it once.
TEST(CudaRow, beside_each_other_agree) {
  std::vector<std::string> graphs;
  for (const char* columns : {"33", "264", "2880", "20001"}) {
    graphs.push_back(row_graph("n", columns, "output m = mean(h, axes=[-1])\noutput t = reduce_max(h, axes=[-1])\n"));
    graphs.push_back(row_graph("5", columns, "output y = cast(softmax(h, axis=-1), bf16)\noutput z = cast(rms_norm(h, eps=1e-5), bf16)\n"));
    graphs.push_back(row_graph("3", columns, "output p = argmax(x, axes=[-1])\noutput q = argmin(x, axes=[-1])\noutput s = sum(h, axes=[-1])\n"));
  }
  check_family("gpu_row", graphs, graphs.size() + 12);
}
TEST(CudaColumns, beside_each_other_agree) {
  std::vector<std::string> graphs;
  for (const char* shape : {"[n, 24]", "[70, 33]", "[300, 264]"})
    for (const char* body : {"output s = sum(x, axes=[0])\noutput t = reduce_max(x, axes=[0])\n", "output m = mean(x, axes=[0])\noutput q = sqrt(mean(mul(x, x), axes=[0]))\noutput p = reduce_min(x, axes=[0])\n"})
      graphs.push_back("graph g\nsymbol n in 1..500\ninput x: f32" + std::string(shape) + "\n" + body);
  check_family("gpu_column_reduction", graphs, graphs.size() + 12);
}
TEST(CudaFullReduction, beside_each_other_agree) {
  std::vector<std::string> graphs;
  for (const char* shape : {"[n]", "[n, 24]", "[70000]", "[300, 264]"})
    for (const char* body : {"output s = sum(x)\noutput t = reduce_max(x)\n", "output m = mean(x)\noutput q = gt(sum(mul(x, x)), 3)\n"})
      graphs.push_back("graph g\nsymbol n in 1..5000\ninput x: f32" + std::string(shape) + "\n" + body);
  check_family("gpu_full_reduction", graphs, graphs.size() + 12);
}

TEST(CudaColumns, agrees) {
  std::vector<std::string> graphs;
  for (const char* shape : {"[7, 40]", "[70, 24]", "[130, 264]", "[600, 17]", "[300, 64]", "[n, 48]"})
    for (const char* body : {"sum(cast(x, f32), axes=[0])", "cast(mean(cast(x, f32), axes=[0]), bf16)", "reduce_max(x, axes=[0])"})
      graphs.push_back("graph g\nsymbol n in 1..300\ninput x: bf16" + std::string(shape) + "\noutput y = " + body + "\n");
  graphs.push_back("graph g\ninput x: f32[3, 90, 40]\noutput y = sum(x, axes=[1])\n");
  check_family("gpu_column_reduction", graphs);
  check_family("gpu_general", {"graph g\ninput x: bf16[1, 1]\noutput y = cast(mean(cast(x, f32), axes=[0]), bf16)\n"}, 2);
}

TEST(CudaColumns, of_several_outputs_agrees) {
  std::vector<std::string> graphs;
  for (const char* shape : {"[7, 40]", "[130, 264]", "[600, 17]", "[3000, 64]", "[n, 48]"})
    for (const char* body : {"s = sum(h, axes=[0])\noutput d = sub(reduce_max(h, axes=[0]), s)\noutput s\n", "m = mean(h, axes=[0])\noutput v = sub(mean(mul(h, h), axes=[0]), mul(m, m))\noutput m\n",
                             "b = reduce_min(h, axes=[0])\nc = sum(h, axes=[0])\noutput d = add(add(cast(argmax(h, axes=[0]), f32), abs(b)), mul(c, 0.001))\noutput c\n"})
      graphs.push_back("graph g\nsymbol n in 1..300\ninput x: bf16" + std::string(shape) + "\nh = cast(x, f32)\n" + body);
  graphs.push_back("graph g\ninput x: f32[3, 90, 40]\ny = sum(x, axes=[1])\noutput z = sub(reduce_max(x, axes=[1]), y)\noutput y\n");
  check_family("gpu_column_reduction", graphs);
}

TEST(CudaFullReduction, agrees) {
  std::vector<std::string> graphs;
  for (const char* shape : {"[1]", "[1000]", "[40, 41]", "[5, 70, 64]", "[n]", "[n, 8]"}) {
    graphs.push_back("graph g\nsymbol n in 1..5000\ninput x: bf16" + std::string(shape) + "\noutput y = sum(cast(x, f32))\n");
    graphs.push_back("graph g\nsymbol n in 1..5000\ninput x: f32" + std::string(shape) + "\noutput y = gt(reduce_max(x), 0)\n");
  }
  check_family("gpu_full_reduction", graphs);
}

TEST(CudaFullReduction, of_several_outputs_agrees) {
  std::vector<std::string> graphs;
  for (const char* shape : {"[1]", "[1000]", "[400, 41]", "[70, 640]", "[n]", "[n, 8]"}) {
    graphs.push_back("graph g\nsymbol n in 1..9000\ninput x: i64" + std::string(shape) + "\ny = sin(cast(x, f32))\noutput p = gt(sum(y), 0)\noutput y\n");
    graphs.push_back("graph g\nsymbol n in 1..9000\ninput x: bf16" + std::string(shape) + "\ns = sum(cast(x, f32))\noutput d = sub(cast(reduce_max(x), f32), s)\noutput s\n");
  }
  graphs.push_back("graph g\ninput x: i64[400, 400] strides [800, 2]\ny = sin(cast(x, f32))\noutput y\noutput p = gt(sum(y), 0)\n");
  check_family("gpu_full_reduction", graphs);
}

TEST(CudaTranspose, agrees) {
  std::vector<std::string> graphs;
  for (const char* shape : {"[64, 64]", "[130, 72]", "[65, 63]", "[n, 40]"})
    for (const char* dtype : {"bf16", "f32", "i64"})
      graphs.push_back("graph g\nsymbol n in 1..150\ninput x: " + std::string(dtype) + shape + "\noutput y = permute(x, axes=[1, 0])\n");
  graphs.push_back("graph g\ninput x: f32[3, 40, 24]\noutput y = exp(permute(x, axes=[2, 0, 1]))\n");
  check_family("gpu_transpose", graphs);
  check_family("gpu_elementwise", {"graph g\ninput x: bf16[2, 33, 5, 24]\noutput y = permute(x, axes=[0, 2, 1, 3])\n",
                                   "graph g\ninput x: i64[1, 7]\noutput y = permute(x, axes=[1, 0])\n"}, 8);
}

TEST(CudaMatrixVector, agrees) {
  const auto make = [](const std::string& dtype, const std::string& m, const std::string& n, const std::string& k, const std::string& body) {
    return "graph g\nsymbol t in 1..40\ninput x: " + dtype + "[" + m + ", " + k + "]\ninput w: " + dtype + "[" + n + ", " + k +
           "]\ninput v: " + dtype + "[" + k + ", " + n + "]\ninput b: " + dtype + "[" + n + "]\noutput y = " + body + "\n";
  };
  const char *along = "linear(x, w)", *down = "matmul(x, v)";
  check_family("gpu_matrix_vector",
               {make("bf16", "3", "17", "264", "gelu_tanh(linear(x, w, b))"), make("f16", "t", "2", "96", along), make("f32", "5", "33", "1", along),
                make("bf16", "1", "72", "300", down), make("bf16", "3", "40", "129", "gelu_tanh(add(matmul(x, v), b))"), make("f16", "2", "264", "64", "add(matmul(x, v), b)")});
  check_family("gpu_row", {make("bf16", "1", "40", "512", along), make("f32", "1", "9", "37", along), make("bf16", "30", "1", "100", "add(linear(x, w), b)")}, 9);
  check_family("gpu_matmul", {make("f32", "1", "9", "37", down), make("f32", "4", "33", "5", down),
                              "graph g\ninput x: f32[40, 1]\ninput w: f32[24, 40]\noutput y = matmul(w, x)\n"}, 9);
}

std::string plain_product(const std::string& x, const std::string& w, const std::string& body) {
  return "graph g\nsymbol t in 1..150\ninput x: " + x + "\ninput w: " + w + "\n" + body;
}

/// Sums that few blocks would do alone, thin sides, short sums, mixed types, prologues and epilogues, rows of a symbol.
TEST(CudaPlainProduct, agrees) {
  std::vector<std::string> graphs;
  graphs.push_back(plain_product("bf16[t, 520]", "f32[16, 520]", "output y = linear(cast(x, f32), w)\n"));
  graphs.push_back(plain_product("f32[t, 16]", "f32[72, 16]", "input b: bf16[t, 72]\noutput y = cast(add(cast(b, f32), mul(linear(x, w), 2.0)), bf16)\n"));
  graphs.push_back(plain_product("f32[70, 300]", "f32[300, 40]", "output y = matmul(x, w)\n"));
  graphs.push_back(plain_product("f32[33, 260]", "f32[136, 260]", "input b: f32[136]\noutput y = max(linear(x, w, b), 0)\n"));
  graphs.push_back(plain_product("bf16[t, 9]", "f32[9, 280]", "output y = matmul(permute(mul(cast(x, f32), 0.5), axes=[0, 1]), w)\n"));
  graphs.push_back(plain_product("f32[400, 24]", "f32[400, 40]", "output y = matmul(permute(x, axes=[1, 0]), w)\n"));
  graphs.push_back(plain_product("f32[t, 12]", "f32[t, 70]", "output y = matmul(permute(x, axes=[1, 0]), w)\n"));
  graphs.push_back(plain_product("f32[2, 20, 130]", "f32[2, 24, 130]", "output y = matmul(x, w, transpose_b=true)\n"));
  graphs.push_back(plain_product("f64[12, 100]", "f64[20, 100]", "output y = linear(x, w)\n"));
  graphs.push_back(plain_product("i32[12, 100]", "i32[100, 20]", "output y = matmul(x, w)\n"));
  graphs.push_back(plain_product("f32[9, 70]", "f32[11, 70]", "output y = exp(linear(x, w))\n"));
  check_family("gpu_matmul", graphs, 24, {{{"thin", 0}}, ""});
}

/// Operands that threads copy ahead without waiting: along the sum and across it, edges, shares of a sum.
TEST(CudaPlainProduct, by_copies_ahead_agrees) {
  std::vector<std::string> graphs;
  graphs.push_back(plain_product("f32[70, 300]", "f32[300, 40]", "output y = matmul(x, w)\n"));
  graphs.push_back(plain_product("f32[33, 260]", "f32[136, 260]", "input b: f32[136]\noutput y = max(linear(x, w, b), 0)\n"));
  graphs.push_back(plain_product("f32[400, 24]", "f32[400, 40]", "output y = matmul(permute(x, axes=[1, 0]), w)\n"));
  graphs.push_back(plain_product("f32[t, 101]", "f32[101, 70]", "output y = matmul(x, w)\n"));
  for (const std::int64_t slots : {2, 3, 4}) check_family("gpu_matmul", graphs, graphs.size() + 3, {{{"thin", 0}, {"summands", 16}, {"slots", slots}}, "lw_copy_async_"});
}

/// One thin side, by warps on tensor cores: edges of every kind, mixed types, epilogues, rows of a symbol, batches.
TEST(CudaThinProduct, agrees) {
  std::vector<std::string> graphs;
  graphs.push_back(plain_product("bf16[37, 264]", "bf16[136, 264]", "output y = linear(x, w)\n"));
  graphs.push_back(plain_product("bf16[t, 520]", "f32[16, 520]", "output y = linear(cast(x, f32), w)\n"));
  graphs.push_back(plain_product("bf16[t, 1040]", "bf16[40, 1040]", "input b: bf16[40]\noutput y = gelu_tanh(linear(x, w, b))\n"));
  graphs.push_back(plain_product("f16[9, 300]", "f16[72, 300]", "output y = linear(x, w)\n"));
  graphs.push_back(plain_product("f32[t, 200]", "bf16[11, 200]", "output y = linear(x, cast(w, f32))\n"));
  graphs.push_back(plain_product("f32[t, 520]", "f32[24, 520]", "output y = linear(x, w)\n"));
  graphs.push_back(plain_product("f32[17, 136]", "f32[100, 136]", "input b: f32[100]\noutput y = max(linear(x, w, b), 0)\n"));
  graphs.push_back(plain_product("bf16[2, 20, 136]", "bf16[2, 24, 136]", "output y = matmul(x, w, transpose_b=true)\n"));
  graphs.push_back(plain_product("bf16[t, 129]", "f32[9, 129]", "output y = cast(mul(linear(cast(x, f32), w), 2.0), bf16)\n"));
  graphs.push_back(plain_product("bf16[t, 256]", "bf16[64, 256]", "output y = linear(x, w)\n"));
  check_family("gpu_matmul", graphs, 24, {{{"thin", 1}}, "lw_mma_"});
}

std::string scan_graph(const std::string& dtype, const std::string& shape, int axis, const std::string& out = "") {
  return "graph g\nsymbol n in 1..40\nsymbol m in 1..300\ninput x: " + dtype + shape + "\noutput y = cumulative_sum(x, axis=" + std::to_string(axis) + (out.empty() ? "" : ", out=" + out) + ")\n";
}

/// Of one element, primes, and one more and less than a chunk, a warp, a block and a pass of several.
TEST(CudaScan, along_memory_agrees) {
  std::vector<std::string> graphs;
  for (const char* columns : {"1", "4", "7", "31", "32", "33", "127", "128", "129", "136", "521", "1024", "1028", "2039", "4096"})
    graphs.push_back(scan_graph("f32", "[n, " + std::string(columns) + "]", 1));
  for (const char* dtype : {"bf16", "f16", "f64", "i8", "u8", "i16", "i32", "i64"})
    for (const char* columns : {"24", "264", "1000"}) graphs.push_back(scan_graph(dtype, "[3, " + std::string(columns) + "]", 1));
  graphs.push_back(scan_graph("bf16", "[3, 520]", 1, "f32"));
  graphs.push_back(scan_graph("f32", "[600]", 0));
  graphs.push_back(scan_graph("f32", "[2, 3, 40]", 2));
  graphs.push_back(scan_graph("f32", "[n, m]", 1));
  graphs.push_back(scan_graph("f32", "[m]", 0));
  graphs.push_back("graph g\ninput x: f32[5, 264]\ninput w: f32[264]\noutput y = cumulative_sum(mul(exp(x), w), axis=1)\n");
  graphs.push_back("graph g\ninput x: f32[5, 64] strides [128, 2]\noutput y = cumulative_sum(x, axis=1)\n");
  check_family("gpu_scan", graphs, graphs.size() + 24);
}

TEST(CudaScan, of_long_rows_agrees) {
  std::vector<std::string> graphs;
  for (const char* columns : {"8192", "16384", "20001", "33000"}) graphs.push_back(scan_graph("f32", "[2, " + std::string(columns) + "]", 1));
  graphs.push_back(scan_graph("bf16", "[2, 16392]", 1));
  graphs.push_back(scan_graph("f32", "[1, 131076]", 1));
  graphs.push_back("graph g\nsymbol n in 0..9000\ninput x: f32[3, n]\noutput y = cumulative_sum(x, axis=1)\n");  // blocks of a cluster that may all be idle
  check_family("gpu_scan", graphs, graphs.size() * 3);
}

TEST(CudaScan, along_other_axes_agrees) {
  std::vector<std::string> graphs;
  for (const char* rows : {"1", "7", "8", "9", "127", "128", "129", "257", "521", "m"})
    for (const char* columns : {"1", "33", "64", "n"}) graphs.push_back(scan_graph("f32", "[" + std::string(rows) + ", " + columns + "]", 0));
  for (const char* dtype : {"bf16", "f16", "f64", "i8", "i32"}) graphs.push_back(scan_graph(dtype, "[2, 130, 40]", 1));
  graphs.push_back(scan_graph("f32", "[3, 20, 4, 40]", 1));
  check_family("gpu_scan", graphs, graphs.size() + 24);
}

/// Rows by one index each, elements by one each, other axes, sums in wider types, in place; indices that are out of range.
TEST(CudaScatter, agrees) {
  std::vector<std::string> graphs;
  const auto add = [&](const std::string& dtype, const std::string& target, const std::string& index, const std::string& part, const std::string& body) {
    graphs.push_back("graph g\nsymbol n in 1..90\ninput x: " + dtype + target + "\ninput i: " + index + "\ninput v: " + dtype + part + "\n" + body);
  };
  for (const char* reduce : {"", ", reduce=add"}) {
    const std::string rows = "r = broadcast(reshape(i, shape=[40, 1]), shape=[40, 24])\noutput y = scatter(x, r, v, axis=0" + std::string(reduce) + ")\n";
    for (const char* dtype : {"f32", "bf16", "i8", "i64"}) add(dtype, "[50, 24]", "i64[40]", "[40, 24]", rows);
    add("f32", "[7, 24]", "i32[40]", "[40, 24]", rows);
    add("f32", "[20, 24]", "i64[6, 24]", "[6, 24]", "output y = scatter(x, i, v, axis=0" + std::string(reduce) + ")\n");
    add("f32", "[9, 40]", "i64[9, 33]", "[9, 33]", "output y = scatter(x, i, v, axis=1" + std::string(reduce) + ")\n");
    add("f32", "[n, 3, 8]", "i64[n, 5, 8]", "[n, 5, 8]", "output y = scatter(x, i, v, axis=1" + std::string(reduce) + ")\n");
    add("f32", "[1000]", "i64[n]", "[n]", "output y = scatter(x, i, v, axis=0" + std::string(reduce) + ")\n");
    add("i32", "[n, 16]", "i64[70, 16]", "[70, 16]", "output y = scatter(x, i, v, axis=0" + std::string(reduce) + ")\n");
    add("f32", "[50, 24]", "i64[40, 24]", "[40, 24]", "y = scatter(x, i, v, axis=0" + std::string(reduce) + ")\nupdate x = y\n");
  }
  add("bool", "[30, 8]", "i64[40, 8]", "[40, 8]", "output y = scatter(x, i, v, axis=0)\n");
  check_family("gpu_scatter", graphs, graphs.size() + 24);
}

TEST(CudaGeneral, agrees) {
  check_family("gpu_general", {"graph g\ninput x: f32[20, 24]\noutput y = variance(x, axes=[1])\n",
                "graph g\ninput x: bool[20, 24]\noutput y = any(x, axes=[1])\n",
                "graph g\ninput a: f32[17, 30]\ninput b: f32[30, 9]\noutput y = matmul(a, b)\n",
                "graph g\ninput t: f32[50, 24]\ninput i: i64[13]\noutput y = index_select(t, i, axis=0)\n",
                "graph g\ninput a: f32[10, 24]\ninput b: f32[10, 16]\noutput y = concat(a, b, axis=1)\n",
                "graph g\ninput x: bf16[33, 70]\noutput y = sum(cast(x, f32), axes=[0])\n",
                "graph g\ninput x: f32[40, 41]\noutput y = sum(x)\n",
                "graph g\ninput x: f32[40, 41]\noutput y = permute(x, axes=[1, 0])\n"});
}

}  // namespace
}  // namespace loopwright::test
