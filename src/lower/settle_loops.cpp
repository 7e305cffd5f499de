#include "src/lower/settle_loops.h"

#include "src/ir/rewrite.h"

namespace loopwright::lower {
namespace {

using ir::LoopKind;
using ir::Stmt;

constexpr std::int64_t kMostCopies = 256;
constexpr std::int64_t kMostLanes = 4096;

/// On a CPU the blocks of a grid are what its workers share out, and all else of a GPU runs in order.
LoopKind on_cpu(LoopKind kind) {
  if (ir::is_grid(kind)) return LoopKind::parallel;
  const bool is_gpu = ir::is_thread(kind) || kind == LoopKind::cluster_x || kind == LoopKind::across || kind == LoopKind::last_block ||
                      ir::is_engine(kind);
  return is_gpu ? LoopKind::serial : kind;
}

LoopKind settle(const ir::Loop& l, TargetKind target, bool inside_loop, bool inside_vector) {
  const auto extent = ir::as_int(l.extent);
  const LoopKind kind = target == TargetKind::cpu ? on_cpu(l.kind) : l.kind;
  switch (kind) {
    case LoopKind::serial: return LoopKind::serial;
    case LoopKind::parallel: return inside_loop || target == TargetKind::cuda ? LoopKind::serial : LoopKind::parallel;
    case LoopKind::vectorize: return extent && *extent <= kMostLanes && !inside_vector ? LoopKind::vectorize : LoopKind::serial;
    case LoopKind::unroll: return extent && *extent <= kMostCopies ? LoopKind::unroll : LoopKind::serial;
    default: return kind;
  }
}

Stmt settle(const Stmt& s, TargetKind target, bool inside_loop, bool inside_vector) {
  const auto keep = [](const ir::Expr& e) { return e; };
  if (const auto* l = ir::as<ir::Loop>(s)) {
    const LoopKind kind = settle(*l, target, inside_loop, inside_vector);
    const Stmt body = settle(l->body, target, true, inside_vector || kind == LoopKind::vectorize);
    return kind == l->kind && body == l->body ? s : ir::loop(l->var, l->extent, body, kind);
  }
  return ir::map_children(s, keep, [&](const Stmt& child) { return settle(child, target, inside_loop, inside_vector); });
}

}  // namespace

Result<ir::Kernel> settle_loops(const ir::Kernel& kernel, const LowerOptions& options) {
  ir::Kernel out = kernel;
  out.body = settle(kernel.body, options.target.kind, false, false);
  return out;
}

}  // namespace loopwright::lower
