#include "src/ir/monoid.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "src/ir/arithmetic.h"

namespace loopwright::ir {
namespace {

constexpr Monoid kAll[] = {Monoid::sum,         Monoid::product, Monoid::min,    Monoid::max,
                           Monoid::any,         Monoid::all,     Monoid::argmin, Monoid::argmax,
                           Monoid::log_sum_exp, Monoid::welford};

std::vector<DType> dtypes_of(Monoid m) {
  switch (m) {
    case Monoid::any:
    case Monoid::all: return {DType::boolean};
    case Monoid::argmin:
    case Monoid::argmax: return {DType::f64, DType::i64};
    case Monoid::log_sum_exp: return {DType::f64, DType::f64};
    case Monoid::welford: return {DType::f64, DType::f64, DType::f64};
    default: return {DType::f64};
  }
}

double number(const Expr& e) {
  return as<FloatImm>(e) ? as<FloatImm>(e)->value : static_cast<double>(as<IntImm>(e)->value);
}

/// A state of one element: index i, value from a few with ties, infinities and NaN.
std::vector<Expr> single(Monoid m, std::int64_t i, std::mt19937& rng) {
  const double values[] = {-HUGE_VAL, -2, 0, 1, 1, 3, HUGE_VAL, std::nan("")};
  const bool selects = m == Monoid::min || m == Monoid::max || m == Monoid::argmin || m == Monoid::argmax;
  const double v = selects ? values[rng() % 8] : static_cast<double>(rng() % 5) - 1;
  const Expr x = constant(v, dtypes_of(m)[0]);
  if (m == Monoid::argmin || m == Monoid::argmax) return {x, int_imm(i)};
  if (m == Monoid::log_sum_exp) return {x, constant(1, DType::f64)};
  if (m == Monoid::welford) return {constant(1, DType::f64), x, constant(0, DType::f64)};
  return {x};
}

TEST(Monoids, names_read_back) {
  for (const Monoid m : kAll) {
    EXPECT_EQ(parse_monoid(name(m)), m);
    EXPECT_TRUE(accepts(m, dtypes_of(m)));
    EXPECT_EQ(arity(m), static_cast<int>(dtypes_of(m).size()));
  }
}

TEST(Monoids, are_associative_with_their_identity) {
  std::mt19937 rng(5);
  for (const Monoid m : kAll) {
    for (int n = 0; n < 300; ++n) {
      const auto a = single(m, 0, rng), b = single(m, 1, rng), c = single(m, 2, rng);
      const auto left = combine(m, combine(m, a, b), c), right = combine(m, a, combine(m, b, c));
      const auto unchanged = combine(m, identity(m, dtypes_of(m)), a),
                 also = combine(m, a, identity(m, dtypes_of(m)));
      for (std::size_t i = 0; i < left.size(); ++i) {
        const double l = number(left[i]), r = number(right[i]);
        ASSERT_TRUE(l == r || std::abs(l - r) < 1e-12 || (std::isnan(l) && std::isnan(r)))
            << name(m) << " " << l << " " << r;
        ASSERT_TRUE(same(unchanged[i], a[i]) && same(also[i], a[i])) << name(m);
      }
    }
  }
}

TEST(Monoids, exact_ones_do_not_depend_on_the_order) {
  std::mt19937 rng(6);
  for (const Monoid m : kAll) {
    if (!is_exact(m, dtypes_of(m)[0])) continue;
    for (int n = 0; n < 300; ++n) {
      const auto a = single(m, 0, rng), b = single(m, 1, rng);
      const auto ab = combine(m, a, b), ba = combine(m, b, a);
      for (std::size_t i = 0; i < ab.size(); ++i) ASSERT_TRUE(same(ab[i], ba[i])) << name(m);
    }
  }
  EXPECT_TRUE(is_exact(Monoid::sum, DType::i32));
  EXPECT_FALSE(is_exact(Monoid::sum, DType::f32));
  EXPECT_TRUE(same(combine(Monoid::min, {float_imm(0.0, DType::f32)}, {float_imm(-0.0, DType::f32)})[0],
                   float_imm(-0.0, DType::f32)));
}

TEST(Monoids, log_sum_exp_of_nothing_and_of_infinities_is_no_nan) {
  const auto none = identity(Monoid::log_sum_exp, {DType::f32, DType::f32});
  const auto both = combine(Monoid::log_sum_exp, none, none);
  EXPECT_EQ(number(both[0]), -HUGE_VAL);
  EXPECT_EQ(number(both[1]), 0);
  const std::vector<Expr> infinite = {float_imm(HUGE_VAL, DType::f32), float_imm(1, DType::f32)};
  EXPECT_EQ(number(combine(Monoid::log_sum_exp, infinite, infinite)[1]), 2);
}

TEST(Monoids, welford_gives_mean_and_spread) {
  std::vector<Expr> state = identity(Monoid::welford, {DType::f64, DType::f64, DType::f64});
  for (const double v : {2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0})
    state = combine(Monoid::welford, state,
                    {constant(1, DType::f64), constant(v, DType::f64), constant(0, DType::f64)});
  EXPECT_EQ(number(state[0]), 8);
  EXPECT_DOUBLE_EQ(number(state[1]), 5);
  EXPECT_DOUBLE_EQ(number(state[2]), 32);
}

TEST(Arithmetic, integers_wrap_and_divide_as_stated) {
  EXPECT_EQ(apply_int(BinaryOp::add, DType::i8, 127, 1), -128);
  EXPECT_EQ(apply_int(BinaryOp::mul, DType::u8, 16, 17), 16);
  EXPECT_EQ(apply_int(BinaryOp::div, DType::i64, INT64_MIN, -1), INT64_MIN);
  for (const BinaryOp op : {BinaryOp::div, BinaryOp::floor_div, BinaryOp::mod, BinaryOp::fmod})
    EXPECT_EQ(apply_int(op, DType::i64, 5, 0), 0);
  EXPECT_EQ(apply_int(BinaryOp::floor_div, DType::i64, -7, 2), -4);
  EXPECT_EQ(apply_int(BinaryOp::div, DType::i64, -7, 2), -3);
  EXPECT_EQ(apply_int(BinaryOp::mod, DType::i64, -7, 2), 1);
  EXPECT_EQ(apply_int(BinaryOp::fmod, DType::i64, -7, 2), -1);
  EXPECT_EQ(apply_int(BinaryOp::shl, DType::i32, 1, 32), 0);
  EXPECT_EQ(apply_int(BinaryOp::shr, DType::i32, -5, -1), -1);
  EXPECT_EQ(apply_int(BinaryOp::pow, DType::i64, 3, 4), 81);
  EXPECT_EQ(apply_int(BinaryOp::pow, DType::i64, -1, -3), -1);
}

TEST(Arithmetic, casts_saturate_truncate_and_take_nan_to_zero) {
  EXPECT_EQ(cast_to_int(DType::i8, -129.5), -128);
  EXPECT_EQ(cast_to_int(DType::u8, -3), 0);
  EXPECT_EQ(cast_to_int(DType::u8, 300), 255);
  EXPECT_EQ(cast_to_int(DType::i64, 1e30), INT64_MAX);
  EXPECT_EQ(cast_to_int(DType::i64, -1e30), INT64_MIN);
  EXPECT_EQ(cast_to_int(DType::i32, std::nan("")), 0);
  EXPECT_EQ(cast_to_int(DType::i32, -2.9), -2);
  EXPECT_EQ(cast_to_int(DType::boolean, 0.1), 1);
}

TEST(Builders, mixing_dtypes_is_a_bug) {
  EXPECT_THROW(int_imm(1) + float_imm(1, DType::f32), Bug);
  EXPECT_THROW(int_imm(300, DType::i8), Bug);
  EXPECT_THROW(unary(UnaryOp::exp, int_imm(1)), Bug);
  EXPECT_THROW(select(int_imm(1), int_imm(1), int_imm(2)), Bug);
}

}  // namespace
}  // namespace loopwright::ir
