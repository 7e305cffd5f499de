#include "src/schedule/steps/bind.h"

#include "src/ir/engine.h"
#include "src/schedule/dependence.h"
#include "src/schedule/rejection.h"

namespace loopwright::schedule {

using ir::as;
using ir::Stmt;

namespace {

/// Rejects unless only allocations, sequences and (with `in_grid`) grid loops are around the loop.
Status require_outermost(const ir::Kernel& k, const Site& site, bool in_grid) {
  for (std::size_t i = 0; i + 1 < site.path.size(); ++i) {
    if (as<ir::Alloc>(site.path[i]) || as<ir::Seq>(site.path[i])) continue;
    const auto* outer = as<ir::Loop>(site.path[i]);
    if (outer && in_grid && ir::is_grid(outer->kind)) continue;
    return rejected(ErrorCode::illegal_bind,
                    outer ? "it stands inside loop `" + outer->var.hint + "`"
                          : std::string("it stands inside a condition"),
                    k, site.stmt(),
                    outer ? "this step on the outermost loop `" + outer->var.hint + "`" : "an outermost loop");
  }
  return Unit{};
}

/// Rejects when iterations would share memory that each of them should have, or have what they should share.
Status require_own_memory(const ir::Kernel& k, const Site& site) {
  Stmt shared;
  ir::walk(
      site.stmt(),
      [&](const Stmt& s) {
        const auto* a = as<ir::Alloc>(s);
        if (a && a->buffer->memory == ir::Memory::global) shared = s;
      },
      [](const ir::Expr&) {});
  if (shared) {
    const std::string& name = as<ir::Alloc>(shared)->buffer->name;
    return rejected(ErrorCode::illegal_bind,
                    "global memory `" + name + "` inside it would be shared by its iterations", k, shared,
                    "shared or registers as the place of `" + name + "`");
  }
  for (const Access& a : collect_accesses(site.stmt()))
    if (!a.local && a.buffer->memory != ir::Memory::global)
      return rejected(ErrorCode::illegal_bind,
                      "`" + a.buffer->name + "` is private memory allocated outside the loop", k, a.statement,
                      "global as the place of `" + a.buffer->name + "`, or an allocation inside the loop");
  return Unit{};
}

Status require_independent(const ir::Kernel& k, const Site& site, const std::string& verb) {
  const auto conflict = find_carried(site.stmt(), facts_before(k, site));
  if (!conflict) return Unit{};
  const std::string loop = site.loop().var.hint;
  return rejected(ErrorCode::illegal_bind, conflict->text(), k, conflict->first.statement,
                  conflict->first.kind == Access::Kind::update
                      ? "reduce_across " + loop + ", or " + verb + " on a loop that indexes `" +
                            conflict->first.buffer->name + "`"
                      : verb + " on a loop whose iterations write different elements");
}

/// Rejects when a loop around or inside the loop has the same axis, or is inside what must be innermost.
Status require_free_axis(const ir::Kernel& k, const Site& site, ir::LoopKind kind) {
  Stmt taken;
  const auto check = [&](const Stmt& s) {
    const auto* l = as<ir::Loop>(s);
    if (l && !(l->var == site.loop().var) && l->kind == kind) taken = s;
  };
  for (const Stmt& s : site.path) check(s);
  ir::walk(site.stmt(), check, [](const ir::Expr&) {});
  if (!taken) return Unit{};
  return rejected(ErrorCode::illegal_bind,
                  "loop `" + as<ir::Loop>(taken)->var.hint + "` is bound to " + std::string(ir::name(kind)) + " already", k,
                  taken, "one loop of an axis in each other");
}

Status require_constant(const ir::Kernel& k, const Site& site, std::int64_t most = 1024) {
  const auto extent = ir::as_int(ir::simplify(site.loop().extent, facts_before(k, site)));
  if (extent && *extent >= 1 && *extent <= most) return Unit{};
  return rejected(ErrorCode::illegal_bind, "the extent is " + ir::print(site.loop().extent), k, site.stmt(),
                  "a constant of at most " + std::to_string(most) + ": split the loop first");
}

/// Rejects unless the loop does nothing but combine one value of each iteration into an element.
Status require_combination(const ir::Kernel& k, const Site& site) {
  constexpr std::int64_t kMostScanned = 16384;  // several of each thread
  if (const auto c = ir::match_combination(site.loop())) return c->before ? require_constant(k, site, kMostScanned) : require_constant(k, site);
  return rejected(ErrorCode::illegal_bind, "its body is not one update by elements that it indexes", k, site.stmt(),
                  "the combining loop that reduce_across or scan_across makes");
}

Stmt bound(const ir::Loop& l, ir::LoopKind kind) { return ir::loop(l.var, l.extent, l.body, kind); }

}  // namespace

Result<Applied> apply(const ir::Kernel& k, const Parallel& step) {
  LW_TRY(const Site site, require_serial(k, step.loop));
  LW_CHECK(require_outermost(k, site, false));
  LW_CHECK(require_own_memory(k, site));
  LW_CHECK(require_independent(k, site, "parallel"));
  return Applied{edit(k, {{site.stmt().get(), bound(site.loop(), ir::LoopKind::parallel)}}), {}};
}

Result<Applied> apply(const ir::Kernel& k, const Bind& step) {
  LW_TRY(const Site site, require_serial(k, step.loop));
  const ir::LoopKind kind = kind_of(step.axis);
  LW_CHECK(require_no_lanes(k, site, ErrorCode::illegal_bind));
  if (kind == ir::LoopKind::across) {
    LW_CHECK(require_combination(k, site));
  } else if (ir::is_grid(kind) || kind == ir::LoopKind::last_block) {
    LW_CHECK(require_outermost(k, site, ir::is_grid(kind)));
    LW_CHECK(require_own_memory(k, site));
    LW_CHECK(require_free_axis(k, site, kind));
    LW_CHECK(require_independent(k, site, "bind"));
  } else {
    LW_CHECK(require_constant(k, site));
    LW_CHECK(require_free_axis(k, site, kind));
    LW_CHECK(require_independent(k, site, "bind"));
  }
  return Applied{edit(k, {{site.stmt().get(), bound(site.loop(), kind)}}), {}};
}

}  // namespace loopwright::schedule
