// Every op of the table, with every dtype it allows, on several shapes: the interpreted naive kernel equals the
// independently written reference.
#include "src/graph/ops.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>

#include "tests/support/graph_data.h"
#include "tests/support/reference.h"

namespace loopwright {
namespace {

using graph::Op;
using graph::OpKind;

std::string replace_all(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

struct Case {
  std::string op;
  std::string body;  ///< statements after the header; `T` stands for the dtype
  std::int64_t reduction_length = 1;
};

constexpr const char* kHeader = "graph case\nsymbol n in 0..64\nsymbol m in 1..64\n";

void check(const Case& c, DType dtype) {
  const std::string text = kHeader + replace_all(c.body, "T[", std::string(name(dtype)) + "[");
  const Result<Graph> g = Graph::parse(text, c.op + ".lw");
  ASSERT_TRUE(g.ok()) << text << g.error().message();
  EXPECT_EQ(Graph::parse(g->text()).value().text(), g->text());
  DType result = dtype;
  for (const auto& output : g->outputs()) result = g->type(output.value).dtype;
  const DType coarse = is_float(result) ? result : dtype;
  for (std::int64_t n : {0, 1, 3})
    for (std::int64_t m : {1, 4}) {
      if (text.find('n') == std::string::npos && n > 0) continue;
      const std::string problem = test::check_naive_kernel(*g, {{"n", n}, {"m", m}}, 17 + n,
                                                           test::tolerance_for(coarse, c.reduction_length));
      EXPECT_EQ(problem, "") << "n=" << n << " m=" << m;
    }
}

std::vector<Case> unary_cases(const std::string& op) {
  std::vector<Case> out;
  for (const char* type : {"T[2, 3]", "T[]", "T[n, 3]", "T[3, 4] strides [1, 3]", "T[4, 3] strides [1, 1]",
                           "T[m, 2, n] strides [0, 1, 2]"})
    out.push_back({op, "input x: " + std::string(type) + "\noutput y = " + op + "(x)\n"});
  return out;
}

std::vector<Case> binary_cases(const std::string& op) {
  const std::vector<std::pair<const char*, const char*>> shapes = {
      {"T[5, 7]", "T[5, 7]"},
      {"T[]", "T[]"},
      {"T[n, 3]", "T[3]"},
      {"T[n, 1]", "T[1, m]"},
      {"T[0, 3]", "T[1, 3]"},
      {"T[2, 1, 3]", "T[m, 1]"},
      {"T[4, 6] strides [1, 4]", "T[4, 6] strides [2, 1]"}};
  std::vector<Case> out;
  for (const auto& [a, b] : shapes)
    out.push_back({op, "input a: " + std::string(a) + "\ninput b: " + b + "\noutput y = " + op + "(a, b)\n"});
  return out;
}

std::vector<Case> reduction_cases(const std::string& op) {
  const bool needs_elements = op == "argmax" || op == "argmin";
  std::vector<Case> out;
  auto add = [&](const std::string& type, const std::string& attributes, std::int64_t length) {
    out.push_back({op, "input x: " + type + "\noutput y = " + op + "(x" + attributes + ")\n", length});
  };
  add("T[3, 5]", ", axes=[1]", 5);
  add("T[3, 5]", ", axes=[-2], keepdim=true", 3);
  add("T[2, 3, 4]", ", axes=[0, 2]", 8);
  add("T[2, 3, 4]", ", axes=[2, 1], keepdim=true", 12);
  add("T[n, 40]", ", axes=[1]", 40);
  add("T[m, 2]", "", 8);
  add("T[]", "", 1);
  add("T[4, 3] strides [1, 1]", ", axes=[0]", 4);
  if (!needs_elements) {
    add("T[2, n]", ", axes=[1]", 3);
    add("T[0, 3]", ", keepdim=true", 1);
  }
  return out;
}

std::vector<Case> listed_cases() {
  return {
      {"select", "input c: bool[2, 3]\ninput a: T[2, 3]\ninput b: T[3]\noutput y = select(c, a, b)\n"},
      {"select", "input c: bool[n, 1]\ninput a: T[]\ninput b: T[n, m]\noutput y = select(c, a, b)\n"},
      {"clamp", "input x: T[4, n]\ninput lo: T[n]\ninput hi: T[]\noutput y = clamp(x, lo, hi)\n"},
      {"clamp", "input x: T[9]\noutput y = clamp(x, 0, 1)\n"},
      {"reshape", "input x: T[n, 6]\noutput y = reshape(x, [n, 2, 3])\n"},
      {"reshape", "input x: T[4, 6]\noutput y = reshape(x, [3, -1])\n"},
      {"reshape", "input x: T[2, n, 3]\noutput y = reshape(x, [n, 6])\n"},
      {"reshape", "input x: T[1, m, 1]\noutput y = reshape(x, [m])\n"},
      {"reshape", "input x: T[m]\noutput y = reshape(x, [1, m, 1])\n"},
      {"reshape", "input x: T[1]\noutput y = reshape(x, [])\n"},
      {"reshape", "input x: T[0, 3]\noutput y = reshape(x, [3, 0, 5])\n"},
      {"reshape", "input x: T[2, 3, 4] strides [1, 2, 6]\noutput y = reshape(x, [4, 1, 6])\n"},
      {"permute", "input x: T[2, n, 4]\noutput y = permute(x, [2, 0, 1])\n"},
      {"permute", "input x: T[2, 3]\noutput y = permute(x, [-1, -2])\n"},
      {"permute", "input x: T[]\noutput y = permute(x, [])\n"},
      {"broadcast", "input x: T[3, 1]\noutput y = broadcast(x, [2, 3, n])\n"},
      {"broadcast", "input x: T[]\noutput y = broadcast(x, [m, 2])\n"},
      {"broadcast", "output y = broadcast(constant(1, bool), [2, 2])\n"},
      {"slice", "input x: T[5, m + 2]\noutput y = slice(x, axes=[1], start=[1], stop=[m + 1])\n"},
      {"slice",
       "input x: T[7, 3]\noutput y = slice(x, axes=[0, -1], start=[1, -2], stop=[-1, 3], step=[2, 1])\n"},
      {"slice", "input x: T[4*n]\noutput y = slice(x, [0], [0], [4*n], [2])\n"},
      {"slice", "input x: T[4]\noutput y = slice(x, [0], [4], [4])\n"},
      {"concat",
       "input a: T[2, n]\ninput b: T[2, 3]\ninput c: T[2, m]\noutput y = concat(a, b, c, axis=1)\n"},
      {"concat", "input a: T[2]\noutput y = concat(a, axis=0)\n"},
      {"concat", "input a: T[0, 2]\ninput b: T[m, 2] strides [1, 1]\noutput y = concat(b, a, b, axis=-2)\n"},
      {"pad", "input x: T[2, n]\noutput y = pad(x, 0, low=[1, 0], high=[0, m])\n"},
      {"pad", "input x: T[3]\ninput v: T[]\noutput y = pad(x, v, low=[2], high=[2])\n"},
      {"pad", "input x: T[0]\ninput v: T[]\noutput y = pad(x, v, low=[0], high=[3])\n"},
      {"flip", "input x: T[n, 3]\noutput y = flip(x, [0, 1])\n"},
      {"flip", "input x: T[2, 3]\noutput y = flip(x, [-1])\n"},
      {"gather", "input x: T[3, 6]\ninput i: i64[2, 4]\noutput y = gather(x, i, axis=1)\n"},
      {"gather", "input x: T[n, 2]\ninput i: i32[5, 2]\noutput y = gather(x, i, axis=0)\n"},
      {"gather", "input x: T[4]\ninput i: u8[m]\noutput y = gather(x, i, axis=-1)\n"},
      {"embedding", "input w: T[7, m]\ninput i: i64[2, n]\noutput y = embedding(w, i)\n"},
      {"embedding", "input w: T[n, 2]\ninput i: i8[]\noutput y = embedding(w, i)\n"},
      {"index_select", "input x: T[3, m]\ninput i: i64[n]\noutput y = index_select(x, i, axis=0)\n"},
      {"index_select",
       "input x: T[2, 5] strides [1, 2]\ninput i: i16[4]\noutput y = index_select(x, i, axis=1)\n"},
      {"matmul", "input a: T[5, 7]\ninput b: T[7, 3]\noutput y = matmul(a, b)\n", 7},
      {"matmul", "input a: T[7, m]\ninput b: T[7, 3]\noutput y = matmul(a, b, transpose_a=true)\n", 7},
      {"matmul", "input a: T[n, 4]\ninput b: T[3, 4]\noutput y = matmul(a, b, transpose_b=true)\n", 4},
      {"matmul",
       "input a: T[4, 2]\ninput b: T[3, 4]\noutput y = matmul(a, b, transpose_a=true, transpose_b=true)\n",
       4},
      {"matmul", "input a: T[2, 1, m, 3]\ninput b: T[n, 3, 2]\noutput y = matmul(a, b)\n", 3},
      {"matmul", "input a: T[2, n]\ninput b: T[n, 2] strides [1, 3]\noutput y = matmul(a, b)\n", 3},
      {"group_of", "input o: i64[4]\noutput y = group_of(o, [n])\n"},
      {"group_of", "input o: i8[m]\noutput y = group_of(o, [20])\n"},
      {"matmul_at", "input x: T[n, 5]\ninput w: T[4, 5, 3]\ninput i: i64[n]\noutput y = matmul_at(x, w, i)\n", 5},
      {"matmul_at", "input x: T[9, m]\ninput w: T[7, 2, m]\ninput i: i16[9]\noutput y = matmul_at(x, w, i, transpose_b=true)\n", 4},
      {"matmul_at", "input x: T[9, 3] strides [1, 1]\ninput w: T[m, 3, 2] strides [1, 2, 3]\ninput o: i32[m]\noutput y = grouped_matmul(x, w, o)\n", 3},
      {"cumulative_sum", "input x: T[3, 6]\noutput y = cumulative_sum(x, axis=1)\n", 6},
      {"cumulative_sum", "input x: T[n, 2, m]\noutput y = cumulative_sum(x, axis=0)\n", 4},
      {"cumulative_sum", "input x: T[2, 3] strides [0, 1]\noutput y = cumulative_sum(x, axis=-2)\n", 4},
      {"scatter",
       "input x: T[3, 4]\ninput i: i64[2, 4]\ninput s: T[2, 4]\noutput y = scatter(x, i, s, axis=0)\n"},
      {"scatter", "input x: T[5]\ninput i: i32[n]\ninput s: T[n]\noutput y = scatter(x, i, s, axis=0)\n"},
      {"slice_update",
       "input x: T[6, m]\ninput p: T[2, m]\ninput at: i64[]\noutput y = slice_update(x, p, at, axis=0)\n"},
      {"slice_update", "input x: T[2, 4]\ninput p: T[2, n]\noutput y = slice_update(x, p, 3, axis=1)\n"},
      {"slice_update", "input x: T[2, 4]\ninput p: T[2, 3]\noutput y = slice_update(x, p, -1, axis=1)\n"},
      {"copy", "input x: T[2, n] strides [1, 2]\noutput y = copy(x)\n"},
  };
}

std::vector<Case> cases_of(const Op& op) {
  const std::string& name = op.signature.name;
  std::vector<Case> out;
  for (const Case& c : listed_cases())
    if (c.op == name) out.push_back(c);
  if (!out.empty()) return out;
  if (op.kind == OpKind::reduction) return reduction_cases(name);
  if (op.kind != OpKind::pointwise || name == "cast") return {};
  return op.signature.operands == "T" ? unary_cases(name) : binary_cases(name);
}

TEST(OpTable, every_op_equals_the_reference_for_every_dtype) {
  for (const Op& op : graph::op_table()) {
    const bool is_own_test =
        op.signature.name == "cast" || op.signature.name == "constant" || op.signature.name == "iota";
    const std::vector<Case> cases = cases_of(op);
    EXPECT_EQ(cases.empty(), is_own_test) << "no case for " << op.signature.name;
    for (const Case& c : cases)
      for (int d = 0; d < kDTypeCount; ++d)
        if (op.dtypes >> d & 1) {
          SCOPED_TRACE(op.signature.name + " " + std::string(name(static_cast<DType>(d))));
          // A literal start or pad is no constant of some dtypes.
          check(c, static_cast<DType>(d));
        }
  }
}

TEST(OpTable, cast_converts_between_all_dtypes) {
  for (int from = 0; from < kDTypeCount; ++from)
    for (int to = 0; to < kDTypeCount; ++to) {
      SCOPED_TRACE(std::string(name(static_cast<DType>(from))) + " to " +
                   std::string(name(static_cast<DType>(to))));
      check({"cast",
             "input x: T[3, 40]\noutput y = cast(x, " + std::string(name(static_cast<DType>(to))) + ")\n"},
            static_cast<DType>(from));
    }
}

TEST(OpTable, float_to_integer_saturates_and_takes_nan_to_zero) {
  for (const char* to : {"i8", "u8", "i16", "i32", "i64", "bool"})
    check({"cast", "big = constant(1e30, f64)\nnan_ = constant(0.0, f64)\n" +
                       std::string("output a = cast(big, ") + to + ")\noutput b = cast(neg(big), " + to +
                       ")\noutput c = cast(div(nan_, nan_), " + to + ")\n"},
          DType::f64);
}

TEST(OpTable, iota_counts_along_its_axis) {
  for (int d = 1; d < kDTypeCount; ++d) {
    const std::string dtype(name(static_cast<DType>(d)));
    check({"iota", "output y = iota([3, n, 2], 1, " + dtype + ")\n"}, DType::f32);
    check({"iota", "output y = iota([4], 0, " + dtype + ", start=20, step=-3)\n"}, static_cast<DType>(d));
  }
}

TEST(OpTable, constants_of_every_dtype) {
  check({"constant",
         "output a = constant(true, bool)\noutput b = constant(-128, i8)\noutput c = constant(255, u8)\n"
         "output d = constant(-9223372036854775808, i64)\noutput e = constant(1e-5, bf16)\n"
         "output f = constant(-inf, f16)\noutput g = constant(nan, f32)\noutput h = constant(0.1, f64)\n"},
        DType::f64);
}

TEST(OpTable, wide_results_on_request) {
  check({"sum", "input x: T[3, 300]\noutput y = sum(x, axes=[1], out=i64)\n"}, DType::i8);
  check({"sum", "input x: T[3, 300]\noutput y = sum(x, axes=[1], out=f32)\n", 300}, DType::bf16);
  check({"sum", "input x: T[3, 300]\noutput y = sum(x, axes=[1])\n"}, DType::boolean);
  check({"matmul", "input a: T[2, 50]\ninput b: T[50, 2]\noutput y = matmul(a, b, out=f32)\n", 50},
        DType::f16);
  check({"matmul", "input a: T[2, 50]\ninput b: T[50, 2]\noutput y = matmul(a, b, out=i64)\n"}, DType::u8);
  check({"cumulative_sum", "input x: T[3, 50]\noutput y = cumulative_sum(x, axis=1, out=i64)\n"}, DType::i16);
  check({"mean", "input x: T[3, 50]\noutput y = mean(x, out=f32)\n", 150}, DType::f16);
  check({"variance", "input x: T[3, 50]\noutput y = variance(x, axes=[1], correction=0, out=f32)\n", 50},
        DType::bf16);
  check({"variance", "input x: T[3, 1]\noutput y = variance(x, axes=[1])\n", 1}, DType::f32);  // 0 / 0
}

TEST(OpTable, scatter_adds_in_the_accumulator) {
  for (DType d : {DType::i8, DType::i64, DType::f16, DType::bf16, DType::f32, DType::f64})
    check({"scatter",
           "input x: T[4, 3]\ninput i: i64[m, 3]\ninput s: T[m, 3]\noutput y = scatter(x, i, s, axis=0, "
           "reduce=add)\n",
           4},
          d);
}

TEST(OpTable, the_documentation_holds_the_table) {
  std::ifstream file(LOOPWRIGHT_SOURCE_DIR "/docs/lw.md");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  EXPECT_NE(text.find(graph::coverage()), std::string::npos) << "docs/lw.md should hold:\n"
                                                             << graph::coverage();
}

TEST(OpTable, coverage_lists_every_op) {
  const std::string table = graph::coverage();
  for (const Op& op : graph::op_table())
    EXPECT_NE(table.find("| " + op.signature.name + " |"), std::string::npos);
}

}  // namespace
}  // namespace loopwright
