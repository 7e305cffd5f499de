#include "src/lower/expand_updates.h"

#include "src/ir/monoid.h"
#include "src/ir/rewrite.h"

namespace loopwright::lower {
namespace {

using ir::Expr;
using ir::Stmt;

bool depends_on(const std::vector<Expr>& index, const std::set<ir::Var>& varying) {
  for (const Expr& e : index) {
    for (const ir::Var& v : ir::free_vars(e)) {
      if (varying.contains(v)) return true;
    }
  }
  return false;
}

Stmt expand_one(const ir::Update& u) {
  std::vector<Expr> state;
  for (const ir::Buffer& b : u.buffers) state.push_back(ir::load(b, u.index));
  if (u.buffers.size() == 1) return ir::store(u.buffers[0], u.index, ir::combine(u.monoid, state, u.values)[0]);
  // Every load and value comes before the first store, and is computed once.
  std::vector<std::pair<ir::Var, Expr>> named;
  const auto name_all = [&](std::vector<Expr> values, const char* hint) {
    for (Expr& e : values) {
      const ir::Var v = ir::fresh_var(hint);
      const DType dtype = e->dtype;
      named.emplace_back(v, std::exchange(e, ir::var(v, dtype)));
    }
    return values;
  };
  const std::vector<Expr> a = name_all(state, "state");
  const std::vector<Expr> b = name_all(u.values, "value");
  const std::vector<Expr> combined = name_all(ir::combine(u.monoid, a, b), "next");
  std::vector<Stmt> stores;
  for (std::size_t i = 0; i < combined.size(); ++i) stores.push_back(ir::store(u.buffers[i], u.index, combined[i]));
  Stmt out = ir::seq(std::move(stores));
  for (auto it = named.rbegin(); it != named.rend(); ++it) out = ir::let(it->first, it->second, out);
  return out;
}

/// `varying`: the variable of the vector loop around, and what was computed from it. Empty outside of one.
Stmt expand(const Stmt& s, std::set<ir::Var> varying) {
  if (const auto* u = ir::as<ir::Update>(s)) {
    if (!varying.empty() && u->buffers.size() == 1 && !depends_on(u->index, varying)) return s;
    return expand_one(*u);
  }
  // Threads combine what they hold in one go.
  if (const auto* l = ir::as<ir::Loop>(s); l != nullptr && (l->kind == ir::LoopKind::across || l->kind == ir::LoopKind::mma)) return s;
  if (const auto* l = ir::as<ir::Loop>(s); l != nullptr && l->kind == ir::LoopKind::vectorize) varying.insert(l->var);
  if (const auto* l = ir::as<ir::Let>(s); l != nullptr && depends_on({l->value}, varying)) varying.insert(l->var);
  return ir::map_children(s, [](const Expr& e) { return e; }, [&](const Stmt& child) { return expand(child, varying); });
}

}  // namespace

Result<ir::Kernel> expand_updates(const ir::Kernel& kernel, const LowerOptions&) {
  ir::Kernel out = kernel;
  out.body = expand(kernel.body, {});
  return out;
}

}  // namespace loopwright::lower
