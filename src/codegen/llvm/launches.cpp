#include "src/codegen/llvm/launches.h"

#include <functional>

#include "src/ir/rewrite.h"

namespace loopwright::codegen {
namespace {

using ir::Expr;
using ir::Stmt;

bool has_load(const Expr& e) {
  bool found = false;
  ir::walk(e, [&](const Expr& x) { found = found || ir::as<ir::Load>(x) != nullptr; });
  return found;
}

/// Puts a statement back into the Lets and Ifs it was taken out of.
using Wrap = std::function<Stmt(Stmt)>;

class Planner {
 public:
  explicit Planner(const ir::Kernel& kernel) : kernel_(kernel) {}

  Result<LaunchPlan> plan() {
    LW_CHECK(split(kernel_.body, [](Stmt s) { return s; }));
    flush();
    return std::move(plan_);
  }

 private:
  /// Over symbols only, so that it can be evaluated before the launch and again inside.
  bool is_closed(const Expr& e) const { return ir::to_size_expr(e, kernel_.symbols).has_value(); }

  /// True when a launch of its own can be made of a loop somewhere below.
  bool can_split(const Stmt& s) const {
    return std::visit(
        ir::on{[&](const ir::Loop& l) { return l.kind == ir::LoopKind::parallel && is_closed(l.extent); },
               [&](const ir::Store&) { return false; }, [&](const ir::Update&) { return false; },
               [&](const ir::If& i) { return !has_load(i.condition) && can_split(i.then); },
               [&](const ir::Let& l) { return !has_load(l.value) && can_split(l.body); },
               [&](const ir::Alloc& a) { return can_split(a.body); },
               [&](const ir::Seq& q) {
                 for (const Stmt& item : q.items) {
                   if (can_split(item)) return true;
                 }
                 return false;
               }},
        s->v);
  }

  Status split(const Stmt& s, const Wrap& wrap) {
    if (!can_split(s)) {
      // A buffer of a serial nest that others do not see stays with it, as scratch.
      pending_.push_back(wrap(s));
      return Unit{};
    }
    if (const auto* q = ir::as<ir::Seq>(s)) {
      for (const Stmt& item : q->items) LW_CHECK(split(item, wrap));
      return Unit{};
    }
    if (const auto* a = ir::as<ir::Alloc>(s)) {
      for (const Expr& extent : a->buffer->shape) {
        if (is_closed(extent)) continue;
        return Error{ErrorCode::compile_failed, "allocating `" + a->buffer->name + "` outside the parallel loops",
                     "its shape is not a formula over the kernel's symbols", "", "shapes over symbols and numbers"};
      }
      plan_.workspaces.push_back(a->buffer);
      return split(a->body, wrap);
    }
    if (const auto* i = ir::as<ir::If>(s)) {
      return split(i->then, [wrap, c = i->condition](Stmt body) { return wrap(ir::if_then(c, std::move(body))); });
    }
    if (const auto* l = ir::as<ir::Let>(s)) {
      return split(l->body, [wrap, l](Stmt body) { return wrap(ir::let(l->var, l->value, std::move(body))); });
    }
    const auto* loop = ir::as<ir::Loop>(s);
    flush();
    plan_.launches.push_back({loop->var, loop->extent, wrap(loop->body)});
    return Unit{};
  }

  /// Everything serial since the last parallel loop is one launch.
  void flush() {
    if (pending_.empty()) return;
    plan_.launches.push_back({std::nullopt, ir::int_imm(1), ir::seq(std::move(pending_))});
    pending_.clear();
  }

  const ir::Kernel& kernel_;
  LaunchPlan plan_;
  std::vector<Stmt> pending_;
};

}  // namespace

Result<LaunchPlan> plan_launches(const ir::Kernel& kernel) { return Planner(kernel).plan(); }

}  // namespace loopwright::codegen
