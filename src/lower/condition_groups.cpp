#include "src/lower/condition_groups.h"

#include <map>

#include "src/ir/rewrite.h"
#include "src/ir/simplify.h"

namespace loopwright::lower {
namespace {

using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

/// a - b such that the comparison says a - b < 0; null when it is none of integers by order.
Expr below_zero(const Expr& e) {
  const auto* x = ir::as<ir::Binary>(e);
  if (x == nullptr || x->a->dtype != DType::i64) return nullptr;
  switch (x->op) {
    case BinaryOp::lt: return x->a - x->b;
    case BinaryOp::le: return x->a - x->b - ir::int_imm(1);
    case BinaryOp::gt: return x->b - x->a;
    case BinaryOp::ge: return x->b - x->a - ir::int_imm(1);
    default: return nullptr;
  }
}

constexpr std::int64_t kLargest = std::int64_t{1} << 40;  ///< beyond it no index is, and sums cannot overflow

/// Takes the constant terms off a sum.
std::int64_t take_constant(Expr& rest) {
  if (const auto value = ir::as_int(rest); value && std::abs(*value) < kLargest) {
    rest = ir::int_imm(0);
    return *value;
  }
  const auto* x = ir::as<ir::Binary>(rest);
  if (x == nullptr || (x->op != BinaryOp::add && x->op != BinaryOp::sub)) return 0;
  Expr a = x->a;
  Expr b = x->b;
  const bool adds = x->op == BinaryOp::add;
  const std::int64_t taken = take_constant(a) + (adds ? 1 : -1) * take_constant(b);
  rest = ir::as_int(b) == 0 ? a : ir::as_int(a) == 0 && adds ? b : adds ? a + b : a - b;
  return taken;
}

class Finder {
 public:
  explicit Finder(const ir::Loop& loop) : var_(loop.var) { visit(loop.body); }
  std::vector<ConditionGroup> groups;

 private:
  void visit(const Stmt& s) {
    if (const auto* i = ir::as<ir::If>(s)) take_all(i->condition, true);
    if (const auto* l = ir::as<ir::Loop>(s)) {
      inside_.insert(l->var);
      const auto extent = ir::as_int(l->extent);
      if (extent && *extent > 0 && *extent < kLargest) extents_[l->var] = *extent;
    }
    if (const auto* l = ir::as<ir::Let>(s)) {
      inside_.insert(l->var);
      if (l->value->dtype == DType::i64 && !ir::has_load(l->value)) lets_[l->var] = ir::substitute(l->value, lets_);
    }
    ir::map_children(
        s,
        [&](const Expr& e) {
          ir::walk(e, [&](const Expr& x) {
            const auto* select = ir::as<ir::Select>(x);
            if (select != nullptr && (ir::has_load(select->a) || ir::has_load(select->b))) take_all(select->condition, false);
          });
          return e;
        },
        [&](const Stmt& child) {
          visit(child);
          return child;
        });
  }

  void take_all(const Expr& condition, bool guard) {
    const auto* x = ir::as<ir::Binary>(condition);
    if (x != nullptr && (x->op == BinaryOp::and_ || x->op == BinaryOp::or_) && condition->dtype == DType::boolean) {
      take_all(x->a, guard);
      take_all(x->b, guard);
      return;
    }
    if (const auto* u = ir::as<ir::Unary>(condition); u != nullptr && u->op == ir::UnaryOp::logical_not) return take_all(u->a, guard);
    take(condition, guard);
  }

  void take(const Expr& comparison, bool guard) {
    Expr difference = below_zero(comparison);
    if (difference == nullptr || ir::has_load(difference)) return;
    difference = ir::simplify(ir::substitute(difference, lets_));
    std::vector<ir::Var> vars{var_};
    for (const ir::Var& v : ir::free_vars(difference)) {
      if (extents_.contains(v)) vars.push_back(v);
    }
    const auto affine = ir::as_affine(difference, vars);
    if (!affine) return;
    ConditionGroup g;
    g.rest = ir::simplify(affine->rest);
    for (const ir::Var& v : ir::free_vars(g.rest)) {
      if (v == var_ || inside_.contains(v)) return;
    }
    g.lowest = g.highest = take_constant(g.rest);
    for (const auto& [v, coefficient] : affine->coefficients) {
      if (std::abs(coefficient) > kLargest) return;
      if (v == var_) {
        g.coefficient = coefficient;
        continue;
      }
      const std::int64_t reach = coefficient * std::min(extents_.at(v) - 1, kLargest / std::max<std::int64_t>(1, std::abs(coefficient)));
      (reach > 0 ? g.highest : g.lowest) += reach;
    }
    if (g.coefficient == 0) return;
    g.comparisons = {comparison.get()};
    g.guards_only = guard;
    add(g);
  }

  void add(const ConditionGroup& g) {
    for (ConditionGroup& known : groups) {
      if (known.coefficient != g.coefficient || !ir::same(known.rest, g.rest)) continue;
      // Selects of different borders have different answers: they stay apart.
      if ((!known.guards_only || !g.guards_only) && (known.lowest != g.lowest || known.highest != g.highest)) continue;
      known.lowest = std::min(known.lowest, g.lowest);
      known.highest = std::max(known.highest, g.highest);
      known.comparisons.insert(g.comparisons.begin(), g.comparisons.end());
      known.guards_only = known.guards_only && g.guards_only;
      return;
    }
    groups.push_back(g);
  }

  ir::Var var_;
  std::set<ir::Var> inside_;                ///< bound in the body: not known before the loop
  std::map<ir::Var, std::int64_t> extents_; ///< inner loops of constant extent
  std::map<ir::Var, Expr> lets_;
};

/// The smallest v with coefficient * v + k + rest >= 0 (coefficient > 0) or < 0 (coefficient < 0).
Expr turning_point(std::int64_t coefficient, const Expr& rest, std::int64_t k) {
  if (coefficient > 0) {
    return ir::floor_div(ir::int_imm(coefficient - 1 - k) - rest, ir::int_imm(coefficient));
  }
  return ir::floor_div(rest + ir::int_imm(k), ir::int_imm(-coefficient)) + ir::int_imm(1);
}

}  // namespace

Expr ConditionGroup::end_of_all() const { return turning_point(coefficient, rest, highest); }

Expr ConditionGroup::end_of_some() const { return turning_point(coefficient, rest, lowest); }

std::vector<ConditionGroup> find_condition_groups(const ir::Loop& loop) { return Finder(loop).groups; }

Stmt assume_group(const Stmt& body, const ConditionGroup& group, bool holds) {
  const Expr known = ir::int_imm(holds ? 1 : 0, DType::boolean);
  return ir::rewrite(
      body, [&](const Expr& e) { return group.comparisons.contains(e.get()) ? known : e; }, [](const Stmt& s) { return s; });
}

}  // namespace loopwright::lower
