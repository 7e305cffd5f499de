#include "src/schedule/steps/bind.h"

#include "src/schedule/dependence.h"
#include "src/schedule/rejection.h"

namespace loopwright::schedule {

using ir::as;
using ir::Stmt;

Result<Applied> apply(const ir::Kernel& k, const Parallel& step) {
  LW_TRY(const Site site, require_serial(k, step.loop));
  for (std::size_t i = 0; i + 1 < site.path.size(); ++i) {
    if (as<ir::Alloc>(site.path[i]) || as<ir::Seq>(site.path[i])) continue;
    const auto* outer = as<ir::Loop>(site.path[i]);
    return rejected(ErrorCode::illegal_bind,
                    outer ? "it stands inside loop `" + outer->var.hint + "`"
                          : std::string("it stands inside a condition"),
                    k, site.stmt(),
                    outer ? "parallel on the outermost loop `" + outer->var.hint + "`" : "an outermost loop");
  }
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
  if (const auto conflict = find_carried(site.stmt(), facts_before(k, site)))
    return rejected(ErrorCode::illegal_bind, conflict->text(), k, conflict->first.statement,
                    conflict->first.kind == Access::Kind::update
                        ? "reduce_across " + step.loop + ", or parallel on a loop that indexes `" +
                              conflict->first.buffer->name + "`"
                        : "parallel on a loop whose iterations write different elements");
  const ir::Loop& l = site.loop();
  return Applied{edit(k, {{site.stmt().get(), ir::loop(l.var, l.extent, l.body, ir::LoopKind::parallel)}}),
                 {}};
}

}  // namespace loopwright::schedule
