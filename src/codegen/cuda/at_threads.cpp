#include "src/codegen/cuda/at_threads.h"

namespace loopwright::codegen {

std::optional<std::int64_t> at_threads(const ir::Expr& e, const std::map<ir::Var, std::int64_t>& values) {
  if (const auto i = ir::as_int(e)) return i;
  if (const auto* v = ir::as<ir::VarRef>(e)) {
    const auto it = values.find(v->var);
    return it == values.end() ? std::nullopt : std::optional(it->second);
  }
  const auto* x = ir::as<ir::Binary>(e);
  if (x == nullptr) return std::nullopt;
  const auto a = at_threads(x->a, values), b = at_threads(x->b, values);
  if (!a || !b) return std::nullopt;
  switch (x->op) {
    case ir::BinaryOp::add: return *a + *b;
    case ir::BinaryOp::sub: return *a - *b;
    case ir::BinaryOp::mul: return *a * *b;
    // Thread numbers and constants that divide are not negative.
    case ir::BinaryOp::floor_div: return *a >= 0 && *b > 0 ? std::optional(*a / *b) : std::nullopt;
    case ir::BinaryOp::lt: return std::int64_t{*a < *b};
    case ir::BinaryOp::le: return std::int64_t{*a <= *b};
    case ir::BinaryOp::and_: return std::int64_t{*a != 0 && *b != 0};
    case ir::BinaryOp::mod: return *a >= 0 && *b > 0 ? std::optional(*a % *b) : std::nullopt;
    default: return std::nullopt;
  }
}

}  // namespace loopwright::codegen
