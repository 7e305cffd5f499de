#include "tuner/doubt.h"

#include <gtest/gtest.h>

#include <cmath>

#include "src/driver/promote.h"
#include "src/graph/naive_kernel.h"
#include "src/ir/interpret.h"

namespace loopwright::tuner {
namespace {

using Numbers = std::vector<double>;

/// The doubts of output `name` where the inputs (dense, as declared) hold these numbers; empty when there are none.
Numbers doubts(const Graph& graph, const std::string& name, const std::vector<Numbers>& inputs, std::vector<std::int64_t> shape) {
  const auto doubt = make_doubt_graph(graph);
  EXPECT_TRUE(doubt.ok()) << doubt.error().message();
  if (!doubt.ok() || !doubt->has_value()) return {};
  const auto naive = graph::naive_kernel(**doubt);
  EXPECT_TRUE(naive.ok()) << naive.error().message();
  std::map<std::string, ir::Array> arguments;
  std::size_t next = 0;
  for (const Value v : graph.inputs()) {
    std::vector<std::int64_t> sizes;
    for (const Dim& d : graph.type(v).shape) sizes.push_back(*d.constant());
    ir::Array array = ir::Array::dense(graph.type(v).dtype, sizes);
    for (std::size_t i = 0; i < inputs[next].size(); ++i)
      ir::store_element(array.dtype, array.data.data() + i * static_cast<std::size_t>(size_bytes(array.dtype)), inputs[next][i]);
    arguments[graph.node(v).name] = std::move(array);
    ++next;
  }
  arguments[doubt_name(name)] = ir::Array::dense(DType::f64, std::move(shape));
  const Status status = ir::interpret(driver::promote_to_f64(*naive), {}, arguments);
  EXPECT_TRUE(status.ok()) << status.error().message();
  const ir::Array& out = arguments[doubt_name(name)];
  Numbers values(static_cast<std::size_t>(out.element_count()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = ir::load_element(DType::f64, out.data.data() + 8 * i);
  return values;
}

Value input(Graph& g, const std::string& name, std::vector<Dim> shape, DType dtype = DType::f32) {
  return *g.input(name, {.dtype = dtype, .shape = std::move(shape)});
}

TEST(Doubt, JumpsOnStoredValuesAreExact) {
  Graph g("exact");
  const Value x = input(g, "x", {4});
  ASSERT_TRUE(g.output("flag", *g.binary("gt", x, *g.constant(0, DType::f32))).ok());
  ASSERT_TRUE(g.output("at", *g.reduce("argmax", *g.apply("flip", {x}, {{"axes", std::vector<std::int64_t>{0}}}), {0}, false)).ok());
  EXPECT_FALSE(make_doubt_graph(g)->has_value());
}

TEST(Doubt, AComparisonIsInDoubtWhereItsMarginIsNarrow) {
  Graph g("flags");
  const Value x = input(g, "x", {4});
  ASSERT_TRUE(g.output("flag", *g.binary("gt", *g.unary("exp", x), *g.constant(1, DType::f32))).ok());
  EXPECT_EQ(doubts(g, "flag", {{0, 1e-8, 1e-3, -1}}, {4}), (Numbers{1, 1, 0, 0}));
}

TEST(Doubt, RoundingAndCastsMayGoToTheNeighbour) {
  const std::vector<Numbers> x = {{1, 0.5, 1.0 / 3, 0.1}};  // times 3: 3, 1.5, about 1, 0.3
  Graph floor("floor"), whole("whole");
  for (Graph* one : {&floor, &whole}) {
    const Value z = *one->binary("mul", input(*one, "x", {4}), *one->constant(3, DType::f32));
    ASSERT_TRUE(one->output("y", one == &floor ? *one->unary("floor", z) : *one->cast(z, DType::i32)).ok());
    EXPECT_EQ(doubts(*one, "y", x, {4}), (Numbers{1, 0, 1, 0})) << one->name();
  }
}

TEST(Doubt, AnArgMaxIsInDoubtWhereTwoElementsAreLevel) {
  for (const char* op : {"argmax", "argmin"}) {
    Graph g("places");
    const Value y = *g.unary(std::string(op) == "argmax" ? "exp" : "neg", input(g, "x", {3, 3}));
    ASSERT_TRUE(g.output("at", *g.reduce(op, y, {1}, false)).ok());
    const Numbers d = doubts(g, "at", {{1, 2, 1.5, 2, 1, 2.0000001, 0, 0, 3}}, {3});
    EXPECT_EQ(d, (Numbers{0, kUnbounded, 0})) << op;
  }
}

TEST(Doubt, LinearOpsPassItOnExactly) {
  Graph g("masked");
  const Value x = input(g, "x", {2, 3}), w = input(g, "w", {3, 2});
  const Value mask = *g.cast(*g.binary("gt", *g.unary("exp", x), *g.constant(1, DType::f32)), DType::f32);
  ASSERT_TRUE(g.output("y", *g.matmul(mask, w)).ok());
  EXPECT_EQ(doubts(g, "y", {{0, 1, -1, 1, 1, 0}, {1, -2, 3, 4, 5, -6}}, {2, 2}), (Numbers{1, 2, 5, 6}));
}

TEST(Doubt, WhatIsNotLinearIsUncheckedThereAlone) {
  Graph g("rows");
  const Value x = input(g, "x", {2, 3}), table = input(g, "table", {3, 2});
  const Value at = *g.reduce("argmax", *g.unary("exp", x), {1}, false);
  ASSERT_TRUE(g.output("row", *g.apply("embedding", {table, at})).ok());
  EXPECT_EQ(doubts(g, "row", {{0, 1, 2, 1, 1, 0}, {1, 2, 3, 4, 5, 6}}, {2, 2}), (Numbers{0, 0, kUnbounded, kUnbounded}));
}

TEST(Doubt, AProductIsUncheckedInRowsWhoseMatrixIsInDoubt) {
  Graph g("experts");
  const Value x = input(g, "x", {2, 3}), w = input(g, "w", {3, 3, 2});
  const Value at = *g.reduce("argmax", *g.unary("exp", x), {1}, false);
  ASSERT_TRUE(g.output("y", *g.apply("matmul_at", {x, w, at})).ok());
  EXPECT_EQ(doubts(g, "y", {{0, 1, 2, 1, 1, 0}, Numbers(18, 1)}, {2, 2}), (Numbers{0, 0, kUnbounded, kUnbounded}));
}

TEST(Doubt, EveryOpThatFollowsHasARule) {
  Graph g("many");
  const Value x = input(g, "x", {4, 4});
  Value y = *g.unary("floor", *g.unary("exp", x));
  const Value other = *g.unary("sin", x);
  y = *g.apply("select", {*g.binary("lt", other, x), y, other});
  y = *g.apply("concat", {y, x}, {{"axis", std::int64_t{0}}});
  y = *g.apply("pad", {y, *g.constant(2, DType::f32)}, {{"low", std::vector<Dim>{1, 0}}, {"high", std::vector<Dim>{0, 1}}});
  y = *g.apply("cumulative_sum", {y}, {{"axis", std::int64_t{1}}});
  y = *g.binary("fmod", y, *g.constant(1.5, DType::f32));
  const Value index = *g.cast(y, DType::i64);
  y = *g.apply("gather", {y, index}, {{"axis", std::int64_t{0}}});
  y = *g.apply("scatter", {y, index, y}, {{"axis", std::int64_t{0}}, {"reduce", std::string("add")}});
  y = *g.unary("tanh", y);
  y = *g.reduce("product", y, {0}, true);
  ASSERT_TRUE(g.output("y", *g.reduce("variance", y, {1}, false)).ok());
  Numbers numbers;
  for (int i = 0; i < 16; ++i) numbers.push_back(0.3 * i - 2);
  const Numbers d = doubts(g, "y", {numbers}, {1});
  ASSERT_EQ(d.size(), 1u);
  EXPECT_FALSE(std::isnan(d[0]));
}

}  // namespace
}  // namespace loopwright::tuner
