#include "src/schedule/steps/tensorize.h"

#include "src/ir/engine.h"
#include "src/schedule/rejection.h"

namespace loopwright::schedule {

using ir::as;
using ir::Expr;
using ir::Stmt;

namespace {

constexpr ErrorCode kNoTensor = ErrorCode::illegal_tensorize;

/// What keeps tensor cores from the product; empty for nothing.
std::string find_obstacle(const ir::MatrixProduct& p) {
  if (p.m != 64) return std::to_string(p.m) + " rows, not 64";
  if (p.n % 8 != 0 || p.n < 8 || p.n > 256) return std::to_string(p.n) + " columns, no multiple of 8 up to 256";
  if (p.k % 16 != 0) return std::to_string(p.k) + " summands, no multiple of 16";
  const DType t = p.a.buffer->dtype;
  if (t != p.b.buffer->dtype || (t != DType::bf16 && t != DType::f16))
    return "tiles of " + std::string(name(t)) + " and " + std::string(name(p.b.buffer->dtype)) + ", not both bf16 or both f16";
  for (const auto* o : {&p.a, &p.b}) {
    if (o->buffer->memory != ir::Memory::shared) return "`" + o->buffer->name + "` is not in shared memory";
    if (o == &p.b && o->reduction != 1 && p.n % 64 != 0) return std::to_string(p.n) + " columns, no multiple of 64 where they lie side by side in `" + o->buffer->name + "`";
    if (o->along != 1 && o->reduction != 1) return "`" + o->buffer->name + "` is read in strides along both loops";
  }
  if (p.acc->memory != ir::Memory::fragment || p.acc->dtype != DType::f32) return "`" + p.acc->name + "` is no f32 fragment";
  if (p.acc_pitch != p.n) return "rows of `" + p.acc->name + "` have " + std::to_string(p.acc_pitch) + " elements, the product " + std::to_string(p.n) + " columns";
  return {};
}

}  // namespace

Result<Applied> apply(const ir::Kernel& k, const Tensorize& step) {
  if (step.loops.size() != 3)
    return rejected(ErrorCode::bad_argument, std::to_string(step.loops.size()) + " loops", {}, "three: rows, columns, summands");
  for (const std::string& name : step.loops) LW_CHECK(require_serial(k, name));
  LW_TRY(const Site site, require_serial(k, step.loops[0]));
  const ir::Loop& l = site.loop();
  // Conditions that are the same for all of the tile go outside: it is computed in full or not at all.
  Stmt inside = l.body;
  std::vector<Expr> conditions;
  while (const auto* i = as<ir::If>(inside); i && !ir::uses(i->condition, l.var)) {
    conditions.push_back(i->condition);
    inside = i->then;
  }
  const auto* second = as<ir::Loop>(inside);
  const auto* third = second ? as<ir::Loop>(second->body) : nullptr;
  if (!third || second->var.hint != step.loops[1] || third->var.hint != step.loops[2])
    return rejected(kNoTensor, "the loops are not directly in each other in this order", k, site.stmt(), "reorder, so that they are the innermost ones");
  const Stmt nest = ir::loop(l.var, l.extent, inside, ir::LoopKind::mma);
  const auto product = ir::match_matrix_product(std::get<ir::Loop>(nest->v), facts_before(k, site));
  if (!product.ok()) return rejected(kNoTensor, product.error().found, k, site.stmt(), product.error().works);
  if (const std::string obstacle = find_obstacle(*product); !obstacle.empty())
    return rejected(kNoTensor, obstacle, k, site.stmt(),
                    "64 rows, a multiple of 8 columns, bf16 or f16 tiles staged in shared memory and an accumulator held in a fragment");
  Stmt out = nest;
  for (std::size_t c = conditions.size(); c-- > 0;) out = ir::if_then(conditions[c], out);
  return Applied{edit(k, {{site.stmt().get(), out}}), {}};
}

}  // namespace loopwright::schedule
