#include "src/schedule/tile.h"

#include <algorithm>

namespace loopwright::schedule {

using ir::as;
using ir::Expr;
using ir::Stmt;
using ir::Var;

namespace {

constexpr std::int64_t kMaxRegisterElements = 131072;  ///< of all blocks of a cluster
constexpr std::int64_t kMaxFragmentElements = 65536;

using BufferMap = std::map<ir::Buffer, ir::Buffer>;

Expr redirect(const Expr& e, const ir::Facts& facts, const BufferMap& buffers, const IndexMap& index) {
  return ir::rewrite(e, [&](const Expr& x) {
    const auto* l = as<ir::Load>(x);
    if (!l) return x;
    const auto it = buffers.find(l->buffer);
    return it == buffers.end() ? x : ir::load(it->second, index(l->index, facts));
  });
}

bool uses_any(const Expr& e, const std::set<Var>& vars) {
  const std::set<Var> used = ir::free_vars(e);
  return std::any_of(vars.begin(), vars.end(), [&](const Var& v) { return used.contains(v); });
}

}  // namespace

Stmt redirect(const Stmt& s, const ir::Facts& facts, const BufferMap& buffers, const IndexMap& index) {
  ir::Facts inside = facts;
  enter(inside, s);
  const Stmt mapped = ir::map_children(
      s, [&](const Expr& e) { return redirect(e, facts, buffers, index); },
      [&](const Stmt& child) { return redirect(child, inside, buffers, index); });
  if (const auto* x = as<ir::Store>(mapped)) {
    const auto it = buffers.find(x->buffer);
    return it == buffers.end() ? mapped : ir::store(it->second, index(x->index, facts), x->value);
  }
  if (const auto* x = as<ir::Update>(mapped)) {
    std::vector<ir::Buffer> targets;
    for (const ir::Buffer& b : x->buffers) {
      const auto it = buffers.find(b);
      if (it != buffers.end()) targets.push_back(it->second);
    }
    LW_BUG_IF(!targets.empty() && targets.size() != x->buffers.size(), "an update is redirected in part");
    return targets.empty() ? mapped : ir::update(x->monoid, targets, index(x->index, facts), x->values);
  }
  return mapped;
}

IndexMap relative_to(const Region& region) {
  return [region](const std::vector<Expr>& index, const ir::Facts& facts) {
    std::vector<Expr> out;
    for (std::size_t d = 0; d < index.size(); ++d)
      out.push_back(region[d].whole ? index[d] : ir::simplify(index[d] - region[d].base, facts));
    return out;
  };
}

Result<ir::Buffer> make_local(const ir::Buffer& of, std::string name, std::vector<Expr> shape, Place place,
                              ErrorCode code) {
  if (place == Place::registers || place == Place::fragment) {
    const std::int64_t most = place == Place::fragment ? kMaxFragmentElements : kMaxRegisterElements;
    std::int64_t elements = 1;
    for (const Expr& n : shape) {
      const auto value = ir::as_int(n);
      if (!value)
        return rejected(
            code,
            "the region of `" + of->name + "` has the extent " + ir::print(n) + ", which is not constant", {},
            "place shared, or a loop further in whose body uses a constant region");
      elements = *value > most ? most + 1 : elements * std::max<std::int64_t>(1, *value);
      if (elements > most)
        return rejected(ErrorCode::too_large,
                        "the region of `" + of->name + "` has more than " + std::to_string(most) + " elements", {},
                        "place shared, or a loop further in whose body uses a smaller region");
    }
  }
  ir::BufferInfo info;
  info.name = std::move(name);
  info.dtype = of->dtype;
  info.memory = memory_of(place);
  info.shape = std::move(shape);
  return std::make_shared<const ir::BufferInfo>(std::move(info));
}

std::vector<Expr> extents_of(const Region& region) {
  std::vector<Expr> out;
  for (const Range& r : region) out.push_back(r.extent);
  return out;
}

Stmt alloc_all(const std::vector<ir::Buffer>& buffers, Stmt body) {
  for (auto it = buffers.rbegin(); it != buffers.rend(); ++it) body = ir::alloc(*it, std::move(body));
  return body;
}

std::vector<StagedCopy> take_copies(Stmt& body) {
  std::vector<StagedCopy> out;
  while (const auto* a = as<ir::Alloc>(body)) {
    const std::vector<Stmt> items = items_of(a->body);
    if (a->buffer->memory != ir::Memory::shared || items.size() < 2) break;
    out.push_back({a->buffer, items[0]});
    body = ir::seq({items.begin() + 1, items.end()});
  }
  return out;
}

std::vector<Expr> bounds_of(const ir::Buffer& buffer, const Region& region, const std::vector<Var>& t,
                            const ir::Facts& facts) {
  ir::Facts inside = facts;
  for (std::size_t d = 0; d < t.size(); ++d) inside.bind_loop(t[d], region[d].extent);
  std::vector<Expr> out;
  for (std::size_t d = 0; d < region.size(); ++d) {
    if (!region[d].exceeds) continue;
    const Expr condition = ir::lt(ir::simplify(region[d].base + ir::var(t[d]), inside), buffer->shape[d]);
    if (!inside.proves(condition)) out.push_back(condition);
  }
  return out;
}

std::optional<std::vector<Expr>> conditions_of(const Access& access, const Region& region,
                                               const std::vector<Var>& t, const ir::Facts& facts) {
  ir::Facts inside = facts;
  for (std::size_t d = 0; d < t.size(); ++d) inside.bind_loop(t[d], region[d].extent);
  ir::Facts original = facts;
  std::set<Var> inner, indexing;
  for (std::size_t i = 0; i < access.loops.size(); ++i) {
    const Var& v = access.loop(i).var;
    original.bind_loop(v, access.loop(i).extent);
    inner.insert(v);
    for (const Expr& e : access.index)
      if (ir::uses(e, v)) indexing.insert(v);
  }
  std::vector<Expr> out;
  const auto add = [&](const Expr& condition) {
    if (inside.proves(condition)) return;
    out.push_back(condition);
    inside.assume(condition);
  };
  for (const Expr& c : access.conditions) {
    if (reads_local(c)) return std::nullopt;  // which may be another one where the condition is said again
    if (!uses_any(c, inner)) {
      add(c);
      continue;
    }
    if (!uses_any(c, indexing)) continue;  // says nothing of which elements
    const auto* x = as<ir::Binary>(c);
    if (!x || x->op != ir::BinaryOp::lt || uses_any(x->b, inner)) return std::nullopt;
    bool said = false;
    for (std::size_t d = 0; d < access.index.size() && !said; ++d) {
      const Expr rest = ir::simplify(x->a - access.index[d], original);
      if (uses_any(rest, inner)) continue;
      add(ir::lt(ir::simplify(rest + region[d].base + ir::var(t[d]), inside), x->b));
      said = true;
    }
    if (!said) return std::nullopt;
  }
  for (std::size_t d = 0; d < region.size(); ++d)
    if (region[d].exceeds)
      add(ir::lt(ir::simplify(region[d].base + ir::var(t[d]), inside), access.buffer->shape[d]));
  return out;
}

bool is_certain(const Access& access, const ir::Facts& facts) {
  ir::Facts at = facts;
  std::set<Var> idle, indexing;
  for (std::size_t i = 0; i < access.loops.size(); ++i) {
    const ir::Loop& l = access.loop(i);
    const bool indexes = std::any_of(access.index.begin(), access.index.end(),
                                     [&](const Expr& e) { return ir::uses(e, l.var); });
    (indexes ? indexing : idle).insert(l.var);
    if (!indexes && !at.proves(ir::lt(ir::int_imm(0), l.extent))) return false;
    at.bind_loop(l.var, l.extent);
  }
  return std::none_of(access.conditions.begin(), access.conditions.end(),
                      [&](const Expr& c) { return uses_any(c, idle) && !at.proves(c); });
}

Expr conjunction(const std::vector<Expr>& conditions) {
  Expr all;
  for (const Expr& c : conditions) all = all ? ir::logical_and(all, c) : c;
  return all;
}

}  // namespace loopwright::schedule
