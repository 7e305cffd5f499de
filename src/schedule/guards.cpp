// Which local memory is written in full, and which conditions that makes superfluous.
#include <algorithm>

#include "src/schedule/tile.h"

namespace loopwright::schedule {

using ir::as;
using ir::Expr;
using ir::Stmt;
using ir::Var;

namespace {

bool covers_buffer(const Access& a, const ir::Facts& facts) {
  const Region region = region_of(a, facts);
  std::vector<Var> t;
  for (std::size_t d = 0; d < region.size(); ++d) {
    if (!region[d].whole || !region[d].exact) return false;
    t.push_back(ir::fresh_var("t"));
  }
  const auto conditions = conditions_of(a, region, t, facts);
  return conditions && conditions->empty() && is_certain(a, facts);
}

bool contains(const Stmt& s, const Stmt& wanted) {
  bool found = false;
  ir::walk(s, [&](const Stmt& x) { found = found || x == wanted; }, [](const Expr&) {});
  return found;
}

/// What a condition keeps, said of one dimension of a local buffer: element t is kept when offset + t < bound.
struct Kept {
  std::size_t dim;
  Expr offset, bound;
};

class GuardDropper {
 public:
  explicit GuardDropper(ir::Kernel k) : k_(std::move(k)) {}

  ir::Kernel run() {
    std::vector<Stmt> guards;
    ir::walk(
        k_.body,
        [&](const Stmt& s) {
          if (as<ir::If>(s)) guards.push_back(s);
        },
        [](const Expr&) {});
    // Innermost first, and one at a time: a changed condition is a new kernel with new nodes above it.
    for (std::size_t i = guards.size(); i > 0; --i) {
      const auto site = find_stmt(k_, guards[i - 1]);
      if (!site) continue;
      const Stmt relaxed = relax(*site);
      if (relaxed == site->stmt()) continue;
      k_ = edit(k_, {{site->stmt().get(), relaxed}});
      return run();
    }
    return k_;
  }

 private:
  /// The guard for the first iteration of the loop that holds it, when the others may do as that one does: the tile that
  /// this loop walks over is then computed in full or not at all. Just the body when that condition always holds.
  Stmt relax(const Site& site) {
    const Stmt& unchanged = site.stmt();
    const auto& guard = std::get<ir::If>(unchanged->v);
    const auto* x = as<ir::Binary>(guard.condition);
    if (!x || x->op != ir::BinaryOp::lt) return unchanged;
    const ir::Loop* around = nullptr;
    for (const Stmt& s : site.path)
      if (const auto* l = as<ir::Loop>(s)) around = l;
    if (around == nullptr || !ir::uses(guard.condition, around->var)) return unchanged;
    const ir::Facts facts = facts_before(k_, site);
    // Tensor cores do whole tiles, and one after the other when a condition stands around them. So do a GPU's threads: what
    // one leaves out another's warp waits for.
    const bool in_grid = std::any_of(site.path.begin(), site.path.end(), [](const Stmt& s) { const auto* l = as<ir::Loop>(s); return l != nullptr && ir::is_grid(l->kind); });
    const bool whole = writes_only(guard.then, ir::Memory::fragment) || (in_grid && writes_only(guard.then, ir::Memory::registers));
    if (whole && is_superfluous(site, *x, facts)) return guard.then;
    const Expr first = ir::simplify(ir::substitute(guard.condition, {{around->var, ir::int_imm(0)}}), facts);
    const bool always = facts.proves(first);
    ir::Facts when_first = facts;
    when_first.assume(first);
    if (!is_superfluous(site, *x, when_first)) return unchanged;
    return always ? guard.then : ir::if_then(first, guard.then);
  }

  static bool writes_only(const Stmt& s, ir::Memory memory) {
    const std::vector<ir::Buffer> written = ir::buffers_of(s).written;
    return std::all_of(written.begin(), written.end(), [&](const ir::Buffer& b) { return b->memory == memory; });
  }

  /// Whether the body may run wherever `facts` hold.
  bool is_superfluous(const Site& site, const ir::Binary& condition, const ir::Facts& facts) {
    const auto& guard = std::get<ir::If>(site.stmt()->v);
    const std::vector<Access> inside = collect_accesses(guard.then);
    std::set<ir::Buffer> targets;
    for (const Access& a : inside) {
      if (a.local) return false;
      if (a.writes()) targets.insert(a.buffer);
    }
    if (targets.empty()) return false;
    for (const Access& a : inside)
      if (!is_safe(a, site, facts)) return false;
    return std::all_of(targets.begin(), targets.end(),
                       [&](const ir::Buffer& b) { return is_unread_outside(b, inside, site, condition, facts); });
  }

  /// In bounds without the condition, and of memory that holds something.
  bool is_safe(const Access& a, const Site& site, const ir::Facts& facts) {
    ir::Facts at = facts;
    for (std::size_t i = 0; i < a.loops.size(); ++i) at.bind_loop(a.loop(i).var, a.loop(i).extent);
    for (const Expr& c : a.conditions) at.assume(c);
    for (std::size_t d = 0; d < a.index.size(); ++d)
      if (!at.proves(ir::lt(a.index[d], a.buffer->shape[d])) ||
          !at.proves(ir::binary(ir::BinaryOp::le, ir::int_imm(0), a.index[d])))
        return false;
    if (is_param(k_, a.buffer)) return a.kind == Access::Kind::read && is_input(a.buffer);
    const auto alloc = find_alloc(k_, a.buffer->name);
    if (!alloc) return false;
    if (a.writes() && a.buffer->memory == ir::Memory::global) return false;
    return a.kind == Access::Kind::write || is_fully_written(k_, *alloc, site.stmt());
  }

  bool is_input(const ir::Buffer& buffer) const {
    return std::any_of(k_.params.begin(), k_.params.end(),
                       [&](const ir::Param& p) { return p.buffer == buffer && p.role == ArgRole::input; });
  }

  /// Every read of `buffer` elsewhere is under a condition that keeps to the elements for which this one holds.
  bool is_unread_outside(const ir::Buffer& buffer, const std::vector<Access>& inside, const Site& site,
                         const ir::Binary& condition, const ir::Facts& facts) {
    const auto alloc = find_alloc(k_, buffer->name);
    const auto kept = what_is_kept(buffer, inside, *alloc, condition, facts);
    std::set<ir::Buffer> visited;
    return kept && is_unread_outside(buffer, *kept, *alloc, site, visited);
  }

  bool is_unread_outside(const ir::Buffer& buffer, const Kept& kept, const Site& alloc, const Site& site, std::set<ir::Buffer>& visited) {
    if (!visited.insert(buffer).second) return true;
    const ir::Facts outside = facts_before(k_, alloc);
    for (const Access& a : collect_accesses(as<ir::Alloc>(alloc.stmt())->body)) {
      if (a.buffer != buffer || a.kind == Access::Kind::write || contains(site.stmt(), a.statement)) continue;
      ir::Facts at = outside;
      for (std::size_t i = 0; i < a.loops.size(); ++i) at.bind_loop(a.loop(i).var, a.loop(i).extent);
      for (const Expr& c : a.conditions) at.assume(c);
      if (at.proves(ir::lt(ir::simplify(kept.offset + a.index[kept.dim], at), kept.bound))) continue;
      if (!goes_where_nobody_reads(a, kept, site, visited)) return false;
    }
    return true;
  }

  /// Whether what the access reads ends in elements of a buffer with the same index in some dimension, which are not read either.
  bool goes_where_nobody_reads(const Access& a, const Kept& kept, const Site& site, std::set<ir::Buffer>& visited) {
    const auto* store = as<ir::Store>(a.statement);
    const auto* update = as<ir::Update>(a.statement);
    const ir::Buffer into = store != nullptr ? store->buffer : update != nullptr && update->buffers.size() == 1 ? update->buffers[0] : nullptr;
    if (into == nullptr) return false;
    const std::vector<Expr>& index = store != nullptr ? store->index : update->index;
    const auto same = std::find_if(index.begin(), index.end(), [&](const Expr& e) { return ir::same(e, a.index[kept.dim]); });
    const auto alloc = find_alloc(k_, into->name);
    const Kept there{static_cast<std::size_t>(same - index.begin()), kept.offset, kept.bound};
    return same != index.end() && alloc && is_outside(kept.offset, *alloc) && is_outside(kept.bound, *alloc) && is_unread_outside(into, there, *alloc, site, visited);
  }

  std::optional<Kept> what_is_kept(const ir::Buffer& buffer, const std::vector<Access>& inside,
                                   const Site& alloc, const ir::Binary& condition, const ir::Facts& facts) {
    std::optional<Kept> kept;
    for (const Access& a : inside) {
      if (a.buffer != buffer || !a.writes()) continue;
      std::optional<Kept> found;
      for (std::size_t d = 0; d < a.index.size() && !found; ++d) {
        const Expr offset = ir::simplify(condition.a - a.index[d], facts);
        if (is_outside(offset, alloc) && is_outside(condition.b, alloc)) found = Kept{d, offset, condition.b};
      }
      if (!found || (kept && (kept->dim != found->dim || !ir::same(kept->offset, found->offset))))
        return std::nullopt;
      kept = found;
    }
    return kept;
  }

  /// All variables are bound outside the Alloc.
  bool is_outside(const Expr& e, const Site& alloc) const {
    std::set<Var> bound;
    for (const ir::SymbolParam& s : k_.symbols) bound.insert(s.var);
    for (const Stmt& s : alloc.path) {
      if (const auto* l = as<ir::Loop>(s)) bound.insert(l->var);
      if (const auto* l = as<ir::Let>(s)) bound.insert(l->var);
    }
    const std::set<Var> used = ir::free_vars(e);
    return std::includes(bound.begin(), bound.end(), used.begin(), used.end());
  }

  ir::Kernel k_;
};

}  // namespace

bool is_fully_written(const ir::Kernel& k, const Site& alloc, const Stmt& reader) {
  const ir::Facts facts = facts_before(k, alloc);
  const auto& scope = std::get<ir::Alloc>(alloc.stmt()->v);
  for (const Access& a : collect_accesses(scope.body)) {
    if (contains(reader, a.statement)) return false;
    if (a.buffer != scope.buffer || a.kind != Access::Kind::write || !covers_buffer(a, facts)) continue;
    const bool complete =
        std::none_of(a.loops.begin(), a.loops.end(), [&](const Stmt& l) { return contains(l, reader); });
    if (complete) return true;
  }
  return false;
}

namespace {

bool includes(const std::vector<Expr>& all, const std::vector<Expr>& some) {
  return std::all_of(some.begin(), some.end(), [&](const Expr& x) {
    return std::any_of(all.begin(), all.end(), [&](const Expr& y) { return ir::same(x, y); });
  });
}

/// Every element of the region for which the conditions hold is written by the access.
bool covers(const Access& a, const Region& region, const std::vector<Var>& t,
            const std::vector<Expr>& conditions, const ir::Facts& facts) {
  if (!is_certain(a, facts)) return false;
  const Region own = region_of(a, facts);
  const bool boxes = same_box(own, region, facts);
  for (const Range& r : own)
    if (!r.exact || !(boxes || r.whole)) return false;
  const auto under = conditions_of(a, own, t, facts);
  return under && (boxes ? includes(conditions, *under) : under->empty());
}

}  // namespace

bool is_written_before(const ir::Kernel& k, const Site& site, const ir::Buffer& buffer, const Region& region,
                       const std::vector<Var>& t, const std::vector<Expr>& conditions) {
  for (const ir::Param& p : k.params)
    if (p.buffer == buffer && p.role != ArgRole::output) return true;
  ir::Facts facts(k);
  for (std::size_t i = 0; i + 1 < site.path.size(); ++i) {
    if (const auto* q = as<ir::Seq>(site.path[i]))
      for (const Stmt& item : q->items) {
        if (item == site.path[i + 1]) break;
        for (const Access& a : collect_accesses(item))
          if (a.buffer == buffer && a.kind == Access::Kind::write && covers(a, region, t, conditions, facts))
            return true;
      }
    enter(facts, site.path[i]);
  }
  return false;
}

ir::Kernel drop_guards(ir::Kernel k) { return GuardDropper(std::move(k)).run(); }

}  // namespace loopwright::schedule
