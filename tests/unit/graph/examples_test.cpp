// The graph files that are shipped: they parse, and kernel by kernel they compute what the float64 reference says.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <set>

#include "src/graph/group.h"
#include "src/graph/naive_kernel.h"
#include "tests/support/graph_data.h"
#include "tests/support/reference.h"

namespace loopwright {
namespace {

using Arrays = std::map<std::string, ir::Array>;

const std::string kFolder = LOOPWRIGHT_SOURCE_DIR "/examples/";

/// Weights of about 1/sqrt(length), so that values keep the size of 1 through the layers.
void scale_weights(Arrays& inputs) {
  for (auto& [name, array] : inputs) {
    if (!is_float(array.dtype) || array.shape.size() != 2 || name == "x") continue;
    const double factor = 1 / std::sqrt(static_cast<double>(array.shape[1]));
    for (std::int64_t i = 0; i < array.shape[0]; ++i)
      for (std::int64_t j = 0; j < array.shape[1]; ++j) array.set({i, j}, array.get({i, j}) * factor);
  }
}

/// Errors are relative to the size of the whole result: sums cancel.
double largest(const ir::Array& array) {
  double out = 0;
  for (std::size_t at = 0; at + size_bytes(array.dtype) <= array.data.size(); at += size_bytes(array.dtype))
    out = std::max(out, std::fabs(ir::load_element(array.dtype, array.data.data() + at)));
  return out;
}

void run_groups(const Graph& g, const Bindings& bindings, Arrays& values) {
  for (const graph::Group& group : graph::group_ops(g)) {
    const Result<ir::Kernel> kernel = graph::naive_kernel(group.graph);
    ASSERT_TRUE(kernel.ok()) << kernel.error().message();
    Bindings local;
    for (std::size_t i = 0; i < group.symbols.size(); ++i)
      local["s" + std::to_string(i)] = bindings.at(group.symbols[i]);
    Arrays inputs;
    for (std::size_t i = 0; i < group.inputs.size(); ++i)
      inputs["i" + std::to_string(i)] = values.at(group.inputs[i]);
    Arrays arguments = test::kernel_arguments(group.graph, local, inputs);
    ir::InterpretOptions options;
    options.check_races = false;  // serial loops cannot race
    const Status status = ir::interpret(*kernel, local, arguments, options);
    ASSERT_TRUE(status.ok()) << status.error().message();
    for (std::size_t i = 0; i < group.outputs.size(); ++i)
      values[group.outputs[i]] = arguments.at("o" + std::to_string(i));
    for (std::size_t i = 0; i < group.updates.size(); ++i)
      values[group.updates[i]] = arguments.at(group.graph.node(group.graph.updates()[i].input).name);
  }
}

void check(const std::string& file, std::int64_t size, test::Allowance allowance, Arrays given = {}) {
  SCOPED_TRACE(file);
  const Result<Graph> g = Graph::load(kFolder + file);
  ASSERT_TRUE(g.ok()) << g.error().message();
  EXPECT_EQ(Graph::parse(g->text()).value().text(), g->text());
  Bindings bindings;
  for (const Symbol& s : g->symbols()) bindings[s.name] = size;
  Arrays values = test::random_inputs(*g, bindings, 3);
  scale_weights(values);
  for (auto& [name, array] : given) values[name] = array;
  const auto want = test::reference_outputs(*g, bindings, values, test::Rounding::casts);
  run_groups(*g, bindings, values);
  for (const auto& [name, array] : want) {
    ASSERT_TRUE(values.contains(name));
    test::Allowance scaled;
    if (is_float(array.dtype)) scaled = {allowance.absolute * largest(array), allowance.relative};
    EXPECT_EQ(test::describe_difference(values.at(name), array, scaled), "") << name;
  }
}

TEST(Examples, rmsnorm) { check("rmsnorm.lw", 3, test::tolerance_for(DType::bf16, 2880)); }
TEST(Examples, softmax) { check("softmax.lw", 2, {1e-6, 1e-5}); }
TEST(Examples, layernorm) { check("layernorm.lw", 2, {1e-5, 1e-5}); }
TEST(Examples, sin_sum_gt) { check("sin_sum_gt.lw", 1, {1e-6, 1e-6}); }
TEST(Examples, lora_mlp) { check("lora_mlp.lw", 1, {1e-4, 1e-4}); }
TEST(Examples, moe_expert) { check("moe_expert.lw", 1, {0.01, 0.01}); }
TEST(Examples, mlp) { check("mlp.lw", 1, {1e-4, 1e-4}); }
TEST(Examples, transformer) { check("transformer.lw", 2, {1e-4, 1e-4}); }

TEST(Examples, kv_cache) {
  for (std::int64_t start : {0, 5, 2046}) {
    ir::Array position = ir::Array::dense(DType::i64, {});
    position.set_int({}, start);
    check("kv_cache.lw", 2, {1e-6, 1e-4}, {{"position", position}});
  }
}

TEST(Examples, every_file_is_checked_here) {
  const std::set<std::string> known = {"rmsnorm.lw",    "softmax.lw",    "layernorm.lw",
                                       "sin_sum_gt.lw", "lora_mlp.lw",   "mlp.lw",
                                       "kv_cache.lw",   "moe_expert.lw", "transformer.lw"};
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    const bool is_graph = entry.path().extension() == ".lw";
    EXPECT_TRUE(!is_graph || known.contains(entry.path().filename().string())) << entry.path();
  }
}

}  // namespace
}  // namespace loopwright
