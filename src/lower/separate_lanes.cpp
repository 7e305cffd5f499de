#include "src/lower/separate_lanes.h"

#include "src/ir/rewrite.h"
#include "src/ir/simplify.h"
#include "src/lower/condition_groups.h"
#include "src/lower/copies.h"

namespace loopwright::lower {
namespace {

using ir::Expr;
using ir::Stmt;

bool touches_registers(const Stmt& s) {
  const ir::Accesses a = ir::buffers_of(s);
  for (const auto* list : {&a.read, &a.written})
    for (const ir::Buffer& b : *list)
      if (b->memory == ir::Memory::registers || b->memory == ir::Memory::fragment) return true;
  return false;
}

/// The lanes one after the other: as copies where they index registers.
Stmt one_by_one(const ir::Loop& l) {
  if (!touches_registers(l.body)) return ir::loop(l.var, l.extent, l.body, ir::LoopKind::serial);
  std::vector<Stmt> copies;
  for (std::int64_t i = 0; i < *ir::as_int(l.extent); ++i)
    copies.push_back(ir::substitute(ir::clone_bindings(l.body), {{l.var, ir::int_imm(i)}}));
  return ir::seq(std::move(copies));
}

Stmt separate(const ir::Loop& l) {
  // Conditions around the whole body.
  std::vector<Expr> outside, inside;
  Stmt body = l.body;
  while (const auto* i = ir::as<ir::If>(body)) {
    std::vector<Expr> parts;
    ir::take_conjuncts(i->condition, parts);
    for (const Expr& e : parts) (ir::uses(e, l.var) || ir::has_load(e) ? inside : outside).push_back(e);
    body = i->then;
  }
  for (const Expr& e : inside) body = ir::if_then(e, body);
  ir::Loop rest{l.var, l.extent, l.kind, body};
  Stmt out;
  for (const ConditionGroup& g : find_condition_groups(rest)) {
    if (!g.guards_only || g.coefficient <= 0) continue;
    const Expr full = ir::lt(rest.extent - ir::int_imm(1), g.end_of_all());
    const Expr partial = ir::lt(g.end_of_all(), rest.extent);
    const ir::Loop tail{ir::fresh_var(l.var.hint), rest.extent, rest.kind, rest.body};
    const Stmt copy = ir::clone_bindings(ir::substitute(rest.body, {{l.var, ir::var(tail.var)}}));
    const Stmt whole = ir::loop(l.var, rest.extent, assume_group(rest.body, g, true), rest.kind);
    out = ir::seq({ir::if_then(full, whole), ir::if_then(partial, one_by_one({tail.var, rest.extent, rest.kind, copy}))});
    break;
  }
  if (!out) out = ir::loop(l.var, rest.extent, rest.body, rest.kind);
  for (const Expr& e : outside) out = ir::if_then(e, out);
  return out;
}

}  // namespace

Result<ir::Kernel> separate_lanes(const ir::Kernel& kernel, const LowerOptions& options) {
  if (options.target.kind != TargetKind::cuda) return kernel;
  ir::Kernel out = kernel;
  out.body = ir::rewrite(kernel.body, [](const Expr& e) { return e; }, [](const Stmt& s) {
    const auto* l = ir::as<ir::Loop>(s);
    return l != nullptr && l->kind == ir::LoopKind::vectorize && ir::as_int(l->extent) ? separate(*l) : s;
  });
  return make_names_unique(out);
}

}  // namespace loopwright::lower
