#include "src/schedule/steps/load_ahead.h"

#include <algorithm>

#include "src/schedule/tile.h"

namespace loopwright::schedule {

using ir::as;
using ir::Expr;
using ir::Stmt;
using ir::Var;

namespace {

constexpr ErrorCode kNotAhead = ErrorCode::illegal_stage;

/// One load of a copy, and the registers that hold what it gives.
struct EarlyLoad {
  Expr load;       ///< with the conditions of the selects around it
  ir::Buffer held;
};

/// A copy in two halves: the loads, and the stores of what they gave.
struct HalvedCopy {
  Chain chain;
  std::vector<Expr> index;  ///< of the registers: the loops of the nest
  std::vector<Expr> shape;
  std::vector<EarlyLoad> loads;
  Expr value;  ///< in terms of the registers
};

/// Takes the loads of global memory out of a value; `condition` is that of the selects above, null for none.
class LoadTaker {
 public:
  LoadTaker(HalvedCopy& copy, Names& names, const std::string& name) : copy_(copy), names_(names), name_(name) {}

  Expr take(const Expr& e, const Expr& condition) {
    if (const auto* s = as<ir::Select>(e)) {
      const Expr both = condition ? ir::logical_and(condition, s->condition) : s->condition;
      // The other side's loads would have to wait for a condition of their own.
      if (ir::has_load(s->condition) || ir::has_load(s->b)) failed = true;
      return ir::select(s->condition, take(s->a, both), s->b);
    }
    const auto* l = as<ir::Load>(e);
    if (l == nullptr) return ir::map_children(e, [&](const Expr& child) { return take(child, condition); });
    if (l->buffer->memory != ir::Memory::global) failed = true;
    for (const Expr& i : l->index) failed = failed || ir::has_load(i);
    auto held = make_local(l->buffer, names_.take(name_ + "_next"), copy_.shape, Place::registers, kNotAhead);
    if (!held.ok()) {
      failed = true;
      return e;
    }
    copy_.loads.push_back({condition ? ir::select(condition, e, ir::constant(0, e->dtype)) : e, *held});
    return ir::load(*held, copy_.index);
  }

  bool failed = false;

 private:
  HalvedCopy& copy_;
  Names& names_;
  std::string name_;
};

/// Nothing where the statement is no nest of constant loops around one store to `target`.
std::optional<HalvedCopy> halve(const StagedCopy& staged, Names& names) {
  HalvedCopy copy;
  copy.chain = chain_of(staged.copy);
  const auto* store = as<ir::Store>(copy.chain.leaf);
  if (store == nullptr || store->buffer != staged.buffer) return std::nullopt;
  for (const Stmt& s : copy.chain.around) {
    const auto* l = as<ir::Loop>(s);
    if (as<ir::Let>(s) || (l != nullptr && !ir::as_int(l->extent))) return std::nullopt;
    if (l == nullptr) continue;
    copy.index.push_back(ir::var(l->var));
    copy.shape.push_back(l->extent);
  }
  LoadTaker taker(copy, names, staged.buffer->name);
  copy.value = taker.take(store->value, nullptr);
  return taker.failed ? std::nullopt : std::optional(std::move(copy));
}

/// The nest again under other names.
Stmt rename_loops(const Stmt& s, Names& names) {
  const auto* l = as<ir::Loop>(s);
  if (l == nullptr) return ir::map_children(s, [](const Expr& e) { return e; }, [&](const Stmt& child) { return rename_loops(child, names); });
  const Var v = names.var(l->var.hint + "_next");
  return ir::loop(v, l->extent, rename_loops(ir::substitute(l->body, {{l->var, ir::var(v)}}), names), l->kind);
}

/// The loads for one iteration of `k`.
Stmt fetch(const HalvedCopy& copy, const Var& k, const Expr& iteration, Names& names) {
  std::vector<Stmt> stores;
  for (const EarlyLoad& l : copy.loads) stores.push_back(ir::store(l.held, copy.index, l.load));
  return rename_loops(ir::substitute(wrap(copy.chain.around, ir::seq(std::move(stores))), {{k, iteration}}), names);
}

}  // namespace

Result<Applied> apply(const ir::Kernel& k, const LoadAhead& step) {
  LW_TRY(const Site site, require_serial(k, step.loop));
  LW_CHECK(require_room(k, site, Place::registers, kNotAhead));
  const ir::Loop& l = site.loop();
  Stmt rest = l.body;
  const std::vector<StagedCopy> staged = take_copies(rest);
  const char* works = "stage at the loop in shared, and bind the loops of the copies";
  if (staged.empty()) return rejected(kNotAhead, "the body does not begin with copies to shared memory", k, site.stmt(), works);
  const std::vector<ir::Buffer> written = ir::buffers_of(l.body).written;
  Names names(k);
  std::vector<ir::Buffer> shared, held;
  std::vector<Stmt> before, items, next;
  const Expr iteration = ir::var(l.var);
  for (const StagedCopy& s : staged) {
    const auto copy = halve(s, names);
    if (!copy) return rejected(kNotAhead, "what fills `" + s.buffer->name + "` is no nest of constant loops around one store", k, s.copy, works);
    for (const ir::Buffer& b : ir::buffers_of(s.copy).read)
      if (std::find(written.begin(), written.end(), b) != written.end())
        return rejected(kNotAhead, "the loop writes `" + b->name + "`, which the copy reads", k, s.copy, "copies of what the loop leaves alone");
    shared.push_back(s.buffer);
    for (const EarlyLoad& e : copy->loads) held.push_back(e.held);
    const auto& store = std::get<ir::Store>(copy->chain.leaf->v);
    items.push_back(wrap(copy->chain.around, ir::store(store.buffer, store.index, copy->value)));
    if (copy->loads.empty()) continue;
    before.push_back(fetch(*copy, l.var, ir::int_imm(0), names));
    next.push_back(fetch(*copy, l.var, iteration + ir::int_imm(1), names));
  }
  if (held.empty()) return rejected(kNotAhead, "the copies load nothing", k, site.stmt(), works);
  items.push_back(ir::if_then(ir::lt(iteration + ir::int_imm(1), l.extent), ir::seq(std::move(next))));
  items.push_back(rest);
  Stmt first = ir::seq(std::move(before));
  const Expr any = ir::lt(ir::int_imm(0), l.extent);
  if (!facts_before(k, site).proves(any)) first = ir::if_then(any, first);
  const Stmt loop = ir::loop(l.var, l.extent, alloc_all(shared, ir::seq(std::move(items))));
  return Applied{edit(k, {{site.stmt().get(), alloc_all(held, ir::seq({first, loop}))}}), {}};
}

}  // namespace loopwright::schedule
