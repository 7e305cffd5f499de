// The builder: what it infers, and that it refuses with the op and its operands named.
#include "loopwright/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace loopwright {
namespace {

using testing::HasSubstr;

struct Builder {
  Graph g{"test"};
  Dim n = g.symbol("n", 1, 100).value();
  Value x = g.input("x", {DType::f32, {n, 4}, {}}).value();
  Value h = g.input("h", {DType::bf16, {n, 4}, {}}).value();
  std::string type(const Result<Value>& v) { return v.ok() ? g.type(*v).text() : v.error().message(); }
};

TEST(GraphBuilder, infers_dtype_and_shape) {
  Builder b;
  EXPECT_EQ(b.type(b.g.binary("add", b.x, b.x)), "f32[n, 4]");
  EXPECT_EQ(b.type(b.g.binary("lt", b.x, b.x)), "bool[n, 4]");
  EXPECT_EQ(b.type(b.g.cast(b.x, DType::i8)), "i8[n, 4]");
  EXPECT_EQ(b.type(b.g.reduce("sum", b.x, {-1}, true)), "f32[n, 1]");
  EXPECT_EQ(b.type(b.g.reduce("max", b.x, {0}, false)), "f32[4]");
  EXPECT_EQ(b.type(b.g.reduce("argmin", b.x, {}, false)), "i64[]");
  EXPECT_EQ(b.type(b.g.matmul(b.x, b.x, false, true)), "f32[n, n]");
  EXPECT_EQ(b.type(b.g.matmul(b.h, b.h, true, false)), "bf16[4, 4]");
  EXPECT_EQ(b.type(b.g.softmax(b.h, -1)), "bf16[n, 4]");
  EXPECT_EQ(b.type(b.g.layer_norm(b.h, {}, {}, 1e-5)), "bf16[n, 4]");
  EXPECT_EQ(b.type(b.g.apply("reshape", {b.x}, {{"shape", std::vector<Dim>{2, -1}}})), "f32[2, 2*n]");
  EXPECT_EQ(b.type(b.g.apply("concat", {b.x, b.x}, {{"axis", std::int64_t{0}}})), "f32[2*n, 4]");
  EXPECT_EQ(b.type(b.g.constant(3, DType::u8)), "u8[]");
}

TEST(GraphBuilder, absent_operands_may_lie_between_others) {
  Builder b;
  const Value bias = b.g.input("bias", {DType::f32, {4}, {}}).value();
  EXPECT_EQ(b.type(b.g.layer_norm(b.x, {}, bias, 1e-5)), "f32[n, 4]");
  EXPECT_EQ(b.type(b.g.linear(b.x, b.x)), "f32[n, n]");
}

TEST(GraphBuilder, mixed_dtypes_name_both_operands) {
  Builder b;
  const Result<Value> v = b.g.binary("add", b.x, b.h);
  ASSERT_FALSE(v.ok());
  EXPECT_EQ(v.error().code, ErrorCode::dtype_mismatch);
  EXPECT_EQ(v.error().asked, "add(x: f32[n, 4], h: bf16[n, 4])");
  EXPECT_EQ(v.error().found, "`x` is f32, `h` is bf16");
  EXPECT_THAT(v.error().works, HasSubstr("cast(h, f32)"));
}

TEST(GraphBuilder, linear_rounds_once) {
  Builder b;
  const Value w = b.g.input("w", {DType::bf16, {8, 4}, {}}).value(),
              bias = b.g.input("bias", {DType::bf16, {8}, {}}).value();
  ASSERT_EQ(b.type(b.g.linear(b.h, w, bias)), "bf16[n, 8]");
  EXPECT_THAT(b.g.text(), HasSubstr("matmul(h, w, out=f32, transpose_b=true)"));
}

TEST(GraphBuilder, an_output_takes_its_name) {
  Builder b;
  const Value y = b.g.unary("neg", b.x).value();
  ASSERT_TRUE(b.g.output("y", y).ok());
  EXPECT_EQ(b.g.node(y).name, "y");
  ASSERT_TRUE(b.g.output("z", y).ok());
  EXPECT_EQ(b.g.node(b.g.outputs()[1].value).op, "copy");
  EXPECT_EQ(b.g.output("y", y).error().code, ErrorCode::duplicate_name);
  EXPECT_EQ(b.g.output("x", y).error().code, ErrorCode::duplicate_name);
  const Error own = b.g.output("x", b.x).error();
  EXPECT_NE(own.found.find("`x` is an input"), std::string::npos) << own.found;
  EXPECT_NE(own.works.find("output x_copy = x"), std::string::npos) << own.works;
  ASSERT_TRUE(b.g.output("x_copy", b.x).ok()) << "what the message advises";
  EXPECT_EQ(b.g.node(b.g.outputs().back().value).op, "copy");
  EXPECT_EQ(b.g.output("not a name", y).error().code, ErrorCode::syntax);
}

TEST(GraphBuilder, updates_may_swap_inputs) {
  Graph g;
  const Value a = g.input("a", {DType::f32, {2}, {}}).value(),
              b = g.input("b", {DType::f32, {2}, {}}).value();
  ASSERT_TRUE(g.update(a, b).ok());
  ASSERT_TRUE(g.update(b, a).ok());
  EXPECT_EQ(Graph::parse(g.text()).value().text(), g.text());
  for (const Graph::Update& u : g.updates()) EXPECT_EQ(g.node(u.value).op, "copy");
}

TEST(GraphBuilder, an_updated_input_must_not_overlap_itself) {
  Graph g;
  const Dim n = g.symbol("n", 1, 8).value();
  auto can_update = [&](std::vector<Dim> shape, std::vector<Dim> strides) {
    const std::string name = "in" + std::to_string(g.nodes().size());
    const Value in = g.input(name, {DType::f32, shape, strides}).value();
    return g.update(in, g.unary("neg", in).value()).ok();
  };
  EXPECT_TRUE(can_update({3, 4}, {4, 1}));
  EXPECT_TRUE(can_update({3, 4}, {1, 3}));
  EXPECT_TRUE(can_update({n, 4}, {1, n}));
  EXPECT_TRUE(can_update({4, n}, {n + 3, 1}));
  EXPECT_TRUE(can_update({1, 4}, {0, 1}));
  EXPECT_FALSE(can_update({n, 4}, {0, 1}));
  EXPECT_FALSE(can_update({3, 4}, {2, 1}));
  EXPECT_FALSE(can_update({4, n}, {n - 1, 1}));
}

TEST(GraphBuilder, odd_names_are_made_writable) {
  Graph g("layers.0 norm");
  EXPECT_TRUE(Graph::parse(g.text()).ok()) << g.text();
  EXPECT_EQ(g.input("a.b", {DType::f32, {}, {}}).error().code, ErrorCode::syntax);
  EXPECT_EQ(g.apply("neg", {}, {}).error().code, ErrorCode::wrong_arity);
  EXPECT_EQ(g.apply("nag", {}, {}).error().code, ErrorCode::unknown_op);
}

TEST(GraphBuilder, a_failed_call_leaves_the_graph_as_it_was) {
  Builder b;
  const std::string before = b.g.text();
  EXPECT_FALSE(b.g.matmul(b.x, b.x).ok());
  EXPECT_FALSE(b.g.softmax(b.x, 5).ok());
  EXPECT_EQ(b.g.text(), before);
}

}  // namespace
}  // namespace loopwright
