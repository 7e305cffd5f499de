#include "src/lower/settle_loops.h"

#include "src/ir/rewrite.h"

namespace loopwright::lower {
namespace {

using ir::LoopKind;
using ir::Stmt;

constexpr std::int64_t kMostCopies = 256;
constexpr std::int64_t kMostLanes = 4096;

LoopKind settle(const ir::Loop& l, bool inside_loop, bool inside_vector) {
  const auto extent = ir::as_int(l.extent);
  switch (l.kind) {
    case LoopKind::serial: return LoopKind::serial;
    case LoopKind::parallel: return inside_loop ? LoopKind::serial : LoopKind::parallel;
    case LoopKind::vectorize: return extent && *extent <= kMostLanes && !inside_vector ? LoopKind::vectorize : LoopKind::serial;
    case LoopKind::unroll: return extent && *extent <= kMostCopies ? LoopKind::unroll : LoopKind::serial;
  }
  throw_bug(__FILE__, __LINE__, "loop kind", l.var.hint);
}

Stmt settle(const Stmt& s, bool inside_loop, bool inside_vector) {
  const auto keep = [](const ir::Expr& e) { return e; };
  if (const auto* l = ir::as<ir::Loop>(s)) {
    const LoopKind kind = settle(*l, inside_loop, inside_vector);
    const Stmt body = settle(l->body, true, inside_vector || kind == LoopKind::vectorize);
    return kind == l->kind && body == l->body ? s : ir::loop(l->var, l->extent, body, kind);
  }
  return ir::map_children(s, keep, [&](const Stmt& child) { return settle(child, inside_loop, inside_vector); });
}

}  // namespace

Result<ir::Kernel> settle_loops(const ir::Kernel& kernel, const LowerOptions&) {
  ir::Kernel out = kernel;
  out.body = settle(kernel.body, false, false);
  return out;
}

}  // namespace loopwright::lower
