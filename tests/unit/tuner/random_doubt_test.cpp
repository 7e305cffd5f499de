// Doubts of random graphs over the whole op table: they can be computed, and a faithful kernel stays within them.
#include <gtest/gtest.h>

#include <cmath>

#include "src/driver/promote.h"
#include "src/graph/naive_kernel.h"
#include "src/ir/interpret.h"
#include "tests/support/graph_data.h"
#include "tests/support/random_graph.h"
#include "tuner/doubt.h"
#include "tuner/tolerance.h"

namespace loopwright::tuner {
namespace {

using Arrays = std::map<std::string, ir::Array>;

std::vector<double> row_major(const ir::Array& array) {
  std::vector<double> values(static_cast<std::size_t>(array.element_count()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = ir::load_element(array.dtype, array.data.data() + i * static_cast<std::size_t>(size_bytes(array.dtype)));
  return values;
}

/// The kernel's results on the graph's inputs.
Arrays interpret_graph(const Graph& graph, const Bindings& bindings, const Arrays& inputs, bool in_f64) {
  const auto naive = graph::naive_kernel(graph);
  EXPECT_TRUE(naive.ok()) << naive.error().message();
  const ir::Kernel kernel = in_f64 ? driver::promote_to_f64(*naive) : *naive;
  Arrays arguments = test::kernel_arguments(graph, bindings, inputs);
  for (const ir::Param& p : kernel.params) {
    ir::Array& array = arguments.at(p.buffer->name);
    if (p.role == ArgRole::output && array.dtype != p.buffer->dtype) array = ir::Array::dense(p.buffer->dtype, array.shape);
  }
  const Status status = ir::interpret(kernel, bindings, arguments);
  EXPECT_TRUE(status.ok()) << status.error().message() << graph.text();
  return arguments;
}

TEST(RandomDoubt, AFaithfulKernelStaysWithinIt) {
  int doubtful = 0, narrow = 0, elements = 0;
  for (std::uint64_t seed = 0; seed < 4000; ++seed) {
    const Graph graph = test::random_graph(seed);
    if (!graph.updates().empty()) continue;  // in float64 an input would need another dtype
    const auto doubt = make_doubt_graph(graph);
    ASSERT_TRUE(doubt.ok()) << doubt.error().message() << graph.text();
    if (!doubt->has_value()) continue;
    ++doubtful;
    const Bindings bindings = test::small_bindings(graph, seed, test::kRandomGraphSymbol);
    const Arrays inputs = test::random_inputs(graph, bindings, seed);
    const Arrays found = interpret_graph(graph, bindings, inputs, false), expected = interpret_graph(graph, bindings, inputs, true),
                 doubts = interpret_graph(**doubt, bindings, inputs, true);
    for (const Graph::Output& o : graph.outputs()) {
      const auto there = doubts.find(doubt_name(o.name));
      if (there == doubts.end()) continue;
      const std::vector<double> mine = row_major(there->second);
      for (const double d : mine) {
        ++elements;
        narrow += d > 0;
      }
      if (is_float(graph.type(o.value).dtype)) continue;
      const Deviation d = compare_output(graph.type(o.value).dtype, found.at(o.name).data.data(), {}, row_major(expected.at(o.name)), mine,
                                         find_tolerance(graph, o.value, bindings));
      EXPECT_TRUE(d.passed) << "seed " << seed << ", " << o.name << "[" << d.first << "] is " << d.found << ", expected " << d.expected
                            << ", doubt " << mine[static_cast<std::size_t>(d.first)] << "\n" << graph.text();
    }
  }
  RecordProperty("graphs", doubtful);
  RecordProperty("narrow", narrow);
  EXPECT_GT(doubtful, 20);
  EXPECT_LT(narrow, elements);
}

}  // namespace
}  // namespace loopwright::tuner
