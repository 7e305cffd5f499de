#include "src/driver/promote.h"

#include <unordered_map>

#include "src/ir/rewrite.h"

namespace loopwright::driver {
namespace {

using namespace ir;

/// Rebuilds a tree with new dtypes. Nodes are remembered, so that shared subtrees stay shared.
class Promoter {
 public:
  explicit Promoter(const Kernel& kernel) {
    for (const Param& p : kernel.params) {
      if (p.role != ArgRole::input) promote_buffer(p.buffer);
      else buffers_[p.buffer] = p.buffer;
    }
  }

  Buffer buffer(const Buffer& b) {
    auto it = buffers_.find(b);
    return it != buffers_.end() ? it->second : promote_buffer(b);
  }

  Expr expr(const Expr& e) {
    auto it = done_.find(e.get());
    if (it != done_.end()) return it->second;
    Expr result = rebuild(e);
    done_.emplace(e.get(), result);
    return result;
  }

  Stmt stmt(const Stmt& s) {
    return std::visit(
        on{[&](const Loop& x) { return loop(x.var, expr(x.extent), stmt(x.body), x.kind); },
           [&](const Store& x) { return store(buffer(x.buffer), exprs(x.index), expr(x.value)); },
           [&](const Update& x) {
             std::vector<Buffer> targets;
             for (const Buffer& b : x.buffers) targets.push_back(buffer(b));
             return update(x.monoid, targets, exprs(x.index), exprs(x.values));
           },
           [&](const If& x) { return if_then(expr(x.condition), stmt(x.then)); },
           [&](const Let& x) { return let(x.var, expr(x.value), stmt(x.body)); },
           [&](const Alloc& x) {
             Buffer b = buffer(x.buffer);
             return alloc(b, stmt(x.body));
           },
           [&](const Seq& x) {
             std::vector<Stmt> items;
             for (const Stmt& item : x.items) items.push_back(stmt(item));
             return seq(std::move(items));
           }},
        s->v);
  }

 private:
  Buffer promote_buffer(const Buffer& b) {
    Buffer promoted = b;
    if (is_float(b->dtype) && b->dtype != DType::f64) {
      BufferInfo info = *b;
      info.dtype = DType::f64;
      promoted = std::make_shared<const BufferInfo>(std::move(info));
    }
    buffers_[b] = promoted;
    return promoted;
  }

  std::vector<Expr> exprs(const std::vector<Expr>& list) {
    std::vector<Expr> out;
    for (const Expr& e : list) out.push_back(expr(e));
    return out;
  }

  static Expr widen(Expr e) { return is_float(e->dtype) ? cast(std::move(e), DType::f64) : e; }

  Expr rebuild(const Expr& e) {
    return std::visit(
        on{[&](const IntImm&) { return e; },
           [&](const FloatImm& x) { return float_imm(x.value, DType::f64); },
           [&](const VarRef& x) { return var(x.var, is_float(e->dtype) ? DType::f64 : e->dtype); },
           [&](const Unary& x) { return unary(x.op, expr(x.a)); },
           [&](const Binary& x) { return binary(x.op, expr(x.a), expr(x.b)); },
           [&](const Select& x) { return select(expr(x.condition), expr(x.a), expr(x.b)); },
           [&](const Cast& x) { return cast(expr(x.a), is_float(e->dtype) ? DType::f64 : e->dtype); },
           [&](const Load& x) { return widen(load(buffer(x.buffer), exprs(x.index))); }},
        e->v);
  }

  std::map<Buffer, Buffer> buffers_;
  std::unordered_map<const ExprNode*, Expr> done_;
};

}  // namespace

ir::Kernel promote_to_f64(const ir::Kernel& kernel) {
  Promoter promoter(kernel);
  Kernel out = kernel;
  for (Param& p : out.params) p.buffer = promoter.buffer(p.buffer);
  out.body = promoter.stmt(kernel.body);
  return out;
}

}  // namespace loopwright::driver
