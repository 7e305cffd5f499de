#include "src/schedule/steps/align_rows.h"

#include <algorithm>
#include <bit>

#include "src/ir/row_groups.h"
#include "src/schedule/rejection.h"
#include "src/schedule/tile.h"

namespace loopwright::schedule {

using ir::as;
using ir::Expr;
using ir::Stmt;
using ir::Var;

namespace {

constexpr ErrorCode kNoRows = ErrorCode::illegal_bind;
constexpr std::int64_t kMostTileRows = 65536;

bool is_exactly(const Expr& e, const Var& v) {
  const auto* x = as<ir::VarRef>(e);
  return x != nullptr && x->var == v;
}

/// One store or update with what is around it inside the loop over tiles.
struct RowStatement {
  Stmt statement;
  std::vector<Stmt> loops;
  std::vector<Expr> conditions;
  std::optional<Var> row;  ///< the loop over the rows of the tile
  std::vector<Expr> index() const {
    return as<ir::Store>(statement) != nullptr ? as<ir::Store>(statement)->index
                                               : as<ir::Update>(statement)->index;
  }
  std::vector<ir::Buffer> written() const { return ir::buffers_of(statement).written; }
};

/// A loop over tiles whose iterations compute each row from itself alone; and the same for tiles that begin anywhere.
class RowTiles {
 public:
  RowTiles(const ir::Kernel& k, const Site& site, const ir::RowGroups& groups, std::int64_t tile)
      : k_(k),
        site_(site),
        groups_(groups),
        tile_(tile),
        facts_(facts_inside(k, site)),
        number_(ir::fresh_var("tile")) {}

  /// Checks everything. Afterwards `tiles_of_row()` says how often each tile of rows comes.
  Status check() {
    LW_CHECK(take_number());
    LW_CHECK(check_extent());
    single_ = ir::as_int(ir::simplify(ir::ceil_div(groups_.rows, ir::int_imm(tile_)), facts_)) == 1;
    collect(body_, {}, {});
    if (!found_.empty()) return reject(site_.stmt(), found_);
    find_rows();
    for (const RowStatement& leaf : leaves_) LW_CHECK(check_leaf(leaf));
    return Unit{};
  }
  const Expr& inner() const { return inner_; }

  /// The body for the tile from row `first` on, whose group ends at `last`.
  Stmt place(const Var& first, const Var& last, const Var& group) {
    first_ = first, last_ = last, group_ = group;
    return rebuild(body_, {}, false);
  }

 private:
  Error reject(const Stmt& at, std::string found) const {
    return rejected(
        kNoRows, std::move(found), k_, at,
        "a loop over tiles of rows that are computed each from itself alone, before rows are split further");
  }

  /// The number of the tile becomes a variable of its own: the loop, or its quotient where it was fused with loops inside.
  Status take_number() {
    const Var& t = site_.loop().var;
    inner_ = ir::int_imm(1);
    body_ = site_.loop().body;
    bool several = false;
    ir::walk(
        body_, [](const Stmt&) {},
        [&](const Expr& e) {
          const auto* x = as<ir::Binary>(e);
          if (x == nullptr || x->op != ir::BinaryOp::floor_div || !is_exactly(x->a, t)) return;
          several = several || (as_int_one(inner_) ? false : !ir::same(inner_, x->b));
          inner_ = x->b;
        });
    if (several) return reject(site_.stmt(), "the tile of rows is no one quotient of `" + t.hint + "`");
    if (as_int_one(inner_)) {
      body_ = ir::substitute(body_, {{t, ir::var(number_)}});
      return Unit{};
    }
    // What is left of the loop are its positions inside, which keep their form.
    const Var rest = ir::fresh_var("rest");
    const auto take = [&](const Expr& e) {
      const auto* x = as<ir::Binary>(e);
      if (x == nullptr || !is_exactly(x->a, t) || !ir::same(x->b, inner_)) return e;
      return x->op == ir::BinaryOp::floor_div ? ir::var(number_)
             : x->op == ir::BinaryOp::mod     ? ir::var(rest)
                                              : e;
    };
    const Stmt taken = ir::rewrite(body_, take, [](const Stmt& s) { return s; });
    if (ir::uses(taken, t))
      return reject(
          site_.stmt(),
          "`" + t.hint + "` is used otherwise than by its quotient and remainder of " + ir::print(inner_));
    body_ = ir::substitute(taken, {{rest, ir::mod(ir::var(t), inner_)}});
    return Unit{};
  }

  static bool as_int_one(const Expr& e) { return ir::as_int(e) == 1; }

  Status check_extent() const {
    const ir::Facts before = facts_before(k_, site_);
    const Expr expected = ir::ceil_div(groups_.rows, ir::int_imm(tile_)) * inner_;
    if (ir::as_int(ir::simplify(site_.loop().extent - expected, before)) == 0) return Unit{};
    return reject(site_.stmt(), "the loop has " + ir::print(site_.loop().extent) +
                                    " iterations, not those of tiles of " + std::to_string(tile_) + " rows");
  }

  void collect(const Stmt& s, std::vector<Stmt> loops, std::vector<Expr> conditions) {
    std::visit(ir::on{[&](const ir::Loop& l) {
                        if (ir::uses(l.extent, number_))
                          found_ = "the extent of `" + l.var.hint + "` depends on the tile";
                        loops.push_back(s);
                        collect(l.body, loops, conditions);
                      },
                      [&](const ir::If& i) {
                        ir::take_conjuncts(i.condition, conditions);
                        collect(i.then, loops, conditions);
                      },
                      [&](const ir::Let&) { found_ = "it holds a Let"; },
                      [&](const ir::Alloc& a) {
                        local_.insert(a.buffer);
                        collect(a.body, loops, conditions);
                      },
                      [&](const ir::Seq& q) {
                        for (const Stmt& item : q.items) collect(item, loops, conditions);
                      },
                      [&](const ir::Store&) { leaves_.push_back({s, loops, conditions, {}}); },
                      [&](const ir::Update&) { leaves_.push_back({s, loops, conditions, {}}); }},
               s->v);
  }

  /// e less the number of the row: zero, a number, or not. The number of the only tile may have been left out.
  std::optional<std::int64_t> distance(const Expr& e, const Var& row) const {
    const Expr number = single_ ? ir::int_imm(0) : ir::var(number_);
    return ir::as_int(ir::simplify(
        (single_ ? ir::substitute(e, {{number_, number}}) : e) - number * ir::int_imm(tile_) - ir::var(row),
        facts_));
  }

  /// The loop over rows of each statement: with the tile's number in an index or condition, or, where all is local, in the
  /// dimension of the rows.
  void find_rows() {
    for (RowStatement& leaf : leaves_)
      for_each_index(leaf, [&](const Expr& e) {
        if (leaf.row || single_ || !ir::uses(e, number_)) return;
        for (const Stmt& s : leaf.loops) {
          const auto& l = std::get<ir::Loop>(s->v);
          if (ir::as_int(l.extent) == tile_ && distance(e, l.var)) leaf.row = l.var;
        }
      });
    // Of the only tile the group's index says which loop goes through rows.
    for (RowStatement& leaf : leaves_)
      ir::walk(
          leaf.statement, [](const Stmt&) {},
          [&](const Expr& e) {
            const auto* l = as<ir::Load>(e);
            if (!single_ || l == nullptr || l->buffer != groups_.group) return;
            const Expr at = ir::simplify(ir::substitute(l->index[0], {{number_, ir::int_imm(0)}}), facts_);
            if (const auto* v = as<ir::VarRef>(at)) leaf.row = v->var;
          });
    for (bool changed = true; changed;) {
      changed = false;
      for (RowStatement& leaf : leaves_)
        for_each_local(leaf, [&](const ir::Buffer& b, const std::vector<Expr>& index) {
          const auto known = row_dims_.find(b);
          for (std::size_t d = 0; d < index.size(); ++d) {
            if (leaf.row && known == row_dims_.end() && is_exactly(index[d], *leaf.row))
              changed = row_dims_.emplace(b, d).second;
            const auto* v = as<ir::VarRef>(index[d]);
            if (!leaf.row && known != row_dims_.end() && known->second == d && v != nullptr)
              leaf.row = v->var, changed = true;
          }
        });
    }
  }

  template <class F>
  static void for_each_index(const RowStatement& leaf, const F& f) {
    for (const Expr& c : leaf.conditions)
      if (const auto* x = as<ir::Binary>(c)) f(x->a);
    for (const Expr& e : leaf.index()) f(e);
    ir::walk(
        leaf.statement, [](const Stmt&) {},
        [&](const Expr& e) {
          if (const auto* l = as<ir::Load>(e))
            for (const Expr& i : l->index) f(i);
        });
  }

  template <class F>
  void for_each_local(const RowStatement& leaf, const F& f) const {
    const auto visit = [&](const ir::Buffer& b, std::vector<Expr> index) {
      for (Expr& e : index) e = ir::simplify(e, facts_);
      if (local_.contains(b)) f(b, index);
    };
    for (const ir::Buffer& b : leaf.written()) visit(b, leaf.index());
    ir::walk(
        leaf.statement, [](const Stmt&) {},
        [&](const Expr& e) {
          if (const auto* l = as<ir::Load>(e)) visit(l->buffer, l->index);
        });
  }

  Status check_leaf(const RowStatement& leaf) const {
    if (!leaf.row)
      return reject(leaf.statement,
                    "no loop of " + std::to_string(tile_) + " iterations goes through the tile's rows");
    const auto loop = std::find_if(leaf.loops.begin(), leaf.loops.end(),
                                   [&](const Stmt& s) { return std::get<ir::Loop>(s->v).var == *leaf.row; });
    if (loop == leaf.loops.end() || ir::as_int(std::get<ir::Loop>((*loop)->v).extent) != tile_)
      return reject(leaf.statement, "the loop over the tile's rows has another number of them");
    for (const ir::Buffer& b : leaf.written()) {
      if (local_.contains(b)) continue;
      const std::vector<Expr> index = leaf.index();
      if (std::none_of(index.begin(), index.end(),
                       [&](const Expr& e) { return distance(e, *leaf.row) == 0; }))
        return reject(leaf.statement, "`" + b->name + "` is not written at the row");
      for (const RowStatement& other : leaves_)
        for (const ir::Buffer& read : ir::buffers_of(other.statement).read)
          if (read == b) return reject(other.statement, "`" + b->name + "` is read and written");
    }
    std::string wrong;
    for_each_local(leaf, [&](const ir::Buffer& b, const std::vector<Expr>& index) {
      const auto d = row_dims_.find(b);
      if (d == row_dims_.end() || !is_exactly(index[d->second], *leaf.row))
        wrong = "`" + b->name + "` is not indexed by the row";
      for (std::size_t i = 0; i < index.size(); ++i)
        if (d != row_dims_.end() && i != d->second &&
            (ir::uses(index[i], *leaf.row) || ir::uses(index[i], number_)))
          wrong = "`" + b->name + "` is indexed by the row twice";
    });
    for (const Expr& c : leaf.conditions)
      if ((ir::uses(c, number_) || ir::uses(c, *leaf.row)) && !keeps_rows(c, *leaf.row))
        wrong = "the condition " + ir::print(c) + " says more of a row than that it is there";
    if (wrong.empty() && !single_ && !is_of_row(leaf))
      wrong = "the tile's number is used for more than its rows";
    return wrong.empty() ? Status(Unit{}) : reject(leaf.statement, wrong);
  }

  bool keeps_rows(const Expr& c, const Var& row) const {
    const auto* x = as<ir::Binary>(c);
    return x != nullptr && x->op == ir::BinaryOp::lt && distance(x->a, row) == 0 &&
           ir::as_int(ir::simplify(x->b - groups_.rows, facts_)) == 0;
  }

  /// Whether all that depends on the tile or the position in it does so by the number of the row.
  bool is_of_row(const RowStatement& leaf) const {
    bool fine = true;
    const auto visit = [&](const Expr& e) {
      const Expr moved = shift(e, *leaf.row, ir::fresh_var("any"));
      fine = fine && !ir::uses(moved, number_);
      if (const auto* l = as<ir::Load>(moved); l != nullptr && l->buffer == groups_.group) fine = false;
    };
    const auto values = as<ir::Store>(leaf.statement) != nullptr
                            ? std::vector{as<ir::Store>(leaf.statement)->value}
                            : as<ir::Update>(leaf.statement)->values;
    for (const Expr& e : values) {
      visit(e);
      fine = fine && !has_bare_row(e, *leaf.row);
    }
    for (const Expr& e : leaf.index()) visit(e);
    return fine;
  }

  /// Whether a value uses the position in the tile beside local indices and numbers of rows.
  bool has_bare_row(const Expr& e, const Var& row) const {
    if (!ir::uses(e, row)) return false;
    if (const auto* l = as<ir::Load>(e)) {
      if (local_.contains(l->buffer)) return false;
      return std::any_of(l->index.begin(), l->index.end(),
                         [&](const Expr& i) { return has_bare_row(i, row); });
    }
    if (e->dtype == DType::i64 && distance(e, row)) return false;
    if (is_exactly(e, row)) return true;
    bool found = false;
    ir::map_children(e, [&](const Expr& child) {
      found = found || has_bare_row(child, row);
      return child;
    });
    return found;
  }

  /// The expression for tiles that begin at `first`; loads of the row's group become the tile's, if there is one.
  Expr shift(const Expr& e, const Var& row, const Var& first) const {
    if (!ir::uses(e, number_) && !(single_ && ir::uses(e, row))) return e;
    if (const auto* l = as<ir::Load>(e)) {
      if (l->buffer == groups_.group && distance(l->index[0], row) == 0)
        return ir::var(group_.value_or(first));
      if (single_ && local_.contains(l->buffer)) return e;
    } else if (single_) {
      if (e->dtype == DType::i64 && as<ir::Load>(e) == nullptr && distance(e, row) == 0)
        return ir::var(first) + ir::var(row);
      if (is_exactly(e, row)) return ir::var(first) + e;
      if (is_exactly(e, number_)) return ir::int_imm(0);
    } else if (e->dtype == DType::i64) {
      const Expr moved = ir::simplify(e - ir::var(number_) * ir::int_imm(tile_) + ir::var(first), facts_);
      if (!ir::uses(moved, number_)) return moved;
    }
    return ir::map_children(e, [&](const Expr& child) { return shift(child, row, first); });
  }

  std::optional<Var> row_of(const Stmt& statement) const {
    for (const RowStatement& leaf : leaves_)
      if (leaf.statement == statement) return leaf.row;
    return std::nullopt;
  }

  /// `guarded`: a condition around keeps to the group's rows.
  Stmt rebuild(const Stmt& s, const std::vector<Stmt>& loops, bool guarded) {
    if (const auto* l = as<ir::Loop>(s)) {
      std::vector<Stmt> inside = loops;
      inside.push_back(s);
      if (guarded || !needs_guard(*l))
        return ir::loop(l->var, l->extent, rebuild(l->body, inside, guarded), l->kind);
      return ir::loop(l->var, l->extent,
                      ir::if_then(ir::lt(ir::var(*first_) + ir::var(l->var), ir::var(*last_)),
                                  rebuild(l->body, inside, true)),
                      l->kind);
    }
    if (const auto* i = as<ir::If>(s)) {
      std::vector<Expr> parts;
      ir::take_conjuncts(i->condition, parts);
      for (Expr& part : parts)
        for (const Stmt& around : loops)
          if (const Var& v = std::get<ir::Loop>(around->v).var; keeps_rows(part, v))
            part = ir::lt(ir::var(*first_) + ir::var(v), ir::var(*last_)), guarded = true;
      return ir::if_then(conjunction(parts), rebuild(i->then, loops, guarded));
    }
    if (as<ir::Store>(s) == nullptr && as<ir::Update>(s) == nullptr)
      return ir::map_children(
          s, [](const Expr& e) { return e; },
          [&](const Stmt& child) { return rebuild(child, loops, guarded); });
    const Var row = *row_of(s);
    LW_BUG_IF(!guarded && touches_row(s), "a row of another group is touched");
    const auto moved = [&](const Expr& e) { return shift(e, row, *first_); };
    const auto moved_index = [&](const std::vector<Expr>& index, const ir::Buffer& b) {
      std::vector<Expr> out;
      for (const Expr& e : index) out.push_back(local_.contains(b) ? e : moved(e));
      return out;
    };
    if (const auto* x = as<ir::Store>(s))
      return ir::store(x->buffer, moved_index(x->index, x->buffer), moved(x->value));
    const auto* u = as<ir::Update>(s);
    std::vector<Expr> values;
    for (const Expr& e : u->values) values.push_back(moved(e));
    return ir::update(u->monoid, u->buffers, moved_index(u->index, u->buffers[0]), values);
  }

  /// Whether the statement reads or writes more than local memory, and so must keep to rows that there are.
  bool touches_row(const Stmt& statement) const {
    const ir::Accesses found = ir::buffers_of(statement);
    const auto is_other = [&](const ir::Buffer& b) { return !local_.contains(b); };
    const bool other = std::any_of(found.read.begin(), found.read.end(), is_other) ||
                       std::any_of(found.written.begin(), found.written.end(), is_other);
    return other && (single_ || ir::uses(statement, number_));
  }

  /// Whether the loop is the rows' of a statement that touches the row and has no condition, as tiles of all rows need none.
  bool needs_guard(const ir::Loop& l) const {
    return std::any_of(leaves_.begin(), leaves_.end(), [&](const RowStatement& leaf) {
      const bool inside = std::any_of(leaf.loops.begin(), leaf.loops.end(),
                                      [&](const Stmt& s) { return &std::get<ir::Loop>(s->v) == &l; });
      const bool kept = std::any_of(leaf.conditions.begin(), leaf.conditions.end(),
                                    [&](const Expr& c) { return keeps_rows(c, l.var); });
      return inside && leaf.row == l.var && !kept && touches_row(leaf.statement);
    });
  }

  const ir::Kernel& k_;
  const Site& site_;
  const ir::RowGroups& groups_;
  std::int64_t tile_;
  ir::Facts facts_;
  Var number_;  ///< of the tile of rows
  Expr inner_;  ///< iterations for each tile of rows
  Stmt body_;
  bool single_ = false;  ///< there is one tile
  std::set<ir::Buffer> local_;
  std::map<ir::Buffer, std::size_t> row_dims_;
  std::vector<RowStatement> leaves_;
  std::string found_;  ///< what is wrong with the body
  std::optional<Var> first_, last_, group_;
};

/// The nest that begins the search of the groups; null when there is none.
Stmt find_beginning(const ir::Kernel& k, const ir::Buffer& group) {
  Stmt found;
  ir::walk(
      k.body,
      [&](const Stmt& s) {
        const auto* l = as<ir::Loop>(s);
        const auto* store = l != nullptr ? as<ir::Store>(l->body) : nullptr;
        if (store != nullptr && store->buffer == group && ir::as_int(store->value) == INT64_MAX) found = s;
      },
      [](const Expr&) {});
  return found;
}

ir::Buffer make_buffer(const std::string& name, DType dtype, std::vector<Expr> shape) {
  ir::BufferInfo info;
  info.name = name;
  info.dtype = dtype;
  info.memory = shape.empty() ? ir::Memory::registers : ir::Memory::global;
  info.shape = std::move(shape);
  return std::make_shared<const ir::BufferInfo>(std::move(info));
}

/// Finds the tile with a number among those of all groups. What is found is a number each, or, in tables, one of every tile.
struct TileSearch {
  DType dtype;
  ir::Buffer begin, passed, group, first, last;
  std::vector<Expr> place;  ///< in tables: the tile that is looked for

  TileSearch(Names& names, DType d, const std::vector<Expr>& shape, std::vector<Expr> at)
      : dtype(d),
        begin(make_buffer(names.take("rows_begin"), d, {})),
        passed(make_buffer(names.take("tiles_passed"), d, {})),
        group(make_buffer(names.take("tile_group"), d, shape)),
        first(make_buffer(names.take("tile_first"), d, shape)),
        last(make_buffer(names.take("tile_last"), d, shape)),
        place(std::move(at)) {}

  std::vector<ir::Buffer> found() const { return {group, first, last}; }
  Expr number(std::int64_t value) const { return ir::int_imm(value, dtype); }
  Expr read(const ir::Buffer& b) const { return ir::load(b, {}); }

  /// The tile is of this group unless a later one is reached as well. `first` is where the group's tile 0 of all would be.
  Stmt take(const Expr& which, const Expr& e, const Expr& end, std::int64_t tile) const {
    return ir::if_then(
        ir::binary(ir::BinaryOp::le, read(passed), which),
        ir::seq({ir::store(group, place, e),
                 ir::store(first, place, read(begin) - read(passed) * number(tile)),
                 ir::store(last, place, end)}));
  }

  /// In variables for the loop over groups, an offset, and where the group ends; `begin` and `passed` are allocated around.
  std::vector<Stmt> statements(const ir::RowGroups& g, const Expr& tile_number, std::int64_t tile,
                               const Var& each, const Var& at, const Var& end) const {
    const Expr which = ir::cast(tile_number, dtype), zero = ir::int_imm(0);
    const Expr offset =
        ir::min(ir::max(ir::cast(ir::load(g.offsets, {ir::var(each)}), DType::i64), zero), g.rows);
    const Expr until = ir::var(end, dtype);
    const Expr up = until - read(begin) + number(tile - 1);
    const bool is_power = (tile & (tile - 1)) == 0;  // no number here is below zero
    const Expr tiles = is_power ? ir::binary(ir::BinaryOp::shr, up,
                                             number(std::countr_zero(static_cast<std::uint64_t>(tile))))
                                : ir::binary(ir::BinaryOp::div, up, number(tile));
    const Stmt step = ir::seq({take(which, ir::cast(ir::var(each), dtype), until, tile),
                               ir::store(passed, {}, read(passed) + tiles), ir::store(begin, {}, until)});
    return {
        ir::store(begin, {}, number(0)), ir::store(passed, {}, number(0)),
        ir::loop(each, g.count,
                 ir::let(at, offset, ir::let(end, ir::max(read(begin), ir::cast(ir::var(at), dtype)), step))),
        take(which, ir::cast(g.count, dtype), ir::cast(g.rows, dtype), tile)};
  }
};

}  // namespace

Result<Applied> apply(const ir::Kernel& k, const AlignRows& step) {
  if (step.tile < 1 || step.tile > kMostTileRows)
    return rejected(ErrorCode::bad_argument, "tiles of " + std::to_string(step.tile) + " rows", {},
                    "1 to 65536 rows");
  LW_TRY(const Site site, require_loop(k, step.loop));
  LW_TRY(const ir::Buffer buffer, require_buffer(k, step.group));
  LW_CHECK(require_no_lanes(k, site, kNoRows));
  const ir::LoopKind kind = site.loop().kind;
  if (kind != ir::LoopKind::serial && kind != ir::LoopKind::parallel && !ir::is_grid(kind))
    return rejected(ErrorCode::bad_argument,
                    "loop `" + step.loop + "` is " + std::string(ir::name(kind)) + " already", k, site.stmt(),
                    "a loop that is serial, parallel or of a grid");
  std::vector<ir::RowGroups> all = ir::find_row_groups(k.body);
  std::erase_if(all, [&](const ir::RowGroups& g) { return g.group != buffer; });
  const auto works = [](const std::string& what) { return "`group_of`, whose result " + what; };
  if (all.size() != 1)
    return rejected(kNoRows, "`" + step.group + "` is not found by one nest from offsets", k, site.stmt(),
                    works("nothing else writes"));
  const ir::RowGroups& groups = all[0];
  const auto is_input = [&](const ir::Param& p) {
    return p.buffer == groups.offsets && p.role == ArgRole::input;
  };
  const Stmt beginning = find_beginning(k, buffer);
  if (std::none_of(k.params.begin(), k.params.end(), is_input) || beginning == nullptr || is_param(k, buffer))
    return rejected(kNoRows, "`" + step.group + "` is an output, or made of something that is computed", k,
                    site.stmt(), works("is used in the kernel alone, of offsets that are an input"));

  RowTiles tiles(k, site, groups, step.tile);
  LW_CHECK(tiles.check());
  Names names(k);
  const Site group_site = *find_stmt(k, groups.nest);
  const ir::Facts facts = facts_before(k, site);
  // The last tile's number times its rows is below the rows and a tile more of each group.
  const ir::Interval rows = facts.bounds(groups.rows), count = facts.bounds(groups.count);
  const bool is_small = rows.hi < INT32_MAX / 2 && count.hi < INT32_MAX / 4 / step.tile;
  const Expr number = ir::as_int(tiles.inner()) == 1 ? ir::var(site.loop().var)
                                                     : ir::floor_div(ir::var(site.loop().var), tiles.inner());
  const Expr count_of_tiles = ir::ceil_div(groups.rows, ir::int_imm(step.tile)) + groups.count;
  const Var each_tile = names.var(step.loop + "_t");
  const TileSearch search(
      names, is_small ? DType::i32 : DType::i64,
      step.ahead ? std::vector{ir::simplify(count_of_tiles, ir::Facts(k))} : std::vector<Expr>{},
      step.ahead ? std::vector{ir::var(each_tile)} : std::vector<Expr>{});
  const Var each = names.var(step.loop + "_e"), at = names.var("rows_at"), end = names.var("rows_end");
  const Var group = names.var("group"), first = names.var("row_first"), last = names.var("row_last");
  const std::vector<Stmt> looking =
      search.statements(groups, step.ahead ? ir::var(each_tile) : number, step.tile, each, at, end);
  const auto le = [](const Expr& a, const Expr& b) { return ir::binary(ir::BinaryOp::le, a, b); };
  // All of these but one always hold; they say so to whoever looks at indices.
  const Expr there = conjunction({le(ir::int_imm(0), ir::var(first)), ir::lt(ir::var(first), groups.rows),
                                  ir::lt(ir::var(first), ir::var(last)), le(ir::var(last), groups.rows),
                                  le(ir::int_imm(0), ir::var(group)), le(ir::var(group), groups.count)});
  const auto found = [&](const ir::Buffer& b) {
    return ir::load(b, step.ahead ? std::vector{number} : std::vector<Expr>{});
  };
  Stmt body = ir::if_then(there, tiles.place(first, last, group));
  body = ir::let(last, ir::cast(found(search.last), DType::i64), body);
  const Expr skipped = ir::cast(number, search.dtype) * search.number(step.tile);
  body = ir::let(first, ir::cast(found(search.first) + skipped, DType::i64), body);
  body = ir::let(group, ir::cast(found(search.group), DType::i64), body);
  const std::vector<ir::Buffer> scalars{search.begin, search.passed};
  Stmt in_front = ir::seq({});
  if (step.ahead) {
    in_front = ir::loop(each_tile, search.group->shape[0], alloc_all(scalars, ir::seq(looking)));
  } else {
    std::vector<Stmt> items = looking;
    items.push_back(body);
    body = alloc_all(scalars, alloc_all(search.found(), ir::seq(std::move(items))));
  }
  const Expr extent = ir::simplify(count_of_tiles * tiles.inner(), facts);
  const Stmt loop = ir::loop(site.loop().var, extent, body, site.loop().kind);
  ir::Kernel out =
      edit(k, {{site.stmt().get(), loop}, {beginning.get(), ir::seq({})}, {groups.nest.get(), in_front}});
  if (step.ahead) out.body = alloc_all(search.found(), out.body);
  const ir::Accesses left = ir::buffers_of(out.body);
  for (const auto& buffers : {left.read, left.written})
    if (std::find(buffers.begin(), buffers.end(), buffer) != buffers.end())
      return rejected(kNoRows, "`" + step.group + "` is used outside the loop, or of other rows", k,
                      site.stmt(), works("is read in the loop alone"));
  out.body = drop_allocs(out.body, {buffer});
  std::vector<std::string> made{each.hint};
  if (step.ahead) made.insert(made.begin(), each_tile.hint);
  return Applied{std::move(out), std::move(made)};
}

}  // namespace loopwright::schedule
