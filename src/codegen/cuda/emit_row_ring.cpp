// Rings whose slots threads read: rows that the copy engine fills while the rows before them are reduced. Every thread
// waits for the row's bytes; each warp arrives at `empty` when it has read them, and thread 0 fills the slot again for the
// iteration `depth` later, where all threads have met since or at the end of the iteration (see ring_plan.h).
#include <algorithm>

#include "src/codegen/cuda/body_emitter.h"
#include "src/codegen/cuda/engine_loops.h"
#include "src/ir/rewrite.h"

namespace loopwright::codegen {

using ir::Expr;
using ir::LoopKind;
using ir::Stmt;

namespace {

constexpr std::int64_t kWarpOfReaders = 32;
constexpr std::int64_t kBarrierBytes = 8;

bool reads(const Stmt& s, const std::set<ir::Buffer>& buffers) {
  const std::vector<ir::Buffer> found = ir::buffers_of(s).read;
  return std::any_of(found.begin(), found.end(), [&](const ir::Buffer& b) { return buffers.contains(b); });
}

/// Statements behind each other, through allocations.
void list_statements(const Stmt& s, std::vector<Stmt>& out) {
  if (const auto* a = ir::as<ir::Alloc>(s)) return list_statements(a->body, out);
  if (const auto* q = ir::as<ir::Seq>(s)) {
    for (const Stmt& item : q->items) list_statements(item, out);
    return;
  }
  out.push_back(s);
}

}  // namespace

bool has_row_ring(const Stmt& s) {
  const auto rings = loops_of(s, LoopKind::ring);
  return std::any_of(rings.begin(), rings.end(), [](const ir::Loop* l) { return ir::feeds_threads(*l) && !ir::is_fed_by_threads(*l); });
}

/// Takes the loop apart: what leads to the copies, what reads them last, where threads meet behind that.
Status BodyEmitter::plan_rows(const ir::Loop& l) {
  RowRing& ring = row_ring_.emplace();
  ring.loop = l.var, ring.extent = l.extent;
  ir::Facts facts = facts_;
  facts.bind_loop(l.var, l.extent);
  std::vector<Stmt> around;
  Stmt inner = l.body;
  for (bool more = true; more;) {
    if (const auto* let = ir::as<ir::Let>(inner)) {
      facts.bind_let(let->var, let->value);
      around.push_back(std::exchange(inner, let->body));
    } else if (const auto* condition = ir::as<ir::If>(inner)) {
      facts.assume(condition->condition);
      around.push_back(std::exchange(inner, condition->then));
    } else {
      more = false;
    }
  }
  std::vector<Stmt> statements, copies;
  list_statements(inner, statements);
  std::set<ir::Buffer> tiles;
  std::vector<std::int64_t> bytes;
  std::int64_t depth = 0;
  for (const Stmt& s : statements) {
    const auto* copy = ir::as<ir::Loop>(s);
    if (copy == nullptr || copy->kind != LoopKind::bulk) continue;
    LW_TRY(const ir::BulkCopy c, ir::match_bulk_copy(*copy, facts));
    depth = count_of(*c.tile) / c.columns;
    bytes.push_back(c.columns * size_bytes(c.tile->dtype));
    tiles.insert(c.tile);
    copies.push_back(s);
  }
  for (const Stmt& s : statements) {
    if (std::find(copies.begin(), copies.end(), s) != copies.end()) continue;
    if (ring.waits == nullptr) ring.waits = s.get();
    if (reads(s, tiles)) ring.last_read = s.get(), ring.refills = nullptr;
    // Combining through slots is behind a barrier of all threads.
    else if (ring.last_read != nullptr && ring.refills == nullptr && !loops_of(s, LoopKind::across).empty())
      ring.refills = s.get();
  }
  if (ring.last_read == nullptr)
    return refuse("nobody reads what the copy engine fills", "a ring of rows that are used");
  if (ring.refills == nullptr) ring.refills = statements.back().get();
  ring.fill = ir::seq(copies);
  for (auto s = around.rbegin(); s != around.rend(); ++s) {
    const auto* let = ir::as<ir::Let>(*s);
    ring.fill = let != nullptr ? ir::let(let->var, let->value, ring.fill)
                               : ir::if_then(std::get<ir::If>((*s)->v).condition, ring.fill);
  }
  if (launch_.block.y > 1 || launch_.block.cluster > 1 || launch_.block.x % kWarpOfReaders != 0)
    return refuse("blocks of " + std::to_string(launch_.block.x) + " x " + std::to_string(launch_.block.y) +
                      " threads read the rows of a ring",
                  "whole warps that share one row");
  ring.plan = plan_row_ring(depth, launch_.block.x / kWarpOfReaders, bytes);
  for (const std::int64_t iterations : {4 * depth + 1, depth - 1, depth, std::int64_t{1}})
    LW_CHECK(simulate_ring(ring.plan, iterations));
  return Unit{};
}

/// Barriers, and the first copies.
Status BodyEmitter::begin_rows() {
  RowRing& ring = *row_ring_;
  const std::string depth = std::to_string(ring.plan.depth);
  launch_.shared_bytes = (launch_.shared_bytes + kBarrierBytes - 1) / kBarrierBytes * kBarrierBytes;
  ring.full =
      name_value("unsigned", "lw_shared_address(lw_shared + " + std::to_string(launch_.shared_bytes) + ")");
  ring.empty = name_value("unsigned", ring.full + " + " + std::to_string(ring.plan.depth * kBarrierBytes));
  launch_.shared_bytes += 2 * ring.plan.depth * kBarrierBytes;
  LW_CHECK(block("if (threadIdx.x == 0) ", [&]() -> Status {
    line("for (int i = 0; i < " + depth + "; ++i) { lw_barrier_init(" + ring.full +
         " + i * 8, 1); lw_barrier_init(" + ring.empty + " + i * 8, " +
         std::to_string(ring.plan.empty_arrivals) + "); }");
    line("lw_barrier_fence();");
    line("#pragma unroll 1");
    return block("for (int first = 0; first < " + depth + " && first < " + ring.end + "; ++first) ",
                 [&] { return fill_slot("first"); });
  }));
  line("__syncthreads();");
  return Unit{};
}

/// The copies of an iteration, by one thread.
Status BodyEmitter::fill_slot(const std::string& iteration) {
  RowRing& ring = *row_ring_;
  const ir::Var filled = ir::fresh_var("filled");
  ring.filled = name_value("int", iteration);
  bind(filled, ring.filled, ring.extent);
  ring.copied = 0;
  const Status status =
      emit_one(ir::substitute(ir::clone_bindings(ring.fill), {{ring.loop, ir::var(filled)}}));
  ring.filled.clear();
  return status;
}

Status BodyEmitter::emit_row_copy(const ir::Loop& l) {
  RowRing& ring = *row_ring_;
  if (ring.filled.empty()) return Unit{};  // made `depth` iterations ago
  LW_TRY(const ir::BulkCopy c, ir::match_bulk_copy(l, facts_));
  if (swizzles_.contains(c.tile))
    return refuse("`" + c.tile->name + "` is read down its columns", "threads that read along rows");
  const std::string depth = std::to_string(ring.plan.depth), slot = ring.filled + " % " + depth;
  std::int64_t bytes = 0;
  if (ring.copied == 0)
    for (const RingOp& op : ring.plan.producer) {
      if (op.action == RingAction::wait_empty)
        line("lw_wait(" + ring.empty + " + " + slot + " * 8, (" + ring.filled + " / " + depth +
             " & 1) ^ 1);");
      if (op.action == RingAction::expect)
        line("lw_expect(" + ring.full + " + " + slot + " * 8, " + std::to_string(op.bytes) + ");");
    }
  std::size_t number = 0;
  for (const RingOp& op : ring.plan.producer)
    if (op.action == RingAction::copy && number++ == ring.copied) bytes = op.bytes;
  ++ring.copied;
  const Expr linear = linear_index(*c.param, c.at);
  begin({linear});
  const std::string from = launch_.pointers.at(c.param) + " + " + index(linear);
  const std::string loader = loader_of(c.param), policy = loader.ends_with("first") ? "_evict_first" : loader.ends_with("last") ? "_evict_last" : "";
  line("lw_copy_row" + policy + "(lw_shared_address(" + shared_.at(c.tile) + " + " + slot + " * " +
       std::to_string(c.columns) + "), " + from + ", " + std::to_string(bytes) + ", " + ring.full + " + " +
       slot + " * 8);");
  return Unit{};
}

void BodyEmitter::wait_for_row(const Stmt& s) {
  if (!row_ring_ || row_ring_->waits != s.get()) return;
  const RowRing& ring = *row_ring_;
  const std::string depth = std::to_string(ring.plan.depth);
  for (const RingOp& op : ring.plan.consumer)
    if (op.action == RingAction::wait_full)
      line("lw_wait(" + ring.full + " + " + ring.round + " % " + depth + " * 8, " + ring.round + " / " +
           depth + " & 1);");
}

Status BodyEmitter::leave_row(const Stmt& s) {
  if (!row_ring_) return Unit{};
  const RowRing& ring = *row_ring_;
  const std::string depth = std::to_string(ring.plan.depth);
  if (ring.last_read == s.get())
    for (const RingOp& op : ring.plan.consumer) {
      if (op.action == RingAction::settle) line("__syncwarp();");
      if (op.action == RingAction::release)
        line("if ((threadIdx.x & 31) == 0) lw_release(" + ring.empty + " + " + ring.round + " % " + depth +
             " * 8);");
    }
  if (ring.refills != s.get()) return Unit{};
  const std::string next = ring.round + " + " + depth;
  return block("if (threadIdx.x == 0 && " + next + " < " + ring.end + ") ", [&] { return fill_slot(next); });
}

Status BodyEmitter::emit_row_ring(const ir::Loop& l) {
  if (row_ring_) return refuse("a ring of rows inside another", "one");
  LW_CHECK(plan_rows(l));
  begin({l.extent});
  row_ring_->end = name_value("int", index(l.extent));
  LW_CHECK(begin_rows());
  row_ring_->round = fresh(l.var.hint);
  const std::string name = row_ring_->round;
  ++serial_loops_;
  line("#pragma unroll 1");
  const Status status =
      block("for (int " + name + " = 0; " + name + " < " + row_ring_->end + "; ++" + name + ") ", [&] {
        bind(l.var, name, l.extent);
        return emit_one(l.body);
      });
  --serial_loops_;
  row_ring_.reset();
  return status;
}

}  // namespace loopwright::codegen
