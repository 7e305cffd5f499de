#include "src/schedule/narrow.h"

#include <algorithm>

namespace loopwright::schedule {

using ir::as;
using ir::Expr;
using ir::Stmt;
using ir::Var;

namespace {

using Buffers = std::vector<ir::Buffer>;

bool has(const Buffers& buffers, const ir::Buffer& b) {
  return std::find(buffers.begin(), buffers.end(), b) != buffers.end();
}

bool writes_any(const Stmt& s, const Buffers& buffers) {
  const ir::Accesses found = ir::buffers_of(s);
  return std::any_of(found.written.begin(), found.written.end(),
                     [&](const ir::Buffer& b) { return has(buffers, b); });
}

bool reads_any(const Stmt& s, const Buffers& buffers) {
  const ir::Accesses found = ir::buffers_of(s);
  return std::any_of(found.read.begin(), found.read.end(),
                     [&](const ir::Buffer& b) { return has(buffers, b); });
}

/// The unit computes the buffers, nothing else that outlives it, and does not read them but to update.
Status check_unit(const ir::Kernel& k, const Stmt& unit, const Buffers& buffers, ErrorCode code) {
  for (const Access& a : collect_accesses(unit)) {
    const std::string& name = a.buffer->name;
    if (a.writes() && !a.local && !has(buffers, a.buffer))
      return rejected(code,
                      "the nest that computes `" + buffers.front()->name + "` also writes `" + name + "`", k,
                      a.statement, "a buffer that is computed in nests of its own");
    if (a.kind == Access::Kind::read && has(buffers, a.buffer))
      return rejected(code, "`" + name + "` is computed from itself", k, a.statement,
                      "a buffer whose nests do not read it");
  }
  return Unit{};
}

/// Loops of the unit to shrink, with the dimension that they index.
Result<std::map<Var, std::size_t>> loops_to_narrow(const ir::Kernel& k, const std::vector<Access>& accesses,
                                                   const std::map<ir::Buffer, ir::Buffer>& local,
                                                   const Region& region, const ir::Facts& facts,
                                                   ErrorCode code) {
  std::map<Var, std::size_t> out;
  for (const Access& a : accesses) {
    if (!a.writes() || !local.contains(a.buffer)) continue;
    for (std::size_t d = 0; d < region.size(); ++d) {
      if (region[d].whole) continue;
      const auto v = plain_loop(a, d, facts);
      const bool clash = v && out.contains(*v) && out.at(*v) != d;
      if (v && !clash) {
        out[*v] = d;
        continue;
      }
      return rejected(code,
                      "dimension " + std::to_string(d) + " of `" + a.buffer->name + "` is written at " +
                          ir::print(a.index[d]) + ", not at one serial loop over all of it, while only " +
                          ir::print(region[d].extent) + " elements are used",
                      k, a.statement,
                      "this step before the loops of `" + a.buffer->name + "` are split or bound");
    }
  }
  return out;
}

Stmt shrink_loops(const Stmt& s, const std::map<Var, std::size_t>& loops, const Region& region,
                  const ir::Buffer& buffer, const ir::Facts& facts, bool guarded) {
  const auto same_expr = [](const Expr& e) { return e; };
  const auto* l = as<ir::Loop>(s);
  const auto it = l ? loops.find(l->var) : loops.end();
  ir::Facts inside = facts;
  if (it == loops.end()) {
    enter(inside, s);
    return ir::map_children(s, same_expr, [&](const Stmt& child) {
      return shrink_loops(child, loops, region, buffer, inside, guarded);
    });
  }
  const Range& r = region[it->second];
  inside.bind_loop(l->var, r.extent);
  const Expr condition = ir::lt(ir::simplify(r.base + ir::var(l->var), inside), buffer->shape[it->second]);
  const bool guard = guarded && r.exceeds && !inside.proves(condition);
  if (guard) inside.assume(condition);
  Stmt body = shrink_loops(l->body, loops, region, buffer, inside, guarded);
  if (guard) body = ir::if_then(condition, body);
  return ir::loop(l->var, r.extent, body, l->kind);
}

}  // namespace

std::optional<Var> plain_loop(const Access& access, std::size_t d, const ir::Facts& facts) {
  const auto* ref = as<ir::VarRef>(access.index[d]);
  if (!ref) return std::nullopt;
  for (std::size_t e = 0; e < access.index.size(); ++e)
    if (e != d && ir::uses(access.index[e], ref->var)) return std::nullopt;
  for (std::size_t i = 0; i < access.loops.size(); ++i) {
    const ir::Loop& l = access.loop(i);
    if (!(l.var == ref->var)) continue;
    const bool plain = l.kind == ir::LoopKind::serial || l.kind == ir::LoopKind::unroll;
    const bool all = ir::same(l.extent, access.buffer->shape[d]) ||
                     ir::as_int(ir::simplify(l.extent - access.buffer->shape[d], facts)) == 0;
    if (plain && all) return l.var;
  }
  return std::nullopt;
}

Result<Producers> find_producers(const ir::Kernel& k, const Buffers& buffers, const Site& at,
                                 bool user_writes, ErrorCode code) {
  const std::string& name = buffers.front()->name;
  for (std::size_t i = 0; i + 1 < at.path.size(); ++i) {
    const auto* q = as<ir::Seq>(at.path[i]);
    if (!q) continue;
    Producers p;
    bool behind = false;
    for (const Stmt& item : q->items) {
      if (item == at.path[i + 1]) {
        p.user = item;
        behind = true;
      } else if (behind) {
        p.after.push_back(item);
      } else if (writes_any(item, buffers)) {
        LW_CHECK(check_unit(k, item, buffers, code));
        p.units.push_back(item);
      } else if (!p.units.empty()) {
        p.between.push_back(item);
      }
    }
    const bool used_behind = user_writes && writes_any(p.user, buffers) &&
                             std::any_of(p.after.begin(), p.after.end(),
                                         [&](const Stmt& item) { return reads_any(item, buffers); });
    if (p.units.empty() && !used_behind) continue;
    if (!user_writes && writes_any(p.user, buffers))
      return rejected(code, "`" + name + "` is also written by the nest that holds the loop", k, p.user,
                      "a loop of a later nest, which only reads `" + name + "`");
    for (const Stmt& item : p.after)
      if (writes_any(item, buffers))
        return rejected(code, "`" + name + "` is written again afterwards", k, item,
                        "a buffer that is complete before its first use");
    return p;
  }
  return rejected(code, "no nest in front of the loop computes `" + name + "`", k, at.stmt(),
                  "a loop of a nest that comes after the one that computes `" + name + "`");
}

Status check_inputs(const ir::Kernel& k, const std::vector<Stmt>& units, const std::vector<Stmt>& others,
                    ErrorCode code) {
  std::set<ir::Buffer> inputs;
  for (const Stmt& u : units)
    for (const Access& a : collect_accesses(u))
      if (!a.local) inputs.insert(a.buffer);
  for (const Stmt& other : others)
    for (const Access& a : collect_accesses(other))
      if (a.writes() && !a.local && inputs.contains(a.buffer))
        return rejected(code, "`" + a.buffer->name + "`, which the moved nest uses, is written in between", k,
                        a.statement, "a buffer whose inputs are not overwritten before the loop");
  return Unit{};
}

Result<Stmt> narrow(const ir::Kernel& k, const Stmt& unit, const std::map<ir::Buffer, ir::Buffer>& local,
                    const Region& region, const ir::Facts& facts, ErrorCode code) {
  const std::vector<Access> accesses = collect_accesses(unit);
  LW_TRY(const auto loops, loops_to_narrow(k, accesses, local, region, facts, code));
  bool bound = false;
  ir::walk(
      unit,
      [&](const Stmt& s) {
        const auto* l = as<ir::Loop>(s);
        if (!l || l->kind == ir::LoopKind::vectorize) return;
        bound = bound || ir::is_unordered(l->kind) || l->kind == ir::LoopKind::across;
      },
      [](const Expr&) {});
  if (bound)
    return rejected(code, "a loop of the nest is bound already", k, unit, "this step before its loops are bound");
  std::map<Var, Expr> shifted;
  for (const auto& [v, d] : loops) shifted[v] = region[d].base + ir::var(v);
  const bool reads = std::any_of(accesses.begin(), accesses.end(),
                                 [](const Access& a) { return a.kind == Access::Kind::read; });
  Stmt out = ir::substitute(unit, shifted);
  out = shrink_loops(out, loops, region, local.begin()->first, facts, reads);
  return redirect(out, facts, local, relative_to(region));
}

Result<MovedProducers> move_producers(const ir::Kernel& k, const std::vector<ir::Stmt>& units,
                                      const std::vector<ir::Buffer>& buffers, const Region& region,
                                      Place place, const ir::Facts& facts, ErrorCode code) {
  MovedProducers out;
  for (const ir::Buffer& b : buffers) {
    LW_TRY(out.local[b], make_local(b, b->name, extents_of(region), place, code));
    out.allocs.push_back(out.local[b]);
  }
  for (const ir::Stmt& u : units) {
    LW_TRY(ir::Stmt moved, narrow(k, u, out.local, region, facts, code));
    out.items.push_back(std::move(moved));
    out.edits[u.get()] = ir::seq({});
  }
  return out;
}

}  // namespace loopwright::schedule
