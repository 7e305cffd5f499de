#include "src/lower/partition_loops.h"

#include "src/ir/rewrite.h"
#include "src/ir/simplify.h"
#include "src/lower/condition_groups.h"
#include "src/lower/copies.h"

namespace loopwright::lower {
namespace {

using ir::Expr;
using ir::Stmt;

class Partitioner {
 public:
  Partitioner(const ir::Kernel& kernel, std::int64_t budget) : facts_(kernel), budget_(budget) {}

  Stmt visit(const Stmt& s) {
    const auto* l = ir::as<ir::Loop>(s);
    if (l == nullptr) {
      return ir::map_children(s, [](const Expr& e) { return e; }, [&](const Stmt& child) { return visit(child); });
    }
    if (l->kind != ir::LoopKind::serial && l->kind != ir::LoopKind::parallel) return s;
    return cut(*l, 0);
  }

 private:
  Expr simplified(const Expr& e) const { return ir::simplify(e, facts_); }

  Stmt visit_body(const ir::Loop& l) {
    const ir::Facts outer = facts_;
    facts_.bind_loop(l.var, l.extent);
    Stmt body = visit(l.body);
    facts_ = outer;
    return body == l.body ? ir::loop(l.var, l.extent, l.body, l.kind) : ir::loop(l.var, l.extent, body, l.kind);
  }

  /// Cuts by one group after the other; the pieces where the conditions are still open are not cut again.
  Stmt cut(const ir::Loop& l, int depth) {
    constexpr int kMostCuts = 4;
    if (depth < kMostCuts) {
      for (const ConditionGroup& g : find_condition_groups(l)) {
        const std::int64_t cost = count_statements(l.body) * (g.guards_only ? 1 : 2);
        if (cost > budget_) continue;
        if (Stmt pieces = cut_by(l, g, depth)) return pieces;
      }
    }
    return visit_body(l);
  }

  /// null when the cut would leave everything in one piece.
  Stmt cut_by(const ir::Loop& l, const ConditionGroup& g, int depth) {
    const bool falls = g.coefficient > 0;  // holds first, then no longer
    const auto clamp = [&](const Expr& e) { return simplified(ir::min(ir::max(e, ir::int_imm(0)), l.extent)); };
    const Expr all = clamp(g.end_of_all());
    const Expr some = clamp(g.end_of_some());
    const Expr extent = simplified(l.extent);
    const Expr zero = ir::int_imm(0);
    // [0, first) and [second, extent) are decided, what is between is open.
    const Expr first = falls ? all : g.guards_only ? zero : some;
    const Expr second = !falls ? all : g.guards_only ? extent : some;
    if (ir::as_int(first) == 0 && ir::same(second, extent)) return nullptr;
    budget_ -= count_statements(l.body) * (g.guards_only ? 1 : 2);
    const Stmt yes = assume_group(l.body, g, true);
    const Stmt no = assume_group(l.body, g, false);
    const Piece low{zero, first, falls ? yes : no, true};
    const Piece open{first, second, l.body, false};
    const Piece high{second, extent, falls ? no : yes, true};
    return l.kind == ir::LoopKind::parallel ? choose_inside(l, {low, open, high}) : run_in_turn(l, {low, open, high}, depth);
  }

  struct Piece {
    Expr begin, end;
    Stmt body;
    bool decided;
  };

  /// One loop for each piece.
  Stmt run_in_turn(const ir::Loop& l, const std::vector<Piece>& pieces, int depth) {
    std::vector<std::pair<ir::Var, Expr>> named;
    const auto name_bound = [&](const Expr& e) {
      if (ir::as_int(e) || ir::as<ir::VarRef>(e) != nullptr) return e;
      for (const auto& [v, value] : named) {
        if (ir::same(value, e)) return ir::var(v);
      }
      named.emplace_back(ir::fresh_var("cut"), e);
      return ir::var(named.back().first);
    };
    std::vector<Stmt> loops;
    for (const Piece& p : pieces) {
      if (ir::same(p.begin, p.end)) continue;
      const Expr begin = name_bound(p.begin);
      const Expr end = name_bound(p.end);
      const ir::Var v = ir::fresh_var(l.var.hint);
      const bool from_zero = ir::as_int(begin) == 0;
      const Expr value = from_zero ? ir::var(v) : ir::var(v) + begin;
      const Stmt body = ir::substitute(ir::clone_bindings(p.body), {{l.var, value}});
      const ir::Loop piece{v, from_zero ? end : simplified(end - begin), ir::LoopKind::serial, ir::simplify(body, facts_)};
      loops.push_back(p.decided ? cut(piece, depth + 1) : visit_body(piece));
    }
    Stmt out = ir::seq(std::move(loops));
    for (auto it = named.rbegin(); it != named.rend(); ++it) out = ir::let(it->first, it->second, out);
    return out;
  }

  /// A parallel loop stays one launch: each iteration finds its piece.
  Stmt choose_inside(const ir::Loop& l, const std::vector<Piece>& pieces) {
    const Expr v = ir::var(l.var);
    std::vector<Stmt> choices;
    for (const Piece& p : pieces) {
      if (ir::same(p.begin, p.end)) continue;
      const Stmt body = ir::simplify(ir::clone_bindings(p.body), facts_);
      Expr condition = ir::int_imm(1, DType::boolean);
      if (!ir::same(p.end, l.extent)) condition = ir::lt(v, p.end);
      if (ir::as_int(p.begin) != 0) condition = ir::logical_and(ir::binary(ir::BinaryOp::ge, v, p.begin), condition);
      choices.push_back(ir::if_then(simplified(condition), body));
    }
    return visit_body(ir::Loop{l.var, l.extent, l.kind, ir::seq(std::move(choices))});
  }

  ir::Facts facts_;
  std::int64_t budget_;  ///< statements that may still be added
};

}  // namespace

Result<ir::Kernel> partition_loops(const ir::Kernel& kernel, const LowerOptions& options) {
  ir::Kernel out = kernel;
  out.body = Partitioner(kernel, options.max_statements / 8).visit(kernel.body);
  return make_names_unique(out);
}

}  // namespace loopwright::lower
