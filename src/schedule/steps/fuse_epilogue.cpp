#include "src/schedule/steps/fuse_epilogue.h"

#include <algorithm>

#include "src/schedule/narrow.h"
#include "src/schedule/tiling.h"

namespace loopwright::schedule {

using ir::as;
using ir::Expr;
using ir::Stmt;
using ir::Var;

namespace {

constexpr ErrorCode kFuseEpilogueCode = ErrorCode::illegal_epilogue;
using Buffers = std::vector<ir::Buffer>;

bool has(const Buffers& buffers, const ir::Buffer& b) {
  return std::find(buffers.begin(), buffers.end(), b) != buffers.end();
}

/// The consumer's nest: its statement in the sequence, and the store inside.
struct Consumer {
  Stmt unit;
  Chain chain;
  std::vector<Access> accesses;
};

Result<Consumer> find_consumer(const ir::Kernel& k, const ir::Buffer& buffer, const Site& site) {
  Consumer c;
  for (std::size_t i = 0; i + 1 < site.path.size(); ++i) {
    const auto* q = as<ir::Seq>(site.path[i]);
    if (!q) continue;
    bool behind = false;
    for (const Stmt& item : q->items) {
      behind = behind || item == site.path[i + 1];
      const ir::Accesses found = ir::buffers_of(item);
      if (std::find(found.written.begin(), found.written.end(), buffer) == found.written.end()) continue;
      if (!behind || item == site.path[i + 1] || c.unit)
        return rejected(kFuseEpilogueCode, "`" + buffer->name + "` is not computed by one nest behind the loop", k, item,
                        "the result of a pointwise nest that follows");
      c.unit = item;
    }
    if (c.unit) break;
  }
  if (!c.unit)
    return rejected(kFuseEpilogueCode, "no nest behind the loop computes `" + buffer->name + "`", k, site.stmt(),
                    "a loop of the nest in front of the one that computes `" + buffer->name + "`");
  c.chain = chain_of(c.unit);
  const auto* st = as<ir::Store>(c.chain.leaf);
  const bool plain = std::all_of(c.chain.around.begin(), c.chain.around.end(), [](const Stmt& s) {
    const auto* l = as<ir::Loop>(s);
    return l ? l->kind == ir::LoopKind::serial : as<ir::Let>(s) != nullptr;
  });
  if (!st || st->buffer != buffer || !plain)
    return rejected(
        kFuseEpilogueCode, "`" + buffer->name + "` is not computed by a pointwise nest of serial loops with one store", k,
        c.unit, "fuse_epilogue before the loops of `" + buffer->name + "` are changed");
  c.accesses = collect_accesses(c.unit);
  return c;
}

/// The buffers that the loop completes and the consumer reads.
Result<Buffers> find_completed(const ir::Kernel& k, const Site& site, const Consumer& c) {
  Buffers out;
  const std::vector<Access> body = collect_accesses(site.loop().body);
  for (const Access& a : body) {
    if (!a.writes() || a.local || has(out, a.buffer)) continue;
    const bool read = std::any_of(c.accesses.begin(), c.accesses.end(),
                                  [&](const Access& r) { return r.buffer == a.buffer; });
    if (!read) continue;
    // Results of one shape lie in one box, if the loop completes the same part of each.
    const bool alike = out.empty() || (out.front()->shape.size() == a.buffer->shape.size() && std::equal(out.front()->shape.begin(), out.front()->shape.end(), a.buffer->shape.begin(), ir::same));
    if (!alike)
      return rejected(
          kFuseEpilogueCode,
          "the consumer reads both `" + out.front()->name + "` and `" + a.buffer->name + "` of the loop, of different shapes", k,
          c.unit, "a consumer of results of one shape");
    for (const ir::Buffer& b : update_group(k.body, a.buffer))
      if (!has(out, b)) out.push_back(b);
  }
  if (out.empty())
    return rejected(kFuseEpilogueCode, "the consumer reads nothing that the loop computes", k, site.stmt(),
                    "a loop of the nest that the consumer reads from");
  return out;
}

/// Whether more is read of the buffers than the loop and the consumer do: they are results of the kernel, or another
/// nest reads them.
bool outlive(const ir::Kernel& k, const Buffers& tile, const Site& site, const Consumer& c) {
  for (const ir::Param& p : k.params)
    if (has(tile, p.buffer)) return true;
  std::set<Stmt> here;
  for (const Access& a : collect_accesses(site.stmt())) here.insert(a.statement);
  for (const Access& a : c.accesses) here.insert(a.statement);
  for (const Access& a : collect_accesses(k.body))
    if (a.kind == Access::Kind::read && has(tile, a.buffer) && !here.contains(a.statement)) return true;
  return false;
}

/// The consumer moves in front of the items between it and the user, and into the user's iterations.
Status check_move(const ir::Kernel& k, const Producers& p, const Consumer& c, const Buffers& tile) {
  std::vector<Stmt> passed{p.user};
  for (const Stmt& item : p.after) {
    if (item == c.unit) break;
    passed.push_back(item);
  }
  const ir::Buffer target = std::get<ir::Store>(c.chain.leaf->v).buffer;
  std::set<ir::Buffer> inputs;
  for (const Access& a : c.accesses)
    if (a.kind == Access::Kind::read && !has(tile, a.buffer)) inputs.insert(a.buffer);
  for (const Stmt& item : passed)
    for (const Access& a : collect_accesses(item))
      if (!a.local && ((a.writes() && inputs.contains(a.buffer)) || a.buffer == target))
        return rejected(kFuseEpilogueCode,
                        a.buffer == target ? "`" + target->name + "` is used before the consumer's place"
                                           : "`" + a.buffer->name +
                                                 "`, which the consumer reads, is not complete at the loop",
                        k, a.statement, "a consumer whose other inputs are complete before the loop");
  return Unit{};
}

bool touch_each_other(const std::vector<Stmt>& some, const Stmt& other) {
  const std::vector<Access> theirs = collect_accesses(other);
  for (const Stmt& s : some)
    for (const Access& a : collect_accesses(s))
      for (const Access& b : theirs)
        if (a.buffer == b.buffer && !a.local && !b.local && (a.writes() || b.writes())) return true;
  return false;
}

/// The kernel with those nests between the producer and the consumer in front that have nothing to do with the producer: what
/// else the consumer reads may be among them. Nothing when there are none.
std::optional<ir::Kernel> bring_forward(const ir::Kernel& k, const Site& site, const Producers& p, const Consumer& c) {
  std::vector<Stmt> stay = p.units, moved;
  stay.push_back(p.user);
  for (const Stmt& item : p.after) {
    if (item == c.unit) break;
    (touch_each_other(stay, item) ? stay : moved).push_back(item);
  }
  if (moved.empty()) return std::nullopt;
  const Stmt& first = p.units.empty() ? p.user : p.units.front();
  for (const Stmt& around : site.path) {
    const auto* q = as<ir::Seq>(around);
    if (!q || std::find(q->items.begin(), q->items.end(), p.user) == q->items.end()) continue;
    std::vector<Stmt> items;
    for (const Stmt& item : q->items) {
      if (item == first) items.insert(items.end(), moved.begin(), moved.end());
      if (std::find(moved.begin(), moved.end(), item) == moved.end()) items.push_back(item);
    }
    return edit(k, {{around.get(), ir::seq(std::move(items))}});
  }
  return std::nullopt;
}

/// The consumer's loop for each dimension of the tile that is not whole.
Result<std::vector<std::optional<Var>>> map_loops(const ir::Kernel& k, const Consumer& c, const Buffers& tile,
                                                  const Region& region, const ir::Facts& facts) {
  std::vector<std::optional<Var>> out(region.size());
  for (const Access& a : c.accesses) {
    if (!has(tile, a.buffer)) continue;
    for (std::size_t d = 0; d < region.size(); ++d) {
      if (region[d].whole) continue;
      const auto v = plain_loop(a, d, facts);
      if (!v || (out[d] && !(*out[d] == *v)))
        return rejected(kFuseEpilogueCode,
                        "the consumer reads dimension " + std::to_string(d) + " of `" + a.buffer->name +
                            "` at " + ir::print(a.index[d]) + ", not at one plain loop over all of it",
                        k, a.statement, "a consumer that reads its producer element by element");
      out[d] = v;
    }
  }
  return out;
}

Stmt build_epilogue(const Consumer& c, const std::vector<std::optional<Var>>& loops, const Region& region,
                    const ir::Buffer& tile, const ir::Facts& facts) {
  std::map<Var, Expr> shifted;
  std::map<Var, std::size_t> dims;
  for (std::size_t d = 0; d < loops.size(); ++d) {
    if (!loops[d]) continue;
    shifted[*loops[d]] = region[d].base + ir::var(*loops[d]);
    dims[*loops[d]] = d;
  }
  ir::Facts inside = facts;
  std::vector<Stmt> around;
  const Stmt moved = ir::substitute(c.unit, shifted);
  const Chain chain = chain_of(moved);
  for (const Stmt& s : chain.around) {
    const auto* l = as<ir::Loop>(s);
    const auto it = l ? dims.find(l->var) : dims.end();
    if (it == dims.end()) {
      around.push_back(s);
      enter(inside, s);
      continue;
    }
    const Range& r = region[it->second];
    around.push_back(ir::loop(l->var, r.extent, l->body));
    inside.bind_loop(l->var, r.extent);
    const Expr condition = ir::lt(ir::simplify(r.base + ir::var(l->var), inside), tile->shape[it->second]);
    if (!r.exceeds || inside.proves(condition)) continue;
    around.push_back(ir::if_then(condition, l->body));
    inside.assume(condition);
  }
  return wrap(around, chain.leaf);
}

}  // namespace

Result<Applied> apply(const ir::Kernel& k, const FuseEpilogue& step) {
  LW_TRY(const ir::Buffer target, require_buffer(k, step.consumer));
  LW_TRY(const Site site, require_loop(k, step.loop));
  LW_CHECK(require_room(k, site, step.place, kFuseEpilogueCode));
  LW_TRY(const Consumer c, find_consumer(k, target, site));
  LW_TRY(const Buffers tile, find_completed(k, site, c));
  LW_TRY(const Producers p, find_producers(k, tile, site, true, kFuseEpilogueCode));
  if (std::find(p.after.begin(), p.after.end(), c.unit) == p.after.end())
    return rejected(kFuseEpilogueCode, "the consumer does not follow the producer in one sequence", k, c.unit,
                    "a consumer next to its producer");
  if (Status move = check_move(k, p, c, tile); !move.ok()) {
    const auto moved = step.bringing ? bring_forward(k, site, p, c) : std::nullopt;
    if (!moved) return move.error();
    return apply(*moved, step);
  }
  const bool stays = outlive(k, tile, site, c);
  if (!stays) LW_CHECK(check_inputs(k, p.units, p.between, kFuseEpilogueCode));

  const Stmt& body = site.loop().body;
  const ir::Facts facts = facts_inside(k, site);
  const Region region = region_of(collect_accesses(body), tile, facts, false, step.place == Place::fragment);
  std::vector<Stmt> loops;
  bool inside_user = false;
  for (const Stmt& s : site.path) {
    inside_user = inside_user || s == p.user;
    if (inside_user && as<ir::Loop>(s)) loops.push_back(s);
  }
  if (const auto wrong = explain_no_tiling(region, tile.front(), loops, facts))
    return rejected(kFuseEpilogueCode, *wrong, k, site.stmt(),
                    "a loop with every reduction loop of `" + tile.front()->name + "` inside it");
  LW_TRY(const auto consumer_loops, map_loops(k, c, tile, region, facts));

  MovedProducers moved;
  if (!stays) {
    LW_TRY(moved, move_producers(k, p.units, tile, region, step.place, facts, kFuseEpilogueCode));
  }
  moved.items.push_back(redirect(body, facts, moved.local, relative_to(region)));
  moved.items.push_back(redirect(build_epilogue(c, consumer_loops, region, tile.front(), facts), facts,
                                 moved.local, relative_to(region)));
  moved.edits[c.unit.get()] = ir::seq({});
  moved.edits[site.stmt().get()] =
      with_body(site.stmt(), alloc_all(moved.allocs, ir::seq(std::move(moved.items))));
  Applied out{edit(k, moved.edits), {}};
  if (!stays) out.kernel.body = drop_allocs(out.kernel.body, tile);
  out.kernel = drop_guards(std::move(out.kernel));
  for (const Stmt& s : c.chain.around)
    if (const auto* l = as<ir::Loop>(s)) out.made.push_back(l->var.hint);
  return out;
}

}  // namespace loopwright::schedule
