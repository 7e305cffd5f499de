#include "src/schedule/steps/reduce_across.h"

#include <algorithm>

#include "src/ir/monoid.h"
#include "src/schedule/dependence.h"
#include "src/schedule/tile.h"

namespace loopwright::schedule {

using ir::as;
using ir::Expr;
using ir::Stmt;
using ir::Var;

namespace {

constexpr ErrorCode kReduceAcrossCode = ErrorCode::illegal_reduce_across;
constexpr std::int64_t kMaxWays = 131072;
constexpr std::int64_t kMaxGlobalWays = std::int64_t{1} << 24;

/// The loop's body taken apart.
struct Reduction {
  Chain chain;  ///< of the body; the leaf is the update
  const ir::Update* update = nullptr;
  Access access;                  ///< of its first buffer, rooted at the body
  std::set<Var> spatial;          ///< loops inside that index the result
  Region region;                  ///< box of the result that the body updates
  std::vector<std::size_t> kept;  ///< its dimensions of more than one element
};

bool uses_any(const Expr& e, const std::set<Var>& vars) {
  const std::set<Var> used = ir::free_vars(e);
  return std::any_of(vars.begin(), vars.end(), [&](const Var& v) { return used.contains(v); });
}

Result<Reduction> find_reduction(const ir::Kernel& k, const Site& site) {
  Reduction r;
  r.chain = chain_of(site.loop().body);
  r.update = as<ir::Update>(r.chain.leaf);
  if (!r.update)
    return rejected(kReduceAcrossCode, "the loop does not hold a single update", k, site.stmt(),
                    "the reduction loop of a perfect nest with one update");
  std::set<Var> lets;
  for (const Stmt& s : r.chain.around)
    if (const auto* l = as<ir::Let>(s)) lets.insert(l->var);
  const std::vector<Access> accesses = collect_accesses(site.stmt());
  for (const Access& a : accesses)
    if (a.kind == Access::Kind::read &&
        std::find(r.update->buffers.begin(), r.update->buffers.end(), a.buffer) != r.update->buffers.end())
      return rejected(kReduceAcrossCode, "the values that are combined depend on `" + a.buffer->name + "` itself", k,
                      r.chain.leaf, "a reduction of other values");
  for (const Expr& e : r.update->index) {
    if (ir::uses(e, site.loop().var))
      return rejected(kReduceAcrossCode, "`" + site.loop().var.hint + "` indexes the result, so it does not reduce", k,
                      r.chain.leaf,
                      "a loop that `" + r.update->buffers.front()->name + "` is not indexed with");
    if (uses_any(e, lets))
      return rejected(kReduceAcrossCode, "the index of the result is computed in a Let", k, r.chain.leaf,
                      "an index of loops only");
  }
  const ir::Facts facts = facts_before(k, site);
  const auto equal = equal_iterations(accesses.back(), accesses.back(), facts, written_buffers(accesses));
  for (std::size_t i = 1; i < accesses.back().loops.size(); ++i) {
    const Var& v = accesses.back().loop(i).var;
    const bool indexes = std::any_of(r.update->index.begin(), r.update->index.end(),
                                     [&](const Expr& e) { return ir::uses(e, v); });
    if (!indexes) continue;
    r.spatial.insert(v);
    if (equal && !(*equal)[i])
      return rejected(kReduceAcrossCode, "iterations of `" + v.hint + "` inside it may update the same element", k,
                      r.chain.leaf,
                      "loops inside that index `" + r.update->buffers.front()->name + "` plainly");
  }
  r.access = collect_accesses(site.loop().body).back();
  ir::Facts inside = facts;
  enter(inside, site.stmt());
  r.region = region_of(r.access, inside);
  for (std::size_t d = 0; d < r.region.size(); ++d)
    if (ir::as_int(r.region[d].extent) != 1) r.kept.push_back(d);
  return r;
}

/// Shape and index of the partial results: the ways innermost for lanes, else outermost.
std::vector<Expr> with_way(const Expr& way, std::vector<Expr> rest, bool innermost) {
  rest.insert(innermost ? rest.end() : rest.begin(), way);
  return rest;
}

std::vector<Expr> kept_of(const Reduction& r, const std::vector<Expr>& index) {
  std::vector<Expr> out;
  for (const std::size_t d : r.kept) out.push_back(index[d]);
  return out;
}

/// Stores the neutral state to every partial result of one way.
Stmt make_init(const Reduction& r, const std::vector<ir::Buffer>& parts, const Expr& way, bool innermost,
               const std::string& base, Names& names) {
  std::vector<DType> dtypes;
  for (const ir::Buffer& b : parts) dtypes.push_back(b->dtype);
  const std::vector<Expr> neutral = ir::identity(r.update->monoid, dtypes);
  std::vector<Var> loops;
  std::vector<Expr> index;
  for (std::size_t i = 0; i < r.kept.size(); ++i) {
    loops.push_back(names.var(base + "_z" + std::to_string(r.kept[i])));
    index.push_back(ir::var(loops.back()));
  }
  std::vector<Stmt> stores;
  for (std::size_t i = 0; i < parts.size(); ++i)
    stores.push_back(ir::store(parts[i], with_way(way, index, innermost), neutral[i]));
  Stmt s = ir::seq(std::move(stores));
  for (std::size_t i = loops.size(); i-- > 0;) s = ir::loop(loops[i], r.region[r.kept[i]].extent, s);
  return s;
}

/// acc combine part[way], through the loops and conditions that decide which elements there are.
Stmt make_combine(const Reduction& r, const std::vector<ir::Buffer>& parts, const Expr& way, bool innermost,
                  const Var& reduced, const ir::Facts& facts, Names& names) {
  std::map<Var, Expr> renamed;
  std::set<Var> dropped{reduced};
  std::vector<Stmt> around;
  for (const Stmt& s : r.chain.around) {
    if (const auto* l = as<ir::Let>(s)) dropped.insert(l->var);
    const auto* l = as<ir::Loop>(s);
    if (l && !r.spatial.contains(l->var)) dropped.insert(l->var);
    if (l && r.spatial.contains(l->var)) {
      const Var v = names.var(l->var.hint + "_c");
      renamed[l->var] = ir::var(v);
      around.push_back(ir::loop(v, l->extent, l->body));
    }
    if (const auto* i = as<ir::If>(s); i && !uses_any(i->condition, dropped))
      around.push_back(ir::if_then(ir::substitute(i->condition, renamed), i->then));
  }
  const std::vector<Expr> relative = relative_to(r.region)(r.access.index, facts);
  std::vector<Expr> index, values;
  for (const Expr& e : r.update->index) index.push_back(ir::substitute(e, renamed));
  std::vector<Expr> part_index = kept_of(r, relative);
  for (Expr& e : part_index) e = ir::substitute(e, renamed);
  for (const ir::Buffer& b : parts) values.push_back(ir::load(b, with_way(way, part_index, innermost)));
  return wrap(around, ir::update(r.update->monoid, r.update->buffers, index, values));
}

}  // namespace

Result<Applied> apply(const ir::Kernel& k, const ReduceAcross& step) {
  LW_TRY(const Site site, require_serial(k, step.loop));
  const std::int64_t most = step.place == Place::global ? kMaxGlobalWays : kMaxWays;
  if (step.ways < 2 || step.ways > most)
    return rejected(ErrorCode::bad_argument, std::to_string(step.ways) + " ways", {}, "from 2 to " + std::to_string(most) + " ways");
  LW_CHECK(require_room(k, site, step.place, kReduceAcrossCode));
  LW_TRY(const Reduction r, find_reduction(k, site));
  const ir::Loop& old = site.loop();
  const ir::Facts facts = facts_before(k, site);
  Names names(k);

  std::vector<ir::Buffer> parts;
  std::map<ir::Buffer, ir::Buffer> local;
  const Expr ways = ir::int_imm(step.ways);
  const bool innermost = step.interleaved && step.place == Place::registers;
  const std::vector<Expr> shape = with_way(ways, kept_of(r, extents_of(r.region)), innermost);
  for (const ir::Buffer& b : r.update->buffers) {
    LW_TRY(local[b], make_local(b, names.take(b->name + "_part"), shape, step.place, kReduceAcrossCode));
    parts.push_back(local[b]);
  }
  const Var w = names.var(step.loop + "_w"), inner = names.var(step.loop + "_i"),
            c = names.var(step.loop + "_c");
  const Expr block = ir::simplify(ir::ceil_div(old.extent, ways), facts);
  const Expr position =
      step.interleaved ? ir::var(inner) * ways + ir::var(w) : ir::var(w) * block + ir::var(inner);

  ir::Facts inside = facts;
  enter(inside, site.stmt());
  const IndexMap to_part = [&](const std::vector<Expr>& index, const ir::Facts& at) {
    return with_way(ir::var(w), kept_of(r, relative_to(r.region)(index, at)), innermost);
  };
  Stmt body = ir::substitute(redirect(old.body, inside, local, to_part), {{old.var, position}});
  if (facts.divisor(old.extent) % step.ways != 0) body = ir::if_then(ir::lt(position, old.extent), body);

  std::vector<Stmt> items;
  if (step.interleaved) {
    const Var z = names.var(step.loop + "_z");
    items.push_back(ir::loop(z, ways, make_init(r, parts, ir::var(z), innermost, step.loop, names)));
    items.push_back(ir::loop(inner, block, ir::loop(w, ways, body)));
  } else {
    items.push_back(ir::loop(
        w, ways,
        ir::seq({make_init(r, parts, ir::var(w), false, step.loop, names), ir::loop(inner, block, body)})));
  }
  items.push_back(
      ir::loop(c, ways, make_combine(r, parts, ir::var(c), innermost, old.var, inside, names)));
  return Applied{edit(k, {{site.stmt().get(), alloc_all(parts, ir::seq(std::move(items)))}}),
                 {w.hint, inner.hint, c.hint}};
}

}  // namespace loopwright::schedule
