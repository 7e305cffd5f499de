#include "src/codegen/launch_walk.h"

#include <algorithm>

#include "src/ir/rewrite.h"

namespace loopwright::codegen {

using ir::Expr;
using ir::Stmt;

Status LaunchWalk::walk() {
  LW_CHECK(split(kernel_.body, [](Stmt s) { return s; }));
  flush();
  return Unit{};
}

/// True when a launch of its own can be made of a loop somewhere below.
bool LaunchWalk::can_split(const Stmt& s) const {
  return std::visit(
      ir::on{[&](const ir::Loop& l) { return begins_launch(l) && is_closed(l.extent); },
             [&](const ir::Store&) { return false; }, [&](const ir::Update&) { return false; },
             [&](const ir::If& i) { return !ir::has_load(i.condition) && can_split(i.then); },
             [&](const ir::Let& l) { return !ir::has_load(l.value) && can_split(l.body); },
             [&](const ir::Alloc& a) { return is_always_workspace(a.buffer) || can_split(a.body); },
             [&](const ir::Seq& q) {
               return std::any_of(q.items.begin(), q.items.end(), [&](const Stmt& item) { return can_split(item); });
             }},
      s->v);
}

Status LaunchWalk::split(const Stmt& s, const Wrap& wrap) {
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
      return Error{ErrorCode::compile_failed, "allocating `" + a->buffer->name + "` outside the launches",
                   "its shape is not a formula over the kernel's symbols", "", "shapes over symbols and numbers"};
    }
    workspaces_.push_back(a->buffer);
    return split(a->body, wrap);
  }
  if (const auto* i = ir::as<ir::If>(s)) {
    return split(i->then, [wrap, c = i->condition](Stmt body) { return wrap(ir::if_then(c, std::move(body))); });
  }
  if (const auto* l = ir::as<ir::Let>(s)) {
    return split(l->body, [wrap, l](Stmt body) { return wrap(ir::let(l->var, l->value, std::move(body))); });
  }
  return add_launch(s, wrap);
}

}  // namespace loopwright::codegen
