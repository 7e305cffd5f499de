// Rings that the threads of a block fill themselves: copies of 4, 8 or 16 bytes from global to shared memory that begin
// depth - 1 iterations ahead. Each iteration's copies are a group, an empty one where there is no such iteration; a thread waits
// until no more than depth - 2 of its groups are under way, and one barrier then says that everybody's copies are there and
// that the slot of the iteration before has been read.
#include <algorithm>

#include "src/codegen/cuda/body_emitter.h"
#include "src/codegen/cuda/engine_loops.h"
#include "src/ir/rewrite.h"

namespace loopwright::codegen {

using ir::Expr;
using ir::LoopKind;
using ir::Stmt;

namespace {

constexpr std::int64_t kMostSlotsOfThreads = 4;

/// The body with a variable for the slot of its iteration.
Stmt name_slot(const ir::Loop& l, const Stmt& body, std::int64_t depth, const ir::Var& slot) {
  return ir::rewrite(body, [&](const Expr& e) {
    const auto* x = ir::as<ir::Binary>(e);
    const auto* v = x != nullptr && x->op == ir::BinaryOp::mod ? ir::as<ir::VarRef>(x->a) : nullptr;
    return v != nullptr && v->var == l.var && ir::as_int(x->b) == depth ? ir::var(slot) : e;
  }, [](const Stmt& s) { return s; });
}

/// What the iteration is taken modulo of; where there are no more iterations than slots nothing says it, and as many do.
std::int64_t find_depth(const ir::Loop& l, const Stmt& copies) {
  std::int64_t out = std::max<std::int64_t>(2, ir::as_int(l.extent).value_or(0));
  ir::walk(copies, [](const Stmt&) {}, [&](const Expr& e) {
    const auto* x = ir::as<ir::Binary>(e);
    const auto* v = x != nullptr && x->op == ir::BinaryOp::mod ? ir::as<ir::VarRef>(x->a) : nullptr;
    if (v != nullptr && v->var == l.var) out = ir::as_int(x->b).value_or(out);
  });
  return out;
}

}  // namespace

bool has_async_ring(const Stmt& s) { return !loops_of(s, LoopKind::async).empty(); }

Status BodyEmitter::emit_async_ring(const ir::Loop& l) {
  std::vector<Stmt> copies, rest;
  for (const Stmt& s : ir::as<ir::Seq>(l.body) != nullptr ? ir::as<ir::Seq>(l.body)->items : std::vector<Stmt>{l.body})
    (loops_of(s, LoopKind::async).empty() ? rest : copies).push_back(s);
  const std::int64_t depth = find_depth(l, ir::seq(copies));
  if (depth < 2 || depth > kMostSlotsOfThreads) return refuse("a ring of " + std::to_string(depth) + " slots that threads fill", "2 to 4 slots");
  begin({l.extent});
  const std::string end = name_value("int", index(l.extent)), name = fresh(l.var.hint), ahead = std::to_string(depth - 1);
  const auto copy = [&](const std::string& iteration) {
    return block("if (" + iteration + " < " + end + ") ", [&] {
      const ir::Var filled = ir::fresh_var("filled"), slot = ir::fresh_var("slot");
      bind(filled, name_value("int", iteration), l.extent);
      bind(slot, name_value("int", names_.at(filled) + " % " + std::to_string(depth)), ir::int_imm(depth));
      return emit_one(ir::substitute(ir::clone_bindings(name_slot(l, ir::seq(copies), depth, slot)), {{l.var, ir::var(filled)}}));
    });
  };
  if (serial_loops_ > 0) barrier();  // the slots of the last time were read
  line("#pragma unroll 1");
  LW_CHECK(block("for (int first = 0; first < " + ahead + "; ++first) ", [&]() -> Status {
    LW_CHECK(copy("first"));
    line("lw_copies_commit();");
    return Unit{};
  }));
  ++serial_loops_;
  line("#pragma unroll 1");
  const Status status = block("for (int " + name + " = 0; " + name + " < " + end + "; ++" + name + ") ", [&]() -> Status {
    line("lw_copies_wait_" + std::to_string(depth - 2) + "();");
    barrier();
    LW_CHECK(copy(name + " + " + ahead));
    line("lw_copies_commit();");
    bind(l.var, name, l.extent);
    const ir::Var slot = ir::fresh_var("slot");
    bind(slot, name_value("int", name + " % " + std::to_string(depth)), ir::int_imm(depth));
    return emit_one(name_slot(l, ir::seq(rest), depth, slot));
  });
  --serial_loops_;
  return status;
}

Status BodyEmitter::emit_async(const ir::Loop& l) {
  in_async_ = true;
  bind(l.var, "0", l.extent);
  const Status status = emit_one(l.body);
  in_async_ = false;
  return status;
}

Status BodyEmitter::emit_async_copy(const ir::Store& s) {
  const auto* select = ir::as<ir::Select>(s.value);
  const auto* load = ir::as<ir::Load>(select != nullptr ? select->a : s.value);
  if (load == nullptr || load->buffer->memory != ir::Memory::global || !only_thread(s.buffer).empty())
    return refuse("a copy to `" + s.buffer->name + "` that threads cannot go on without", "global memory as it is, by loops over all threads");
  const Expr to = linear_index(*s.buffer, s.index), from = linear_index(*load->buffer, load->index);
  const std::int64_t lanes = lanes_ ? lanes_->count : 1, element = size_bytes(s.buffer->dtype);
  begin({to, from});
  std::int64_t width = 1;
  const bool alike = select == nullptr || !lanes_ || !depends_on_lane(select->condition);
  const auto to_base = lanes_ ? lane_base(to) : std::nullopt, from_base = lanes_ ? lane_base(from) : std::nullopt;
  if (alike && to_base && from_base) width = std::min(access_width(s.buffer, *to_base, lanes), access_width(load->buffer, *from_base, lanes));
  const std::int64_t bytes = width * element;
  if (bytes < 4) return refuse("a copy of " + std::to_string(bytes) + " bytes to `" + s.buffer->name + "`", "neighbours in both memories, 4 bytes or more");
  for (std::int64_t i = 0; i < lanes; i += width) {
    const auto at_lane = [&](const Expr& e) { return lanes_ ? ir::simplify(ir::substitute(e, {{lanes_->var, ir::int_imm(i)}}), facts_) : e; };
    std::string valid = std::to_string(bytes);
    if (select != nullptr) valid = "(" + text(at_lane(select->condition)) + ") ? " + valid + " : 0";
    line("lw_copy_async_" + std::to_string(bytes) + "(lw_shared_address(&" + place_of(s.buffer, at_lane(to)) + "), &" + place_of(load->buffer, at_lane(from)) + ", " + valid + ");");
  }
  return Unit{};
}

}  // namespace loopwright::codegen
