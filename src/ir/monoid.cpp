#include "src/ir/monoid.h"

#include <array>
#include <cmath>

namespace loopwright::ir {
namespace {

struct MonoidRow {
  std::string_view name;
  int arity;
};
constexpr std::array<MonoidRow, 10> kMonoids = {{{"sum", 1},
                                                 {"product", 1},
                                                 {"min", 1},
                                                 {"max", 1},
                                                 {"any", 1},
                                                 {"all", 1},
                                                 {"argmin", 2},
                                                 {"argmax", 2},
                                                 {"log_sum_exp", 2},
                                                 {"welford", 3}}};

const MonoidRow& row_of(Monoid monoid) { return kMonoids.at(static_cast<std::size_t>(monoid)); }

Expr both(Expr a, Expr b) { return binary(BinaryOp::and_, std::move(a), std::move(b)); }
Expr either(Expr a, Expr b) { return binary(BinaryOp::or_, std::move(a), std::move(b)); }
Expr zero(DType dtype) { return constant(0, dtype); }

Expr lowest(DType dtype) {
  if (dtype == DType::boolean) return int_imm(0, dtype);
  return constant(-HUGE_VAL, dtype);  // saturates for integers
}
Expr highest(DType dtype) {
  if (dtype == DType::boolean) return int_imm(1, dtype);
  return constant(HUGE_VAL, dtype);
}

std::vector<Expr> combine_arg(BinaryOp better, const std::vector<Expr>& a, const std::vector<Expr>& b) {
  const Expr earlier = binary(BinaryOp::lt, b[1], a[1]);
  const Expr tie = both(binary(BinaryOp::eq, b[0], a[0]), earlier);
  Expr take = either(binary(better, b[0], a[0]), tie);
  if (is_float(a[0]->dtype)) {
    const Expr a_number = unary(UnaryOp::logical_not, unary(UnaryOp::is_nan, a[0]));
    take = select(unary(UnaryOp::is_nan, b[0]), either(a_number, earlier), both(a_number, take));
  }
  return {select(take, b[0], a[0]), select(take, b[1], a[1])};
}

/// sum * exp(value - largest). The two are equal for the larger side, also when both are infinite.
Expr rescaled(const Expr& sum, const Expr& value, const Expr& largest) {
  return select(binary(BinaryOp::eq, value, largest), sum, sum * unary(UnaryOp::exp, value - largest));
}

std::vector<Expr> combine_log_sum_exp(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  const Expr largest = max(a[0], b[0]);
  return {largest, rescaled(a[1], a[0], largest) + rescaled(b[1], b[0], largest)};
}

std::vector<Expr> combine_welford(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  const DType t = a[1]->dtype;
  const Expr count = a[0] + b[0];
  const Expr share = select(binary(BinaryOp::eq, count, zero(count->dtype)), zero(t),
                            binary(BinaryOp::div, cast(b[0], t), cast(count, t)));
  const Expr delta = b[1] - a[1];
  return {count, a[1] + delta * share, a[2] + b[2] + delta * delta * (cast(a[0], t) * share)};
}

}  // namespace

std::string_view name(Monoid monoid) { return row_of(monoid).name; }

std::optional<Monoid> parse_monoid(std::string_view text) {
  for (std::size_t i = 0; i < kMonoids.size(); ++i)
    if (kMonoids[i].name == text) return static_cast<Monoid>(i);
  return std::nullopt;
}

int arity(Monoid monoid) { return row_of(monoid).arity; }

std::vector<Expr> identity(Monoid monoid, const std::vector<DType>& dtypes) {
  LW_BUG_IF(static_cast<int>(dtypes.size()) != arity(monoid),
            "identity of " + std::string(name(monoid)) + " for " + std::to_string(dtypes.size()));
  switch (monoid) {
    case Monoid::sum:
    case Monoid::any: return {zero(dtypes[0])};
    case Monoid::product:
    case Monoid::all: return {constant(1, dtypes[0])};
    case Monoid::min: return {highest(dtypes[0])};
    case Monoid::max: return {lowest(dtypes[0])};
    case Monoid::argmin: return {highest(dtypes[0]), highest(dtypes[1])};
    case Monoid::argmax: return {lowest(dtypes[0]), highest(dtypes[1])};
    case Monoid::log_sum_exp: return {lowest(dtypes[0]), zero(dtypes[1])};
    case Monoid::welford: return {zero(dtypes[0]), zero(dtypes[1]), zero(dtypes[2])};
  }
  throw_bug(__FILE__, __LINE__, "monoid", "identity");
}

std::vector<Expr> combine(Monoid monoid, const std::vector<Expr>& a, const std::vector<Expr>& b) {
  const auto n = static_cast<std::size_t>(arity(monoid));
  LW_BUG_IF(a.size() != n || b.size() != n, "combine of " + std::string(name(monoid)));
  switch (monoid) {
    case Monoid::sum: return {a[0] + b[0]};
    case Monoid::product: return {a[0] * b[0]};
    case Monoid::min: return {min(a[0], b[0])};
    case Monoid::max: return {max(a[0], b[0])};
    case Monoid::any: return {either(a[0], b[0])};
    case Monoid::all: return {both(a[0], b[0])};
    case Monoid::argmin: return combine_arg(BinaryOp::lt, a, b);
    case Monoid::argmax: return combine_arg(BinaryOp::gt, a, b);
    case Monoid::log_sum_exp: return combine_log_sum_exp(a, b);
    case Monoid::welford: return combine_welford(a, b);
  }
  throw_bug(__FILE__, __LINE__, "monoid", "combine");
}

bool is_exact(Monoid monoid, DType dtype) {
  switch (monoid) {
    case Monoid::sum:
    case Monoid::product: return !is_float(dtype);
    case Monoid::log_sum_exp:
    case Monoid::welford: return false;
    default: return true;
  }
}

bool accepts(Monoid monoid, const std::vector<DType>& dtypes) {
  if (static_cast<int>(dtypes.size()) != arity(monoid)) return false;
  const DType t = dtypes[0];
  switch (monoid) {
    case Monoid::sum:
    case Monoid::product: return t != DType::boolean;
    case Monoid::min:
    case Monoid::max: return true;
    case Monoid::any:
    case Monoid::all: return t == DType::boolean;
    case Monoid::argmin:
    case Monoid::argmax: return is_integer(dtypes[1]);
    case Monoid::log_sum_exp: return is_float(t) && dtypes[1] == t;
    case Monoid::welford: return t != DType::boolean && is_float(dtypes[1]) && dtypes[2] == dtypes[1];
  }
  throw_bug(__FILE__, __LINE__, "monoid", "accepts");
}

}  // namespace loopwright::ir
