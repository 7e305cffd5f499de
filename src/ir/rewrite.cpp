#include "src/ir/rewrite.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace loopwright::ir {
namespace {

template <class T, class F>
std::vector<T> map_all(const std::vector<T>& items, const F& f) {
  std::vector<T> out;
  out.reserve(items.size());
  for (const T& item : items) out.push_back(f(item));
  return out;
}

using ExprMemo = std::unordered_map<const ExprNode*, Expr>;

Expr rewrite_memo(const Expr& e, const std::function<Expr(const Expr&)>& f, ExprMemo& memo) {
  if (const auto it = memo.find(e.get()); it != memo.end()) return it->second;
  Expr out = f(map_children(e, [&](const Expr& child) { return rewrite_memo(child, f, memo); }));
  memo.emplace(e.get(), out);
  return out;
}

using Seen = std::unordered_set<const void*>;

void walk_seen(const Expr& e, const std::function<void(const Expr&)>& f, Seen& seen) {
  if (!seen.insert(e.get()).second) return;
  f(e);
  map_children(e, [&](const Expr& child) {
    walk_seen(child, f, seen);
    return child;
  });
}

void walk_seen(const Stmt& s, const std::function<void(const Stmt&)>& fs,
               const std::function<void(const Expr&)>& fe, Seen& seen) {
  if (!seen.insert(s.get()).second) return;
  fs(s);
  map_children(
      s,
      [&](const Expr& e) {
        walk_seen(e, fe, seen);
        return e;
      },
      [&](const Stmt& child) {
        walk_seen(child, fs, fe, seen);
        return child;
      });
}

void add_free(const Expr& e, const std::set<Var>& bound, std::set<Var>& out) {
  walk(e, [&](const Expr& x) {
    if (const auto* ref = as<VarRef>(x); ref && !bound.contains(ref->var)) out.insert(ref->var);
  });
}

void add_free(const Stmt& s, std::set<Var>& bound, std::set<Var>& out) {
  std::optional<Var> binder;
  if (const auto* l = as<Loop>(s)) binder = l->var;
  if (const auto* l = as<Let>(s)) binder = l->var;
  if (const auto* a = as<Alloc>(s)) {
    for (const Expr& e : a->buffer->shape) add_free(e, bound, out);
    for (const Expr& e : a->buffer->strides) add_free(e, bound, out);
  }
  map_children(
      s,
      [&](const Expr& e) {
        add_free(e, bound, out);  // extents and values are outside the binding
        return e;
      },
      [&](const Stmt& child) {
        const bool added = binder && bound.insert(*binder).second;
        add_free(child, bound, out);
        if (added) bound.erase(*binder);
        return child;
      });
}

std::vector<Expr> substitute_all(const std::vector<Expr>& exprs, const std::map<Var, Expr>& values) {
  return map_all(exprs, [&](const Expr& e) { return substitute(e, values); });
}

/// `buffer` under another shape when a variable of its shape or strides has a value; the same pointer otherwise.
Buffer substitute_buffer(const Buffer& buffer, const std::map<Var, Expr>& values) {
  BufferInfo info = *buffer;
  info.shape = substitute_all(info.shape, values);
  info.strides = substitute_all(info.strides, values);
  if (info.shape == buffer->shape && info.strides == buffer->strides) return buffer;
  return std::make_shared<const BufferInfo>(std::move(info));
}

void add_buffer(std::vector<Buffer>& list, const Buffer& buffer) {
  if (std::find(list.begin(), list.end(), buffer) == list.end()) list.push_back(buffer);
}

/// Replaces values and buffers in one walk; with `fresh`, bindings get new numbers on the way down.
class Renamer {
 public:
  explicit Renamer(bool fresh) : fresh_(fresh) {}
  std::map<Var, Expr> values;
  std::map<Buffer, Buffer> buffers;

  Expr apply(const Expr& e) const { return replace_buffers(substitute(e, values), buffers); }

  Stmt apply(const Stmt& s) {
    if (const auto* l = as<Loop>(s)) {
      Expr extent = apply(l->extent);
      const Var v = bind(l->var, DType::i64);
      return keep(s, loop(v, std::move(extent), apply(l->body), l->kind));
    }
    if (const auto* l = as<Let>(s)) {
      Expr value = apply(l->value);
      const Var v = bind(l->var, l->value->dtype);
      return keep(s, let(v, std::move(value), apply(l->body)));
    }
    if (const auto* a = as<Alloc>(s)) {
      Buffer buffer = substitute_buffer(a->buffer, values);
      if (fresh_ && buffer == a->buffer) buffer = std::make_shared<const BufferInfo>(*a->buffer);
      if (buffer != a->buffer) buffers[a->buffer] = buffer;
      return keep(s, alloc(buffer, apply(a->body)));
    }
    const Stmt mapped = map_children(
        s, [&](const Expr& e) { return apply(e); }, [&](const Stmt& child) { return apply(child); });
    return replace_here(mapped);
  }

 private:
  Var bind(const Var& v, DType dtype) {
    if (!fresh_) return v;
    Var renamed = fresh_var(v.hint);
    values[v] = var(renamed, dtype);
    return renamed;
  }

  /// `built` unless it equals `s` child by child.
  static Stmt keep(const Stmt& s, Stmt built) {
    const auto same_loop = [](const Loop* a, const Loop* b) {
      return a && a->var == b->var && a->extent == b->extent && a->body == b->body;
    };
    const auto same_let = [](const Let* a, const Let* b) {
      return a && a->var == b->var && a->value == b->value && a->body == b->body;
    };
    const auto same_alloc = [](const Alloc* a, const Alloc* b) {
      return a && a->buffer == b->buffer && a->body == b->body;
    };
    const bool same = same_loop(as<Loop>(s), as<Loop>(built)) || same_let(as<Let>(s), as<Let>(built)) ||
                      same_alloc(as<Alloc>(s), as<Alloc>(built));
    return same ? s : built;
  }

  Buffer renamed(const Buffer& buffer) const {
    const auto it = buffers.find(buffer);
    return it == buffers.end() ? buffer : it->second;
  }

  Stmt replace_here(const Stmt& s) const {
    if (const auto* x = as<Store>(s); x && renamed(x->buffer) != x->buffer)
      return store(renamed(x->buffer), x->index, x->value);
    if (const auto* x = as<Update>(s)) {
      std::vector<Buffer> targets = map_all(x->buffers, [&](const Buffer& b) { return renamed(b); });
      if (targets != x->buffers) return update(x->monoid, std::move(targets), x->index, x->values);
    }
    return s;
  }

  bool fresh_;
};

}  // namespace

Expr map_children(const Expr& e, const std::function<Expr(const Expr&)>& f) {
  return std::visit(on{[&](const IntImm&) { return e; }, [&](const FloatImm&) { return e; },
                       [&](const VarRef&) { return e; },
                       [&](const Unary& x) {
                         Expr a = f(x.a);
                         return a == x.a ? e : unary(x.op, std::move(a));
                       },
                       [&](const Binary& x) {
                         Expr a = f(x.a), b = f(x.b);
                         return a == x.a && b == x.b ? e : binary(x.op, std::move(a), std::move(b));
                       },
                       [&](const Select& x) {
                         Expr c = f(x.condition), a = f(x.a), b = f(x.b);
                         if (c == x.condition && a == x.a && b == x.b) return e;
                         return select(std::move(c), std::move(a), std::move(b));
                       },
                       [&](const Cast& x) {
                         Expr a = f(x.a);
                         return a == x.a ? e : cast(std::move(a), e->dtype);
                       },
                       [&](const Load& x) {
                         std::vector<Expr> index = map_all(x.index, f);
                         return index == x.index ? e : load(x.buffer, std::move(index));
                       }},
                    e->v);
}

Stmt map_children(const Stmt& s, const std::function<Expr(const Expr&)>& fe,
                  const std::function<Stmt(const Stmt&)>& fs) {
  return std::visit(
      on{[&](const Loop& x) {
           Expr extent = fe(x.extent);
           Stmt body = fs(x.body);
           return extent == x.extent && body == x.body
                      ? s
                      : loop(x.var, std::move(extent), std::move(body), x.kind);
         },
         [&](const Store& x) {
           std::vector<Expr> index = map_all(x.index, fe);
           Expr value = fe(x.value);
           return index == x.index && value == x.value ? s
                                                       : store(x.buffer, std::move(index), std::move(value));
         },
         [&](const Update& x) {
           std::vector<Expr> index = map_all(x.index, fe), values = map_all(x.values, fe);
           if (index == x.index && values == x.values) return s;
           return update(x.monoid, x.buffers, std::move(index), std::move(values));
         },
         [&](const If& x) {
           Expr condition = fe(x.condition);
           Stmt then = fs(x.then);
           return condition == x.condition && then == x.then ? s
                                                             : if_then(std::move(condition), std::move(then));
         },
         [&](const Let& x) {
           Expr value = fe(x.value);
           Stmt body = fs(x.body);
           return value == x.value && body == x.body ? s : let(x.var, std::move(value), std::move(body));
         },
         [&](const Alloc& x) {
           Stmt body = fs(x.body);
           return body == x.body ? s : alloc(x.buffer, std::move(body));
         },
         [&](const Seq& x) {
           std::vector<Stmt> items = map_all(x.items, fs);
           return items == x.items ? s : seq(std::move(items));
         }},
      s->v);
}

Expr rewrite(const Expr& e, const std::function<Expr(const Expr&)>& f) {
  ExprMemo memo;
  return rewrite_memo(e, f, memo);
}

Stmt rewrite(const Stmt& s, const std::function<Expr(const Expr&)>& fe,
             const std::function<Stmt(const Stmt&)>& fs) {
  ExprMemo memo;
  std::unordered_map<const StmtNode*, Stmt> done;
  const std::function<Stmt(const Stmt&)> visit = [&](const Stmt& x) -> Stmt {
    if (const auto it = done.find(x.get()); it != done.end()) return it->second;
    Stmt out = fs(map_children(x, [&](const Expr& e) { return rewrite_memo(e, fe, memo); }, visit));
    done.emplace(x.get(), out);
    return out;
  };
  return visit(s);
}

void walk(const Expr& e, const std::function<void(const Expr&)>& f) {
  Seen seen;
  walk_seen(e, f, seen);
}

void walk(const Stmt& s, const std::function<void(const Stmt&)>& fs,
          const std::function<void(const Expr&)>& fe) {
  Seen seen;
  walk_seen(s, fs, fe, seen);
}

Expr substitute(const Expr& e, const std::map<Var, Expr>& values) {
  if (values.empty()) return e;
  return rewrite(e, [&](const Expr& x) {
    const auto* ref = as<VarRef>(x);
    if (!ref) return x;
    const auto it = values.find(ref->var);
    if (it == values.end()) return x;
    LW_BUG_IF(it->second->dtype != x->dtype, "substitution of " + ref->var.hint + " changes its dtype");
    return it->second;
  });
}

Stmt substitute(const Stmt& s, const std::map<Var, Expr>& values) {
  if (values.empty()) return s;
  Renamer renamer(false);
  renamer.values = values;
  return renamer.apply(s);
}

Expr replace_buffers(const Expr& e, const std::map<Buffer, Buffer>& buffers) {
  if (buffers.empty()) return e;
  return rewrite(e, [&](const Expr& x) {
    const auto* l = as<Load>(x);
    if (!l) return x;
    const auto it = buffers.find(l->buffer);
    return it == buffers.end() ? x : load(it->second, l->index);
  });
}

Stmt replace_buffers(const Stmt& s, const std::map<Buffer, Buffer>& buffers) {
  if (const auto* a = as<Alloc>(s)) {
    const auto it = buffers.find(a->buffer);
    return alloc(it == buffers.end() ? a->buffer : it->second, replace_buffers(a->body, buffers));
  }
  const Stmt mapped = map_children(
      s, [&](const Expr& e) { return replace_buffers(e, buffers); },
      [&](const Stmt& child) { return replace_buffers(child, buffers); });
  const auto renamed = [&](const Buffer& b) {
    const auto it = buffers.find(b);
    return it == buffers.end() ? b : it->second;
  };
  if (const auto* x = as<Store>(mapped)) return store(renamed(x->buffer), x->index, x->value);
  if (const auto* x = as<Update>(mapped))
    return update(x->monoid, map_all(x->buffers, renamed), x->index, x->values);
  return mapped;
}

Stmt clone_bindings(const Stmt& s) { return Renamer(true).apply(s); }

std::set<Var> free_vars(const Expr& e) {
  std::set<Var> out;
  add_free(e, {}, out);
  return out;
}

std::set<Var> free_vars(const Stmt& s) {
  std::set<Var> bound, out;
  add_free(s, bound, out);
  return out;
}

bool uses(const Expr& e, const Var& v) { return free_vars(e).contains(v); }
bool uses(const Stmt& s, const Var& v) { return free_vars(s).contains(v); }

bool has_load(const Expr& e) {
  bool found = false;
  walk(e, [&](const Expr& x) { found = found || as<Load>(x) != nullptr; });
  return found;
}

void take_conjuncts(const Expr& e, std::vector<Expr>& out) {
  const auto* x = as<Binary>(e);
  if (x == nullptr || x->op != BinaryOp::and_ || e->dtype != DType::boolean) return out.push_back(e);
  take_conjuncts(x->a, out);
  take_conjuncts(x->b, out);
}

Expr linear_position(const BufferInfo& buffer, const std::vector<Expr>& index) {
  Expr sum = int_imm(0), stride = int_imm(1);
  for (std::size_t d = index.size(); d-- > 0;) {
    sum = index[d] * stride + sum;
    stride = stride * buffer.shape[d];
  }
  return sum;
}

Accesses buffers_of(const Stmt& s) {
  Accesses out;
  walk(
      s,
      [&](const Stmt& x) {
        if (const auto* st = as<Store>(x)) add_buffer(out.written, st->buffer);
        if (const auto* up = as<Update>(x)) {
          for (const Buffer& b : up->buffers) {
            add_buffer(out.written, b);
            add_buffer(out.read, b);
          }
        }
      },
      [&](const Expr& e) {
        if (const auto* l = as<Load>(e)) add_buffer(out.read, l->buffer);
      });
  return out;
}

}  // namespace loopwright::ir
