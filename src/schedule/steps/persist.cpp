#include "src/schedule/steps/persist.h"

#include "src/schedule/rejection.h"

namespace loopwright::schedule {

using ir::Expr;
using ir::LoopKind;
using ir::Stmt;

namespace {

constexpr std::int64_t kMostBlocks = 65535;
constexpr std::int64_t kMostTurns = 3;

/// The first loop of a kind inside; null when there is none.
Stmt find_kind(const Stmt& inside, LoopKind kind) {
  Stmt found;
  ir::walk(inside, [&](const Stmt& s) {
    const auto* l = ir::as<ir::Loop>(s);
    if (!found && l != nullptr && l->kind == kind) found = s;
  }, [](const Expr&) {});
  return found;
}

}  // namespace

Result<Applied> apply(const ir::Kernel& k, const Persist& step) {
  if (step.blocks < 1 || step.blocks > kMostBlocks)
    return rejected(ErrorCode::bad_argument, std::to_string(step.blocks) + " blocks", {}, "1 to 65535");
  if (step.turns < 1 || step.turns > kMostTurns)
    return rejected(ErrorCode::bad_argument, std::to_string(step.turns) + " turns", {}, "1 to 3");
  LW_TRY(const Site site, require_loop(k, step.loop));
  const ir::Loop& l = site.loop();
  if (l.kind != LoopKind::grid_x)
    return rejected(ErrorCode::illegal_bind, "loop `" + step.loop + "` is " + std::string(ir::name(l.kind)) + ", not grid_x", k, site.stmt(), "bind " + step.loop + " to grid_x first");
  if (const Stmt taken = step.turns > 1 ? find_kind(l.body, LoopKind::thread_y) : nullptr)
    return rejected(ErrorCode::illegal_bind, "the turns are groups of threads at thread_y, and a loop inside has that axis", k, taken, "one turn, or tiles of one group");

  Names names(k);
  const ir::Var block = names.var(step.loop + "_block"), round = names.var(step.loop + "_round"), turn = names.var(step.loop + "_turn");
  const std::int64_t of_round = step.blocks * step.turns;
  const bool turns = step.turns > 1;
  const Expr first = ir::var(round) * ir::int_imm(of_round);
  const Expr value = (turns ? first + ir::var(turn) * ir::int_imm(step.blocks) : first) + ir::var(block);
  // The iterations of a grid loop touch nothing of each other's: any order and any distribution will do.
  Stmt out = ir::let(l.var, value, ir::if_then(ir::lt(ir::var(l.var), l.extent), l.body));
  if (turns) out = ir::loop(turn, ir::int_imm(step.turns), out, LoopKind::thread_y);
  out = ir::loop(round, ir::ceil_div(l.extent, ir::int_imm(of_round)), out);
  out = ir::loop(block, ir::int_imm(step.blocks), out, LoopKind::grid_x);
  Applied applied{edit(k, {{site.stmt().get(), out}}), {block.hint, round.hint}};
  if (turns) applied.made.push_back(turn.hint);
  return applied;
}

}  // namespace loopwright::schedule
