// Which ops share a kernel, and that equal work has one key.
#include "src/graph/group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "src/graph/workload.h"

namespace loopwright {
namespace {

using graph::Group;
using testing::ElementsAre;
using testing::HasSubstr;

Graph parsed(const std::string& body) {
  Result<Graph> g = Graph::parse("graph g\nsymbol n in 1..512\n" + body);
  EXPECT_TRUE(g.ok()) << (g.ok() ? "" : g.error().message());
  return std::move(*g);
}

std::vector<std::string> families(const std::vector<Group>& groups) {
  std::vector<std::string> out;
  for (const Group& group : groups) out.push_back(graph::make_workload(group.graph).family);
  return out;
}

std::vector<std::string> families_of(const std::string& body) {
  return families(graph::group_ops(parsed(body)));
}

TEST(Grouping, a_whole_normalisation_is_one_kernel) {
  EXPECT_THAT(families_of("input x: bf16[n, 64]\ninput w: f32[64]\noutput y = rms_norm(x, w)\n"),
              ElementsAre("row_reduction"));
  EXPECT_THAT(
      families_of(
          "input x: f32[n, 64]\ninput w: f32[64]\ninput b: f32[64]\noutput y = layer_norm(x, w, b)\n"),
      ElementsAre("row_reduction"));
  EXPECT_THAT(families_of("input x: f16[2, n, 64]\noutput y = softmax(x)\n"), ElementsAre("row_reduction"));
  EXPECT_THAT(families_of("input x: f32[n, 4, 8]\nv = variance(x, axes=[1, 2], keepdim=true)\nm = mean(x, "
                          "axes=[1, 2], keepdim=true)\n"
                          "output y = div(sub(x, m), sqrt(v))\n"),
              ElementsAre("row_reduction"));
}

TEST(Grouping, reductions_of_one_tensor_are_one_kernel_where_the_machine_wants_it) {
  const auto count = [](const std::string& body) {
    std::vector<std::size_t> out;
    for (const bool beside : {false, true}) out.push_back(graph::group_ops(parsed("input x: f32[n, 64]\ninput z: f32[n, 64]\n" + body), {.reductions_beside_each_other = beside}).size());
    return out;
  };
  EXPECT_THAT(count("output a = mean(x, axes=[1])\noutput b = reduce_max(x, axes=[1])\noutput c = softmax(x)\n"), ElementsAre(3u, 1u));
  EXPECT_THAT(count("output a = sum(x, axes=[0])\noutput b = reduce_max(mul(x, z), axes=[0])\n"), ElementsAre(2u, 1u));
  // Over other axes, of other tensors, or where the one needs the other by way of a third kernel.
  EXPECT_THAT(count("output a = sum(x, axes=[0])\noutput b = sum(x, axes=[1])\n"), ElementsAre(2u, 2u));
  EXPECT_THAT(count("output a = sum(x, axes=[1])\noutput b = sum(z, axes=[1])\n"), ElementsAre(2u, 2u));
  EXPECT_THAT(count("a = sum(x, axes=[0])\noutput b = sum(mul(x, cumulative_sum(a, axis=0)), axes=[0])\n"), ElementsAre(3u, 3u));
}

TEST(Grouping, thin_products_join_the_epilogue_where_the_machine_wants_it) {
  const auto count = [](const std::string& body) {
    std::vector<std::size_t> out;
    for (const bool thin : {false, true}) out.push_back(graph::group_ops(parsed(body), {.thin_products_in_epilogues = thin}).size());
    return out;
  };
  const std::string inputs = "input x: f32[n, 64]\ninput w: f32[32, 64]\ninput a: f32[8, 64]\ninput b: f32[32, 8]\ninput c: f32[32, 48]\ninput d: f32[n, 48]\n";
  EXPECT_THAT(count(inputs + "output y = add(linear(x, w), mul(linear(linear(x, a), b), 2.0))\n"), ElementsAre(3u, 2u));
  EXPECT_THAT(count(inputs + "output y = add(mul(linear(linear(x, a), b), 2.0), linear(x, w))\n"), ElementsAre(3u, 2u));
  // Of many terms, alone, or read elsewhere too: a kernel of its own.
  EXPECT_THAT(count(inputs + "output y = add(linear(x, w), linear(d, c))\n"), ElementsAre(2u, 2u));
  EXPECT_THAT(count(inputs + "output y = neg(linear(linear(x, a), b))\n"), ElementsAre(2u, 2u));
  EXPECT_THAT(count(inputs + "t = linear(linear(x, a), b)\noutput t\noutput y = add(linear(x, w), t)\n"), ElementsAre(3u, 3u));
}

TEST(Grouping, products_of_one_operand_that_meet_are_one_kernel_where_the_machine_wants_it) {
  const auto count = [](const std::string& body) {
    std::vector<std::size_t> out;
    for (const bool wanted : {false, true}) out.push_back(graph::group_ops(parsed(body), {.thin_products_in_epilogues = true, .products_side_by_side = wanted}).size());
    return out;
  };
  const std::string inputs = "input x: bf16[n, 64]\ninput z: bf16[n, 64]\ninput w: bf16[48, 64]\ninput v: bf16[48, 64]\ninput a: f32[n, 8]\ninput b: f32[48, 8]\n";
  EXPECT_THAT(count(inputs + "output y = mul(silu(linear(x, w)), linear(x, v))\n"), ElementsAre(2u, 1u));
  EXPECT_THAT(count(inputs + "p = linear(x, w)\nq = linear(x, v)\noutput y = mul(silu(p), q)\n"), ElementsAre(2u, 1u));
  EXPECT_THAT(count(inputs + "g = add(cast(linear(x, w), f32), linear(a, b))\nu = add(cast(linear(x, v), f32), linear(a, b))\noutput y = mul(silu(g), u)\n"), ElementsAre(2u, 1u));
  EXPECT_THAT(count(inputs + "output y = add(mul(linear(x, w), linear(x, v)), linear(x, sub(w, v)))\n"), ElementsAre(4u, 2u));
  // Of two operands, read elsewhere, with rows that are few, or in f32.
  EXPECT_THAT(count(inputs + "output y = mul(silu(linear(x, w)), linear(z, v))\n"), ElementsAre(2u, 2u));
  EXPECT_THAT(count(inputs + "g = silu(linear(x, w))\noutput g\noutput y = mul(g, linear(x, v))\n"), ElementsAre(2u, 2u));
  EXPECT_THAT(count("input x: bf16[8, 64]\ninput w: bf16[48, 64]\ninput v: bf16[48, 64]\noutput y = mul(silu(linear(x, w)), linear(x, v))\n"), ElementsAre(2u, 2u));
  EXPECT_THAT(count("input x: f32[n, 64]\ninput w: f32[48, 64]\ninput v: f32[48, 64]\noutput y = mul(silu(linear(x, w)), linear(x, v))\n"), ElementsAre(2u, 2u));
}

TEST(Grouping, many_inputs_get_no_word_of_a_dtype_as_a_name) {
  std::string body, sum = "x0";
  for (int i = 0; i < 20; ++i) body += "input x" + std::to_string(i) + ": f32[n]\n";
  for (int i = 1; i < 20; ++i) {
    const std::string next = i == 19 ? "output y" : "s" + std::to_string(i);
    body += next + " = add(" + sum + ", x" + std::to_string(i) + ")\n";
    sum = "s" + std::to_string(i);
  }
  const std::vector<Group> groups = graph::group_ops(parsed(body));
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].inputs.size(), 20u);
  EXPECT_TRUE(graph::parse_workload(graph::make_workload(groups[0].graph).text).ok());
}

TEST(Grouping, a_product_takes_its_pointwise_epilogue) {
  EXPECT_THAT(families_of("input x: f32[n, 64]\ninput w: f32[32, 64]\ninput b: f32[32]\ninput r: f32[n, 32]\n"
                          "output y = add(gelu(linear(x, w, b)), exp(r))\n"),
              ElementsAre("matmul"));
  EXPECT_THAT(families_of("input x: bf16[n, 64]\ninput w: bf16[32, 64]\ninput b: bf16[32]\noutput y = "
                          "silu(linear(x, w, b))\n"),
              ElementsAre("matmul"));
}

TEST(Grouping, a_product_that_is_needed_itself_keeps_no_epilogue) {
  EXPECT_THAT(
      families_of(
          "input x: f32[n, 64]\ninput w: f32[32, 64]\nh = linear(x, w)\noutput h\noutput y = tanh(h)\n"),
      ElementsAre("matmul", "elementwise"));
}

TEST(Grouping, pointwise_chains_with_several_outputs_are_one_kernel) {
  EXPECT_THAT(families_of("input x: f32[n, 8]\ninput z: f32[n, 8]\na = sin(add(x, z))\nb = cos(a)\nc = "
                          "mul(a, b)\noutput b\noutput c\n"),
              ElementsAre("elementwise"));
}

TEST(Grouping, a_full_reduction_takes_what_is_before_and_the_scalar_behind) {
  const std::vector<Group> groups = graph::group_ops(parsed(
      "input x: i64[4, 4] strides [8, 2]\ny = sin(cast(x, f32))\noutput y\noutput p = gt(sum(y), 0)\n"));
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_THAT(groups[0].outputs, ElementsAre("y", "p"));
  EXPECT_THAT(groups[0].inputs, ElementsAre("x"));
}

TEST(Grouping, what_needs_a_column_or_full_reduction_runs_after_it) {
  EXPECT_THAT(families_of("input x: f32[n, 8]\noutput y = div(x, sum(x, axes=[0], keepdim=true))\n"),
              ElementsAre("column_reduction", "elementwise"));
  EXPECT_THAT(families_of("input x: f32[n, 8]\noutput y = div(x, sum(x))\n"),
              ElementsAre("full_reduction", "elementwise"));
}

TEST(Grouping, a_row_sum_that_meets_columns_is_another_kernel) {
  // s[i] broadcasts along the rows as s[j]: a row needs the sums of all rows.
  EXPECT_THAT(families_of("input x: f32[8, 8]\noutput y = mul(exp(x), sum(x, axes=[1]))\n"),
              ElementsAre("row_reduction", "elementwise"));
  EXPECT_THAT(
      families_of("input x: f32[8, 8]\ns = reshape(sum(x, axes=[1]), [8, 1])\noutput y = mul(exp(x), s)\n"),
      ElementsAre("row_reduction"));
  EXPECT_THAT(
      families_of("input x: f32[8, 8]\ns = reshape(sum(x, axes=[1]), [1, 8])\noutput y = mul(exp(x), s)\n"),
      ElementsAre("row_reduction", "elementwise"));
}

TEST(Grouping, views_and_casts_are_recomputed_where_they_are_read) {
  const std::vector<Group> groups = graph::group_ops(parsed(
      "input x: f32[n, 8]\ninput w: f32[8, 8]\nh = permute(exp(x), [1, 0])\n"
      "output a = matmul(h, x)\noutput b = matmul(h, exp(x))\noutput c = cumulative_sum(cast(x, f64), 0)\n"));
  for (const Group& group : groups)
    for (const std::string& in : group.inputs) EXPECT_TRUE(in == "x" || in.starts_with("t")) << in;
  EXPECT_THAT(groups.back().graph.text(), HasSubstr("= cast(i0, dtype=f64)"));
}

TEST(Grouping, a_cache_is_written_in_place_and_then_read_under_its_own_name) {
  const std::vector<Group> groups =
      graph::group_ops(parsed("input cache: f32[4, 64]\ninput new: f32[n, 64]\ninput at: i64[]\ninput q: "
                              "f32[1, 64]\nc = slice_update(cache, exp(new), at, axis=0)\n"
                              "output s = matmul(q, c, transpose_b=true)\nupdate cache = c\n"));
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_THAT(families(groups), ElementsAre("cache_update", "matmul"));
  EXPECT_THAT(groups[0].updates, ElementsAre("cache"));
  EXPECT_TRUE(groups[0].outputs.empty());
  EXPECT_THAT(groups[1].inputs, ElementsAre("q", "cache"));
}

TEST(Grouping, other_updates_run_last) {
  const std::vector<Group> groups = graph::group_ops(
      parsed("input a: f32[4]\ninput b: f32[4]\nupdate a = b\nupdate b = a\noutput y = add(a, b)\n"));
  ASSERT_GE(groups.size(), 2u);
  for (std::size_t i = 0; i < groups.size(); ++i) EXPECT_EQ(groups[i].updates.empty(), i + 2 < groups.size());
}

TEST(Grouping, no_op_is_in_two_kernels_unless_it_is_cheap) {
  const Graph g = Graph::load(LOOPWRIGHT_SOURCE_DIR "/examples/transformer.lw").value();
  int products = 0, exponentials = 0;
  for (const Group& group : graph::group_ops(g))
    for (const Node& node : group.graph.nodes()) {
      products += node.op == "matmul";
      exponentials += node.op == "exp" || node.op == "tanh";
    }
  int wanted_products = 0, wanted_exponentials = 0;
  for (const Node& node : g.nodes()) {
    wanted_products += node.op == "matmul";
    wanted_exponentials += node.op == "exp" || node.op == "tanh";
  }
  EXPECT_EQ(products, wanted_products);
  EXPECT_EQ(exponentials, wanted_exponentials);
}

TEST(Workloads, equal_work_has_one_key_wherever_it_occurs) {
  const Graph g = Graph::load(LOOPWRIGHT_SOURCE_DIR "/examples/transformer.lw").value();
  std::map<std::string, std::vector<std::string>> places;
  for (const Group& group : graph::group_ops(g))
    places[graph::make_workload(group.graph).digest].push_back(group.outputs.at(0));
  // Four norms of two layers are one workload; everything of layer two occurs in layer one.
  std::size_t most = 0, once = 0;
  for (const auto& [digest, names] : places) {
    most = std::max(most, names.size());
    once += names.size() == 1;
  }
  EXPECT_EQ(most, 4u);
  EXPECT_EQ(once, 0u);
}

TEST(Workloads, names_of_the_whole_graph_are_not_part_of_the_key) {
  auto digest = [](const std::string& text) {
    return graph::make_workload(graph::group_ops(Graph::parse(text).value()).at(0).graph).digest;
  };
  const std::string a = digest(
      "graph a\nsymbol n in 1..9\nsymbol unused in 1..2\ninput x: f32[n, 8]\ninput w: f32[8]\noutput y = "
      "rms_norm(x, w)\n");
  EXPECT_EQ(a, digest("graph b\nsymbol tokens in 1..9\ninput weight: f32[8]\ninput h: f32[tokens, 8]\nr = "
                      "rms_norm(h, weight)\noutput r\n"));
  EXPECT_NE(
      a,
      digest("graph b\nsymbol n in 1..8\ninput x: f32[n, 8]\ninput w: f32[8]\noutput y = rms_norm(x, w)\n"));
  EXPECT_NE(
      a,
      digest("graph b\nsymbol n in 1..9\ninput x: f32[n, 8]\ninput w: bf16[8]\noutput y = rms_norm(x, w)\n"));
}

TEST(Workloads, refuses_other_versions_and_text_that_is_not_canonical) {
  const graph::Workload w = graph::make_workload(parsed("input x: f32[n]\noutput y = neg(x)\n"));
  EXPECT_EQ(w.digest.size(), 64u);
  EXPECT_EQ(graph::parse_workload(w.text).value().digest, w.digest);
  EXPECT_FALSE(graph::parse_workload("loopwright workload 99\n" + w.graph.text()).ok());
  EXPECT_FALSE(graph::parse_workload(w.text + "\n").ok());
  EXPECT_FALSE(graph::parse_workload("").ok());
}

TEST(Workloads, of_tf32_have_keys_of_their_own_where_f32_is_multiplied) {
  const auto texts = [](const std::string& dtype, const std::string& accuracy) {
    std::vector<std::string> out;
    for (const Group& group :
         graph::group_ops(parsed(accuracy + "input x: " + dtype + "[n, 8]\ninput w: " + dtype +
                                 "[8, 8]\ns = softmax(x)\noutput y = matmul(s, w)\n")))
      out.push_back(graph::make_workload(group.graph).text);
    return out;
  };
  const auto strict = texts("f32", ""), loose = texts("f32", "accuracy tf32\n");
  ASSERT_EQ(strict.size(), 2u);
  ASSERT_EQ(loose.size(), 2u);
  EXPECT_EQ(loose[0], strict[0]) << "a softmax is the same work";
  EXPECT_THAT(loose[1], HasSubstr("graph group\naccuracy tf32\nsymbol "));
  EXPECT_EQ(texts("f32", "accuracy strict\n"), strict);
  EXPECT_EQ(texts("bf16", "accuracy tf32\n"), texts("bf16", ""));
  const auto read = graph::parse_workload(loose[1]);
  ASSERT_TRUE(read.ok()) << read.error().message();
  EXPECT_EQ(read->graph.accuracy(), Accuracy::tf32);
  EXPECT_EQ(graph::make_strict(*read).text, strict[1]);
  EXPECT_EQ(graph::make_strict(*read).digest, graph::parse_workload(strict[1])->digest);
}

}  // namespace
}  // namespace loopwright
