#include "src/schedule/questions.h"

#include <algorithm>

#include "src/ir/monoid.h"
#include "src/ir/row_groups.h"
#include "src/schedule/access.h"
#include "src/schedule/site.h"

namespace loopwright::schedule {

using ir::as;
using ir::Expr;
using ir::Stmt;

namespace {

/// One storing statement with the loops between its buffer's allocation and it.
struct Leaf {
  Stmt statement;
  std::vector<Stmt> loops;
};

void find_leaves(const Stmt& s, std::vector<Stmt>& loops, std::map<ir::Buffer, std::size_t>& depth,
                 std::vector<Leaf>& out) {
  if (const auto* a = as<ir::Alloc>(s)) depth[a->buffer] = loops.size();
  const auto* st = as<ir::Store>(s);
  const auto* up = as<ir::Update>(s);
  if (st || up) {
    const auto it = depth.find(st ? st->buffer : up->buffers.front());
    const auto first = loops.begin() + static_cast<std::ptrdiff_t>(it == depth.end() ? 0 : it->second);
    out.push_back({s, {first, loops.end()}});
    return;
  }
  if (as<ir::Loop>(s)) loops.push_back(s);
  ir::map_children(
      s, [](const Expr& e) { return e; },
      [&](const Stmt& child) {
        find_leaves(child, loops, depth, out);
        return child;
      });
  if (as<ir::Loop>(s)) loops.pop_back();
}

std::vector<Leaf> find_leaves(const ir::Kernel& k) {
  std::vector<Leaf> out;
  std::vector<Stmt> loops;
  std::map<ir::Buffer, std::size_t> depth;
  find_leaves(k.body, loops, depth, out);
  return out;
}

bool is_identity(const Stmt& s, const std::map<ir::Buffer, const ir::Update*>& updates) {
  const auto* st = as<ir::Store>(s);
  if (!st) return false;
  const auto it = updates.find(st->buffer);
  if (it == updates.end()) return false;
  std::vector<DType> dtypes;
  for (const ir::Buffer& b : it->second->buffers) dtypes.push_back(b->dtype);
  const std::vector<Expr> neutral = ir::identity(it->second->monoid, dtypes);
  for (std::size_t i = 0; i < neutral.size(); ++i)
    if (it->second->buffers[i] == st->buffer) return ir::same(neutral[i], st->value);
  return false;
}

std::vector<ReadInfo> reads_of(const Leaf& leaf) {
  std::vector<ReadInfo> out;
  for (const Access& a : collect_accesses(leaf.statement)) {
    if (a.kind != Access::Kind::read) continue;
    ReadInfo info{a.buffer->name, {}};
    for (const Expr& e : a.index) {
      const auto* ref = as<ir::VarRef>(e);
      const bool loop = ref && std::any_of(leaf.loops.begin(), leaf.loops.end(),
                                           [&](const Stmt& l) { return as<ir::Loop>(l)->var == ref->var; });
      info.dims.push_back(loop ? ref->var.hint : "");
      info.by_data = info.by_data || is_moved_by_data(e, leaf.loops);
    }
    const bool seen = std::any_of(out.begin(), out.end(), [&](const ReadInfo& x) {
      return x.buffer == info.buffer && x.dims == info.dims;
    });
    if (!seen) out.push_back(std::move(info));
  }
  return out;
}

bool is_product(const Expr& e) {
  const auto is_element = [](const Expr& x) {
    const auto* c = as<ir::Cast>(x);
    return as<ir::Load>(c != nullptr ? c->a : x) != nullptr;
  };
  const auto* times = as<ir::Binary>(e);
  return times != nullptr && times->op == ir::BinaryOp::mul && is_element(times->a) && is_element(times->b);
}

/// A polynomial over the symbols; empty for anything else.
std::optional<Dim> to_dim(const Expr& e, const ir::Kernel& k) {
  if (const auto value = ir::as_int(e)) return Dim(*value);
  if (const auto* v = as<ir::VarRef>(e)) {
    for (const ir::SymbolParam& s : k.symbols)
      if (s.var == v->var) return Dim(s.symbol);
    return std::nullopt;
  }
  const auto* b = as<ir::Binary>(e);
  if (!b) return std::nullopt;
  const auto x = to_dim(b->a, k), y = to_dim(b->b, k);
  if (!x || !y) return std::nullopt;
  if (b->op == ir::BinaryOp::add) return *x + *y;
  if (b->op == ir::BinaryOp::sub) return *x - *y;
  if (b->op == ir::BinaryOp::mul) return *x * *y;
  return std::nullopt;
}

std::vector<Leaf> leaves_of(const ir::Kernel& k, const std::string& buffer, bool updates) {
  std::vector<Leaf> out;
  for (const Leaf& leaf : find_leaves(k)) {
    const auto* st = as<ir::Store>(leaf.statement);
    const auto* up = as<ir::Update>(leaf.statement);
    const bool match = updates ? up && std::any_of(up->buffers.begin(), up->buffers.end(),
                                                   [&](const ir::Buffer& b) { return b->name == buffer; })
                               : st && st->buffer->name == buffer;
    if (match) out.push_back(leaf);
  }
  return out;
}

bool is_costly(const Expr& e) {
  bool found = false;
  ir::walk(e, [&](const Expr& x) {
    const auto* u = as<ir::Unary>(x);
    const auto* b = as<ir::Binary>(x);
    found = found || (u && u->op >= ir::UnaryOp::exp && u->op <= ir::UnaryOp::sigmoid) ||
            (b && is_float(x->dtype) && (b->op == ir::BinaryOp::div || (b->op >= ir::BinaryOp::pow && b->op <= ir::BinaryOp::fmod)));
  });
  return found;
}

}  // namespace

std::vector<NestInfo> describe_nests(const ir::Kernel& k) {
  const std::vector<Leaf> leaves = find_leaves(k);
  std::map<ir::Buffer, const ir::Update*> updates;
  for (const Leaf& leaf : leaves)
    if (const auto* up = as<ir::Update>(leaf.statement))
      for (const ir::Buffer& b : up->buffers) updates[b] = up;
  const std::vector<ir::RowGroups> groups = ir::find_row_groups(k.body);
  std::vector<NestInfo> out;
  for (const Leaf& leaf : leaves) {
    const auto* st = as<ir::Store>(leaf.statement);
    const auto* up = as<ir::Update>(leaf.statement);
    const ir::Buffer& buffer = st ? st->buffer : up->buffers.front();
    NestInfo info;
    info.buffer = buffer->name;
    info.is_init = is_identity(leaf.statement, updates);
    info.is_update = up != nullptr;
    if (up) info.monoid = ir::name(up->monoid);
    info.writes_output = is_param(k, buffer);
    const std::vector<Expr>& index = st ? st->index : up->index;
    for (const Stmt& s : leaf.loops) {
      const ir::Var& v = as<ir::Loop>(s)->var;
      info.loops.push_back({v.hint});
      const bool spatial =
          std::any_of(index.begin(), index.end(), [&](const Expr& e) { return ir::uses(e, v); });
      (spatial ? info.spatial : info.reduction).push_back({v.hint});
    }
    for (std::size_t d = 0; d < index.size(); ++d) {
      if (!is_moved_by_data(index[d], leaf.loops)) continue;
      info.scatters = info.scattered_dim < 0;  // of several dimensions nobody makes anything
      info.scattered_dim = static_cast<int>(d);
    }
    info.reads = reads_of(leaf);
    info.finds_groups = up != nullptr && std::any_of(groups.begin(), groups.end(), [&](const ir::RowGroups& g) { return g.group == buffer; });
    info.is_product = up != nullptr && up->monoid == ir::Monoid::sum && is_product(up->values[0]);
    for (const Expr& e : st ? std::vector<Expr>{st->value} : up->values) info.is_costly |= is_costly(e);
    out.push_back(std::move(info));
  }
  return out;
}

std::vector<LoopId> describe_loops(const ir::Kernel& k, const std::string& buffer) {
  std::vector<Leaf> leaves = leaves_of(k, buffer, true);
  if (leaves.empty()) leaves = leaves_of(k, buffer, false);
  std::vector<LoopId> out;
  if (!leaves.empty())
    for (const Stmt& s : leaves.front().loops) out.push_back({as<ir::Loop>(s)->var.hint});
  return out;
}

BufferShape describe_buffer(const ir::Kernel& k, const std::string& name) {
  BufferShape out;
  const ir::Buffer buffer = find_buffer(k, name);
  if (!buffer) return out;
  const ir::Facts facts(k);
  out.dtype = buffer->dtype;
  for (const Expr& n : buffer->shape) {
    const auto dim = to_dim(n, k);
    out.shape.push_back(dim ? *dim : Dim(facts.bounds(n).hi));
  }
  out.is_param = is_param(k, buffer);
  out.is_dense = buffer->strides.empty();
  return out;
}

std::vector<LoopId> describe_children(const ir::Kernel& k, const std::string& loop) {
  std::vector<LoopId> out;
  const std::function<void(const Stmt&)> visit = [&](const Stmt& s) {
    if (const auto* l = as<ir::Loop>(s)) {
      out.push_back({l->var.hint});
      return;
    }
    ir::map_children(
        s, [](const Expr& e) { return e; },
        [&](const Stmt& child) {
          visit(child);
          return child;
        });
  };
  if (loop.empty()) visit(k.body);
  else if (const auto site = find_loop(k, loop)) visit(site->loop().body);
  return out;
}

std::int64_t max_extent(const ir::Kernel& k, const std::string& loop) {
  const auto site = find_loop(k, loop);
  return site ? facts_before(k, *site).bounds(site->loop().extent).hi : 0;
}

std::optional<std::int64_t> constant_extent(const ir::Kernel& k, const std::string& loop) {
  const auto site = find_loop(k, loop);
  if (!site) return std::nullopt;
  return ir::as_int(ir::simplify(site->loop().extent, facts_before(k, *site)));
}

}  // namespace loopwright::schedule
