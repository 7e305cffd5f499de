#include "src/schedule/steps/scan_across.h"

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

constexpr ErrorCode kScanAcrossCode = ErrorCode::illegal_reduce_across;
constexpr std::int64_t kMaxScanWays = 65536;
constexpr std::int64_t kMaxChunk = 64;

/// The loop's body taken apart: buffer[.., i, ..] = buffer[.., i - 1, ..] combine value.
struct Recurrence {
  ir::Monoid monoid{};
  const ir::Store* store = nullptr;
  Expr value;
  std::vector<Stmt> kept;        ///< loops inside
  std::vector<Expr> conditions;  ///< around the store, which do not use the loop
};

std::optional<ir::Monoid> monoid_of(ir::BinaryOp op) {
  switch (op) {
    case ir::BinaryOp::add: return ir::Monoid::sum;
    case ir::BinaryOp::mul: return ir::Monoid::product;
    case ir::BinaryOp::min: return ir::Monoid::min;
    case ir::BinaryOp::max: return ir::Monoid::max;
    default: return std::nullopt;
  }
}

/// Whether `e` is select(i == 0, neutral, buffer[.., i - 1, ..]).
bool is_previous(const Expr& e, const ir::Store& st, ir::Monoid monoid, const Var& i,
                 const ir::Facts& facts) {
  const auto* s = as<ir::Select>(e);
  const auto* l = s ? as<ir::Load>(s->b) : nullptr;
  if (!l || l->buffer != st.buffer || !ir::same(s->a, ir::identity(monoid, {st.buffer->dtype})[0]))
    return false;
  const Expr first = ir::binary(ir::BinaryOp::eq, ir::var(i), ir::int_imm(0));
  if (!ir::same(ir::simplify(s->condition, facts), ir::simplify(first, facts))) return false;
  bool moves = false;
  for (std::size_t d = 0; d < st.index.size(); ++d) {
    const Expr before = ir::substitute(st.index[d], {{i, ir::var(i) - ir::int_imm(1)}});
    if (!ir::same(ir::simplify(before, facts), ir::simplify(l->index[d], facts))) return false;
    moves = moves || ir::uses(st.index[d], i);
  }
  return moves;
}

bool reads(const Expr& e, const ir::Buffer& buffer) {
  bool found = false;
  ir::walk(e, [&](const Expr& x) {
    const auto* l = as<ir::Load>(x);
    found = found || (l && l->buffer == buffer);
  });
  return found;
}

Result<Recurrence> find_recurrence(const ir::Kernel& k, const Site& site) {
  const auto reject = [&](std::string found, const Stmt& at) {
    return rejected(kScanAcrossCode, std::move(found), k, at,
                    "a loop around y[i] = select(i == 0, neutral, y[i - 1]) combined with a value");
  };
  const Var& i = site.loop().var;
  Recurrence r;
  const Chain chain = chain_of(site.loop().body);
  r.store = as<ir::Store>(chain.leaf);
  if (!r.store) return reject("the loop does not hold a single store", site.stmt());
  ir::Facts facts = facts_inside(k, site);
  for (const Stmt& s : chain.around) {
    if (const auto* l = as<ir::Loop>(s)) {
      if (l->kind != ir::LoopKind::serial || !ir::as_int(ir::simplify(l->extent, facts)))
        return reject("loop `" + l->var.hint + "` inside it is bound already or has no constant extent", s);
      r.kept.push_back(s);
    } else if (const auto* c = as<ir::If>(s)) {
      if (ir::uses(c->condition, i) || ir::has_load(c->condition))
        return reject("it computes under the condition " + ir::print(c->condition), s);
      r.conditions.push_back(c->condition);
    } else {
      return reject("it holds a Let", s);
    }
    enter(facts, s);
  }
  const auto* op = as<ir::Binary>(r.store->value);
  const auto monoid = op ? monoid_of(op->op) : std::nullopt;
  if (!monoid) return reject("the value stored is " + ir::print(r.store->value), chain.leaf);
  r.monoid = *monoid;
  if (is_previous(op->a, *r.store, r.monoid, i, facts)) r.value = op->b;
  else if (is_previous(op->b, *r.store, r.monoid, i, facts)) r.value = op->a;
  if (!r.value || reads(r.value, r.store->buffer))
    return reject("the value stored is " + ir::print(r.store->value), chain.leaf);
  const std::vector<Access> accesses = collect_accesses(site.stmt());
  const auto equal =
      equal_iterations(accesses.back(), accesses.back(), facts_before(k, site), written_buffers(accesses));
  for (std::size_t n = 1; equal && n < equal->size(); ++n)
    if (!(*equal)[n])
      return reject(
          "iterations of `" + accesses.back().loop(n).var.hint + "` inside it may write the same element",
          chain.leaf);
  return r;
}

/// Writes the loops of the new nests.
class ScanBuilder {
 public:
  ScanBuilder(const ir::Kernel& k, const Site& site, const Recurrence& r, const ScanAcross& step)
      : r_(r),
        step_(step),
        loop_(site.loop()),
        facts_(facts_before(k, site)),
        names_(k),
        round_(names_.var(step.loop + "_r")) {
    made_.push_back(round_.hint);
  }

  Result<Applied> build(const ir::Kernel& k, const Site& site) {
    LW_CHECK(make_buffers());
    const Stmt load = nest([&](const Element& at) { return ir::store(part_, part_index(at), padded(at)); });
    const Stmt own = nest([&](const Element& at) {
      Element before = at;
      before.element = at.element - ir::int_imm(1);
      const Expr is_first = ir::binary(ir::BinaryOp::eq, at.element, ir::int_imm(0));
      const Expr sum = ir::select(is_first, neutral(), ir::load(part_, part_index(before)));
      return ir::store(part_, part_index(at), combine(sum, ir::load(part_, part_index(at))));
    });
    std::vector<Stmt> items{load, own};
    if (step_.blocks > 1) {
      items.push_back(over_blocks([&](const Expr& block) {
        return over_kept(step_.loop + "_z", [&](const std::vector<Expr>& kept) {
          return ir::store(share_, indexed(block, kept), neutral());
        });
      }));
      items.push_back(over_blocks([&](const Expr& block) {
        return combination(ways_of_block(), before_, block * ir::int_imm(ways_of_block()), share_, block,
                           part_);
      }));
      items.push_back(combination(step_.blocks, base_, ir::int_imm(0), carry_, nullptr, share_));
    } else {
      items.push_back(combination(step_.ways, before_, ir::int_imm(0), carry_, nullptr, part_));
    }
    items.push_back(nest([&](const Element& at) {
      return ir::store(part_, part_index(at), combine(before(at), ir::load(part_, part_index(at))));
    }));
    items.push_back(nest([&](const Element& at) { return finish(at); }));
    std::vector<ir::Buffer> local{part_, before_};
    if (step_.blocks > 1) local.insert(local.end(), {share_, base_});
    // A row that fits into one pass gets it even where it is empty: blocks of a cluster meet under no condition.
    const std::int64_t pass = step_.ways * step_.chunk;
    const bool fits = facts_.proves(ir::lt(loop_.extent, ir::int_imm(pass + 1)));
    const Expr rounds = fits ? ir::int_imm(1) : ir::simplify(ir::ceil_div(loop_.extent, ir::int_imm(pass)), facts_);
    const Stmt passes = ir::loop(round_, rounds, alloc_all(local, ir::seq(std::move(items))));
    const Stmt begin = over_kept(
        step_.loop + "_z", [&](const std::vector<Expr>& kept) { return ir::store(carry_, kept, neutral()); });
    return Applied{edit(k, {{site.stmt().get(), ir::alloc(carry_, ir::seq({begin, passes}))}}), made_};
  }

 private:
  /// An element of a pass, with the loops inside.
  struct Element {
    Expr block;  ///< null for one block
    Expr way, element;
    std::vector<Expr> kept;
  };

  std::int64_t ways_of_block() const { return step_.ways / step_.blocks; }
  Expr neutral() const { return ir::identity(r_.monoid, {r_.store->buffer->dtype})[0]; }
  Expr combine(const Expr& a, const Expr& b) const { return ir::combine(r_.monoid, {a}, {b})[0]; }

  static std::vector<Expr> indexed(const Expr& first, const std::vector<Expr>& kept) {
    std::vector<Expr> out{first};
    out.insert(out.end(), kept.begin(), kept.end());
    return out;
  }
  std::vector<Expr> part_index(const Element& at) const {
    std::vector<Expr> out{at.way, at.element};
    out.insert(out.end(), at.kept.begin(), at.kept.end());
    return out;
  }

  Status make_buffers() {
    std::vector<Expr> kept;
    for (const Stmt& s : r_.kept) kept.push_back(ir::simplify(as<ir::Loop>(s)->extent, facts_));
    const auto make = [&](const char* suffix, std::vector<Expr> shape) {
      shape.insert(shape.end(), kept.begin(), kept.end());
      const ir::Buffer& of = r_.store->buffer;
      return make_local(of, names_.take(of->name + suffix), std::move(shape), Place::registers,
                        kScanAcrossCode);
    };
    LW_TRY(carry_, make("_carry", {}));
    LW_TRY(part_, make("_part", {ir::int_imm(step_.ways), ir::int_imm(step_.chunk)}));
    LW_TRY(before_, make("_before", {ir::int_imm(step_.ways)}));
    if (step_.blocks == 1) return Unit{};
    LW_TRY(share_, make("_share", {ir::int_imm(step_.blocks)}));
    LW_TRY(base_, make("_base", {ir::int_imm(step_.blocks)}));
    return Unit{};
  }

  Var new_loop(const std::string& name) {
    const Var v = names_.var(name);
    made_.push_back(v.hint);
    return v;
  }

  template <class Body>
  Stmt over_kept(const std::string& prefix, const Body& body) {
    std::vector<Var> vars;
    std::vector<Expr> kept;
    for (const Stmt& s : r_.kept) {
      vars.push_back(new_loop(prefix.empty() ? as<ir::Loop>(s)->var.hint : prefix));
      kept.push_back(ir::var(vars.back()));
    }
    Stmt out = body(kept);
    for (std::size_t n = vars.size(); n-- > 0;)
      out = ir::loop(vars[n], as<ir::Loop>(r_.kept[n])->extent, out);
    return out;
  }

  template <class Body>
  Stmt over_blocks(const Body& body) {
    const Var b = new_loop(step_.loop + "_b");
    return ir::loop(b, ir::int_imm(step_.blocks), body(ir::var(b)));
  }

  /// Loops over all elements of a pass.
  template <class Body>
  Stmt nest(const Body& body) {
    const auto of_block = [&](const Expr& block) {
      const Var w = new_loop(step_.loop + "_w"), v = new_loop(step_.loop + "_v");
      const Expr way = block ? block * ir::int_imm(ways_of_block()) + ir::var(w) : ir::var(w);
      const Stmt inner = over_kept(
          "", [&](const std::vector<Expr>& kept) { return body(Element{block, way, ir::var(v), kept}); });
      return ir::loop(w, ir::int_imm(ways_of_block()), ir::loop(v, ir::int_imm(step_.chunk), inner));
    };
    return step_.blocks == 1 ? of_block(nullptr) : over_blocks(of_block);
  }

  /// before[first + c] = state; state combine values[first + c], where `state` is the one of `block`.
  Stmt combination(std::int64_t ways, const ir::Buffer& before, const Expr& first, const ir::Buffer& state,
                   const Expr& block, const ir::Buffer& values) {
    return over_kept("", [&](const std::vector<Expr>& kept) {
      const Var c = new_loop(step_.loop + "_c");
      const Expr way = ir::as_int(first) == 0 ? ir::var(c) : first + ir::var(c);
      const std::vector<Expr> at = block ? indexed(block, kept) : kept;
      const std::vector<Expr> from = values == part_
                                         ? part_index({nullptr, way, ir::int_imm(step_.chunk - 1), kept})
                                         : indexed(way, kept);
      return ir::loop(c, ir::int_imm(ways),
                      ir::seq({ir::store(before, indexed(way, kept), ir::load(state, at)),
                               ir::update(r_.monoid, {state}, at, {ir::load(values, from)})}));
    });
  }

  /// Position of an element in the loop that was.
  Expr position(const Element& at) const {
    const Expr chunk =
        ir::var(round_) * ir::int_imm(step_.ways * step_.chunk) + at.way * ir::int_imm(step_.chunk);
    return ir::as_int(at.element) == 0 ? chunk : chunk + at.element;
  }
  std::map<Var, Expr> values_at(const Element& at) const {
    std::map<Var, Expr> out{{loop_.var, position(at)}};
    for (std::size_t n = 0; n < at.kept.size(); ++n) out[as<ir::Loop>(r_.kept[n])->var] = at.kept[n];
    return out;
  }
  /// When the element exists; of a whole chunk where chunks are whole, so that its elements agree.
  Expr condition(const Element& at) const {
    std::vector<Expr> all;
    for (const Expr& c : r_.conditions) all.push_back(ir::substitute(c, values_at(at)));
    const std::int64_t divisor = facts_.divisor(loop_.extent);
    Element first = at;
    if (divisor % step_.chunk == 0) first.element = ir::int_imm(0);
    if (divisor % (step_.ways * step_.chunk) != 0) all.push_back(ir::lt(position(first), loop_.extent));
    return conjunction(all);
  }
  Expr padded(const Element& at) const {
    const Expr value = ir::substitute(r_.value, values_at(at));
    const Expr c = condition(at);
    return c ? ir::select(c, value, neutral()) : value;
  }
  Expr before(const Element& at) const {
    const Expr of_block = ir::load(before_, indexed(at.way, at.kept));
    return at.block ? combine(ir::load(base_, indexed(at.block, at.kept)), of_block) : of_block;
  }
  Stmt finish(const Element& at) const {
    std::vector<Expr> index;
    for (const Expr& e : r_.store->index) index.push_back(ir::substitute(e, values_at(at)));
    const Stmt s = ir::store(r_.store->buffer, index, ir::load(part_, part_index(at)));
    const Expr c = condition(at);
    return c ? ir::if_then(c, s) : s;
  }

  const Recurrence& r_;
  const ScanAcross& step_;
  const ir::Loop& loop_;
  ir::Facts facts_;
  Names names_;
  Var round_;
  ir::Buffer carry_, part_, before_, share_, base_;
  std::vector<std::string> made_;
};

}  // namespace

Result<Applied> apply(const ir::Kernel& k, const ScanAcross& step) {
  LW_TRY(const Site site, require_serial(k, step.loop));
  const auto within = [](std::int64_t n, std::int64_t most) { return n >= 1 && n <= most; };
  if (!within(step.ways, kMaxScanWays) || !within(step.chunk, kMaxChunk))
    return rejected(ErrorCode::bad_argument,
                    std::to_string(step.ways) + " ways with chunks of " + std::to_string(step.chunk), {},
                    "from 1 to " + std::to_string(kMaxScanWays) + " ways and chunks of 1 to " +
                        std::to_string(kMaxChunk));
  if (step.blocks < 1 || step.ways % step.blocks != 0)
    return rejected(ErrorCode::bad_argument,
                    std::to_string(step.blocks) + " blocks for " + std::to_string(step.ways) + " ways", {},
                    "a number of blocks that divides the ways");
  LW_CHECK(require_no_lanes(k, site, kScanAcrossCode));
  LW_TRY(const Recurrence r, find_recurrence(k, site));
  return ScanBuilder(k, site, r, step).build(k, site);
}

}  // namespace loopwright::schedule
