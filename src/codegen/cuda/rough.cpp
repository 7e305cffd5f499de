#include "src/codegen/cuda/rough.h"

#include <algorithm>
#include <functional>

#include "src/ir/rewrite.h"

namespace loopwright::codegen {
namespace {

using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;
using ir::UnaryOp;

/// Buffers and variables of type f32 that are no arguments.
struct Kept {
  std::set<ir::Buffer> buffers;
  std::set<ir::Var> vars;
  std::size_t size() const { return buffers.size() + vars.size(); }
  bool contains(const Expr& e) const {
    if (const auto* l = ir::as<ir::Load>(e)) return buffers.contains(l->buffer);
    if (const auto* v = ir::as<ir::VarRef>(e)) return vars.contains(v->var);
    return false;
  }
};

Kept find_kept(const ir::Kernel& kernel) {
  Kept out;
  ir::walk(kernel.body, [&](const Stmt& s) {
    if (const auto* a = ir::as<ir::Alloc>(s); a != nullptr && a->buffer->dtype == DType::f32) out.buffers.insert(a->buffer);
    if (const auto* l = ir::as<ir::Let>(s); l != nullptr && l->value->dtype == DType::f32) out.vars.insert(l->var);
  }, [](const Expr&) {});
  return out;
}

/// Whether a value is not negative (or NaN), given that what is in `known` is not.
bool is_positive(const Expr& e, const Kept& known) {
  if (const auto* c = ir::as<ir::FloatImm>(e)) return c->value >= 0;
  if (const auto* c = ir::as<ir::Cast>(e)) return is_positive(c->a, known);
  if (const auto* s = ir::as<ir::Select>(e)) return is_positive(s->a, known) && is_positive(s->b, known);
  if (const auto* u = ir::as<ir::Unary>(e))
    return u->op == UnaryOp::exp || u->op == UnaryOp::exp2 || u->op == UnaryOp::sigmoid || u->op == UnaryOp::sqrt || u->op == UnaryOp::abs;
  const auto* x = ir::as<ir::Binary>(e);
  if (x == nullptr) return known.contains(e);
  const bool a = is_positive(x->a, known), b = is_positive(x->b, known);
  switch (x->op) {
    case BinaryOp::max: return a || b;
    case BinaryOp::mul: return (a && b) || ir::same(x->a, x->b);
    case BinaryOp::add:
    case BinaryOp::div:
    case BinaryOp::min: return a && b;
    default: return false;
  }
}

/// Of what is kept, that to which nothing negative is ever written.
Kept find_positive(const ir::Kernel& kernel) {
  Kept out = find_kept(kernel);
  for (std::size_t before = 0; before != out.size();) {
    before = out.size();
    ir::walk(kernel.body, [&](const Stmt& s) {
      if (const auto* x = ir::as<ir::Store>(s); x != nullptr && !is_positive(x->value, out)) out.buffers.erase(x->buffer);
      if (const auto* l = ir::as<ir::Let>(s); l != nullptr && !is_positive(l->value, out)) out.vars.erase(l->var);
      if (const auto* u = ir::as<ir::Update>(s); u != nullptr && (u->buffers.size() > 1 || !is_positive(u->values[0], out)))
        for (const ir::Buffer& b : u->buffers) out.buffers.erase(b);
    }, [](const Expr&) {});
  }
  return out;
}

/// Walks down from every place that takes a value, and notes who needs all of its bits.
class Finder {
 public:
  explicit Finder(const ir::Kernel& kernel) : positive_(find_positive(kernel)), rough_(find_kept(kernel)) {
    // Each round may find that something kept is needed with all bits, and then what it is made of is as well.
    std::size_t before = 0;
    do {
      before = rough_.size();
      exact_.clear();
      seen_.clear();
      ir::walk(kernel.body, [&](const Stmt& s) { visit(s); }, [](const Expr&) {});
    } while (before != rough_.size());
  }

  std::set<const ir::ExprNode*> take() {
    std::set<const ir::ExprNode*> out;
    for (const ir::ExprNode* e : seen_) {
      const auto* u = std::get_if<ir::Unary>(&e->v);
      const auto* x = std::get_if<ir::Binary>(&e->v);
      const bool gains = (u != nullptr && (u->op == UnaryOp::sigmoid || u->op == UnaryOp::exp)) || (x != nullptr && x->op == BinaryOp::div);
      if (gains && !exact_.contains(e)) out.insert(e);
    }
    return out;
  }

 private:
  void visit(const Stmt& s) {
    if (const auto* x = ir::as<ir::Store>(s)) {
      visit(x->value, rough_.buffers.contains(x->buffer));
      for (const Expr& e : x->index) visit(e, false);
    } else if (const auto* u = ir::as<ir::Update>(s)) {
      const bool keeps = u->monoid == ir::Monoid::product || u->monoid == ir::Monoid::max || u->monoid == ir::Monoid::min ||
                         (u->monoid == ir::Monoid::sum && is_positive(u->values[0], positive_));
      for (const Expr& e : u->values) visit(e, keeps && rough_.buffers.contains(u->buffers[0]));
      for (const Expr& e : u->index) visit(e, false);
    } else if (const auto* l = ir::as<ir::Let>(s)) {
      visit(l->value, rough_.vars.contains(l->var));
    } else if (const auto* i = ir::as<ir::If>(s)) {
      visit(i->condition, false);
    } else if (const auto* loop = ir::as<ir::Loop>(s)) {
      visit(loop->extent, false);
    }
  }

  void visit(const Expr& e, bool rough) {
    if (!(rough ? seen_ : exact_).insert(e.get()).second) return;
    if (!rough) {
      if (const auto* l = ir::as<ir::Load>(e)) rough_.buffers.erase(l->buffer);
      if (const auto* v = ir::as<ir::VarRef>(e)) rough_.vars.erase(v->var);
    }
    if (const auto* s = ir::as<ir::Select>(e)) {
      visit(s->condition, false);
      visit(s->a, rough);
      visit(s->b, rough);
      return;
    }
    const bool children = passes(e, rough);
    ir::map_children(e, [&](const Expr& child) {
      visit(child, children && child->dtype == DType::f32);
      return child;
    });
  }

  /// Whether an error in the operands becomes no larger one in the value.
  bool passes(const Expr& e, bool rough) const {
    if (const auto* c = ir::as<ir::Cast>(e)) return c->a->dtype == DType::f32 && (e->dtype == DType::bf16 || e->dtype == DType::f16);
    if (!rough) return false;
    if (const auto* u = ir::as<ir::Unary>(e)) return u->op == UnaryOp::neg || u->op == UnaryOp::abs;
    const auto* x = ir::as<ir::Binary>(e);
    if (x == nullptr) return false;
    switch (x->op) {
      case BinaryOp::mul:
      case BinaryOp::div:
      case BinaryOp::max:
      case BinaryOp::min: return true;
      case BinaryOp::add: return is_positive(x->a, positive_) && is_positive(x->b, positive_);
      default: return false;
    }
  }

  Kept positive_, rough_;
  std::set<const ir::ExprNode*> exact_, seen_;  ///< seen: used roughly somewhere
};

}  // namespace

std::set<const ir::ExprNode*> find_rough(const ir::Kernel& kernel) { return Finder(kernel).take(); }

}  // namespace loopwright::codegen
