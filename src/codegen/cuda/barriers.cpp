#include "src/codegen/cuda/barriers.h"

#include <algorithm>

#include "src/ir/engine.h"
#include "src/ir/rewrite.h"

namespace loopwright::codegen {
namespace {

using ir::Expr;
using ir::LoopKind;
using ir::Stmt;

/// One access to memory that threads share.
struct Touch {
  ir::Buffer buffer;
  bool writes = false;
  /// The thread that makes it, as a function of the element; empty when several threads or thread 0 alone do.
  std::optional<Spread> owner;
};

bool thread_loops_inside(const Stmt& s) {
  bool found = false;
  ir::walk(s, [&](const Stmt& x) {
    const auto* l = ir::as<ir::Loop>(x);
    found = found || (l != nullptr && (thread_axis(l->kind) || l->kind == LoopKind::across));
  }, [](const Expr&) {});
  return found;
}

/// A ring's body without its slots: which of them an iteration has is no memory that it shares with others.
Stmt without_slots(const ir::Loop& l, const Stmt& body) {
  if (!ir::feeds_threads(l)) return body;
  return ir::rewrite(
      body,
      [](const Expr& e) {
        const auto* load = ir::as<ir::Load>(e);
        return load != nullptr && load->buffer->memory == ir::Memory::shared ? ir::constant(0, e->dtype) : e;
      },
      [](const Stmt& s) {
        const auto* copy = ir::as<ir::Loop>(s);
        return copy != nullptr && (copy->kind == LoopKind::bulk || copy->kind == LoopKind::async) ? ir::seq({}) : s;
      });
}

/// The rounds of a block that does what many would do (persist): the loop's variable is nowhere but in the number of the
/// iteration that a block of a grid would have had, and so is the block's. Those touch nothing of each other's in memory that the grid shares.
bool is_rounds(const ir::Loop& l) {
  Stmt inside = l.body;
  std::set<ir::Var> inner{l.var};
  while (const auto* turns = ir::as<ir::Loop>(inside)) {
    if (!thread_axis(turns->kind)) return false;
    inner.insert(turns->var);
    inside = turns->body;
  }
  const auto* number = ir::as<ir::Let>(inside);
  const auto* there = number != nullptr ? ir::as<ir::If>(number->body) : nullptr;
  if (there == nullptr || !ir::uses(there->condition, number->var) || !ir::uses(number->value, l.var)) return false;
  // The block, beside what is inside: a variable that nothing but the number uses.
  const Stmt work = without_slots(l, number->body);
  for (const ir::Var& v : ir::free_vars(number->value))
    if (ir::uses(work, v)) return false;
  const std::set<ir::Var> used = ir::free_vars(number->value);
  return std::any_of(used.begin(), used.end(), [&](const ir::Var& v) { return !inner.contains(v); });
}

/// Threads' own work has barriers, also between copies of a ring whose slots they read.
bool is_engine_work(const ir::Loop& l) { return ir::is_engine(l.kind) && !ir::feeds_threads(l); }

class BarrierPlanner {
 public:
  BarrierPlanner(const Stmt& body, const ir::Facts& facts, const BlockShape& block)
      : facts_(facts), block_(block) {
    ir::walk(
        body,
        [&](const Stmt& s) {
          const auto* l = ir::as<ir::Loop>(s);
          if (l == nullptr || !is_engine_work(*l)) return;
          const ir::Accesses found = ir::buffers_of(s);
          engines_.insert(found.read.begin(), found.read.end());
          engines_.insert(found.written.begin(), found.written.end());
        },
        [](const Expr&) {});
  }

  void visit(const Stmt& s) {
    std::visit(ir::on{[&](const ir::Loop& l) { visit_loop(s, l); },
                      [&](const ir::Store&) { step(s); },
                      [&](const ir::Update&) { step(s); },
                      [&](const ir::If& i) {
                        read(s, i.condition);
                        scoped([&] { facts_.assume(i.condition); }, i.then);
                      },
                      [&](const ir::Let& l) {
                        read(s, l.value);
                        scoped([&] { if (l.value->dtype == DType::i64) facts_.bind_let(l.var, l.value); }, l.body);
                      },
                      [&](const ir::Alloc& a) { visit(a.body); },
                      [&](const ir::Seq& q) {
                        for (const Stmt& item : q.items) visit(item);
                      }},
               s->v);
  }

  std::set<const ir::StmtNode*> found;

 private:
  template <class Enter>
  void scoped(const Enter& enter, const Stmt& body) {
    const ir::Facts outer = facts_;
    enter();
    visit(body);
    facts_ = outer;
  }

  void visit_loop(const Stmt& s, const ir::Loop& l) {
    if (is_engine_work(l)) return;
    if (l.kind == LoopKind::across) {
      step(s);
      // Combining through slots waits for everybody after everything before was done.
      const auto c = ir::match_combination(l);
      const bool scans = c && c->before != nullptr;  // a thread may hold several of the values
      if (const auto ways = ir::as_int(l.extent); !scans && ways && needs_slots(*ways)) pending_.clear();
      return;
    }
    if (const auto axis = thread_axis(l.kind)) {
      const auto extent = ir::as_int(l.extent);
      if (!thread_loops_inside(l.body)) return step(s);
      // Inside, only the threads of a row or a block wait for each other: what others did before is waited for in front.
      step(s);
      const std::vector<Touch> all = std::exchange(pending_, {});
      threads_[l.var] = ThreadLoop{*axis, extent.value_or(1)};
      scoped([&] { facts_.bind_loop(l.var, l.extent); }, l.body);
      threads_.erase(l.var);
      pending_ = all;
      return;
    }
    if (!thread_loops_inside(l.body)) return step(s);
    // Twice: what an iteration leaves meets what the next one does first.
    scoped([&] { facts_.bind_loop(l.var, l.extent); }, l.body);
    std::vector<Touch> apart;
    if (is_rounds(l))
      std::erase_if(pending_, [&](const Touch& t) {
        if (t.buffer->memory == ir::Memory::global) apart.push_back(t);
        return t.buffer->memory == ir::Memory::global;
      });
    scoped([&] { facts_.bind_loop(l.var, l.extent); }, l.body);
    pending_.insert(pending_.end(), apart.begin(), apart.end());
  }

  /// A statement that each thread carries out on its own.
  void step(const Stmt& s) {
    std::vector<Touch> touches;
    collect(s, facts_, threads_, touches);
    settle(s, touches);
  }

  void read(const Stmt& s, const Expr& e) {
    std::vector<Touch> touches;
    collect(e, facts_, threads_, touches);
    settle(s, touches);
  }

  void settle(const Stmt& s, const std::vector<Touch>& touches) {
    const bool conflict = std::any_of(touches.begin(), touches.end(), [&](const Touch& t) {
      return std::any_of(pending_.begin(), pending_.end(), [&](const Touch& p) {
        return p.buffer == t.buffer && (p.writes || t.writes) && !(p.owner && t.owner && *p.owner == *t.owner);
      });
    });
    if (conflict) {
      found.insert(s.get());
      pending_.clear();
    }
    pending_.insert(pending_.end(), touches.begin(), touches.end());
  }

  void add(const ir::Buffer& buffer, const std::vector<Expr>& index, bool writes, const ir::Facts& facts,
           const std::map<ir::Var, ThreadLoop>& threads, std::vector<Touch>& out) const {
    if (buffer->memory == ir::Memory::registers || buffer->memory == ir::Memory::fragment) return;
    if (buffer->memory == ir::Memory::shared && engines_.contains(buffer)) return;
    Touch t{buffer, writes, std::nullopt};
    if (index.size() == 1) {
      const auto place = spread_index(index[0], threads, facts);
      std::int64_t owners = 1;
      if (place)
        for (const SpreadLevel& level : place->spread) owners *= level.threads;
      if (place && owners == block_.threads() * block_.cluster) t.owner = place->spread;
    }
    out.push_back(std::move(t));
  }

  void collect(const Expr& e, const ir::Facts& facts, const std::map<ir::Var, ThreadLoop>& threads, std::vector<Touch>& out) const {
    ir::walk(e, [&](const Expr& x) {
      if (const auto* l = ir::as<ir::Load>(x)) add(l->buffer, l->index, false, facts, threads, out);
    });
  }

  void collect(const Stmt& s, ir::Facts facts, std::map<ir::Var, ThreadLoop> threads, std::vector<Touch>& out) const {
    if (const auto* l = ir::as<ir::Loop>(s)) {
      if (is_engine_work(*l)) return;
      facts.bind_loop(l->var, l->extent);
      if (const auto axis = thread_axis(l->kind)) threads[l->var] = {*axis, ir::as_int(l->extent).value_or(1)};
    }
    if (const auto* x = ir::as<ir::Store>(s)) add(x->buffer, x->index, true, facts, threads, out);
    if (const auto* u = ir::as<ir::Update>(s)) {
      for (const ir::Buffer& b : u->buffers) {
        add(b, u->index, false, facts, threads, out);
        add(b, u->index, true, facts, threads, out);
      }
    }
    if (const auto* l = ir::as<ir::Let>(s); l != nullptr && l->value->dtype == DType::i64) facts.bind_let(l->var, l->value);
    ir::map_children(s,
                     [&](const Expr& e) {
                       collect(e, facts, threads, out);
                       return e;
                     },
                     [&](const Stmt& child) {
                       collect(child, facts, threads, out);
                       return child;
                     });
  }

  ir::Facts facts_;
  BlockShape block_;
  std::set<ir::Buffer> engines_;  ///< what copy engine and tensor cores touch has barriers of its own
  std::map<ir::Var, ThreadLoop> threads_;
  std::vector<Touch> pending_;  ///< since the last barrier
};

}  // namespace

bool needs_slots(std::int64_t ways) { return ways > 32; }

std::set<const ir::StmtNode*> plan_barriers(const Stmt& body, const ir::Facts& facts, const BlockShape& block) {
  if (block.threads() * block.cluster == 1) return {};
  BarrierPlanner planner(body, facts, block);
  planner.visit(body);
  return std::move(planner.found);
}

}  // namespace loopwright::codegen
