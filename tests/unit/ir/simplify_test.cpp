#include "src/ir/simplify.h"

#include <gtest/gtest.h>

#include <random>

#include "src/ir/arithmetic.h"
#include "src/ir/rewrite.h"
#include "src/ir/text.h"

namespace loopwright::ir {
namespace {

std::string simplified(const std::string& text) {
  const auto k = parse_kernel(text);
  if (!k.ok()) return k.error().message();
  std::string out = print(simplify(*k));
  return out.substr(out.find("\n", out.find("level")) + 1);
}

/// The index stored at y[...] after simplifying inside the given loops and conditions.
struct IndexCase {
  const char* name;
  const char* lines;  ///< loops, conditions and lets around the store, each ended by a newline
  const char* input;  ///< an i64 expression
  const char* output;
};
class IndexRules : public ::testing::TestWithParam<IndexCase> {};

TEST_P(IndexRules, give) {
  const IndexCase& c = GetParam();
  std::string text =
      "kernel k(y: i64[1000000] out)\n  symbol n in 1..8192\n  symbol m in 1..100\n  assume n % 64\n  level "
      "scheduled\n";
  std::string lines = c.lines;
  std::string indent = "  ";
  for (std::size_t begin = 0; begin < lines.size();) {
    const std::size_t end = lines.find('\n', begin);
    const std::string line = lines.substr(begin, end - begin);
    text += indent + line + "\n";
    if (!line.starts_with("let")) indent += "  ";
    begin = end + 1;
  }
  const std::string got = simplified(text + indent + "y[" + c.input + "] = 1\n");
  const std::size_t open = got.rfind("y["), close = got.rfind("] = 1");
  ASSERT_NE(open, std::string::npos) << got;
  EXPECT_EQ(got.substr(open + 2, close - open - 2), c.output) << got;
}

constexpr const char* kTile = "for i in 0..32\nfor j in 0..8\n";
INSTANTIATE_TEST_SUITE_P(
    Simplify, IndexRules,
    ::testing::Values(
        IndexCase{"sum_of_products", kTile, "(i*2 + j)*4 - j*4 + 3", "i*8 + 3"},
        IndexCase{"quotient_of_tile", kTile, "floor_div(i*8 + j, 8)", "i"},
        IndexCase{"remainder_of_tile", kTile, "mod(i*8 + j, 8)", "j"},
        IndexCase{"remainder_of_part", kTile, "mod(i*8 + j, 4)", "mod(j, 4)"},
        IndexCase{"quotient_of_quotient", kTile, "floor_div(floor_div(i, 2), 4)", "floor_div(i, 8)"},
        IndexCase{"common_factor", kTile, "floor_div(i*6 + 4, 8)", "floor_div(i*3 + 2, 4)"},
        IndexCase{"split_back_together", kTile, "floor_div(i*8 + j, 5)*5 + mod(i*8 + j, 5)", "i*8 + j"},
        IndexCase{"divisible_symbol", kTile, "floor_div(n + 7, 8)", "floor_div(n, 8)"},
        IndexCase{"divisible_symbol_with_rest", kTile, "floor_div(n*2 + j, 8)", "floor_div(n, 4)"},
        IndexCase{"divisible_remainder", kTile, "mod(n*3 + j, 64)", "j"},
        IndexCase{"min_by_bounds", kTile, "min(i, 40) + max(j, i - 50)", "i + j"},
        IndexCase{"min_is_ordered", kTile, "min(j, i) - min(i, j)", "0"},
        IndexCase{"min_of_full_tile", "for i in 0..floor_div(n, 64)\n", "min(64, n - i*64)", "64"},
        IndexCase{"min_of_ragged_tile", "for i in 0..floor_div(n + 63, 60)\n", "min(60, n - i*60)",
                  "min(n - i*60, 60)"},
        IndexCase{"fuse_by_symbol", "for i in 0..8\nfor j in 0..m\n",
                  "floor_div(i*m + j, m)*1000 + mod(i*m + j, m)", "i*1000 + j"},
        IndexCase{"product_of_symbols", kTile, "floor_div(i*n*m + j, n*m)", "i"},
        IndexCase{"product_with_a_missing_factor", kTile, "floor_div(i*n + j, n*m)",
                  "floor_div(n*i + j, n*m)"},
        IndexCase{"select_under_condition", kTile, "select(j < 4, min(j, 3), max(j, 4))", "j"},
        IndexCase{"condition_of_enclosing_if", "for i in 0..32\nif i*8 < m\n", "min(i, m - 1)", "i"},
        IndexCase{"negated_condition", "for i in 0..32\nif logical_not(i < 7)\n", "max(i, 7)", "i"},
        IndexCase{"one_iteration", "for i in 0..n - n + 1\n", "i*7 + m", "m"},
        IndexCase{"let_value", "let t: i64 = m*8\nfor i in 0..8\n", "floor_div(t + i, 8)", "floor_div(t, 8)"},
        IndexCase{"truncating_division_of_a_natural_number", kTile, "(i*8 + j) / 8", "i"}),
    [](const auto& info) { return info.param.name; });

struct ConditionCase {
  const char* name;
  const char* loops;  ///< around the condition, each ended by a newline
  const char* condition;
  const char* output;  ///< "true", "false" or what is kept
};
class ConditionRules : public ::testing::TestWithParam<ConditionCase> {};

TEST_P(ConditionRules, give) {
  const ConditionCase& c = GetParam();
  std::string text =
      "kernel k(y: i64[1] out, f: f32[1] in)\n  symbol n in 1..8192\n  symbol m in 1..100\n  assume n % 64\n "
      " level scheduled\n";
  std::string lines = c.loops, indent = "  ";
  for (std::size_t begin = 0; begin < lines.size();) {
    const std::size_t end = lines.find('\n', begin);
    text += indent + lines.substr(begin, end - begin) + "\n";
    indent += "  ";
    begin = end + 1;
  }
  text += indent + "if " + c.condition + "\n" + indent + "  y[0] = 1\n";
  const std::string got = simplified(text);
  const std::size_t at = got.rfind("if ");
  const bool first_is_loop_condition = at == std::string::npos;
  if (std::string(c.output) == "false") EXPECT_EQ(got.find("y[0]"), std::string::npos) << got;
  else if (std::string(c.output) == "true")
    EXPECT_TRUE(first_is_loop_condition && got.find("y[0]") != std::string::npos) << got;
  else EXPECT_EQ(got.substr(at + 3, got.find('\n', at) - at - 3), c.output) << got;
}

INSTANTIATE_TEST_SUITE_P(
    Simplify, ConditionRules,
    ::testing::Values(
        ConditionCase{"exact_symbolic_tiles", "for io in 0..floor_div(n, 64)\nfor ii in 0..64\n",
                      "io*64 + ii < n", "true"},
        ConditionCase{"divisible_ragged_tiles", "for io in 0..floor_div(n + 63, 64)\nfor ii in 0..64\n",
                      "io*64 + ii < n", "true"},
        ConditionCase{"ragged_tiles", "for io in 0..floor_div(m + 7, 8)\nfor ii in 0..8\n", "io*8 + ii < m",
                      "io*8 + ii < m"},
        ConditionCase{"first_of_ragged_tile", "for io in 0..floor_div(m + 7, 8)\n", "io*8 < m", "true"},
        ConditionCase{"clamped_tile", "for io in 0..floor_div(m + 7, 8)\nfor ii in 0..min(8, m - io*8)\n",
                      "io*8 + ii < m", "true"},
        ConditionCase{"two_levels", "for a in 0..floor_div(n, 64)\nfor b in 0..8\nfor c in 0..8\n",
                      "(a*8 + b)*8 + c < n", "true"},
        ConditionCase{"beyond_the_end", "for i in 0..m\n", "i >= m", "false"},
        ConditionCase{"triangle", "for i in 0..m\nfor j in 0..i + 1\n", "j < m", "true"},
        ConditionCase{"at_most_becomes_less", "for i in 0..m\n", "i <= m - 2", "i + 1 < m"},
        ConditionCase{"greater_is_turned", "for i in 0..m\n", "50 > i", "i < 50"},
        ConditionCase{"constant_rounds_to_the_divisor", "for i in 0..m\n", "i*64 + 63 < n", "i*64 < n"},
        ConditionCase{"common_factor_is_cancelled", "for i in 0..m\n", "i*8 + 5 < m*8 - 200", "i + 25 < m"},
        ConditionCase{"no_multiple_is_odd", "for i in 0..m\n", "i*2 == 7", "false"},
        ConditionCase{"implied_part_is_dropped", "for i in 0..m\n", "i < 50 and i < 70 and i < 20", "i < 20"},
        ConditionCase{"either_side_decides", "for i in 0..m\n", "i < 50 or i >= 50", "true"},
        ConditionCase{"not_of_comparison", "for i in 0..m\n", "logical_not(i < 50 and f[0] < 1.0f32)",
                      "logical_not(i < 50 and f[0] < 1.0f32)"},
        ConditionCase{"nan_keeps_float_comparisons", "for i in 0..m\n", "logical_not(f[0] < 1.0f32)",
                      "logical_not(f[0] < 1.0f32)"},
        ConditionCase{"strided_rows", "for i in 0..m\nfor j in 0..n\n", "i*n + j < m*n", "true"}),
    [](const auto& info) { return info.param.name; });

TEST(Simplify, drops_what_never_runs) {
  EXPECT_EQ(
      simplified("kernel k(y: i64[1] out)\n  symbol n in 4..9\n  level scheduled\n  for i in 0..n - 9\n    "
                 "y[0] = 1\n  if n < 4\n    y[0] = 2\n  for i in 0..n\n    if n > 100\n      y[0] = 3\n"),
      "  nothing\n");
}

TEST(Simplify, keeps_floats_but_exact_identities) {
  EXPECT_EQ(simplified(R"(kernel k(x: f32[8] in, h: bf16[8] in, y: f32[8] out)
  level scheduled
  y[0] = x[0] + 0.0f32
  y[1] = x[1]*1.0f32 - 0.0f32
  y[2] = x[2]*0.0f32
  y[3] = f32(bf16(f32(h[3])))
  y[4] = f32(bf16(x[4]))
  y[5] = x[5] + x[6] - x[5]
)"),
            R"(  y[0] = x[0] + 0.0f32
  y[1] = x[1]
  y[2] = x[2]*0.0f32
  y[3] = f32(h[3])
  y[4] = f32(bf16(x[4]))
  y[5] = x[5] + x[6] - x[5]
)");
}

TEST(Simplify, data_from_memory_may_wrap) {
  const std::string text =
      "kernel k(x: i64[8] in, y: i64[8] out)\n  level scheduled\n  y[0] = floor_div(x[0]*8, 8)\n  y[1] = "
      "x[1]*2 + x[1]\n  if x[0] < x[0] + 1\n    y[2] = 0\n";
  EXPECT_EQ(simplified(text),
            "  y[0] = floor_div(x[0]*8, 8)\n  y[1] = x[1]*3\n  if x[0] < x[0] + 1\n    y[2] = 0\n");
}

TEST(Simplify, a_condition_on_memory_is_not_kept_past_a_store) {
  const std::string text =
      "kernel k(y: i64[8] inout)\n  level scheduled\n  if y[0] < 4\n    y[0] = 9\n    if y[0] < 4\n      "
      "y[1] = 0\n";
  EXPECT_EQ(simplified(text), text.substr(text.find("  if")));
}

TEST(Simplify, a_comparison_of_data_bound_by_let_is_not_shifted) {
  // `-1 < state` as `0 < state + 1` would be false for the largest i64, the identity of argmin's index.
  const std::string body =
      "  let state: i64 = x[0]\n"
      "  y[0] = select(-1 < state, 1, 2)\n";
  const auto k = parse_kernel("kernel k(x: i64[1] in, y: i64[1] out)\n  level scheduled\n" + body);
  ASSERT_TRUE(k.ok()) << k.error().message();
  const std::string out = print(simplify(*k));
  EXPECT_EQ(out.find("state + 1"), std::string::npos) << out;
  EXPECT_NE(out.find("-1 < state"), std::string::npos) << out;
}

TEST(Affine, takes_coefficients_apart) {
  const Var i = fresh_var("i"), j = fresh_var("j"), n = fresh_var("n");
  const auto a =
      as_affine((var(i) * int_imm(4) + var(j)) * int_imm(2) + var(n) * var(n) + int_imm(7), {i, j});
  ASSERT_TRUE(a);
  EXPECT_EQ(a->coefficients.at(i), 8);
  EXPECT_EQ(a->coefficients.at(j), 2);
  EXPECT_EQ(print(a->rest), "n*n + 7");
  EXPECT_FALSE(as_affine(var(i) * var(n), {i, j}));
  EXPECT_FALSE(as_affine(mod(var(i), int_imm(4)), {i}));
}

// ---------------------------------------------------------------- random expressions

/// Variables with random facts, and values that satisfy them.
class RandomExpressions {
 public:
  explicit RandomExpressions(std::uint64_t seed) : rng_(seed) {
    const std::int64_t divisor = std::int64_t{1} << pick(4);
    const std::int64_t lo = pick(20), hi = lo + 1 + pick(60);
    n_ = fresh_var("n"), i_ = fresh_var("i"), j_ = fresh_var("j"), k_ = fresh_var("k");
    facts_.set_range(n_, {lo, hi});
    facts_.set_divisor(n_, divisor);
    tile_ = 1 + pick(9);
    i_extent_ = pick(2) ? ceil_div(var(n_), int_imm(tile_)) : int_imm(1 + pick(12));
    j_extent_ = pick(2) ? int_imm(tile_) : ir::min(int_imm(tile_), var(n_) - var(i_) * int_imm(tile_));
    facts_.bind_loop(i_, i_extent_);
    facts_.bind_loop(j_, j_extent_);
    facts_.set_range(k_, {-7, 9});
    divisor_ = divisor, lo_ = lo, hi_ = hi;
    if (pick(3) == 0) {
      condition_ = condition(2);
      facts_.assume(condition_);
    }
  }

  Facts facts_;

  Expr index(int depth) {
    if (depth == 0 || pick(5) == 0) return leaf();
    switch (pick(12)) {
      case 0:
      case 1:
      case 2: return index(depth - 1) + index(depth - 1);
      case 3: return index(depth - 1) - index(depth - 1);
      case 4: return index(depth - 1) * int_imm(pick(17) - 4);
      case 5: return index(depth - 1) * leaf();
      case 6: return floor_div(index(depth - 1), pick(6) ? int_imm(1 + pick(16)) : leaf());
      case 7: return mod(index(depth - 1), pick(6) ? int_imm(1 + pick(16)) : leaf());
      case 8: return ir::min(index(depth - 1), index(depth - 1));
      case 9: return ir::max(index(depth - 1), index(depth - 1));
      case 10: return select(condition(depth - 1), index(depth - 1), index(depth - 1));
      default:
        return pick(2) ? binary(BinaryOp::div, index(depth - 1), int_imm(pick(9) - 2))
                       : floor_div(var(i_) * int_imm(tile_) + var(j_), int_imm(tile_)) + index(depth - 1);
    }
  }

  Expr condition(int depth) {
    if (depth > 0 && pick(3) == 0) {
      const Expr a = condition(depth - 1);
      if (pick(3) == 0) return unary(UnaryOp::logical_not, a);
      return binary(pick(2) ? BinaryOp::and_ : BinaryOp::or_, a, condition(depth - 1));
    }
    if (pick(4) == 0) return ir::lt(var(i_) * int_imm(tile_) + var(j_), var(n_));
    const auto op = static_cast<BinaryOp>(static_cast<int>(BinaryOp::eq) + pick(6));
    return binary(op, index(depth), pick(2) ? index(depth) : int_imm(pick(40)));
  }

  /// Empty when no value satisfied the facts in some attempts.
  std::optional<std::map<Var, Expr>> values() {
    for (int attempt = 0; attempt < 20; ++attempt) {
      std::map<Var, Expr> v;
      const std::int64_t n = (lo_ + pick(static_cast<int>(hi_ - lo_ + 1))) / divisor_ * divisor_;
      if (n < lo_) continue;
      v[n_] = int_imm(n);
      v[k_] = int_imm(pick(17) - 7);
      const std::int64_t ei = *as_int(substitute(i_extent_, v));
      if (ei <= 0) continue;
      v[i_] = int_imm(pick(static_cast<int>(ei)));
      const std::int64_t ej = *as_int(substitute(j_extent_, v));
      if (ej <= 0) continue;
      v[j_] = int_imm(pick(static_cast<int>(ej)));
      if (condition_ && as_int(substitute(condition_, v)) != 1) continue;
      return v;
    }
    return std::nullopt;
  }

  int pick(int n) { return static_cast<int>(rng_() % static_cast<std::uint64_t>(n)); }

 private:
  Expr leaf() {
    switch (pick(6)) {
      case 0: return int_imm(pick(20) - 3);
      case 1: return var(n_);
      case 2: return var(k_);
      case 3: return var(j_);
      default: return var(i_);
    }
  }
  std::mt19937_64 rng_;
  Var n_, i_, j_, k_;
  Expr i_extent_, j_extent_, condition_;
  std::int64_t tile_ = 1, divisor_ = 1, lo_ = 0, hi_ = 0;
};

TEST(Simplify, random_expressions_keep_their_values_and_settle) {
  int compared = 0;
  for (std::uint64_t seed = 0; seed < 4000; ++seed) {
    RandomExpressions random(seed);
    const bool is_condition = random.pick(3) == 0;
    const Expr e = is_condition ? random.condition(3) : random.index(4);
    const Expr s = simplify(e, random.facts_);
    ASSERT_EQ(print(simplify(s, random.facts_)), print(s)) << "seed " << seed << ": " << print(e);
    const Interval range = random.facts_.bounds(e);
    const std::int64_t divisor = is_condition ? 1 : random.facts_.divisor(e);
    for (int sample = 0; sample < 12; ++sample) {
      const auto values = random.values();
      if (!values) continue;
      const auto before = as_int(substitute(e, *values)), after = as_int(substitute(s, *values));
      ASSERT_TRUE(before && after);
      std::string where = "seed " + std::to_string(seed) + ": " + print(e) + "  ->  " + print(s) + " at";
      for (const auto& [v, value] : *values) where += " " + v.hint + "=" + print(value);
      ASSERT_EQ(*before, *after) << where;
      if (!is_condition) {
        ASSERT_TRUE(range.lo <= *before && *before <= range.hi) << where;
        ASSERT_TRUE(divisor == 0 ? *before == 0 : *before % divisor == 0) << where;
      }
      ++compared;
    }
  }
  EXPECT_GT(compared, 20000);
}

}  // namespace
}  // namespace loopwright::ir
