// The .lw text: what is accepted, what it means, and what every mistake says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "loopwright/graph.h"

namespace loopwright {
namespace {

using testing::HasSubstr;

Graph parsed_with_inputs(const std::string& body) {
  Result<Graph> g = Graph::parse(
      "graph g\nsymbol n in 1..8\ninput x: f32[n, 4]\ninput i: i64[n]\ninput b: bool[4]\n" + body, "file.lw");
  EXPECT_TRUE(g.ok()) << (g.ok() ? "" : g.error().message());
  return g.ok() ? std::move(*g) : Graph();
}

TEST(GraphText, prints_one_op_a_line_and_reads_it_back) {
  const Graph g = parsed_with_inputs("y = mul(add(x, 1e-5), rsqrt(x))\noutput y\n");
  EXPECT_EQ(g.text(),
            "graph g\n"
            "symbol n in 1..8\n"
            "input x: f32[n, 4]\n"
            "input i: i64[n]\n"
            "input b: bool[4]\n"
            "t3 = constant(dtype=f32, value=1e-05)\n"
            "t4 = add(x, t3)\n"
            "t5 = rsqrt(x)\n"
            "y = mul(t4, t5)\n"
            "output y\n");
  EXPECT_EQ(Graph::parse(g.text()).value().text(), g.text());
}

TEST(GraphText, a_number_takes_the_dtype_of_the_other_operand) {
  const Graph g = parsed_with_inputs("output a = add(i, 3)\noutput c = select(b, x, 0)\noutput d = xor(true, b)\n");
  EXPECT_EQ(g.type(*g.find("a")).text(), "i64[n]");
  EXPECT_EQ(g.type(*g.find("c")).text(), "f32[n, 4]");
  EXPECT_EQ(g.type(*g.find("d")).text(), "bool[4]");
}

TEST(GraphText, attributes_by_name_or_in_order) {
  EXPECT_EQ(parsed_with_inputs("output y = sum(x, [1], true)\n").text(),
            parsed_with_inputs("output y = sum(x, axes=[-1], keepdim=true)\n").text());
  EXPECT_EQ(parsed_with_inputs("output y = cast(x, bf16)\n").text(), parsed_with_inputs("output y = cast(x, dtype=bf16)\n").text());
}

TEST(GraphText, defaults_are_left_out) {
  EXPECT_THAT(parsed_with_inputs("output y = matmul(x, x, transpose_a=false, transpose_b=true, out=f32)\n").text(),
              HasSubstr("y = matmul(x, x, transpose_b=true)\n"));
}

TEST(GraphText, composites_expand) {
  for (const char* call : {"softmax(x)", "log_softmax(x, axis=0)", "layer_norm(x)", "rms_norm(x, eps=0.1)",
                           "gelu(x)", "gelu_tanh(x)", "silu(x)", "linear(x, x)"}) {
    const std::string text = parsed_with_inputs(std::string("output y = ") + call + "\n").text();
    EXPECT_THAT(text, Not(HasSubstr(std::string(call).substr(0, std::string(call).find('(')) + "("))) << call;
    EXPECT_THAT(text, HasSubstr("output y\n"));
  }
}

TEST(GraphText, a_chosen_name_wins_over_a_made_up_one) {
  const Graph g = parsed_with_inputs("a = softmax(x)\nt4 = neg(x)\nt5 = neg(t4)\noutput t5\noutput a\n");
  EXPECT_EQ(g.node(g.node(*g.find("t5")).inputs[0]).name, "t4");
  EXPECT_EQ(g.node(*g.find("t4")).op, "neg");
}

TEST(GraphText, outputs_of_one_value_and_of_inputs_are_copies) {
  const Graph g = parsed_with_inputs("h = neg(x)\noutput h\noutput again = h\noutput same = x\n");
  EXPECT_EQ(g.node(*g.find("again")).op, "copy");
  EXPECT_EQ(g.node(*g.find("same")).op, "copy");
  EXPECT_EQ(g.outputs().size(), 3u);
}

TEST(GraphText, comments_blank_lines_and_breaks_in_brackets) {
  EXPECT_EQ(parsed_with_inputs("\n# a comment\n\ny = add(x, # inside\n  x)\noutput y # after\n").text(),
            parsed_with_inputs("y = add(x, x)\noutput y\n").text());
}

TEST(GraphText, special_numbers_survive) {
  const std::string text =
      parsed_with_inputs(
          "output a = constant(-inf, f32)\noutput c = constant(nan, f64)\noutput d = constant(-0.0, f16)\n"
          "output e = constant(-9223372036854775808, i64)\noutput f = constant(true, bool)\n")
          .text();
  for (const char* piece :
       {"value=-inf", "value=nan", "value=-0.0", "value=-9223372036854775808", "value=true"})
    EXPECT_THAT(text, HasSubstr(piece));
  EXPECT_EQ(Graph::parse(text).value().text(), text);
}

struct Mistake {
  const char* body;
  ErrorCode code;
  const char* place;  ///< line:column; the body begins on line 6
  const char* words;  ///< somewhere in the message
};

TEST(GraphText, every_mistake_is_named_and_placed) {
  const std::vector<Mistake> mistakes = {
      {"y = sofmax(x)\n", ErrorCode::unknown_op, "6:5", "did you mean `softmax`?"},
      {"y = qqqqqq(x)\n", ErrorCode::unknown_op, "6:5", "no op of this name"},
      {"y = neg(xx)\n", ErrorCode::unknown_name, "6:9", "did you mean `x`?"},
      {"y = sum(x, axis=[1])\n", ErrorCode::bad_attribute, "6:12", "did you mean `axes`?"},
      {"y = sum(x, axes=[2])\n", ErrorCode::bad_attribute, "6:5", "an axis from -2 to 1"},
      {"y = sum(x, axes=[0, -2])\n", ErrorCode::bad_attribute, "6:5", "axis 0 twice"},
      {"y = sum(x, axes=1)\n", ErrorCode::syntax, "6:17", "`[`"},
      {"y = sum(x, keepdim=yes)\n", ErrorCode::syntax, "6:20", "true or false"},
      {"y = cast(x, float32)\n", ErrorCode::unknown_name, "6:13", "one of bool, i8"},
      {"y = cast(x, f23)\n", ErrorCode::unknown_name, "6:13", "did you mean `f32`?"},
      {"y = add(x, i)\n", ErrorCode::dtype_mismatch, "6:5", "`x` is f32, `i` is i64"},
      {"y = add(x, b)\n", ErrorCode::dtype_mismatch, "6:5", "one of i8"},
      {"y = select(x, x, x)\n", ErrorCode::dtype_mismatch, "6:5", "`x` is f32"},
      {"y = exp(i)\n", ErrorCode::dtype_mismatch, "6:5", "one of f16, bf16, f32, f64"},
      {"y = add(x, sum(x, [1]))\n", ErrorCode::shape_mismatch, "6:5", "axis -1: 4 and n"},
      {"y = matmul(x, x)\n", ErrorCode::shape_mismatch, "6:5", "contracted sizes: 4 and n"},
      {"y = matmul(i, i)\n", ErrorCode::shape_mismatch, "6:5", "rank 2 or more"},
      {"y = reshape(x, [n, 5])\n", ErrorCode::shape_mismatch, "6:5", "4*n elements cannot become 5*n"},
      {"y = reshape(x, [3, -1])\n", ErrorCode::shape_mismatch, "6:5", "multiple of 3"},
      {"y = permute(x, [0])\n", ErrorCode::bad_attribute, "6:5", "1 axes for rank 2"},
      {"y = slice(x, [1], [3], [2])\n", ErrorCode::bad_attribute, "6:5", "3 to 2 of size 4"},
      {"y = slice(x, [0], [0], [2])\n", ErrorCode::bad_attribute, "6:5", "for every value of the symbols"},
      {"y = add(x)\n", ErrorCode::wrong_arity, "6:5", "1 operand"},
      {"y = max(x)\n", ErrorCode::wrong_arity, "6:5", "reduce_max"},
      {"y = neg(x, x)\n", ErrorCode::wrong_arity, "6:5", "2 operands"},
      {"y = add(1, 2)\n", ErrorCode::dtype_mismatch, "6:9", "constant(value, dtype)"},
      {"y = add(i, 1.5)\n", ErrorCode::bad_attribute, "6:12", "i64 holds exactly"},
      {"y = constant(256, u8)\n", ErrorCode::bad_attribute, "6:5", "value 256"},
      {"y = scatter(x, i, x, axis=0)\n", ErrorCode::shape_mismatch, "6:5", "same rank"},
      {"y = argmax(broadcast(constant(1, f32), [0]))\n", ErrorCode::shape_mismatch, "6:5", "may be empty"},
      {"y = sum(x, out=f64)\n", ErrorCode::bad_attribute, "6:5", "out f64"},
      {"x = neg(x)\n", ErrorCode::duplicate_name, "6:5", "`x` is a value already"},
      {"n = neg(x)\n", ErrorCode::duplicate_name, "6:5", "`n` is a symbol already"},
      {"symbol n in 1..2\n", ErrorCode::duplicate_name, "6:8", "symbol already"},
      {"symbol k in 3..2\n", ErrorCode::bad_symbol, "6:8", "0 <= lo <= hi"},
      {"symbol k in -1..2\n", ErrorCode::bad_symbol, "6:8", "negative"},
      {"symbol k 1..2\n", ErrorCode::syntax, "6:10", "`in`"},
      {"input z: f32[m]\n", ErrorCode::bad_symbol, "6:14", "`symbol m in lo..hi`"},
      {"input z: f32[n - 2]\n", ErrorCode::shape_mismatch, "6:7", "may be negative"},
      {"input z: f32[2] strides [1, 1]\n", ErrorCode::bad_strides, "6:7", "2 strides for rank 1"},
      {"input z: f32[2] strides [-1]\n", ErrorCode::bad_strides, "6:7", "may be negative"},
      {"input z: f32[4611686018427387904]\n", ErrorCode::size_overflow, "6:7", "63 bits"},
      {"input z: f32[9223372036854775808]\n", ErrorCode::size_overflow, "6:14", "64-bit"},
      {"input z: f32[3000000000, 3000000000, 0]\n", ErrorCode::size_overflow, "6:7", "63 bits"},
      {"y = broadcast(x, [4611686018427387904, n, 4])\n", ErrorCode::size_overflow, "6:5", "63 bits"},
      {"input z: f32[2] strides [4611686018427387904]\n", ErrorCode::size_overflow, "6:7", "63 bits"},
      {"input z: f32[1, 1, 1, 1, 1, 1, 1, 1, 1]\n", ErrorCode::shape_mismatch, "6:7", "rank at most 8"},
      {"input z f32[2]\n", ErrorCode::syntax, "6:9", "`:`"},
      {"input z: f32 2\n", ErrorCode::syntax, "6:14", "`[`"},
      {"input z: f32[2\n", ErrorCode::syntax, "", ""},
      {"input f32: f32[2]\n", ErrorCode::syntax, "6:7", "no word of the text format"},
      {"output x\n", ErrorCode::duplicate_name, "6:8", "`x` is an input"},
      {"output q\n", ErrorCode::unknown_name, "6:8", "no value"},
      {"update q = x\n", ErrorCode::unknown_name, "6:8", "no value"},
      {"y = neg(x)\nupdate y = x\n", ErrorCode::unknown_name, "7:8", "`y` is no input"},
      {"update x = i\n", ErrorCode::dtype_mismatch, "6:8", "f32[n, 4] and i64[n]"},
      {"update x = neg(x)\nupdate x = abs(x)\n", ErrorCode::duplicate_name, "7:8", "updated already"},
      {"input z: f32[3, 3] strides [1, 1]\nupdate z = neg(z)\n", ErrorCode::bad_strides, "7:8", "overlap"},
      {"outptu y\n", ErrorCode::syntax, "6:8", "did you mean `output`?"},
      {"y = x x\n", ErrorCode::syntax, "6:7", "the end of the line"},
      {"y = neg(x) z\n", ErrorCode::syntax, "6:12", "the end of the line"},
      {"y = 3\n", ErrorCode::syntax, "6:5", "a value"},
      {"y = add(x, 3f)\n", ErrorCode::syntax, "6:12", "a number"},
      {"= x\n", ErrorCode::syntax, "6:1", "a name"},
      {"y = neg(x;\n", ErrorCode::syntax, "6:10", "`,`"},
      {"\xff\n", ErrorCode::syntax, "6:1", "byte 255"},
  };
  for (const Mistake& m : mistakes) {
    const Result<Graph> g = Graph::parse(
        std::string("graph g\nsymbol n in 1..8\ninput x: f32[n, 4]\ninput i: i64[n]\ninput b: bool[4]\n") +
            m.body,
        "file.lw");
    ASSERT_FALSE(g.ok()) << m.body;
    EXPECT_EQ(name(g.error().code), name(m.code)) << m.body << g.error().message();
    EXPECT_THAT(g.error().where, HasSubstr("file.lw:" + std::string(m.place)))
        << m.body << g.error().message();
    EXPECT_THAT(g.error().message(), HasSubstr(m.words)) << m.body;
  }
}

TEST(GraphText, an_accuracy_is_said_once_in_front_and_its_word_stays_a_name) {
  const auto g = Graph::parse("graph g\ninput accuracy: f32[4]\naccuracy tf32\nb = exp(accuracy)\noutput b\n");
  ASSERT_TRUE(g.ok()) << g.error().message();
  EXPECT_EQ(g->accuracy(), Accuracy::tf32);
  EXPECT_EQ(g->text().substr(0, 22), "graph g\naccuracy tf32\n");
  EXPECT_EQ(Graph::parse(g->text())->text(), g->text());
  const auto wrong = Graph::parse("graph g\naccuracy fast\n");
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().message().find("strict or tf32"), std::string::npos) << wrong.error().message();
  const auto named = Graph::parse("graph g\ninput x: f32[4]\naccuracy = exp(x)\noutput accuracy\n");
  ASSERT_TRUE(named.ok()) << named.error().message();
  EXPECT_EQ(named->accuracy(), Accuracy::strict);
}

TEST(GraphText, the_header_is_required) {
  for (const char* text : {"", "input x: f32[2]\n", "graph\n", "graph 3\n", "graph a b\n", "graph input\n"}) {
    const Result<Graph> g = Graph::parse(text, "file.lw");
    ASSERT_FALSE(g.ok()) << text;
    EXPECT_EQ(g.error().code, ErrorCode::syntax);
    EXPECT_THAT(g.error().where, HasSubstr("file.lw:1:"));
  }
}

TEST(GraphText, depth_and_size_are_limited) {
  std::string deep = "graph g\ninput x: f32[2]\ny = ";
  for (int i = 0; i < 5000; ++i) deep += "neg(";
  const Result<Graph> g = Graph::parse(deep + "x");
  ASSERT_FALSE(g.ok());
  EXPECT_THAT(g.error().message(), HasSubstr("nested calls"));
  const Result<Graph> brackets = Graph::parse("graph g\ninput x: f32[" + std::string(100000, '(') + "2]\n");
  ASSERT_FALSE(brackets.ok());
  const Result<Graph> large = Graph::parse(std::string(5 << 20, ' '));
  ASSERT_FALSE(large.ok());
  EXPECT_EQ(large.error().code, ErrorCode::too_large);
}

TEST(GraphText, sizes_cannot_grow_without_end) {
  std::string text = "graph g\nsymbol n in 1..1\ninput x0: f32[n, n, n, n]\n";
  for (int i = 0; i < 40; ++i)
    text += "y" + std::to_string(i) + " = reshape(x" + std::to_string(i) + ", [-1, 1, 1, 1])\nx" +
            std::to_string(i + 1) + " = concat(y" + std::to_string(i) + ", y" + std::to_string(i) +
            ", axis=0)\n";
  EXPECT_TRUE(Graph::parse(text).ok());
  std::string powers =
      "graph g\nsymbol n in 1..1\ninput x: f32[n*n*n*n, n*n*n*n, n*n*n*n, n*n*n*n, n]\ny = reshape(x, "
      "[-1])\n";
  const Result<Graph> g = Graph::parse(powers);
  ASSERT_FALSE(g.ok());
  EXPECT_EQ(g.error().code, ErrorCode::size_overflow);
}

TEST(GraphText, load_names_a_missing_file) {
  const Result<Graph> g = Graph::load("does/not/exist.lw");
  ASSERT_FALSE(g.ok());
  EXPECT_EQ(g.error().code, ErrorCode::io);
  EXPECT_THAT(g.error().message(), HasSubstr("does/not/exist.lw"));
}

TEST(GraphText, load_of_a_device_without_an_end_ends) {
  const Result<Graph> g = Graph::load("/dev/zero");
  ASSERT_FALSE(g.ok());
  EXPECT_EQ(g.error().code, ErrorCode::too_large);
}

}  // namespace
}  // namespace loopwright
