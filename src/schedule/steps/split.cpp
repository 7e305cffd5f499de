#include "src/schedule/steps/split.h"

#include "src/schedule/rejection.h"

namespace loopwright::schedule {

using ir::Expr;
using ir::Stmt;

namespace {

constexpr std::int64_t kMaxFactor = std::int64_t{1} << 31;

Result<std::int64_t> product_of(const Split& step) {
  if (step.factors.empty()) return rejected(ErrorCode::bad_argument, "no factor", {}, "one factor or more");
  std::int64_t product = 1;
  for (const std::int64_t f : step.factors) {
    if (f < 1)
      return rejected(ErrorCode::bad_argument, "factor " + std::to_string(f), {}, "factors of at least 1");
    if (f > kMaxFactor / product)
      return rejected(ErrorCode::too_large, "the factors multiply to more than 2^31", {}, "smaller factors");
    product *= f;
  }
  return product;
}

}  // namespace

Result<Applied> apply(const ir::Kernel& k, const Split& step) {
  LW_TRY(const Site site, require_serial(k, step.loop));
  LW_TRY(const std::int64_t product, product_of(step));
  const ir::Loop& old = site.loop();
  const ir::Facts facts = facts_before(k, site);
  const bool divides = facts.divisor(old.extent) % product == 0;
  if (step.tail == Tail::exact && !divides)
    return rejected(ErrorCode::not_divisible,
                    "the extent " + ir::print(old.extent) + " is a multiple of " +
                        std::to_string(facts.divisor(old.extent)) + ", not of " + std::to_string(product),
                    k, site.stmt(),
                    "tail guard, a factor that divides the extent, or assume_multiple of its symbol");

  Names names(k);
  std::vector<ir::Var> vars{names.var(step.loop + "_o")};
  for (std::size_t i = 0; i + 1 < step.factors.size(); ++i)
    vars.push_back(names.var(step.loop + "_" + std::to_string(i + 1)));
  vars.push_back(names.var(step.loop + "_i"));

  std::int64_t stride = product;
  Expr index = ir::var(vars[0]) * ir::int_imm(product);
  for (std::size_t i = 0; i < step.factors.size(); ++i) {
    stride /= step.factors[i];
    index = index + (stride == 1 ? ir::var(vars[i + 1]) : ir::var(vars[i + 1]) * ir::int_imm(stride));
  }
  if (product == 1) index = ir::var(vars[0]);
  Stmt body = ir::substitute(old.body, {{old.var, index}});
  if (!divides) body = ir::if_then(ir::lt(index, old.extent), body);
  for (std::size_t i = step.factors.size(); i > 0; --i)
    body = ir::loop(vars[i], ir::int_imm(step.factors[i - 1]), body);
  body = ir::loop(vars[0], ir::simplify(ir::ceil_div(old.extent, ir::int_imm(product)), facts), body);

  Applied out{edit(k, {{site.stmt().get(), body}}), {}};
  for (const ir::Var& v : vars) out.made.push_back(v.hint);
  return out;
}

}  // namespace loopwright::schedule
