#include "src/schedule/steps/vectorize.h"

#include "src/schedule/dependence.h"
#include "src/schedule/rejection.h"

namespace loopwright::schedule {

using ir::as;
using ir::Stmt;

namespace {

constexpr std::int64_t kMaxLanes = 256;

/// A statement inside that lanes cannot carry out; null when there is none.
Stmt find_unfit(const Stmt& body) {
  Stmt found;
  ir::walk(
      body,
      [&](const Stmt& s) {
        const auto* l = as<ir::Loop>(s);
        if (!found && ((l && l->kind != ir::LoopKind::unroll) || as<ir::Alloc>(s))) found = s;
      },
      [](const ir::Expr&) {});
  return found;
}

}  // namespace

Result<Applied> apply(const ir::Kernel& k, const Vectorize& step) {
  LW_TRY(const Site site, require_serial(k, step.loop));
  const ir::Loop& l = site.loop();
  const ir::Facts facts = facts_before(k, site);
  const auto extent = ir::as_int(ir::simplify(l.extent, facts));
  if (!extent)
    return rejected(ErrorCode::illegal_vectorize, "the extent " + ir::print(l.extent) + " is not a constant",
                    k, site.stmt(),
                    "split " + step.loop + " by the number of lanes first, then vectorize the inner loop");
  if (*extent > kMaxLanes)
    return rejected(ErrorCode::too_large, std::to_string(*extent) + " lanes", k, site.stmt(),
                    "at most 256 lanes: split " + step.loop + " first");
  if (const Stmt unfit = find_unfit(l.body)) {
    const auto* inner = as<ir::Loop>(unfit);
    return rejected(ErrorCode::illegal_vectorize,
                    inner ? "loop `" + inner->var.hint + "` inside it is " + std::string(ir::name(inner->kind))
                          : "`" + as<ir::Alloc>(unfit)->buffer->name + "` is allocated inside it",
                    k, unfit, "the innermost loop, or unroll the loops inside it first");
  }
  LW_CHECK(require_no_lanes(k, site, ErrorCode::illegal_vectorize));
  if (const auto conflict = find_carried(site.stmt(), facts))
    return rejected(ErrorCode::illegal_vectorize, conflict->text(), k, conflict->first.statement,
                    conflict->first.kind == Access::Kind::update
                        ? "reduce_across " + step.loop + " interleaved, then vectorize its loop over the ways"
                        : "a loop whose iterations write different elements");
  return Applied{
      edit(k, {{site.stmt().get(), ir::loop(l.var, ir::int_imm(*extent), l.body, ir::LoopKind::vectorize)}}),
      {}};
}

}  // namespace loopwright::schedule
