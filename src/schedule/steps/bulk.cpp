#include "src/schedule/steps/bulk.h"

#include <algorithm>

#include "src/schedule/engine_copy.h"
#include "src/schedule/rejection.h"

namespace loopwright::schedule {

Result<Applied> apply(const ir::Kernel& k, const Bulk& step) {
  LW_TRY(const Site site, require_serial(k, step.loop));
  const ir::Loop& l = site.loop();
  const ir::Facts facts = facts_before(k, site);
  const auto copy = ir::match_bulk_copy(l, facts);
  std::string obstacle = copy.ok() ? "" : copy.error().found;
  if (copy.ok()) {
    ir::Expr elements = ir::int_imm(1);
    for (const ir::Expr& n : copy->tile->shape) elements = elements * n;
    const bool whole = ir::as_int(copy->tile_at) == 0 && ir::as_int(ir::simplify(elements, facts)) == copy->rows * copy->columns;
    const auto read = ir::buffers_of(k.body).read;
    obstacle = !copy->out ? "it fills `" + copy->tile->name + "`; a ring does that"
               : std::find(read.begin(), read.end(), copy->param) != read.end() ? "the kernel reads `" + copy->param->name + "`, which the engine may not have written yet"
               : !whole   ? "it leaves out a part of `" + copy->tile->name + "`"
                          : find_copy_obstacle(k, *copy, facts);
  }
  if (!obstacle.empty())
    return rejected(ErrorCode::illegal_bind, "the engine cannot do this copy: " + obstacle, k, site.stmt(),
                    "the copy back of a whole tile that hold keeps in shared memory, to a dense 16-bit or f32 parameter, with assume_alignment 16");
  return Applied{edit(k, {{site.stmt().get(), ir::loop(l.var, l.extent, l.body, ir::LoopKind::bulk)}}), {}};
}

}  // namespace loopwright::schedule
