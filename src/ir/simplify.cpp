#include "src/ir/simplify.h"

#include <algorithm>

#include "src/ir/rewrite.h"
#include "src/ir/simplify_expr.h"

namespace loopwright::ir {
namespace {

/// Rules feed each other; in practice two rounds reach the fixed point.
constexpr int kMaxRounds = 6;

bool is_nothing(const Stmt& s) {
  const auto* q = as<Seq>(s);
  return q && q->items.empty();
}

/// A value that costs nothing where it is used.
bool is_trivial(const Expr& e) { return as<IntImm>(e) || as<FloatImm>(e) || as<VarRef>(e); }

class StmtSimplifier {
 public:
  Stmt run(const Stmt& s, const Facts& facts) {
    return std::visit([&](const auto& x) { return node(x, s, facts); }, s->v);
  }

 private:
  static std::vector<Expr> all(const std::vector<Expr>& list, const Facts& facts) {
    std::vector<Expr> out;
    for (const Expr& e : list) out.push_back(simplify(e, facts));
    return out;
  }

  Stmt node(const Loop& x, const Stmt& s, const Facts& facts) {
    // The engine is told a box and where it begins: an index that a condition makes simpler would hide that.
    if (x.kind == LoopKind::bulk) return s;
    const Expr extent = simplify(x.extent, facts);
    if (facts.bounds(extent).hi <= 0) return seq({});
    if (as_int(extent) == 1 && x.kind != LoopKind::last_block && !is_engine(x.kind)) return run(substitute(x.body, {{x.var, int_imm(0)}}), facts);
    Facts inner = facts;
    inner.bind_loop(x.var, extent);
    const Stmt body = run(x.body, inner);
    if (is_nothing(body)) return body;
    return extent == x.extent && body == x.body ? s : loop(x.var, extent, body, x.kind);
  }

  Stmt node(const Store& x, const Stmt& s, const Facts& facts) {
    std::vector<Expr> index = all(x.index, facts);
    const Expr value = simplify(x.value, facts);
    return index == x.index && value == x.value ? s : store(x.buffer, std::move(index), value);
  }

  Stmt node(const Update& x, const Stmt& s, const Facts& facts) {
    std::vector<Expr> index = all(x.index, facts), values = all(x.values, facts);
    return index == x.index && values == x.values
               ? s
               : update(x.monoid, x.buffers, std::move(index), std::move(values));
  }

  Stmt node(const If& x, const Stmt& s, const Facts& facts) {
    const Expr condition = simplify(x.condition, facts);
    if (const auto value = as_int(condition)) return *value ? run(x.then, facts) : seq({});
    Facts inner = facts;
    inner.assume(condition);
    const Stmt then = run(x.then, inner);
    if (is_nothing(then)) return then;
    return condition == x.condition && then == x.then ? s : if_then(condition, then);
  }

  Stmt node(const Let& x, const Stmt& s, const Facts& facts) {
    const Expr value = simplify(x.value, facts);
    if (is_trivial(value)) return run(substitute(x.body, {{x.var, value}}), facts);
    Facts inner = facts;
    if (value->dtype == DType::i64) inner.bind_let(x.var, value);
    const Stmt body = run(x.body, inner);
    if (is_nothing(body)) return body;
    return value == x.value && body == x.body ? s : let(x.var, value, body);
  }

  Stmt node(const Alloc& x, const Stmt& s, const Facts& facts) {
    std::vector<Expr> shape = all(x.buffer->shape, facts), strides = all(x.buffer->strides, facts);
    Stmt body = run(x.body, facts);
    if (is_nothing(body)) return body;
    if (shape == x.buffer->shape && strides == x.buffer->strides)
      return body == x.body ? s : alloc(x.buffer, body);
    const Buffer renewed = std::make_shared<const BufferInfo>(
        BufferInfo{x.buffer->name, x.buffer->dtype, x.buffer->memory, std::move(shape), std::move(strides)});
    return alloc(renewed, replace_buffers(body, {{x.buffer, renewed}}));
  }

  Stmt node(const Seq& x, const Stmt& s, const Facts& facts) {
    std::vector<Stmt> items;
    for (const Stmt& item : x.items) items.push_back(run(item, facts));
    return items == x.items ? s : seq(std::move(items));
  }
};

}  // namespace

Expr simplify(const Expr& e, const Facts& facts) {
  Expr now = e;
  for (int round = 0; round < kMaxRounds; ++round) {
    Expr next = ExprSimplifier(facts).run(now);
    if (same(next, now)) return now;
    now = std::move(next);
  }
  return now;
}

Stmt simplify(const Stmt& s, const Facts& facts) {
  Stmt now = s;
  for (int round = 0; round < kMaxRounds; ++round) {
    Stmt next = StmtSimplifier().run(now, facts);
    if (next == now) break;
    now = std::move(next);
  }
  return now;
}

Kernel simplify(const Kernel& k) {
  Kernel out = k;
  out.body = simplify(k.body, Facts(k));
  return out;
}

std::optional<Affine> as_affine(const Expr& e, const std::vector<Var>& vars) {
  if (e->dtype != DType::i64) return std::nullopt;
  Affine out;
  Linear rest;
  const Linear sum = Linear::from(e);
  for (const auto& [m, c] : sum.terms()) {
    const auto* ref = m.size() == 1 ? as<VarRef>(m[0]) : nullptr;
    if (ref && std::find(vars.begin(), vars.end(), ref->var) != vars.end()) {
      out.coefficients[ref->var] = c;
      continue;
    }
    for (const Expr& f : m)
      for (const Var& v : vars)
        if (uses(f, v)) return std::nullopt;
    rest.add(m, c);
  }
  out.rest = rest.expr();
  return out;
}

}  // namespace loopwright::ir
