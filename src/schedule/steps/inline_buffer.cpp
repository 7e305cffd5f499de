#include "src/schedule/steps/inline_buffer.h"

#include <algorithm>
#include <unordered_map>

#include "src/ir/monoid.h"
#include "src/schedule/narrow.h"

namespace loopwright::schedule {

using ir::as;
using ir::Expr;
using ir::Stmt;
using ir::Var;

namespace {

constexpr ErrorCode kInlineBufferCode = ErrorCode::illegal_inline;
constexpr double kMaxNodes = 20000;
constexpr std::int64_t kMostTerms = 64;

/// What an element is, in the variables `params` of its index.
struct Definition {
  std::vector<std::optional<Var>> params;  ///< empty where the dimension has the single index 0
  std::vector<std::pair<Var, Expr>> lets;
  Expr value;
  std::vector<Stmt> units;  ///< the nest that computes it, or the two that begin a reduction and carry it out
  const Stmt& last() const { return units.back(); }
};

/// Nodes of the expression written out, shared ones as often as they are used.
double written_size(const Expr& e, std::unordered_map<const ir::ExprNode*, double>& memo) {
  if (const auto it = memo.find(e.get()); it != memo.end()) return it->second;
  double size = 1;
  ir::map_children(e, [&](const Expr& child) {
    size += written_size(child, memo);
    return child;
  });
  return memo[e.get()] = size;
}

/// The nests next to the allocation that write the buffer: one that stores it, or two of a reduction.
Result<std::vector<Stmt>> find_units(const ir::Kernel& k, const Site& alloc, const ir::Buffer& buffer) {
  std::vector<ir::Buffer> ignored;
  std::vector<Stmt> units;
  for (const Stmt& item : items_of(under_allocs(std::get<ir::Alloc>(alloc.stmt()->v).body, ignored))) {
    const ir::Accesses found = ir::buffers_of(item);
    if (std::find(found.written.begin(), found.written.end(), buffer) == found.written.end()) continue;
    if (units.size() == 2 || (units.size() == 1 && !as<ir::Update>(chain_of(item).leaf)))
      return rejected(kInlineBufferCode, "more than one nest writes `" + buffer->name + "`", k, item, "compute_at");
    units.push_back(item);
  }
  if (units.empty())
    return rejected(kInlineBufferCode, "no nest next to its allocation computes `" + buffer->name + "`", k, alloc.stmt(),
                    "a buffer that a nest computes");
  return units;
}

/// What one nest stores or updates, in the variables of its loops.
struct Written {
  std::vector<std::optional<Var>> params;
  std::vector<std::pair<Var, Expr>> lets;
  std::vector<std::pair<Var, std::int64_t>> others;  ///< loops that do not index the buffer, and their extents
  Expr value;
  std::optional<ir::Monoid> monoid;  ///< of an update
};

Result<Written> read_unit(const ir::Kernel& k, const Stmt& unit, const ir::Buffer& buffer, const ir::Facts& facts) {
  Written out;
  const Chain chain = chain_of(unit);
  for (const Stmt& s : chain.around) {
    if (as<ir::If>(s))
      return rejected(kInlineBufferCode, "a condition stands around the store", k, s, "inline_buffer before split");
    if (const auto* l = as<ir::Let>(s)) out.lets.emplace_back(l->var, l->value);
  }
  const auto* st = as<ir::Store>(chain.leaf);
  const auto* u = as<ir::Update>(chain.leaf);
  if (!(st && st->buffer == buffer) && !(u && u->buffers.size() == 1))
    return rejected(kInlineBufferCode, "`" + buffer->name + "` is not computed by a nest with a single store", k,
                    unit, "compute_at, which takes any nest");
  out.value = st ? st->value : u->values[0];
  if (u) out.monoid = u->monoid;
  const std::vector<Expr>& index = st ? st->index : u->index;
  const std::vector<Access> accesses = collect_accesses(unit);
  const Access& write = accesses.back();
  for (std::size_t d = 0; d < index.size(); ++d) {
    auto v = plain_loop(write, d, facts);
    if (!v && !(ir::as_int(index[d]) == 0 && ir::as_int(buffer->shape[d]) == 1))
      return rejected(
          kInlineBufferCode, "it is written at " + ir::print(index[d]) + ", not at a plain loop over the dimension",
          k, unit, "inline_buffer before the loops of `" + buffer->name + "` are changed");
    out.params.push_back(v);
  }
  std::int64_t terms = 1;
  for (const Stmt& s : chain.around) {
    const auto* l = as<ir::Loop>(s);
    if (!l || std::find(out.params.begin(), out.params.end(), l->var) != out.params.end()) continue;
    const std::optional<std::int64_t> extent = ir::as_int(l->extent);
    terms = extent && *extent >= 1 && *extent <= kMostTerms ? terms * *extent : kMostTerms + 1;
    if (terms > (u ? kMostTerms : 1))
      return rejected(kInlineBufferCode, "`" + l->var.hint + "` does not index `" + buffer->name + "`", k, s,
                      "a nest whose loops all index `" + buffer->name + "`, or a reduction over at most " + std::to_string(kMostTerms) + " constant terms");
    out.others.emplace_back(l->var, *extent);
  }
  for (const Access& a : accesses)
    if (a.kind == Access::Kind::read && a.buffer == buffer)
      return rejected(kInlineBufferCode, "`" + buffer->name + "` is computed from itself", k, unit, "another buffer");
  return out;
}

/// The reduction written out: what it begins with, combined with one term after the other.
Expr write_out(const Written& begin, const Written& update) {
  std::map<Var, Expr> same;
  for (std::size_t d = 0; d < begin.params.size(); ++d)
    if (begin.params[d]) same[*begin.params[d]] = update.params[d] ? ir::var(*update.params[d]) : ir::int_imm(0);
  for (const auto& [v, extent] : begin.others) same[v] = ir::int_imm(0);
  for (const auto& [v, value] : begin.lets) same[v] = ir::substitute(value, same);
  Expr total = ir::substitute(begin.value, same);
  std::vector<std::int64_t> at(update.others.size(), 0);
  for (bool more = true; more;) {
    std::map<Var, Expr> term;
    for (std::size_t i = 0; i < at.size(); ++i) term[update.others[i].first] = ir::int_imm(at[i]);
    for (const auto& [v, value] : update.lets) term[v] = ir::substitute(value, term);
    total = ir::combine(*update.monoid, {total}, {ir::substitute(update.value, term)})[0];
    std::size_t i = at.size();
    while (i > 0 && ++at[i - 1] == update.others[i - 1].second) at[--i] = 0;
    more = i > 0;
  }
  return total;
}

Result<Definition> find_definition(const ir::Kernel& k, const Site& alloc, const ir::Buffer& buffer) {
  const ir::Facts facts = facts_inside(k, alloc);
  Definition def;
  LW_TRY(def.units, find_units(k, alloc, buffer));
  LW_TRY(const Written first, read_unit(k, def.units[0], buffer, facts));
  if (first.monoid)
    return rejected(kInlineBufferCode, "a reduction into `" + buffer->name + "` without a nest that begins it", k, def.units[0], "compute_at");
  if (def.units.size() == 2) {
    LW_TRY(const Written update, read_unit(k, def.units[1], buffer, facts));
    def.params = update.params;
    def.value = ir::simplify(write_out(first, update), facts);
    return def;
  }
  def.params = first.params;
  std::map<Var, Expr> single;  // loops of one iteration that the index leaves out
  for (const auto& [v, extent] : first.others) single[v] = ir::int_imm(0);
  for (const auto& [v, value] : first.lets) def.lets.emplace_back(v, ir::substitute(value, single));
  def.value = ir::substitute(first.value, single);
  return def;
}

/// What the definition reads must stay as it is until the last use.
Status check_later(const ir::Kernel& k, const Site& alloc, const Definition& def) {
  std::vector<ir::Buffer> ignored;
  std::vector<Stmt> later;
  bool behind = false;
  for (const Stmt& item : items_of(under_allocs(std::get<ir::Alloc>(alloc.stmt()->v).body, ignored))) {
    if (behind) later.push_back(item);
    behind = behind || item == def.last();
  }
  return check_inputs(k, def.units, later, kInlineBufferCode);
}

/// Replaces the reads in one statement.
class Replacer {
 public:
  Replacer(ir::Buffer buffer, const Definition& def, Names& names)
      : buffer_(std::move(buffer)), def_(def), names_(names) {}

  Stmt replace(const Stmt& s) {
    const bool leaf = as<ir::Store>(s) || as<ir::Update>(s);
    if (!leaf && !as<ir::Let>(s))
      return ir::map_children(
          s, [&](const Expr& e) { return expand(e); }, [&](const Stmt& child) { return replace(child); });
    if (const auto* l = as<ir::Let>(s)) {
      const Stmt body = replace(l->body);
      Sites sites = find_sites({l->value});
      if (sites.empty() && body == l->body) return s;
      return bind(sites, [&] { return ir::let(l->var, put(l->value, sites), body); });
    }
    std::vector<Expr> roots;
    ir::map_children(
        s,
        [&](const Expr& e) {
          roots.push_back(e);
          return e;
        },
        [](const Stmt& child) { return child; });
    Sites sites = find_sites(roots);
    if (sites.empty()) return s;
    return bind(sites, [&] {
      return ir::map_children(
          s, [&](const Expr& e) { return put(e, sites); }, [](const Stmt& child) { return child; });
    });
  }

  double largest() const { return largest_; }

 private:
  /// Reads of the buffer at one index.
  struct ReadSite {
    std::vector<Expr> index;
    int count = 0;
    bool certain = false;  ///< evaluated whenever the statement is
    Expr value;
  };
  using Sites = std::vector<ReadSite>;

  static bool same_index(const std::vector<Expr>& a, const std::vector<Expr>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const Expr& x, const Expr& y) { return ir::same(x, y); });
  }

  ReadSite* site_of(Sites& sites, const std::vector<Expr>& index) const {
    for (ReadSite& r : sites)
      if (same_index(r.index, index)) return &r;
    return nullptr;
  }

  void count(const Expr& e, bool certain, Sites& sites) const {
    if (const auto* x = as<ir::Select>(e)) {
      count(x->condition, certain, sites);
      count(x->a, false, sites);
      count(x->b, false, sites);
      return;
    }
    if (const auto* x = as<ir::Binary>(e); x && (x->op == ir::BinaryOp::and_ || x->op == ir::BinaryOp::or_)) {
      count(x->a, certain, sites);
      count(x->b, false, sites);
      return;
    }
    ir::map_children(e, [&](const Expr& child) {
      count(child, certain, sites);
      return child;
    });
    const auto* l = as<ir::Load>(e);
    if (!l || l->buffer != buffer_) return;
    ReadSite* r = site_of(sites, l->index);
    if (!r) r = &sites.emplace_back(ReadSite{l->index, 0, false, nullptr});
    ++r->count;
    r->certain = r->certain || certain;
  }

  Sites find_sites(const std::vector<Expr>& roots) const {
    Sites sites;
    for (const Expr& e : roots) {
      std::unordered_map<const ir::ExprNode*, double> memo;
      if (written_size(e, memo) > kMaxNodes) continue;  // found too large below
      count(e, true, sites);
    }
    return sites;
  }

  std::map<Var, Expr> arguments(const std::vector<Expr>& index) const {
    std::map<Var, Expr> out;
    for (std::size_t d = 0; d < index.size(); ++d)
      if (def_.params[d]) out[*def_.params[d]] = index[d];
    return out;
  }

  /// The definition at an index, its Lets written out.
  Expr define(const std::vector<Expr>& index) const {
    std::map<Var, Expr> values = arguments(index);
    for (const auto& [v, value] : def_.lets) values[v] = ir::substitute(value, values);
    return ir::substitute(def_.value, values);
  }

  static bool is_cheap(const Expr& e) {
    return as<ir::IntImm>(e) || as<ir::FloatImm>(e) || as<ir::VarRef>(e) || as<ir::Load>(e) ||
           (as<ir::Cast>(e) && as<ir::Load>(as<ir::Cast>(e)->a));
  }

  /// Binds what is worth a Let around the statement that `make` builds.
  template <class Make>
  Stmt bind(Sites& sites, const Make& make) {
    std::vector<std::pair<Var, Expr>> lets;
    for (ReadSite& r : sites) {
      for (Expr& e : r.index) e = put(e, sites);  // an index that reads the buffer itself
      const bool several = r.count > 1 && !is_cheap(def_.value);
      if (!r.certain || (def_.lets.empty() && !several)) {
        r.value = define(r.index);
        continue;
      }
      std::map<Var, Expr> values = arguments(r.index);
      for (const auto& [v, value] : def_.lets) {
        lets.emplace_back(names_.var(v.hint), ir::substitute(value, values));
        values[v] = ir::var(lets.back().first, value->dtype);
      }
      r.value = ir::substitute(def_.value, values);
      if (!several) continue;
      lets.emplace_back(names_.var(buffer_->name + "_v"), r.value);
      r.value = ir::var(lets.back().first, def_.value->dtype);
    }
    Stmt out = make();
    ir::map_children(
        out,
        [&](const Expr& e) {
          measure(e);
          return e;
        },
        [](const Stmt& child) { return child; });
    for (auto it = lets.rbegin(); it != lets.rend(); ++it) {
      measure(it->second);
      out = ir::let(it->first, it->second, out);
    }
    return out;
  }

  void measure(const Expr& e) {
    std::unordered_map<const ir::ExprNode*, double> memo;
    largest_ = std::max(largest_, written_size(e, memo));
  }

  /// Parents first, so that a read is recognised by the index it had.
  Expr put(const Expr& e, Sites& sites) const {
    std::unordered_map<const ir::ExprNode*, Expr> memo;
    return put(e, sites, memo);
  }
  Expr put(const Expr& e, Sites& sites, std::unordered_map<const ir::ExprNode*, Expr>& memo) const {
    if (const auto it = memo.find(e.get()); it != memo.end()) return it->second;
    Expr out;
    const auto* l = as<ir::Load>(e);
    const ReadSite* r = l && l->buffer == buffer_ ? site_of(sites, l->index) : nullptr;
    if (r && r->value) out = r->value;
    else out = ir::map_children(e, [&](const Expr& child) { return put(child, sites, memo); });
    return memo[e.get()] = out;
  }

  /// A read in a place without a statement to bind at: a condition or an extent.
  Expr expand(const Expr& e) {
    const Expr out = ir::rewrite(e, [&](const Expr& x) {
      const auto* l = as<ir::Load>(x);
      return l && l->buffer == buffer_ ? define(l->index) : x;
    });
    measure(out);
    return out;
  }

  ir::Buffer buffer_;
  const Definition& def_;
  Names& names_;
  double largest_ = 0;
};

}  // namespace

Result<Applied> apply(const ir::Kernel& k, const InlineBuffer& step) {
  LW_TRY(const Site alloc, require_intermediate(k, step.buffer, kInlineBufferCode));
  const ir::Buffer buffer = std::get<ir::Alloc>(alloc.stmt()->v).buffer;
  LW_TRY(const Definition def, find_definition(k, alloc, buffer));
  LW_CHECK(check_later(k, alloc, def));
  Names names(k);
  Replacer replacer(buffer, def, names);
  Edits gone;
  for (const Stmt& unit : def.units) gone[unit.get()] = ir::seq({});
  Applied out{edit(k, gone), {}};
  out.kernel.body = replacer.replace(drop_allocs(out.kernel.body, {buffer}));
  if (replacer.largest() > kMaxNodes)
    return rejected(
        ErrorCode::too_large,
        "a statement would have " + std::to_string(static_cast<std::int64_t>(replacer.largest())) + " nodes",
        k, def.last(), "compute_at in registers instead");
  return out;
}

}  // namespace loopwright::schedule
