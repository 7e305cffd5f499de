#include "src/ir/engine.h"

#include <algorithm>
#include <utility>

#include "src/ir/rewrite.h"

namespace loopwright::ir {
namespace {

Error no_match(std::string found, std::string works) { return {ErrorCode::bad_argument, {}, std::move(found), {}, std::move(works)}; }

struct Nest {
  std::vector<Var> vars;
  std::vector<std::int64_t> extents;
  std::vector<Expr> conditions;
  Stmt leaf;
};

/// Constant loops directly in each other, but for conditions.
std::optional<Nest> take_nest(const Loop& outer, Facts& facts) {
  Nest out;
  const Loop* l = &outer;
  while (l != nullptr) {
    const auto extent = as_int(simplify(l->extent, facts));
    if (!extent) return std::nullopt;
    facts.bind_loop(l->var, l->extent);
    out.vars.push_back(l->var);
    out.extents.push_back(*extent);
    out.leaf = l->body;
    while (const auto* i = as<If>(out.leaf)) {
      take_conjuncts(i->condition, out.conditions);
      out.leaf = i->then;
    }
    l = as<Loop>(out.leaf);
  }
  return out;
}

std::int64_t coefficient(const Affine& a, const Var& v) {
  const auto it = a.coefficients.find(v);
  return it == a.coefficients.end() ? 0 : it->second;
}

bool is_zero(const Expr& e) {
  if (const auto* f = as<FloatImm>(e)) return f->value == 0;
  const auto i = as_int(e);
  return i && *i == 0;
}

/// Whether the condition says no more than that the index stays inside the buffer.
bool keeps_inside(const Expr& condition, const BufferInfo& buffer, const std::vector<Expr>& index, const Facts& facts) {
  const auto* x = as<Binary>(condition);
  if (x == nullptr || x->op != BinaryOp::lt) return false;
  for (std::size_t d = 0; d < index.size(); ++d) {
    const Expr difference = simplify((x->a - index[d]) - (x->b - buffer.shape[d]), facts);
    if (as_int(difference) == 0) return true;
  }
  return false;
}

/// The end that a condition gives the index, which is the same in the whole nest; null when it says anything else.
Expr find_end(const Expr& condition, const Expr& index, const std::vector<Var>& vars, const Facts& facts) {
  const auto* x = as<Binary>(condition);
  if (x == nullptr || x->op != BinaryOp::lt) return nullptr;
  const Expr end = simplify(x->b - simplify(x->a - index, facts), facts);
  return std::any_of(vars.begin(), vars.end(), [&](const Var& v) { return uses(end, v); }) ? nullptr : end;
}

/// A tile's element as f32.
const Load* factor_of(const Expr& e) {
  const auto* c = as<Cast>(e);
  return as<Load>(c != nullptr && e->dtype == DType::f32 ? c->a : e);
}

}  // namespace

Expr stride_of(const BufferInfo& buffer, std::size_t d) {
  if (!buffer.strides.empty()) return buffer.strides[d];
  Expr stride = int_imm(1);
  for (std::size_t i = d + 1; i < buffer.shape.size(); ++i) stride = stride * buffer.shape[i];
  return stride;
}

namespace {

bool holds_kind(const Stmt& body, LoopKind kind) {
  bool found = false;
  walk(body, [&](const Stmt& s) {
    const auto* l = as<Loop>(s);
    found = found || (l != nullptr && l->kind == kind);
  }, [](const Expr&) {});
  return found;
}

}  // namespace

bool feeds_threads(const Loop& ring) { return ring.kind == LoopKind::ring && !holds_kind(ring.body, LoopKind::mma); }
bool is_fed_by_threads(const Loop& ring) { return ring.kind == LoopKind::ring && holds_kind(ring.body, LoopKind::async); }

std::set<Buffer> find_boxed(const Stmt& body) {
  std::set<Buffer> out;
  walk(body, [&](const Stmt& s) {
    const auto* l = as<Loop>(s);
    if (l == nullptr || l->kind != LoopKind::bulk) return;
    for (const Buffer& b : buffers_of(s).read)
      if (b->memory == Memory::global) out.insert(b);
  }, [](const Expr&) {});
  return out;
}

Result<BulkCopy> match_bulk_copy(const Loop& outer, const Facts& before) {
  Facts facts = before;
  const auto nest = take_nest(outer, facts);
  const auto* store = nest ? as<Store>(nest->leaf) : nullptr;
  if (store == nullptr) return no_match("it is not one store in loops of constant extents", "the loops of a copy that stage or hold made");
  const bool out_of_tile = store->buffer->memory == Memory::global;
  Expr value = store->value;
  std::vector<Expr> conditions = nest->conditions;
  if (const auto* s = as<Select>(value); s != nullptr && is_zero(s->b) && !out_of_tile && conditions.empty()) {
    take_conjuncts(s->condition, conditions);
    value = s->a;
  } else if (!out_of_tile && !conditions.empty()) {
    return no_match("it leaves out elements of the tile", "a copy that is zero beyond its source alone");
  }
  const auto* unary = as<Unary>(value);
  const bool rounded = unary != nullptr && unary->op == UnaryOp::round_tf32 && !out_of_tile;
  const auto* load = as<Load>(rounded ? unary->a : value);
  if (load == nullptr || load->buffer->memory != (out_of_tile ? Memory::shared : Memory::global))
    return no_match("it computes or converts what it copies", "a copy between global and shared memory without casts");
  const Buffer& param = out_of_tile ? store->buffer : load->buffer;
  const std::vector<Expr>& index = out_of_tile ? store->index : load->index;
  std::vector<Expr> ends;  // conditions beside those that keep inside the parameter
  for (const Expr& c : conditions)
    if (!keeps_inside(c, *param, index, facts)) ends.push_back(c);

  BulkCopy out;
  out.tile = out_of_tile ? load->buffer : store->buffer, out.param = param, out.out = out_of_tile, out.rounded = rounded, out.bounded = !conditions.empty();
  const auto place = as_affine(simplify(linear_position(*out.tile, out_of_tile ? load->index : store->index), facts), nest->vars);
  if (!place) return no_match("an index of the tile is no sum of loops", "plain loops");
  std::map<Var, Expr> first;
  for (const Var& v : nest->vars) first[v] = int_imm(0);
  std::optional<std::size_t> plane, row, column;  // loops
  for (std::size_t d = 0; d < index.size(); ++d) {
    const auto at = as_affine(simplify(index[d], facts), nest->vars);
    if (!at) return no_match("an index of the parameter is no sum of loops", "plain loops");
    const bool last = d + 1 == index.size();
    bool used = false;
    for (std::size_t i = 0; i < nest->vars.size(); ++i) {
      if (nest->extents[i] == 1 || coefficient(*at, nest->vars[i]) == 0) continue;
      // What was taken for the rows are planes where another loop comes behind.
      if (!last && row && !plane) plane = std::exchange(row, std::nullopt), out.plane_dim = out.row_dim;
      auto& which = last ? column : row;
      if (coefficient(*at, nest->vars[i]) != 1 || which || used) return no_match("too many loops walk over the parameter, or one in strides", "a copy of rows and columns");
      which = i;
      used = true;
      if (!last) out.row_dim = d;
    }
    out.at.push_back(simplify(substitute(index[d], first), before));
  }
  if (!column) return no_match("no loop walks along the parameter's memory", "a copy with columns");
  if (out_of_tile && ends.size() == 1 && out.row_dim) out.rows_end = find_end(ends[0], index[*out.row_dim], nest->vars, facts);
  if (!ends.empty() && !out.rows_end)
    return no_match("it leaves out elements that the parameter has", "a copy that leaves out what is beyond the parameter alone, or, of a tile on its way out, rows from one on");
  if (plane) out.planes = nest->extents[*plane];
  if (row) out.rows = nest->extents[*row];
  out.columns = nest->extents[*column];
  const bool dense = coefficient(*place, nest->vars[*column]) == 1 && (!row || coefficient(*place, nest->vars[*row]) == out.columns) &&
                     (!plane || coefficient(*place, nest->vars[*plane]) == out.rows * out.columns);
  if (!dense) return no_match("the tile's rows are not the parameter's", "stage in the buffer's own order, without tiles");
  out.tile_at = place->rest;
  return out;
}

Result<MatrixProduct> match_matrix_product(const Loop& outer, const Facts& before) {
  const Error no = no_match("it is not three loops of constant extents around a sum of products of two tiles", "the innermost loops over rows, columns and summands of a product");
  Facts facts = before;
  const auto nest = take_nest(outer, facts);
  const auto* u = nest && nest->conditions.empty() && nest->vars.size() == 3 ? as<Update>(nest->leaf) : nullptr;
  if (u == nullptr || u->monoid != Monoid::sum) return no;
  const auto* times = as<Binary>(u->values[0]);
  if (times == nullptr || times->op != BinaryOp::mul) return no;
  const Load* factors[] = {factor_of(times->a), factor_of(times->b)};
  if (factors[0] == nullptr || factors[1] == nullptr) return no;
  std::map<Var, Expr> first;
  for (const Var& v : nest->vars) first[v] = int_imm(0);
  const auto place = [&](const BufferInfo& b, const std::vector<Expr>& index) { return as_affine(simplify(linear_position(b, index), facts), nest->vars); };
  const Var &i = nest->vars[0], &j = nest->vars[1], &r = nest->vars[2];
  MatrixProduct out;
  out.m = nest->extents[0], out.n = nest->extents[1], out.k = nest->extents[2];
  const auto acc = place(*u->buffers[0], u->index);
  if (!acc || (coefficient(*acc, j) != 1 && coefficient(*acc, i) != 1) || coefficient(*acc, r) != 0) return no;
  out.acc = u->buffers[0];
  out.acc_at = simplify(acc->rest, before);
  out.row_step = coefficient(*acc, i), out.column_step = coefficient(*acc, j);
  for (const Load* l : factors) {
    const auto at = place(*l->buffer, l->index);
    if (!at) return no;
    const bool is_left = coefficient(*at, j) == 0 && coefficient(*at, i) != 0;
    const Var& along = is_left ? i : j;
    MatrixProduct::Operand& o = is_left ? out.a : out.b;
    if (o.buffer || coefficient(*at, is_left ? j : i) != 0) return no;
    o = {l->buffer, simplify(at->rest, before), coefficient(*at, along), coefficient(*at, r)};
    if (o.along == 0 || o.reduction == 0) return no;
  }
  return out;
}

// ---------------------------------------------------------------- combinations

namespace {

bool uses_var(const std::vector<Expr>& parts, const Var& v) {
  return std::any_of(parts.begin(), parts.end(), [&](const Expr& e) { return uses(e, v); });
}

/// before[c] = state: the element that the update changes, to a place of this iteration.
bool keeps_state(const Store& s, const Update& u, const Var& v) {
  const auto* l = as<Load>(s.value);
  if (l == nullptr || u.buffers.size() != 1 || l->buffer != u.buffers[0] || !uses_var(s.index, v)) return false;
  if (s.buffer == u.buffers[0] || l->index.size() != u.index.size()) return false;
  for (std::size_t d = 0; d < u.index.size(); ++d)
    if (!same(l->index[d], u.index[d])) return false;
  return true;
}

}  // namespace

std::optional<Combination> match_combination(const Loop& loop) {
  Combination out;
  out.update = as<Update>(loop.body);
  if (const auto* q = as<Seq>(loop.body); q != nullptr && q->items.size() == 2) {
    out.before = as<Store>(q->items[0]);
    out.update = as<Update>(q->items[1]);
    if (out.before == nullptr) return std::nullopt;
  }
  if (out.update == nullptr || uses_var(out.update->index, loop.var)) return std::nullopt;
  const bool loads = std::all_of(out.update->values.begin(), out.update->values.end(),
                                 [&](const Expr& e) { return as<Load>(e) != nullptr && uses(e, loop.var); });
  if (!loads || (out.before != nullptr && !keeps_state(*out.before, *out.update, loop.var))) return std::nullopt;
  return out;
}

}  // namespace loopwright::ir
