#include "src/schedule/steps/reorder.h"

#include <algorithm>

#include "src/schedule/dependence.h"
#include "src/schedule/rejection.h"

namespace loopwright::schedule {

using ir::as;
using ir::Expr;
using ir::Stmt;
using ir::Var;

namespace {

struct Nest {
  Site top;                      ///< the outermost of the named loops
  std::vector<Stmt> loops;       ///< all loops from there to the innermost named one
  std::vector<Expr> conditions;  ///< between them, and right inside the innermost named one
  Stmt rest;                     ///< inside the innermost
};

Result<Nest> find_nest(const ir::Kernel& k, const std::vector<Site>& sites) {
  Nest nest;
  nest.top = *std::min_element(sites.begin(), sites.end(),
                               [](const Site& a, const Site& b) { return a.path.size() < b.path.size(); });
  std::size_t left = sites.size();
  Stmt at = nest.top.stmt();
  const auto wanted = [&](const Stmt& s) {
    return std::any_of(sites.begin(), sites.end(), [&](const Site& x) { return x.stmt() == s; });
  };
  while (left > 0) {
    if (const auto* l = as<ir::Loop>(at)) {
      nest.loops.push_back(at);
      if (wanted(at)) --left;
      at = l->body;
    } else if (const auto* i = as<ir::If>(at); i && !ir::has_load(i->condition)) {
      nest.conditions.push_back(i->condition);
      at = i->then;
    } else {
      return rejected(ErrorCode::not_nested, "the loops are not one perfect nest", k, at,
                      "loops with nothing but loops and size conditions between them");
    }
  }
  for (const auto* i = as<ir::If>(at); i && !ir::has_load(i->condition); i = as<ir::If>(at)) {
    nest.conditions.push_back(i->condition);
    at = i->then;
  }
  nest.rest = at;
  return nest;
}

/// The loops of the nest with the named ones in their new order.
std::vector<Stmt> permute(const Nest& nest, const std::vector<Site>& sites) {
  std::vector<Stmt> out;
  std::size_t next = 0;
  for (const Stmt& l : nest.loops) {
    const bool named = std::any_of(sites.begin(), sites.end(), [&](const Site& x) { return x.stmt() == l; });
    out.push_back(named ? sites[next++].stmt() : l);
  }
  return out;
}

std::vector<Var> vars_of(const std::vector<Stmt>& loops) {
  std::vector<Var> out;
  for (const Stmt& l : loops) out.push_back(as<ir::Loop>(l)->var);
  return out;
}

Status check_order(const ir::Kernel& k, const Nest& nest, const std::vector<Stmt>& after) {
  for (std::size_t i = 0; i < after.size(); ++i) {
    const auto* l = as<ir::Loop>(after[i]);
    for (std::size_t j = i; j < after.size(); ++j)
      if (ir::uses(l->extent, as<ir::Loop>(after[j])->var))
        return rejected(ErrorCode::illegal_reorder,
                        "the extent " + ir::print(l->extent) + " of `" + l->var.hint + "` uses `" +
                            as<ir::Loop>(after[j])->var.hint + "`",
                        k, after[i],
                        "an order that keeps `" + as<ir::Loop>(after[j])->var.hint + "` outside");
    if (l->kind == ir::LoopKind::vectorize && after[i] != nest.loops.back())
      return rejected(ErrorCode::illegal_reorder,
                      "loop `" + l->var.hint + "` is vectorized and must stay innermost", k, after[i],
                      "reorder before vectorize");
  }
  const auto conflict =
      find_reversed(nest.top.stmt(), vars_of(nest.loops), vars_of(after), facts_before(k, nest.top));
  if (!conflict) return Unit{};
  const bool reduces =
      conflict->first.kind == Access::Kind::update && conflict->second.kind == Access::Kind::update;
  return rejected(
      ErrorCode::illegal_reorder, conflict->text() + ", in an order that would change", k,
      conflict->first.statement,
      reduces ? "an order that keeps the reduction loops as they are among themselves, or reduce_across"
              : "an order that keeps these loops as they are among themselves");
}

Stmt rebuild(const Nest& nest, const std::vector<Stmt>& after) {
  const std::vector<Var> vars = vars_of(after);
  std::vector<std::vector<Expr>> inside(after.size() + 1);  // conditions in front of loop i
  for (const Expr& c : nest.conditions) {
    std::size_t place = 0;
    for (std::size_t i = 0; i < vars.size(); ++i)
      if (ir::uses(c, vars[i])) place = i + 1;
    inside[place].push_back(c);
  }
  Stmt body = nest.rest;
  for (std::size_t i = after.size() + 1; i-- > 0;) {
    for (auto c = inside[i].rbegin(); c != inside[i].rend(); ++c) body = ir::if_then(*c, body);
    if (i > 0) body = with_body(after[i - 1], body);
  }
  return body;
}

}  // namespace

Result<Applied> apply(const ir::Kernel& k, const Reorder& step) {
  if (step.loops.size() < 2)
    return rejected(ErrorCode::bad_argument, std::to_string(step.loops.size()) + " loops", {},
                    "two loops or more");
  std::vector<Site> sites;
  for (std::size_t i = 0; i < step.loops.size(); ++i) {
    if (std::count(step.loops.begin(), step.loops.end(), step.loops[i]) > 1)
      return rejected(ErrorCode::bad_argument, "`" + step.loops[i] + "` is named twice", {},
                      "each loop once");
    LW_TRY(Site site, require_serial(k, step.loops[i], true));
    sites.push_back(std::move(site));
  }
  LW_TRY(const Nest nest, find_nest(k, sites));
  const std::vector<Stmt> after = permute(nest, sites);
  LW_CHECK(check_order(k, nest, after));
  return Applied{edit(k, {{nest.top.stmt().get(), rebuild(nest, after)}}), {}};
}

}  // namespace loopwright::schedule
