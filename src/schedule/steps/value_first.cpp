#include "src/schedule/steps/value_first.h"

#include <algorithm>

#include "src/ir/monoid.h"
#include "src/schedule/access.h"
#include "src/schedule/rejection.h"

namespace loopwright::schedule {

using ir::as;
using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

namespace {

constexpr ErrorCode kValueFirstCode = ErrorCode::bad_argument;

bool is_arg(ir::Monoid m) { return m == ir::Monoid::argmin || m == ir::Monoid::argmax; }

/// Both levels of the reduction.
struct Levels {
  Chain combining;
  const ir::Update* whole = nullptr;  ///< what the combining loop holds
  Stmt parts;                         ///< the statement in front, which computes the partial results
  Stmt part_update;
  const ir::Update* part = nullptr;
  ir::Buffer value() const { return whole->buffers[0]; }
  ir::Buffer part_value() const { return part->buffers[0]; }
};

std::optional<Stmt> find_update(const Stmt& s, const ir::Buffer& buffer) {
  std::optional<Stmt> found;
  ir::walk(s, [&](const Stmt& x) {
    const auto* u = as<ir::Update>(x);
    if (u && std::find(u->buffers.begin(), u->buffers.end(), buffer) != u->buffers.end()) found = x;
  }, [](const Expr&) {});
  return found;
}

bool is_var(const Expr& e, const ir::Var& v) {
  const auto* r = as<ir::VarRef>(e);
  return r && r->var == v;
}

Result<Levels> find_levels(const ir::Kernel& k, const Site& site) {
  Levels out;
  const auto reject = [&](std::string found, const Stmt& at, std::string works) { return rejected(kValueFirstCode, std::move(found), k, at, std::move(works)); };
  out.combining = chain_of(site.stmt());
  out.whole = as<ir::Update>(out.combining.leaf);
  if (!out.whole || !is_arg(out.whole->monoid) || out.combining.around.size() != 1)
    return reject("the loop does not combine values and places", site.stmt(), "the combining loop that reduce_across makes of an argmin or argmax");
  const ir::Var& c = site.loop().var;
  std::vector<ir::Buffer> parts;
  for (const Expr& e : out.whole->values) {
    const auto* l = as<ir::Load>(e);
    if (!l || l->index.size() != 1 || !is_var(l->index[0], c))
      return reject("what is combined is not one partial result for each iteration", site.stmt(), "partial results of one dimension");
    parts.push_back(l->buffer);
  }
  if (std::any_of(out.whole->index.begin(), out.whole->index.end(), [&](const Expr& e) { return ir::uses(e, c); }))
    return reject("`" + c.hint + "` indexes the result", site.stmt(), "a loop that reduces");
  const auto* siblings = site.path.size() < 2 ? nullptr : as<ir::Seq>(site.path[site.path.size() - 2]);
  if (siblings)
    for (const Stmt& item : siblings->items) {
      if (item == site.stmt()) break;
      const auto update = find_update(item, parts[0]);
      if (update) out.parts = item, out.part_update = *update;
    }
  if (!out.parts) return reject("nothing in front of the loop computes its partial results", site.stmt(), "value_first right after reduce_across");
  out.part = as<ir::Update>(out.part_update);
  if (out.part->monoid != out.whole->monoid || out.part->buffers != parts || out.part->index.size() != 1)
    return reject("the partial results are reduced in another way", out.part_update, "partial results of the same reduction");
  return out;
}

/// Whether nobody can tell zeros of this buffer apart: it is only compared, by argmin and argmax.
bool is_only_compared(const ir::Kernel& k, const ir::Buffer& buffer, int depth = 0) {
  constexpr int kMostLevels = 8;
  if (!is_float(buffer->dtype)) return true;
  if (is_param(k, buffer) || depth > kMostLevels) return false;
  for (const Access& a : collect_accesses(k.body)) {
    if (a.buffer != buffer || a.kind != Access::Kind::read) continue;
    const auto* u = as<ir::Update>(a.statement);
    if (!u || !is_arg(u->monoid)) return false;
    const auto* l = as<ir::Load>(u->values[0]);
    if (!l || l->buffer != buffer || !is_only_compared(k, u->buffers[0], depth + 1)) return false;
  }
  return true;
}

/// Whether the state is neutral whenever the loop begins: it is written here and by the stores that begin it, once for
/// each iteration of the loops around that do not make it anew.
Status require_fresh(const ir::Kernel& k, const Site& site, const Levels& l) {
  const std::vector<DType> dtypes{l.whole->buffers[0]->dtype, l.whole->buffers[1]->dtype};
  const std::vector<Expr> neutral = ir::identity(l.whole->monoid, dtypes);
  for (const Access& a : collect_accesses(k.body)) {
    const auto at = std::find(l.whole->buffers.begin(), l.whole->buffers.end(), a.buffer);
    if (at == l.whole->buffers.end() || !a.writes() || a.statement == l.combining.leaf) continue;
    const auto* store = as<ir::Store>(a.statement);
    if (!store || !ir::same(store->value, neutral[static_cast<std::size_t>(at - l.whole->buffers.begin())]))
      return rejected(kValueFirstCode, "`" + a.buffer->name + "` is written elsewhere as well", k, a.statement, "a result that is reduced once");
  }
  for (const ir::Buffer& b : l.whole->buffers) {
    if (std::any_of(k.params.begin(), k.params.end(), [&](const ir::Param& p) { return p.buffer == b && p.role == ArgRole::inout; }))
      return rejected(kValueFirstCode, "`" + b->name + "` has a value before the kernel", k, l.combining.leaf, "a result that begins here");
    std::vector<Stmt> around;
    for (const Stmt& s : site.path) {
      const auto* alloc = as<ir::Alloc>(s);
      if (alloc && alloc->buffer == b) around.clear();
      if (as<ir::Loop>(s) && s != site.stmt() && ir::as_int(as<ir::Loop>(s)->extent) != 1) around.push_back(s);
    }
    for (const Stmt& s : around) {
      const ir::Var& v = as<ir::Loop>(s)->var;
      if (std::none_of(l.whole->index.begin(), l.whole->index.end(), [&](const Expr& e) { return is_var(e, v); }))
        return rejected(kValueFirstCode, "iterations of `" + v.hint + "` reduce into one result", k, s, "one combination for each result");
    }
  }
  return Unit{};
}

/// Whether a value comes out the same bit for bit wherever it is computed: it is compared with itself. Compilers contract
/// sums and products as they like, and have several ways to divide.
bool is_reproducible(const Expr& e) {
  bool ok = true;
  ir::walk(e, [&](const Expr& x) {
    if (const auto* b = as<ir::Binary>(x)) ok = ok && (!is_float(b->a->dtype) || x->dtype == DType::boolean || b->op == BinaryOp::min || b->op == BinaryOp::max);
    if (const auto* u = as<ir::Unary>(x); u && is_float(u->a->dtype)) {
      static const std::set<ir::UnaryOp> kExact = {ir::UnaryOp::neg,   ir::UnaryOp::abs,   ir::UnaryOp::sign,   ir::UnaryOp::floor, ir::UnaryOp::ceil,
                                                   ir::UnaryOp::round, ir::UnaryOp::trunc, ir::UnaryOp::is_nan, ir::UnaryOp::is_inf, ir::UnaryOp::sqrt};
      ok = ok && kExact.contains(u->op);
    }
  });
  return ok;
}

/// value == best, or a NaN: where the best value is NaN every NaN counts, and where it is none there is none.
Expr reaches(const Expr& value, const Expr& best) {
  const Expr equal = ir::binary(BinaryOp::eq, value, best);
  return is_float(value->dtype) ? ir::binary(BinaryOp::or_, equal, ir::unary(ir::UnaryOp::is_nan, value)) : equal;
}

/// The way down to the update through what computes the partial results, without their beginnings.
std::optional<std::vector<Stmt>> way_to(const Stmt& s, const Levels& l) {
  if (s == l.part_update) return std::vector<Stmt>{};
  if (const auto* seq = as<ir::Seq>(s)) {
    std::optional<std::vector<Stmt>> found;
    for (const Stmt& item : seq->items) {
      if (find_update(item, l.part_value())) found = way_to(item, l);
      else if (const auto* store = as<ir::Store>(item); !store || std::find(l.part->buffers.begin(), l.part->buffers.end(), store->buffer) == l.part->buffers.end()) return std::nullopt;
    }
    return found;
  }
  const Chain chain = chain_of(s);
  if (chain.around.empty()) return std::nullopt;
  auto rest = way_to(chain.leaf, l);
  if (rest) rest->insert(rest->begin(), chain.around.begin(), chain.around.end());
  return rest;
}

/// Neighbouring parts that are looked at together: the loop over those of a group, innermost.
struct PartGroup {
  ir::Var parts;  ///< the loop over all of them, which becomes one over groups
  ir::Var of_group;
  std::int64_t size = 1;
};

/// Loops, conditions and Lets of the way under new names.
std::vector<Stmt> rename_way(const std::vector<Stmt>& way, const PartGroup& group, Names& names, std::map<ir::Var, Expr>& renamed) {
  std::vector<Stmt> out;
  for (const Stmt& s : way) {
    const auto rename = [&](const ir::Var& v, DType t) {
      const ir::Var fresh = names.var(v.hint + "_p");
      renamed[v] = ir::var(fresh, t);
      return fresh;
    };
    if (const auto* loop = as<ir::Loop>(s); loop && group.size > 1 && loop->var == group.parts) {
      const ir::Var groups = names.var(loop->var.hint + "_p");
      renamed[loop->var] = ir::var(groups) * ir::int_imm(group.size) + ir::var(group.of_group);
      out.push_back(ir::loop(groups, ir::int_imm(*ir::as_int(loop->extent) / group.size), loop->body));
    } else if (loop) {
      const Expr extent = ir::substitute(loop->extent, renamed);
      out.push_back(ir::loop(rename(loop->var, DType::i64), extent, loop->body));
    } else if (const auto* i = as<ir::If>(s)) {
      out.push_back(ir::if_then(ir::substitute(i->condition, renamed), i->then));
    } else {
      const auto* let = as<ir::Let>(s);
      const Expr value = ir::substitute(let->value, renamed);
      out.push_back(ir::let(rename(let->var, value->dtype), value, let->body));
    }
  }
  return out;
}

Result<PartGroup> find_group(const ir::Kernel& k, const Site& site, const Levels& l, const std::vector<Stmt>& way, std::int64_t size, Names& names) {
  if (size == 1) return PartGroup{};
  const auto* index = as<ir::VarRef>(l.part->index[0]);
  const auto loop = std::find_if(way.begin(), way.end(), [&](const Stmt& s) { return index && as<ir::Loop>(s) && as<ir::Loop>(s)->var == index->var; });
  const auto parts = loop == way.end() ? std::nullopt : ir::as_int(as<ir::Loop>(*loop)->extent);
  if (size < 1 || !parts || *parts % size != 0)
    return rejected(kValueFirstCode, "groups of " + std::to_string(size) + " of " + (parts ? std::to_string(*parts) : "no constant number of") + " parts", k, site.stmt(),
                    "a size that divides the number of parts, which one loop counts");
  return PartGroup{index->var, names.var(index->var.hint + "_g"), size};
}

/// The second nest: first the loops that say which part it is, then whether that may hold the place, then the search.
Stmt search_places(const Levels& l, const std::vector<Stmt>& way, const PartGroup& group, Names& names, std::vector<std::string>& made) {
  std::map<ir::Var, Expr> renamed;
  std::vector<Stmt> around = rename_way(way, group, names, renamed);
  std::vector<Expr> index;
  for (const Expr& e : l.part->index) index.push_back(ir::substitute(e, renamed));
  const auto is_of_part = [&](const Stmt& s) { return as<ir::Loop>(s) && std::any_of(index.begin(), index.end(), [&](const Expr& e) { return ir::uses(e, as<ir::Loop>(s)->var); }); };
  const bool is_box = std::all_of(around.begin(), around.end(), [&](const Stmt& s) {
    const std::set<ir::Var> used = as<ir::Loop>(s) ? ir::free_vars(as<ir::Loop>(s)->extent) : std::set<ir::Var>{};
    return std::none_of(renamed.begin(), renamed.end(), [&](const auto& r) {
      const std::set<ir::Var> of = ir::free_vars(r.second);
      return std::any_of(of.begin(), of.end(), [&](const ir::Var& v) { return used.contains(v); });
    });
  });
  if (is_box) std::stable_partition(around.begin(), around.end(), is_of_part);

  const Expr best = ir::load(l.value(), l.whole->index);
  const Expr value = ir::substitute(l.part->values[0], renamed), place = ir::substitute(l.part->values[1], renamed);
  const ir::Var named = names.var(l.part_value()->name + "_v");
  const Expr neutral = ir::identity(l.whole->monoid, {l.part_value()->dtype, place->dtype})[1];
  const Expr found = ir::select(reaches(ir::var(named, value->dtype), best), place, neutral);
  const Stmt search = ir::let(named, value, ir::update(ir::Monoid::min, {l.part->buffers[1]}, index, {found}));
  const auto behind = std::find_if(around.rbegin(), around.rend(), is_of_part).base();
  Expr may_hold;
  for (std::int64_t i = 0; i < group.size; ++i) {
    const Expr one = ir::substitute(reaches(ir::load(l.part_value(), index), best), {{group.of_group, ir::int_imm(i)}});
    may_hold = may_hold ? ir::binary(BinaryOp::or_, may_hold, one) : one;
  }
  auto at = around.insert(behind, ir::if_then(may_hold, search)) + 1;
  if (group.size > 1) {
    const auto uses_part = [&](const Stmt& s) {
      if (const auto* i = as<ir::If>(s)) return ir::uses(i->condition, group.of_group);
      const auto* let = as<ir::Let>(s);
      return let && ir::uses(let->value, group.of_group);
    };
    around.insert(std::find_if(at, around.end(), uses_part), ir::loop(group.of_group, ir::int_imm(group.size), search));
  }
  for (const Stmt& s : around)
    if (as<ir::Loop>(s)) made.push_back(as<ir::Loop>(s)->var.hint);
  return wrap(around, search);
}

}  // namespace

Result<Applied> apply(const ir::Kernel& k, const ValueFirst& step) {
  LW_TRY(const Site site, require_serial(k, step.loop));
  LW_CHECK(require_no_lanes(k, site, kValueFirstCode));
  LW_TRY(const Levels l, find_levels(k, site));
  if (!is_only_compared(k, l.value()) || !is_only_compared(k, l.part_value()))
    return rejected(kValueFirstCode, "`" + l.value()->name + "` is used beyond comparisons, and max orders -0 below +0", k, l.combining.leaf,
                    "integers, or a value of which only the place is used");
  if (!is_reproducible(l.part->values[0]))
    return rejected(kValueFirstCode, "the value is rounded on its way, perhaps in another way when it is looked for", k, l.part_update, "a value that is stored first, or exact arithmetic");
  LW_CHECK(require_fresh(k, site, l));
  const auto way = way_to(l.parts, l);
  if (way)
    for (const Stmt& s : *way)
      if (const auto* let = as<ir::Let>(s); let && !is_reproducible(let->value))
        return rejected(kValueFirstCode, "`" + let->var.hint + "` is rounded on its way", k, s, "exact arithmetic");
  if (!way) return rejected(kValueFirstCode, "what computes the partial results does more than that", k, l.parts, "value_first right after reduce_across");

  const ir::Monoid better = l.whole->monoid == ir::Monoid::argmax ? ir::Monoid::max : ir::Monoid::min;
  Names names(k);
  std::vector<std::string> made;
  LW_TRY(const PartGroup group, find_group(k, site, l, *way, step.group.empty() ? 1 : step.group[0], names));
  const Stmt search = search_places(l, *way, group, names, made);
  const ir::Var c = names.var(step.loop + "_p");
  made.push_back(c.hint);
  const Stmt combine = ir::loop(c, site.loop().extent, ir::update(ir::Monoid::min, {l.whole->buffers[1]}, l.whole->index, {ir::load(l.part->buffers[1], {ir::var(c)})}));
  const Stmt best_of_parts = wrap(l.combining.around, ir::update(better, {l.value()}, l.whole->index, {l.whole->values[0]}));
  const Stmt best_of_part = ir::update(better, {l.part_value()}, l.part->index, {l.part->values[0]});
  return Applied{edit(k, {{l.part_update.get(), best_of_part}, {site.stmt().get(), ir::seq({best_of_parts, search, combine})}}), std::move(made)};
}

}  // namespace loopwright::schedule
