#include "src/ir/text.h"

#include <gtest/gtest.h>

namespace loopwright::ir {
namespace {

constexpr const char* kExample =
    R"(kernel rmsnorm(x: bf16[tokens, 2880] strides [5760, 2] in, w: f32[2880] in, y: bf16[tokens, 2880] out)
  symbol tokens in 1..8192
  assume tokens % 8, align 16
  level naive
  alloc t: f32[tokens] global
  for y_0 in 0..tokens parallel
    t[y_0] = 0.0f32
    for y_r0 in 0..2880
      update sum t[y_0] by f32(x[y_0, y_r0])*f32(x[y_0, y_r0])
    let m: f32 = rsqrt(t[y_0]*0.00034722223f32 + 1e-05f32)
    if y_0*4 + 1 < tokens and not_last(1)
      for y_1 in 0..floor_div(2880, 8)*8 vectorize
        y[y_0, y_1] = bf16(f32(x[y_0, y_1])*m*w[y_1])
    nothing
)";

std::string example() {
  std::string text = kExample;
  text.replace(text.find("not_last(1)"), 11, "y_0 > 0 or m < 2.0f32 and -m != 1.0f32");
  return text;
}

std::string printed(const std::string& text) {
  auto k = parse_kernel(text);
  return k.ok() ? print(*k) : k.error().message();
}

TEST(IrText, prints_what_it_parsed) {
  const std::string once = printed(example());
  EXPECT_EQ(printed(once), once);
  EXPECT_NE(once.find("symbol tokens in 1..8192"), std::string::npos) << once;
  EXPECT_NE(once.find("for y_1 in 0..2880 vectorize"), std::string::npos) << once;
  EXPECT_NE(once.find("x: bf16[tokens, 2880] strides [5760, 2] in"), std::string::npos) << once;
  EXPECT_NE(once.find("if y_0*4 + 1 < tokens and y_0 > 0 or m < 2.0f32 and -m != 1.0f32"), std::string::npos)
      << once;
}

TEST(IrText, unknown_operation_names_its_place) {
  const auto k = parse_kernel(kExample);
  ASSERT_FALSE(k.ok());
  EXPECT_EQ(k.error().code, ErrorCode::unknown_op);
  EXPECT_NE(k.error().where.find("line 11:31"), std::string::npos) << k.error().message();
}

TEST(IrText, keeps_the_grouping_of_floats) {
  const std::string text = R"(kernel k(x: f32[4] in, y: f32[4] out)
  level naive
  for i in 0..4
    y[i] = x[i] - (x[i] - x[i]*(x[i] / 3.0f32)) + (x[i] + -x[i]) - -2.5f32
)";
  EXPECT_EQ(printed(text), text);
}

TEST(IrText, prints_every_literal_so_that_it_reads_back) {
  const std::string text =
      R"(kernel k(a: f32[4] out, b: i8[1] out, c: f64[1] out, d: bool[1] out, e: i64[] out, f: bf16[1] out)
  level naive
  a[0] = inf_f32
  a[1] = -inf_f32
  a[2] = nan_f32
  a[3] = -0.0f32
  b[0] = -128i8
  c[0] = 1e-300f64
  d[0] = true
  e[] = -9223372036854775808
  f[0] = 0.100097656bf16
)";
  EXPECT_EQ(printed(text), text);
}

TEST(IrText, prints_tuple_updates_and_allocations) {
  const std::string text = R"(kernel k(x: f32[n] in, i: i64[1] out)
  symbol n in 0..100
  level scheduled
  contract off
  alloc best: f32[1] registers
  best[0] = -inf_f32
  i[0] = 9223372036854775807
  for r in 0..n unroll
    update argmax (best, i)[0] by (x[r], r)
)";
  EXPECT_EQ(printed(text), text);
}

TEST(IrText, gives_clashing_names_a_number) {
  const Buffer y =
      std::make_shared<const BufferInfo>(BufferInfo{"y", DType::i64, Memory::global, {int_imm(4)}, {}});
  const Var a = fresh_var("i"), b = fresh_var("i"), c = fresh_var("y");
  const Stmt s = seq({loop(a, int_imm(2), store(y, {var(a)}, var(a))),
                      loop(b, int_imm(2), loop(c, int_imm(1), store(y, {var(b)}, var(c))))});
  Kernel k{"k", Level::naive, {{y, ArgRole::output}}, {}, {}, true, Accuracy::strict, s};
  EXPECT_EQ(print(k), R"(kernel k(y: i64[4] out)
  level naive
  for i in 0..2
    y[i] = i
  for i_1 in 0..2
    for y_1 in 0..1
      y[i_1] = y_1
)");
  EXPECT_EQ(printed(print(k)), print(k));
}

TEST(IrText, marks_a_statement) {
  const auto k =
      parse_kernel("kernel k(y: i64[4] out)\n  level naive\n  for i in 0..4\n    y[i] = i\n  y[0] = 1\n");
  ASSERT_TRUE(k.ok());
  EXPECT_EQ(print_marked(*k, as<Seq>(k->body)->items[0]),
            "  kernel k(y: i64[4] out)\n    level naive\n>   for i in 0..4\n>     y[i] = i\n    y[0] = 1\n");
}

struct BadCase {
  const char* body;
  ErrorCode code;
  const char* place;
};
class BadText : public ::testing::TestWithParam<BadCase> {};

TEST_P(BadText, is_an_error_at_its_place) {
  const std::string text =
      std::string("kernel k(x: f32[n] in, y: f32[n] out)\n  symbol n in 1..8\n  level naive\n") +
      GetParam().body;
  const auto k = parse_kernel(text);
  ASSERT_FALSE(k.ok());
  EXPECT_EQ(k.error().code, GetParam().code) << k.error().message();
  EXPECT_NE(k.error().where.find(GetParam().place), std::string::npos) << k.error().message();
}

INSTANTIATE_TEST_SUITE_P(
    IrText, BadText,
    ::testing::Values(BadCase{"  y[i] = 0.0f32\n", ErrorCode::unknown_name, "line 4:5"},
                      BadCase{"  y[0] = 0.0\n", ErrorCode::syntax, "line 4:10"},
                      BadCase{"  y[0] = x[0] + 1\n", ErrorCode::dtype_mismatch, "line 4:15"},
                      BadCase{"  y[0] = 1\n", ErrorCode::dtype_mismatch, "line 4:10"},
                      BadCase{"  y[0, 1] = 0.0f32\n", ErrorCode::shape_mismatch, "line 4:3"},
                      BadCase{"  for i in 0..n\n", ErrorCode::syntax, "line 5"},
                      BadCase{"  for i in 0..n\n      y[i] = x[i]\n", ErrorCode::syntax, "line 5:7"},
                      BadCase{"  for n in 0..3\n    nothing\n", ErrorCode::duplicate_name, "line 4:7"},
                      BadCase{"  y[0] = exp(x[0], x[0])\n", ErrorCode::wrong_arity, "line 4:10"},
                      BadCase{"  update argmax y[0] by x[0]\n", ErrorCode::dtype_mismatch, "line 4:10"},
                      BadCase{"  z[0] = 0.0f32\n", ErrorCode::unknown_name, "line 4:3"},
                      BadCase{"  if 1 < n < 3\n    nothing\n", ErrorCode::syntax, "line 4:12"},
                      BadCase{"  y[0] = @\n", ErrorCode::syntax, "line 4:10"},
                      BadCase{"  y[9999999999999999999999] = 0.0f32\n", ErrorCode::syntax, "line 4:5"},
                      BadCase{"  y[9223372036854775808] = 0.0f32\n", ErrorCode::size_overflow, "line 4:5"}));

}  // namespace
}  // namespace loopwright::ir
