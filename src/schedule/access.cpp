#include "src/schedule/access.h"

#include <algorithm>
#include <map>
#include <set>

#include "src/ir/rewrite.h"

namespace loopwright::schedule {

using ir::as;
using ir::Expr;
using ir::Stmt;

namespace {

class Collector {
 public:
  std::vector<Access> found;

  void visit(const Stmt& s) {
    std::visit(ir::on{[&](const ir::Loop& x) {
                        reads(s, x.extent);
                        loops_.push_back(s);
                        visit(x.body);
                        loops_.pop_back();
                      },
                      [&](const ir::Store& x) {
                        for (const Expr& e : x.index) reads(s, e);
                        reads(s, x.value);
                        add(s, x.buffer, x.index, Access::Kind::write);
                      },
                      [&](const ir::Update& x) {
                        for (const Expr& e : x.index) reads(s, e);
                        for (const Expr& e : x.values) reads(s, e);
                        for (const ir::Buffer& b : x.buffers)
                          add(s, b, x.index, Access::Kind::update).monoid = x.monoid;
                      },
                      [&](const ir::If& x) {
                        reads(s, x.condition);
                        conditions_.push_back(expand(x.condition));
                        visit(x.then);
                        conditions_.pop_back();
                      },
                      [&](const ir::Let& x) {
                        reads(s, x.value);
                        if (is_integer(x.value->dtype)) lets_[x.var] = expand(x.value);
                        visit(x.body);
                      },
                      [&](const ir::Alloc& x) {
                        local_.insert(x.buffer);
                        visit(x.body);
                      },
                      [&](const ir::Seq& x) {
                        for (const Stmt& item : x.items) visit(item);
                      }},
               s->v);
  }

 private:
  Expr expand(const Expr& e) const { return ir::substitute(e, lets_); }

  Access& add(const Stmt& s, const ir::Buffer& buffer, const std::vector<Expr>& index, Access::Kind kind) {
    Access a;
    a.buffer = buffer;
    for (const Expr& e : index) a.index.push_back(expand(e));
    a.kind = kind;
    a.statement = s;
    a.loops = loops_;
    a.conditions = conditions_;
    a.local = local_.contains(buffer);
    return found.emplace_back(std::move(a));
  }

  void reads(const Stmt& s, const Expr& e) {
    std::set<std::pair<const ir::ExprNode*, bool>> seen;
    reads(s, e, false, seen);
  }

  void reads(const Stmt& s, const Expr& e, bool optional,
             std::set<std::pair<const ir::ExprNode*, bool>>& seen) {
    if (!seen.emplace(e.get(), optional).second) return;
    if (const auto* x = as<ir::Select>(e)) {
      reads(s, x->condition, optional, seen);
      reads(s, x->a, true, seen);
      reads(s, x->b, true, seen);
      return;
    }
    if (const auto* x = as<ir::Binary>(e);
        x && e->dtype == DType::boolean && (x->op == ir::BinaryOp::and_ || x->op == ir::BinaryOp::or_)) {
      reads(s, x->a, optional, seen);
      reads(s, x->b, true, seen);
      return;
    }
    ir::map_children(e, [&](const Expr& child) {
      reads(s, child, optional, seen);
      return child;
    });
    if (const auto* x = as<ir::Load>(e)) add(s, x->buffer, x->index, Access::Kind::read).optional = optional;
  }

  std::vector<Stmt> loops_;
  std::vector<Expr> conditions_;
  std::map<ir::Var, Expr> lets_;
  std::set<ir::Buffer> local_;
};

}  // namespace

std::vector<Access> collect_accesses(const Stmt& root) {
  Collector collector;
  collector.visit(root);
  return std::move(collector.found);
}

bool is_moved_by_data(const Expr& index, const std::vector<Stmt>& loops) {
  bool found = false;
  ir::walk(index, [&](const Expr& e) {
    if (as<ir::Load>(e) == nullptr) return;
    for (const Stmt& s : loops)
      if (const auto* l = as<ir::Loop>(s)) found = found || ir::uses(e, l->var);
  });
  return found;
}

bool reads_local(const Expr& e) {
  bool found = false;
  ir::walk(e, [&](const Expr& x) {
    const auto* l = as<ir::Load>(x);
    found = found || (l != nullptr && l->buffer->memory != ir::Memory::global);
  });
  return found;
}

std::vector<ir::Buffer> update_group(const Stmt& body, const ir::Buffer& buffer) {
  std::vector<ir::Buffer> group{buffer};
  ir::walk(
      body,
      [&](const Stmt& s) {
        const auto* u = as<ir::Update>(s);
        if (u && std::find(u->buffers.begin(), u->buffers.end(), buffer) != u->buffers.end())
          group = u->buffers;
      },
      [](const Expr&) {});
  return group;
}

}  // namespace loopwright::schedule
