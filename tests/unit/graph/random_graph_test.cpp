// Random graphs: text, naive kernel against the reference, groups against the whole.
#include "tests/support/random_graph.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "src/graph/group.h"
#include "src/graph/naive_kernel.h"
#include "src/graph/ops.h"
#include "src/graph/workload.h"
#include "src/ir/verify.h"
#include "tests/support/graph_data.h"

namespace loopwright {
namespace {

constexpr std::uint64_t kSeeds = 2000;

/// More by flag: LOOPWRIGHT_RANDOM_GRAPHS=100000.
std::uint64_t count_seeds() {
  const char* wanted = std::getenv("LOOPWRIGHT_RANDOM_GRAPHS");
  return wanted ? std::strtoull(wanted, nullptr, 10) : kSeeds;
}

using Arrays = std::map<std::string, ir::Array>;

/// Runs the groups one after the other, as a plan does: values by name in the whole graph.
std::string run_in_groups(const Graph& g, const Bindings& bindings, Arrays& values) {
  for (const graph::Group& group : graph::group_ops(g)) {
    const Result<ir::Kernel> kernel = graph::naive_kernel(group.graph);
    if (!kernel.ok()) return kernel.error().message();
    if (const Status status = ir::verify(*kernel); !status.ok()) return status.error().message();
    Bindings local;
    for (std::size_t i = 0; i < group.symbols.size(); ++i)
      local["s" + std::to_string(i)] = bindings.at(group.symbols[i]);
    Arrays inputs;
    for (std::size_t i = 0; i < group.inputs.size(); ++i) {
      if (!values.contains(group.inputs[i])) return "group reads " + group.inputs[i] + " before it is made";
      inputs["i" + std::to_string(i)] = values.at(group.inputs[i]);
    }
    Arrays arguments = test::kernel_arguments(group.graph, local, inputs);
    if (const Status status = ir::interpret(*kernel, local, arguments); !status.ok())
      return status.error().message() + group.graph.text();
    for (std::size_t i = 0; i < group.outputs.size(); ++i)
      values[group.outputs[i]] = arguments.at("o" + std::to_string(i));
    for (std::size_t i = 0; i < group.updates.size(); ++i) {
      const std::string name = group.graph.node(group.graph.updates()[i].input).name;
      values[group.updates[i]] = arguments.at(name);
    }
  }
  return "";
}

TEST(RandomGraph, is_the_same_for_the_same_seed) {
  for (std::uint64_t seed = 0; seed < 50; ++seed)
    EXPECT_EQ(test::random_graph(seed).text(), test::random_graph(seed).text());
}

TEST(RandomGraph, covers_the_table_symbols_empty_axes_and_updates) {
  std::set<std::string> ops;
  int symbolic = 0, empty = 0, strided = 0, updates = 0, several = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Graph g = test::random_graph(seed);
    symbolic += !g.symbols().empty();
    updates += !g.updates().empty();
    several += g.outputs().size() > 1;
    for (const Node& node : g.nodes()) {
      ops.insert(node.op);
      strided += !node.type.strides.empty();
      for (const Dim& dim : node.type.shape) empty += dim == Dim(0);
    }
  }
  for (const graph::Op& op : graph::op_table())
    EXPECT_TRUE(ops.contains(op.signature.name)) << op.signature.name;
  for (int count : {symbolic, empty, strided, updates, several}) EXPECT_GT(count, 100);
}

TEST(RandomGraph, text_is_canonical) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const std::string text = test::random_graph(seed).text();
    const Result<Graph> again = Graph::parse(text);
    ASSERT_TRUE(again.ok()) << "seed " << seed << "\n" << text << again.error().message();
    ASSERT_EQ(again->text(), text) << "seed " << seed;
  }
}

TEST(RandomGraph, naive_kernel_and_groups_equal_the_reference) {
  for (std::uint64_t seed = 0; seed < count_seeds(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto [g, tolerances] = test::random_graph_with_tolerances(seed);
    const Bindings bindings = test::small_bindings(g, seed, test::kRandomGraphSymbol);
    const Arrays inputs = test::random_inputs(g, bindings, seed);
    const Result<ir::Kernel> kernel = graph::naive_kernel(g);
    ASSERT_TRUE(kernel.ok()) << kernel.error().message();
    Arrays whole = test::kernel_arguments(g, bindings, inputs);
    const Status status = ir::interpret(*kernel, bindings, whole);
    ASSERT_TRUE(status.ok()) << status.error().message() << g.text();
    Arrays pieces = inputs;
    ASSERT_EQ(run_in_groups(g, bindings, pieces), "") << g.text();
    for (const auto& [name, want] :
         test::reference_outputs(g, bindings, inputs, test::Rounding::every_value)) {
      ASSERT_EQ(test::describe_difference(whole.at(name), want, tolerances.at(name)), "") << name << "\n"
                                                                                          << g.text();
      // A group computes the same expressions in the same order: the same bits.
      ASSERT_TRUE(pieces.contains(name)) << name << "\n" << g.text();
      ASSERT_EQ(test::describe_difference(pieces.at(name), whole.at(name), {}), "") << name << " in groups\n"
                                                                                    << g.text();
    }
  }
}

TEST(RandomGraph, workloads_read_back) {
  for (std::uint64_t seed = 0; seed < 300; ++seed)
    for (const graph::Group& group : graph::group_ops(test::random_graph(seed))) {
      const graph::Workload made = graph::make_workload(group.graph);
      const Result<graph::Workload> read = graph::parse_workload(made.text);
      ASSERT_TRUE(read.ok()) << read.error().message();
      ASSERT_EQ(read->digest, made.digest);
    }
}

}  // namespace
}  // namespace loopwright
