#include "src/schedule/steps/fuse.h"

#include "src/schedule/rejection.h"

namespace loopwright::schedule {

using ir::as;
using ir::Expr;
using ir::Stmt;

Result<Applied> apply(const ir::Kernel& k, const Fuse& step) {
  LW_TRY(const Site site, require_serial(k, step.outer));
  LW_TRY(const Site inner_site, require_serial(k, step.inner));
  const ir::Loop& outer = site.loop();
  std::vector<Expr> conditions;
  Stmt at = outer.body;
  while (const auto* i = as<ir::If>(at)) {
    conditions.push_back(i->condition);
    at = i->then;
  }
  const ir::Loop& inner = inner_site.loop();
  if (at != inner_site.stmt())
    return rejected(ErrorCode::not_nested, "`" + step.inner + "` is not all that `" + step.outer + "` holds",
                    k, site.stmt(), "two loops that are directly nested, outer first");
  if (ir::uses(inner.extent, outer.var))
    return rejected(ErrorCode::illegal_fuse,
                    "the extent " + ir::print(inner.extent) + " depends on `" + step.outer + "`", k,
                    inner_site.stmt(), "loops with independent extents");

  Names names(k);
  const ir::Var fused = names.var(step.outer + "_f");
  ir::Facts facts = facts_before(k, site);
  const Expr f = ir::var(fused);
  const Expr extent = ir::simplify(outer.extent * inner.extent, facts);
  Stmt body = inner.body;
  for (auto it = conditions.rbegin(); it != conditions.rend(); ++it) body = ir::if_then(*it, body);
  facts.bind_loop(fused, extent);
  body = ir::substitute(body, {{outer.var, ir::simplify(ir::floor_div(f, inner.extent), facts)},
                               {inner.var, ir::simplify(ir::mod(f, inner.extent), facts)}});
  body = ir::loop(fused, extent, body);
  return Applied{edit(k, {{site.stmt().get(), body}}), {fused.hint}};
}

}  // namespace loopwright::schedule
