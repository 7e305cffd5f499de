#include "src/schedule/steps/merge.h"

#include <algorithm>

#include "src/schedule/dependence.h"
#include "src/schedule/rejection.h"
#include "src/schedule/tile.h"

namespace loopwright::schedule {

using ir::as;
using ir::Expr;
using ir::Stmt;

namespace {

constexpr ErrorCode kMergeCode = ErrorCode::illegal_fuse;

/// Items of a sequence, and of the allocations in it on the way to one of two statements.
struct Items {
  Stmt first, second;
  std::vector<ir::Buffer> allocs = {};
  std::vector<Stmt> list = {};

  void add(const Stmt& s) {
    const auto* a = as<ir::Alloc>(s);
    if (a && leads_to_either(s)) {
      allocs.push_back(a->buffer);
      return add(a->body);
    }
    if (!as<ir::Seq>(s)) return list.push_back(s);
    for (const Stmt& item : items_of(s)) add(item);
  }

 private:
  bool leads_to_either(const Stmt& s) const {
    bool found = false;
    ir::walk(s, [&](const Stmt& x) { found = found || x == first || x == second; }, [](const Expr&) {});
    return found;
  }
};

bool meet(const std::vector<ir::Buffer>& a, const std::vector<ir::Buffer>& b) {
  return std::any_of(a.begin(), a.end(), [&](const ir::Buffer& x) { return std::find(b.begin(), b.end(), x) != b.end(); });
}

/// True when one writes what the other touches.
bool conflict(const Stmt& a, const Stmt& b) {
  const ir::Accesses x = ir::buffers_of(a), y = ir::buffers_of(b);
  return meet(x.written, y.written) || meet(x.written, y.read) || meet(x.read, y.written);
}

/// A statement under conditions only.
struct Guarded {
  std::vector<Stmt> around;
  Stmt leaf;
};

Guarded guarded(Stmt s) {
  Guarded out;
  while (const auto* i = as<ir::If>(s)) {
    out.around.push_back(s);
    s = i->then;
  }
  out.leaf = s;
  return out;
}

bool implies(ir::Facts facts, const Guarded& a, const Guarded& b) {
  for (const Stmt& s : a.around) facts.assume(as<ir::If>(s)->condition);
  return std::all_of(b.around.begin(), b.around.end(), [&](const Stmt& s) {
    if (ir::has_load(as<ir::If>(s)->condition)) return false;  // the bodies may change it
    const Expr wanted = ir::simplify(as<ir::If>(s)->condition, facts);
    return ir::as_int(wanted) == 1 || facts.proves(wanted);
  });
}

/// One body behind the other, under conditions of both once. Where both are statements and the second loads what the
/// first has just stored, it takes the value.
Stmt join(const Stmt& first, const Stmt& second, const ir::Facts& facts, Names& names) {
  const Guarded a = guarded(first), b = guarded(second);
  const auto* store = as<ir::Store>(a.leaf);
  if (!implies(facts, a, b) || !implies(facts, b, a)) return ir::seq({first, second});
  const Stmt both = wrap(a.around, ir::seq({a.leaf, b.leaf}));
  if (!store || !(as<ir::Store>(b.leaf) || as<ir::Update>(b.leaf))) return both;
  const auto is_stored = [&](const ir::Load& l) {
    return l.buffer == store->buffer && std::equal(l.index.begin(), l.index.end(), store->index.begin(), [&](const Expr& x, const Expr& y) {
             return ir::same(x, y) || ir::as_int(ir::simplify(x - y, facts)) == 0;
           });
  };
  const ir::Var value = names.var(store->buffer->name + "_v");
  bool is_taken = false;
  const Stmt reader = ir::rewrite(b.leaf, [&](const Expr& e) {
    const auto* l = as<ir::Load>(e);
    if (!l || !is_stored(*l)) return e;
    is_taken = true;
    return ir::var(value, store->buffer->dtype);
  }, [](const Stmt& s) { return s; });
  if (!is_taken) return both;
  const Stmt stores = ir::store(store->buffer, store->index, ir::var(value, store->buffer->dtype));
  return wrap(a.around, ir::let(value, store->value, ir::seq({stores, reader})));
}

/// Rejects when an iteration of one body meets another iteration of the other.
Status require_apart(const ir::Kernel& k, const Site& a, const Stmt& merged, std::size_t of_first) {
  const ir::Facts facts = facts_before(k, a);
  const std::vector<Access> accesses = collect_accesses(merged);
  const std::set<ir::Buffer> written = written_buffers(accesses);
  for (std::size_t i = 0; i < of_first; ++i)
    for (std::size_t j = of_first; j < accesses.size(); ++j) {
      if (accesses[i].buffer != accesses[j].buffer || !(accesses[i].writes() || accesses[j].writes())) continue;
      const auto equal = equal_iterations(accesses[i], accesses[j], facts, written);
      if (equal && !equal->front())
        return rejected(kMergeCode, Conflict{accesses[i], accesses[j]}.text(), k, accesses[j].statement,
                        "loops of which each iteration uses only what the same iteration of the other computes");
    }
  return Unit{};
}

/// The items with the merged loop in place of both: in front of it what the second needs, behind it all else in between.
Result<std::vector<Stmt>> place(const ir::Kernel& k, const std::vector<Stmt>& items, std::size_t a, std::size_t b, const Stmt& merged) {
  std::vector<Stmt> before, after;
  for (std::size_t i = b; i-- > a + 1;) {
    const bool is_needed = conflict(items[i], items[b]) ||
                           std::any_of(before.begin(), before.end(), [&](const Stmt& s) { return conflict(items[i], s); });
    if (is_needed && conflict(items[a], items[i]))
      return rejected(kMergeCode, "what lies between needs the first loop, and the second needs it", k, items[i], "loops that are apart");
    (is_needed ? before : after).push_back(items[i]);
  }
  std::vector<Stmt> out(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(a));
  out.insert(out.end(), before.rbegin(), before.rend());
  out.push_back(merged);
  out.insert(out.end(), after.rbegin(), after.rend());
  out.insert(out.end(), items.begin() + static_cast<std::ptrdiff_t>(b) + 1, items.end());
  return out;
}

/// A loop of one iteration around one of the two alone keeps nobody apart: its body, at 0.
ir::Kernel open_single_loops(ir::Kernel k, const Merge& step) {
  for (bool again = true; again;) {
    again = false;
    const auto a = find_loop(k, step.first), b = find_loop(k, step.second);
    if (!a || !b) break;
    for (const auto& [site, other] : {std::pair{&*a, &*b}, std::pair{&*b, &*a}}) {
      const auto alone = std::find_if(site->path.begin(), site->path.end() - 1, [&](const Stmt& s) {
        const auto* l = as<ir::Loop>(s);
        return l && l->kind == ir::LoopKind::serial && ir::as_int(l->extent) == 1 && std::find(other->path.begin(), other->path.end(), s) == other->path.end();
      });
      if (again || alone == site->path.end() - 1) continue;
      const auto* l = as<ir::Loop>(*alone);
      k = edit(k, {{alone->get(), ir::substitute(l->body, {{l->var, ir::int_imm(0)}})}});
      again = true;
    }
  }
  return k;
}

}  // namespace

Result<Applied> apply(const ir::Kernel& original, const Merge& step) {
  const ir::Kernel k = open_single_loops(original, step);
  LW_TRY(const Site site_a, require_loop(k, step.first));
  LW_TRY(const Site site_b, require_loop(k, step.second));
  const ir::Loop &a = site_a.loop(), &b = site_b.loop();
  std::size_t common = 0;
  while (common < site_a.path.size() && common < site_b.path.size() && site_a.path[common] == site_b.path[common]) ++common;
  const Stmt around = common > 0 ? site_a.path[common - 1] : Stmt{};
  Items items{site_a.stmt(), site_b.stmt()};
  if (around && as<ir::Seq>(around)) items.add(around);
  const auto at_a = std::find(items.list.begin(), items.list.end(), site_a.stmt()), at_b = std::find(items.list.begin(), items.list.end(), site_b.stmt());
  if (at_a == items.list.end() || at_b == items.list.end() || at_a >= at_b)
    return rejected(ErrorCode::not_nested, "`" + step.second + "` does not stand behind `" + step.first + "` in one sequence", k,
                    site_b.stmt(), "two loops behind each other, the first one first");
  const ir::Facts facts = facts_before(k, site_a);
  const bool fits = a.kind == b.kind && (ir::same(a.extent, b.extent) || ir::as_int(ir::simplify(a.extent - b.extent, facts)) == 0);
  if (!fits)
    return rejected(kMergeCode, "the extents are " + ir::print(a.extent) + " and " + ir::print(b.extent) + ", the kinds " + std::string(ir::name(a.kind)) + " and " + std::string(ir::name(b.kind)),
                    k, site_b.stmt(), "loops of one extent and kind");

  const Stmt body = ir::substitute(a.body, {{a.var, ir::var(b.var)}});
  const std::size_t of_first = collect_accesses(ir::loop(b.var, b.extent, body, b.kind)).size();
  LW_CHECK(require_apart(k, site_a, ir::loop(b.var, b.extent, ir::seq({body, b.body}), b.kind), of_first));
  ir::Facts inside = facts;
  inside.bind_loop(b.var, b.extent);
  Names names(k);
  const Stmt merged = ir::loop(b.var, b.extent, join(body, b.body, inside, names), b.kind);
  LW_TRY(std::vector<Stmt> list, place(k, items.list, static_cast<std::size_t>(at_a - items.list.begin()),
                                       static_cast<std::size_t>(at_b - items.list.begin()), merged));
  return Applied{edit(k, {{around.get(), alloc_all(items.allocs, ir::seq(std::move(list)))}}), {}};
}

}  // namespace loopwright::schedule
