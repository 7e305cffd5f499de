#include "src/schedule/steps/hold.h"

#include <algorithm>

#include "src/schedule/dependence.h"
#include "src/schedule/narrow.h"
#include "src/schedule/tiling.h"

namespace loopwright::schedule {

using ir::as;
using ir::Expr;
using ir::Stmt;
using ir::Var;

namespace {

constexpr ErrorCode kHoldCode = ErrorCode::illegal_hold;
using Buffers = std::vector<ir::Buffer>;

/// The accesses of the held buffers in the body, their box, and the conditions under which an element of it is used.
struct Held {
  Buffers buffers;
  std::vector<Access> accesses;
  Region region;
  std::vector<Var> t;
  std::vector<Expr> conditions;
  std::set<ir::Buffer> written;  ///< by the body
  bool padded = false;           ///< see region_of
};

bool includes(const std::vector<Expr>& all, const std::vector<Expr>& some) {
  return std::all_of(some.begin(), some.end(), [&](const Expr& x) {
    return std::any_of(all.begin(), all.end(), [&](const Expr& y) { return ir::same(x, y); });
  });
}

Result<Held> find_held(const ir::Kernel& k, const ir::Buffer& buffer, const Site& site,
                       const ir::Facts& facts, bool padded) {
  Held held;
  held.padded = padded;
  held.buffers = update_group(k.body, buffer);
  const std::vector<Access> accesses = collect_accesses(site.loop().body);
  held.written = written_buffers(accesses);
  for (const Access& a : accesses)
    if (std::find(held.buffers.begin(), held.buffers.end(), a.buffer) != held.buffers.end())
      held.accesses.push_back(a);
  const bool written =
      std::any_of(held.accesses.begin(), held.accesses.end(), [](const Access& a) { return a.writes(); });
  if (!written)
    return rejected(kHoldCode, "the body of `" + site.loop().var.hint + "` does not write `" + buffer->name + "`",
                    k, site.stmt(), "stage, for a buffer that is only read");
  if (std::any_of(held.accesses.begin(), held.accesses.end(), [](const Access& a) { return a.local; }))
    return rejected(kHoldCode, "`" + buffer->name + "` is allocated inside the loop", k, site.stmt(),
                    "a loop inside its allocation");
  held.region = region_of(held.accesses, held.buffers, facts, false, padded);
  for (std::size_t d = 0; d < held.region.size(); ++d) held.t.push_back(ir::fresh_var("t"));
  for (const Access& a : held.accesses) {
    if (!a.writes()) continue;
    const Region own = region_of(a, facts, padded);
    const bool exact = std::all_of(own.begin(), own.end(), [](const Range& r) { return r.exact; });
    if (!exact || !same_box(own, held.region, facts)) continue;
    const auto conditions = conditions_of(a, held.region, held.t, facts);
    if (!conditions) continue;
    held.conditions = *conditions;
    return held;
  }
  return rejected(
      kHoldCode,
      "no write covers the region " + text(held.region) + " of `" + buffer->name + "` that the body uses", k,
      site.stmt(), "a loop whose body writes a dense box of `" + buffer->name + "`");
}

/// True when the body writes every element of the buffer that it uses before it uses it.
bool begins_with_write(const Held& held, const ir::Buffer& buffer, const ir::Facts& facts) {
  std::vector<Access> own;
  std::copy_if(held.accesses.begin(), held.accesses.end(), std::back_inserter(own),
               [&](const Access& a) { return a.buffer == buffer; });
  const Access& first = own.front();
  if (first.kind != Access::Kind::write || !is_certain(first, facts)) return false;
  const Region box = region_of(first, facts, held.padded);
  if (!same_box(box, held.region, facts)) return false;
  if (!std::all_of(box.begin(), box.end(), [](const Range& r) { return r.exact; })) return false;
  const auto under = conditions_of(first, held.region, held.t, facts);
  if (!under) return false;
  return std::all_of(own.begin() + 1, own.end(), [&](const Access& a) {
    // Within shared loops only the iteration itself has been written.
    const auto equal = equal_iterations(first, a, facts, held.written);
    if (equal && std::find(equal->begin(), equal->end(), false) != equal->end()) return false;
    const auto conditions = conditions_of(a, held.region, held.t, facts);
    return conditions && includes(*conditions, *under);
  });
}

/// Loops over the box around `leaf(index in the tile, index in the buffer)`.
template <class Leaf>
Stmt copy_loops(const Held& held, const std::vector<Var>& loops, const Leaf& leaf) {
  std::vector<Expr> inner, outer;
  for (std::size_t d = 0; d < loops.size(); ++d) {
    inner.push_back(ir::var(loops[d]));
    outer.push_back(held.region[d].whole ? inner.back() : held.region[d].base + inner.back());
  }
  Stmt s = leaf(inner, outer);
  for (std::size_t d = loops.size(); d-- > 0;) s = ir::loop(loops[d], held.region[d].extent, s);
  return s;
}

Expr said_of(const std::vector<Expr>& conditions, const Held& held, const std::vector<Var>& loops) {
  std::map<Var, Expr> values;
  for (std::size_t d = 0; d < loops.size(); ++d) values[held.t[d]] = ir::var(loops[d]);
  const Expr all = conjunction(conditions);
  return all ? ir::substitute(all, values) : all;
}

std::vector<Var> make_loops(const Held& held, const std::string& base, Names& names) {
  std::vector<Var> out;
  for (std::size_t d = 0; d < held.region.size(); ++d)
    out.push_back(names.var(base + "_" + std::to_string(d)));
  return out;
}

/// The nests in front that initialise the buffers, when each iteration of the loop completes its own tile.
std::optional<Producers> find_initialiser(const ir::Kernel& k, const Held& held, const Site& site,
                                          const ir::Facts& facts) {
  auto found = find_producers(k, held.buffers, site, true, kHoldCode);
  if (!found.ok() || found->units.empty()) return std::nullopt;
  for (const Stmt& u : found->units)
    for (const Access& a : collect_accesses(u))
      if (a.kind != Access::Kind::write) return std::nullopt;
  const auto used = [&](const std::vector<Access>& accesses) {
    return std::count_if(accesses.begin(), accesses.end(), [&](const Access& a) {
      return std::find(held.buffers.begin(), held.buffers.end(), a.buffer) != held.buffers.end();
    });
  };
  for (const Stmt& s : found->between)
    if (used(collect_accesses(s)) != 0) return std::nullopt;
  if (used(collect_accesses(found->user)) != static_cast<std::ptrdiff_t>(held.accesses.size()))
    return std::nullopt;
  std::vector<Stmt> loops;
  bool inside = false;
  for (const Stmt& s : site.path) {
    inside = inside || s == found->user;
    if (inside && as<ir::If>(s)) return std::nullopt;
    if (inside && as<ir::Loop>(s)) loops.push_back(s);
  }
  if (explain_no_tiling(held.region, held.buffers.front(), loops, facts)) return std::nullopt;
  return *found;
}

/// Copies what the body uses before it writes it.
Result<Stmt> make_fill(const ir::Kernel& k, const Held& held, const Site& site,
                       const std::map<ir::Buffer, ir::Buffer>& local, const std::string& base,
                       const ir::Facts& facts, Names& names) {
  Buffers filled;
  for (const ir::Buffer& b : held.buffers) {
    if (begins_with_write(held, b, facts)) continue;
    if (!is_written_before(k, site, b, held.region, held.t, held.conditions))
      return rejected(
          kHoldCode,
          "elements of `" + b->name +
              "` may have no value in front of the loop, and the body does not begin by writing them",
          k, site.stmt(), "a loop behind a nest that writes all of `" + b->name + "`");
    filled.push_back(b);
  }
  if (filled.empty()) return ir::seq({});
  const std::vector<Var> loops = make_loops(held, base + "_in", names);
  const Expr condition = said_of(held.conditions, held, loops);
  return copy_loops(held, loops, [&](const auto& inner, const auto& outer) {
    std::vector<Stmt> stores;
    for (const ir::Buffer& b : filled) {
      Expr value = ir::load(b, outer);
      if (condition) value = ir::select(condition, value, ir::constant(0, b->dtype));
      stores.push_back(ir::store(local.at(b), inner, value));
    }
    return ir::seq(std::move(stores));
  });
}

}  // namespace

Result<Applied> apply(const ir::Kernel& k, const Hold& step) {
  LW_TRY(const ir::Buffer buffer, require_buffer(k, step.buffer));
  LW_TRY(const Site site, require_loop(k, step.loop));
  LW_CHECK(require_room(k, site, step.place, kHoldCode));
  const ir::Facts facts = facts_inside(k, site);
  LW_TRY(Held held, find_held(k, buffer, site, facts, step.place == Place::fragment));

  Names names(k);
  std::map<ir::Buffer, ir::Buffer> local;
  Buffers tiles;
  for (const ir::Buffer& b : held.buffers) {
    LW_TRY(local[b],
           make_local(b, names.take(b->name + "_tile"), extents_of(held.region), step.place, kHoldCode));
    tiles.push_back(local[b]);
  }
  const std::string base = local[buffer]->name;
  std::vector<Stmt> items;
  Edits edits;
  if (const auto init = find_initialiser(k, held, site, facts)) {
    for (const Stmt& u : init->units) {
      LW_TRY(Stmt moved, narrow(k, u, local, held.region, facts, kHoldCode));
      items.push_back(std::move(moved));
      edits[u.get()] = ir::seq({});
    }
    held.conditions = bounds_of(buffer, held.region, held.t, facts);
  } else {
    LW_TRY(const Stmt fill, make_fill(k, held, site, local, base, facts, names));
    items.push_back(fill);
  }
  items.push_back(redirect(site.loop().body, facts, local, relative_to(held.region)));
  const std::vector<Var> loops = make_loops(held, base, names);
  const Expr condition = said_of(held.conditions, held, loops);
  items.push_back(copy_loops(held, loops, [&](const auto& inner, const auto& outer) {
    std::vector<Stmt> stores;
    for (const ir::Buffer& b : held.buffers) stores.push_back(ir::store(b, outer, ir::load(local[b], inner)));
    const Stmt all = ir::seq(std::move(stores));
    return condition ? ir::if_then(condition, all) : all;
  }));
  edits[site.stmt().get()] = with_body(site.stmt(), alloc_all(tiles, ir::seq(std::move(items))));
  Applied out{drop_guards(edit(k, edits)), {}};
  for (const Var& v : loops) out.made.push_back(v.hint);
  return out;
}

}  // namespace loopwright::schedule
