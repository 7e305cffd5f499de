// Regions with a ring: warpgroups that multiply on tensor cores, and behind them one whose first thread feeds the copy
// engine. All of them go through the loops around; each carries out its part of the ring (see ring_plan.h).
//
// A slot of a ring lies in shared memory as the engine writes it: blocks of columns, one behind the other, in each its
// rows of 128 bytes (64 columns, of f32 32), 16-byte units exchanged by the row modulo 8. Only the engine and the tensor cores see it, so no index
// of the kernel says so.
#include <algorithm>

#include "src/codegen/cuda/at_threads.h"
#include "src/codegen/cuda/body_emitter.h"
#include "src/codegen/cuda/engine_loops.h"
#include "src/codegen/cuda/ops_text.h"
#include "src/ir/rewrite.h"

namespace loopwright::codegen {

using ir::Expr;
using ir::LoopKind;
using ir::Stmt;

namespace {

constexpr std::int64_t kSummandBytes = 32;       ///< of one instruction
constexpr std::int64_t kRowBytes = 128;
constexpr std::int64_t kProducerThreads = 32;  ///< one warp
constexpr std::int64_t kSlotAlignment = 1024;    ///< the pattern of exchanged units repeats

bool has_loop(const Stmt& s, LoopKind kind) { return !loops_of(s, kind).empty(); }

/// Bytes from the begin of a slot to the element with this position in it.
Expr bytes_in_slot(const Expr& position, const ir::BulkCopy& c, const ir::Facts& facts) {
  const auto n = [](std::int64_t v) { return ir::int_imm(v); };
  const Expr row = ir::floor_div(position, n(c.columns)), column = ir::mod(position, n(c.columns)), block = n(block_columns(c.tile->dtype));
  return ir::simplify(ir::floor_div(column, block) * n(c.all_rows() * kRowBytes) + row * n(kRowBytes) +
                          ir::mod(position, block) * n(size_bytes(c.tile->dtype)), facts);
}

/// Whether a ring does more than copies and products: with the sums of its products.
bool has_arithmetic(const Stmt& s) {
  if (const auto* l = ir::as<ir::Loop>(s); l != nullptr && ir::is_engine(l->kind)) return false;
  bool found = ir::as<ir::Store>(s) != nullptr || ir::as<ir::Update>(s) != nullptr;
  ir::map_children(s, [](const Expr& e) { return e; }, [&](const Stmt& child) {
    found = found || has_arithmetic(child);
    return child;
  });
  return found;
}

/// Whether a loop is around the ring.
bool is_repeated(const Stmt& s) {
  bool found = false;
  ir::walk(s, [&](const Stmt& x) {
    const auto* l = ir::as<ir::Loop>(x);
    found = found || (l != nullptr && l->kind != LoopKind::ring && has_loop(l->body, LoopKind::ring));
  }, [](const Expr&) {});
  return found;
}

}  // namespace

bool has_ring(const Stmt& s) {
  const auto rings = loops_of(s, LoopKind::ring);
  return std::any_of(rings.begin(), rings.end(), [](const ir::Loop* l) { return !ir::feeds_threads(*l); });
}

/// Gives every ring its place, from the begin of shared memory on, then the tiles that go out theirs, and the barriers.
Status BodyEmitter::place_rings(const Stmt& body) {
  const auto rings = loops_of(body, LoopKind::ring);
  if (rings.size() != 1) return refuse(std::to_string(rings.size()) + " rings in one launch", "one");
  if (launch_.block.x != kGroup) return refuse("rows of " + std::to_string(launch_.block.x) + " threads around tensor cores", "128, a warpgroup");
  std::int64_t depth = 0, turns = 1;
  for (const ir::Loop* l : loops_of(body, LoopKind::thread_y))
    if (has_ring(l->body)) turns = ir::as_int(l->extent).value_or(0);
  if (turns != 1 && turns != launch_.consumers) return refuse(std::to_string(turns) + " turns of " + std::to_string(launch_.consumers) + " warpgroups", "as many");
  const auto make_room = [&](std::int64_t bytes) {
    launch_.shared_bytes = (launch_.shared_bytes + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment + bytes;
    return launch_.shared_bytes - bytes;
  };
  std::vector<std::int64_t> bytes;  // of each block of columns
  for (const ir::Loop* copy : loops_of(rings[0]->body, LoopKind::bulk)) {
    LW_TRY(const ir::BulkCopy c, ir::match_bulk_copy(*copy, facts_));
    const std::int64_t elements = count_of(*c.tile), slot = c.all_rows() * c.columns;
    if (c.out || c.rows % 8 != 0 || (depth != 0 && depth != elements / slot)) return refuse("slots of " + std::to_string(c.rows) + " rows in rings of different depths", "a multiple of 8 rows, one depth");
    depth = elements / slot;
    ring_offsets_[c.tile] = make_room(elements * size_bytes(c.tile->dtype));
    for (std::int64_t column = 0; column < c.columns; column += block_columns(c.tile->dtype)) bytes.push_back(c.all_rows() * kRowBytes);
    ring_copies_.emplace(c.tile, c);
    use_map(c);
  }
  std::int64_t shares = 1;
  for (const ir::Loop* copy : loops_of(body, LoopKind::bulk)) {
    LW_TRY(const ir::BulkCopy c, ir::match_bulk_copy(*copy, facts_));
    if (!c.out) continue;
    outgoing_.emplace(c.tile, c);
    use_map(c);
    outgoing_bytes_ = std::max(outgoing_bytes_, (count_of(*c.tile) * size_bytes(c.tile->dtype) + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment);
  }
  for (const ir::Loop* l : loops_of(body, LoopKind::thread_y))
    for (const ir::Buffer& read : ir::buffers_of(l->body).read)
      if (outgoing_.contains(read)) shares = launch_.consumers;
  // The slots of a ring that is gone through once are free when it is over.
  outgoing_in_ring_ = !is_repeated(body);
  if (outgoing_in_ring_) launch_.shared_bytes = std::max(launch_.shared_bytes, outgoing_bytes_ * shares);
  else outgoing_offset_ = make_room(outgoing_bytes_ * shares);
  ring_barriers_ = launch_.shared_bytes;
  launch_.shared_bytes += depth * 16 + (turns > 1 ? turns * 8 : 0);
  launch_.settles = has_arithmetic(rings[0]->body);
  pace_ = launch_.settles ? Pace::settled : Pace::overlapped;
  ring_ = RingState{rings[0]->var, {}, plan_ring(depth, launch_.consumers, bytes, turns, pace_)};
  // Long enough that every parity comes twice, and tiles of every remainder of the depth; what holds for these holds for all.
  for (const std::int64_t iterations : {4 * depth + 1, depth - 1, depth, std::int64_t{1}}) LW_CHECK(simulate_ring(ring_->plan, iterations, 4 * turns + 1));
  return Unit{};
}

Status BodyEmitter::find_guides(const Stmt& body) {
  const auto take = [&](const Expr& e) {
    ir::walk(e, [&](const Expr& x) {
      const auto* l = ir::as<ir::Load>(x);
      if (l != nullptr && l->buffer->memory == ir::Memory::registers && count_of(*l->buffer) == 1) guides_.insert(l->buffer);
    });
  };
  ir::walk(body, [&](const Stmt& s) {
    if (!has_ring(s)) return;
    if (const auto* l = ir::as<ir::Let>(s)) take(l->value);
    if (const auto* i = ir::as<ir::If>(s)) take(i->condition);
    if (const auto* l = ir::as<ir::Loop>(s)) take(l->extent);
  }, [](const Expr&) {});
  // And what they are computed from.
  for (std::size_t before = guides_.size() + 1; before != guides_.size();) {
    before = guides_.size();
    ir::walk(body, [&](const Stmt& s) {
      if (!has_ring(s) && guides_ring(s))
        for (const ir::Buffer& b : ir::buffers_of(s).read)
          if (b->memory == ir::Memory::registers && count_of(*b) == 1) guides_.insert(b);
    }, [](const Expr&) {});
  }
  // Threads that meet for them would not find the producer.
  Status status = Unit{};
  ir::walk(body, [&](const Stmt& s) {
    if (ir::as<ir::Store>(s) == nullptr && ir::as<ir::Update>(s) == nullptr && ir::as<ir::Loop>(s) == nullptr) return;
    const std::vector<ir::Buffer> written = ir::buffers_of(s).written;
    const auto guide = std::find_if(written.begin(), written.end(), [&](const ir::Buffer& b) { return guides_.contains(b); });
    if (!has_ring(s) && guide != written.end() && !guides_ring(s)) status = refuse("`" + (*guide)->name + "`, on which the way to the ring depends, is computed by threads together", "a number that every thread computes");
  }, [](const Expr&) {});
  return status;
}

bool BodyEmitter::guides_ring(const Stmt& s) const {
  if (guides_.empty()) return false;
  const std::vector<ir::Buffer> written = ir::buffers_of(s).written;
  bool together = false;
  ir::walk(s, [&](const Stmt& x) {
    const auto* l = ir::as<ir::Loop>(x);
    together = together || (l != nullptr && (thread_axis(l->kind) || l->kind == LoopKind::across));
  }, [](const Expr&) {});
  return !together && !written.empty() && std::all_of(written.begin(), written.end(), [&](const ir::Buffer& b) { return guides_.contains(b); });
}

Status BodyEmitter::emit_roles(const Stmt& body) {
  LW_CHECK(place_rings(body));
  LW_CHECK(find_guides(body));
  const std::int64_t consumers = launch_.consumers, depth = ring_->plan.depth, turns = ring_->plan.turns;
  line("const unsigned lw_base = lw_shared_address(lw_shared), lw_full = lw_base + " + std::to_string(ring_barriers_) + ", lw_empty = lw_full + " + std::to_string(depth * 8) + ";");
  if (turns > 1) line("const unsigned lw_turns = lw_empty + " + std::to_string(depth * 8) + ";");
  line("int lw_slot = 0;");
  line("unsigned lw_phase = 0;");
  const std::string all = std::to_string(consumers * kGroup + kProducerThreads);
  LW_CHECK(block("if (threadIdx.y == " + std::to_string(consumers) + ") ", [&] {
    // Registers that the producer does not need; the sums of both sides are what the launch was given.
    if (consumers > 1) line(consumers == 2 ? "lw_registers_down_40();" : "lw_registers_down_32();");
    role_ = Role::producer;
    return block("if (threadIdx.x < " + std::to_string(kProducerThreads) + ") ", [&]() -> Status {
      LW_CHECK(block("if (threadIdx.x == 0) ", [&] {
        for (std::size_t i = 0; i < launch_.maps.size(); ++i) line("lw_prefetch_map(&m" + std::to_string(i) + ");");
        line("for (int i = 0; i < " + std::to_string(depth) + "; ++i) { lw_barrier_init(lw_full + i * 8, 1); lw_barrier_init(lw_empty + i * 8, " +
             std::to_string(ring_->plan.empty_arrivals) + "); }");
        if (turns > 1) line("for (int i = 0; i < " + std::to_string(turns) + "; ++i) lw_barrier_init(lw_turns + i * 8, " + std::to_string(kWarpsOfGroup) + ");");
        line("lw_barrier_fence();");
        return Status(Unit{});
      }));
      // Copies begin at once; the others wait until the barriers are there.
      line("__syncwarp();");
      line("lw_start_" + all + "();");
      return block("if (threadIdx.x == 0) ", [&] { return emit_one(body); });
    });
  }));
  return block("else ", [&]() -> Status {
    if (consumers > 1) line(consumers == 2 ? "lw_registers_up_232();" : "lw_registers_up_160();");
    line("lw_await_start_" + all + "();");
    return emit_consumers(body);
  });
}

Status BodyEmitter::emit_consumers(const Stmt& body) {
  // The first consumer's first turn needs nobody to pass it on.
  if (ring_->plan.turns > 1) line("unsigned lw_turn = threadIdx.y == 0 ? 1 : 0;");
  role_ = Role::consumer;
  LW_CHECK(emit_one(body));
  // The engine may still read what shared memory holds.
  if (!outgoing_.empty()) line("if (threadIdx.x == 0) lw_outgoing_wait();");
  return Unit{};
}

/// A loop over groups of threads around the ring: each of them does its own iteration, and in the others' turns no more
/// than go forward in the ring.
Status BodyEmitter::emit_turns(const ir::Loop& l) {
  const std::string y = fresh("turn");
  const auto others = [&](const std::string& from, const std::string& to) {
    return block("for (int " + y + " = " + from + "; " + y + " < " + to + "; ++" + y + ") ", [&] {
      bind(l.var, y, l.extent);
      return emit_one(l.body);
    });
  };
  const std::string all = std::to_string(ring_->plan.turns);
  if (role_ != Role::consumer) return others("0", all);
  role_ = Role::bystander;
  LW_CHECK(others("0", "threadIdx.y"));
  role_ = Role::consumer;
  threads_[l.var] = {1, ring_->plan.turns};
  LW_CHECK(block("", [&] {
    bind(l.var, "(int)threadIdx.y", l.extent);
    return emit_one(l.body);
  }));
  threads_.erase(l.var);
  role_ = Role::bystander;
  LW_CHECK(others("threadIdx.y + 1", all));
  role_ = Role::consumer;
  return Unit{};
}

Status BodyEmitter::emit_ring(const ir::Loop& l) {
  RingState& ring = *ring_;
  const std::string depth_text = std::to_string(ring.plan.depth);
  begin({l.extent});
  std::string end = index(l.extent);
  const std::string name = fresh(l.var.hint);
  if (role_ == Role::bystander) {
    line("lw_slot += " + end + ";");
    line("lw_phase ^= lw_slot / " + depth_text + " & 1;");
    line("lw_slot %= " + depth_text + ";");
    return Unit{};
  }
  ring.loop = l.var;
  ring.slot = ir::fresh_var("slot");
  // The slot instead of the iteration modulo the depth. Where there are no more iterations than slots the index holds the
  // iteration itself, or nothing when there is but one: the ring goes on from tile to tile, and the slot is another one.
  const Expr depth = ir::int_imm(ring.plan.depth);
  const bool few = ir::as_int(l.extent).value_or(INT64_MAX) <= ring.plan.depth;
  const auto slot_for = [&](const Expr& e) {
    const auto* load = ir::as<ir::Load>(e);
    if (load == nullptr || !ring_offsets_.contains(load->buffer)) return e;
    const Expr first = ir::rewrite(load->index[0], [&](const Expr& i) {
      const auto* x = ir::as<ir::Binary>(i);
      const auto* v = x != nullptr && x->op == ir::BinaryOp::mod ? ir::as<ir::VarRef>(x->a) : nullptr;
      return v != nullptr && v->var == l.var && ir::same(x->b, depth) ? few ? ir::int_imm(0) : ir::var(ring.slot) : i;
    });
    if (!few) return ir::load(load->buffer, {first});
    const Expr slot_begin = ir::var(ring.slot) * ir::int_imm(count_of(*load->buffer) / ring.plan.depth);
    return ir::load(load->buffer, {ir::substitute(first, {{l.var, ir::int_imm(0)}}) + slot_begin});
  };
  const Stmt body = ir::rewrite(l.body, slot_for, [](const Stmt& s) { return s; });
  std::vector<Stmt> copies, products;
  for (const Stmt& s : ir::as<ir::Seq>(body) != nullptr ? ir::as<ir::Seq>(body)->items : std::vector<Stmt>{body})
    (has_loop(s, LoopKind::bulk) ? copies : products).push_back(s);
  if (role_ == Role::consumer) {
    if (pace_ == Pace::overlapped) line("int lw_last = -1;");
    LW_CHECK(emit_ring_ops(ring.plan.consumer_first, {}, ir::seq({})));
  }
  // A loop of one iteration would be taken apart, and ptxas would no longer see that all threads of the warps go through it.
  if (ir::as_int(l.extent) == 1) end = "lw_unknown(1)";
  line("#pragma unroll 1");  // copies of the body would share registers that products under way write
  LW_CHECK(block("for (int " + name + " = 0; " + name + " < " + end + "; ++" + name + ") ", [&]() -> Status {
    bind(l.var, name, l.extent);
    bind(ring.slot, "lw_slot", depth);
    in_ring_ = true;
    const Status status = emit_ring_ops(role_ == Role::producer ? ring.plan.producer : ring.plan.consumer, copies, ir::seq(products));
    in_ring_ = false;
    LW_CHECK(status);
    if (role_ == Role::consumer && pace_ == Pace::overlapped) line("lw_last = lw_slot;");
    line("if (++lw_slot == " + depth_text + ") { lw_slot = 0; lw_phase ^= 1; }");
    return Unit{};
  }));
  if (role_ == Role::producer) return Unit{};
  LW_CHECK(emit_ring_ops(ring.plan.consumer_last, {}, ir::seq({})));
  for (const auto& [buffer, f] : fragments_)
    for (std::int64_t t = 0; pace_ == Pace::overlapped && t < f.tiles; ++t) line("lw_settled_" + std::to_string(f.columns / 2) + "(" + f.name + "[" + std::to_string(t) + "]);");
  // Tiles on their way out lie where others may still read a slot.
  if (outgoing_in_ring_ && !outgoing_.empty() && launch_.consumers > 1)
    line("lw_row_barrier(" + std::to_string(launch_.consumers) + ", " + std::to_string(launch_.block.threads()) + ");");
  return Unit{};
}

Status BodyEmitter::emit_ring_ops(const std::vector<RingOp>& ops, const std::vector<Stmt>& copies, const Stmt& products) {
  const std::string full = "lw_full + lw_slot * 8", empty = "lw_empty + lw_slot * 8";
  bool copied = false;
  for (const RingOp& op : ops) {
    switch (op.action) {
      case RingAction::wait_empty: line("lw_wait(" + empty + ", lw_phase ^ 1);"); break;
      case RingAction::wait_full: line("lw_wait(" + full + ", lw_phase);"); break;
      case RingAction::expect: line("lw_expect(" + full + ", " + std::to_string(op.bytes) + ");"); break;
      case RingAction::copy:
        // One statement of the kernel is as many operations as it has blocks of columns.
        if (!std::exchange(copied, true))
          for (const Stmt& s : copies) LW_CHECK(emit_one(s));
        break;
      case RingAction::multiply:
        if (pace_ == Pace::settled) {
          LW_CHECK(emit_one(products));
          break;
        }
        line("lw_products_begin();");
        LW_CHECK(emit_one(products));
        line("lw_products_commit();");
        break;
      case RingAction::settle:
        // Arithmetic behind the products has waited for them.
        if (pace_ == Pace::settled) end_products();
        else line("lw_products_wait_" + std::to_string(op.back) + "();");
        break;
      case RingAction::release:
        if (op.back == 0) {
          line("if ((threadIdx.x & 31) == 0) lw_release(" + empty + ");");
          break;
        }
        // -1 before the first iteration.
        line("if ((threadIdx.x & 31) == 0 && lw_last >= 0) lw_release(lw_empty + lw_last * 8);");
        break;
      case RingAction::take_turn:
        line("lw_wait(lw_turns + threadIdx.y * 8, lw_turn);");
        line("lw_turn ^= 1;");
        break;
      case RingAction::pass_turn:
        line("if ((threadIdx.x & 31) == 0) lw_release(lw_turns + (threadIdx.y + 1) % " + std::to_string(ring_->plan.turns) + " * 8);");
        break;
    }
  }
  return Unit{};
}

int BodyEmitter::use_map(const ir::BulkCopy& c) {
  TensorMap map;
  map.rounds_tf32 = c.rounded;
  const std::size_t rank = c.param->shape.size();
  for (std::size_t d = rank; d-- > 0;)
    map.box.push_back(static_cast<std::int32_t>(d + 1 == rank ? std::min(c.columns, block_columns(c.tile->dtype)) : c.row_dim == d ? c.rows : c.plane_dim == d ? c.planes : 1));
  for (std::size_t i = 0; i < launch_.maps.size(); ++i)
    if (launch_.map_sources[i] == c.param && launch_.maps[i] == map) return static_cast<int>(i);
  launch_.maps.push_back(std::move(map));
  launch_.map_sources.push_back(c.param);
  return static_cast<int>(launch_.maps.size()) - 1;
}

/// A copy to the current slot, a block of columns at a time.
Status BodyEmitter::emit_bulk(const ir::Loop& l) {
  LW_TRY(const ir::BulkCopy c, ir::match_bulk_copy(l, facts_));
  if (c.out) return emit_outgoing(c);
  const std::int64_t slot_bytes = c.all_rows() * c.columns * size_bytes(c.tile->dtype);
  const int map = use_map(c);
  begin(c.at);
  std::vector<std::string> at;
  for (std::size_t d = c.at.size(); d-- > 0;) at.push_back(index(c.at[d]));
  const std::int64_t block_width = block_columns(c.tile->dtype);
  for (std::int64_t column = 0; column < c.columns; column += block_width) {
    std::string text = "lw_copy_" + std::to_string(at.size()) + "(lw_base + " + std::to_string(ring_offsets_.at(c.tile) + column / block_width * c.all_rows() * kRowBytes) +
                       " + lw_slot * " + std::to_string(slot_bytes) + ", &m" + std::to_string(map) + ", ";
    for (std::size_t d = 0; d < at.size(); ++d) text += at[d] + (d == 0 && column > 0 ? " + " + std::to_string(column) : "") + ", ";
    line(text + "lw_full + lw_slot * 8);");
  }
  return Unit{};
}

Status BodyEmitter::emit_matrix_product(const ir::Loop& l) {
  LW_TRY(const ir::MatrixProduct p, ir::match_matrix_product(l, facts_));
  if (group_operands_.contains(p.a.buffer)) return emit_group_product(p);
  const Fragment& f = fragments_.at(p.acc);
  // Which tile of the warpgroup, the same one in each of them.
  std::optional<std::int64_t> tile;
  for (std::int64_t y = 0; y < launch_.consumers; ++y) {
    std::map<ir::Var, std::int64_t> values;
    for (const auto& [v, loop] : threads_) values[v] = loop.axis == 1 ? y : 0;
    const auto at = at_threads(ir::substitute(p.acc_at, lets_), values);
    const std::int64_t of_tile = kTileRows * p.row_step;
    const std::int64_t found = at && *at % of_tile == 0 ? *at / of_tile - f.tiles_before(y) : -1;
    if (found < 0 || found >= f.tiles || (tile && *tile != found))
      return refuse("warpgroups do not own neighbouring tiles of `" + p.acc->name + "`", "rows split into warpgroups, tiles and 64 rows");
    tile = found;
  }
  if (pace_ == Pace::settled && multiplying_.empty()) line("lw_products_begin();");
  if (pace_ == Pace::settled) multiplying_.insert(p.acc);
  line("{");
  ++depth_;
  std::string descriptors[2];
  std::int64_t first[2] = {0, 0};  // summand in its block of columns
  std::int64_t step_bytes[2][2];  // inside a block of columns, and from one to the next
  bool transposed[2];
  const ir::MatrixProduct::Operand* operands[] = {&p.a, &p.b};
  const DType dtype = p.a.buffer->dtype;
  const std::int64_t element = size_bytes(dtype), block_width = block_columns(dtype), summands = kSummandBytes / element;
  for (int i = 0; i < 2; ++i) {
    const ir::MatrixProduct::Operand& o = *operands[i];
    const auto copy = ring_copies_.find(o.buffer);
    if (copy == ring_copies_.end()) return refuse("`" + o.buffer->name + "` is no ring", "ring at the loop that stages it");
    const ir::BulkCopy& c = copy->second;
    transposed[i] = o.reduction != 1;
    if ((transposed[i] ? o.reduction : o.along) != c.columns) return refuse("`" + o.buffer->name + "` is read across its rows", "rows of the tile as they are staged");
    Expr position = ir::simplify(ir::substitute(o.at, lets_) - ir::var(ring_->slot) * ir::int_imm(c.all_rows() * c.columns), facts_);
    if (!transposed[i]) {
      first[i] = ir::as_int(ir::simplify(ir::mod(position, ir::int_imm(block_width)), facts_)).value_or(0) / summands * summands;
      position = ir::simplify(position - ir::int_imm(first[i]), facts_);
    }
    if (facts_.divisor(position) % block_width != 0)
      return refuse("a tile of `" + o.buffer->name + "` begins inside a block of " + std::to_string(block_width) + " columns", "tiles of a multiple of that");
    const Expr bytes = bytes_in_slot(position, c, facts_);
    begin({bytes});
    // From one block of 64 rows or columns to the next; not looked at where the summands lie side by side.
    const std::int64_t leading = transposed[i] ? c.all_rows() * kRowBytes : 16;
    descriptors[i] = name_value("unsigned long long", "lw_descriptor(lw_base + " + std::to_string(ring_offsets_.at(o.buffer)) + " + lw_slot * " +
                                                          std::to_string(c.all_rows() * c.columns * element) + " + " + index(bytes) + ", " + std::to_string(leading) + ")");
    step_bytes[i][0] = transposed[i] ? summands * kRowBytes : kSummandBytes;
    step_bytes[i][1] = transposed[i] ? block_width * kRowBytes : c.all_rows() * kRowBytes;
  }
  const bool begins = begun_.contains(p.acc) && begun_[p.acc].erase(*tile) > 0;
  const std::string call = std::string("lw_wgmma_") + (dtype == DType::f32 ? "tf32" : std::string(name(dtype))) + "_" + std::to_string(p.n) + "_" + (transposed[0] ? "1" : "0") + (transposed[1] ? "1" : "0");
  for (std::int64_t k = 0; k < p.k; k += summands) {
    const auto at = [&](int i) {
      const std::int64_t at_k = first[i] + k;
      const std::int64_t bytes = at_k / block_width * step_bytes[i][1] + at_k % block_width / summands * step_bytes[i][0];
      return descriptors[i] + " + " + std::to_string(bytes / 16);
    };
    line(call + (begins && k == 0 ? "z" : "") + "(" + f.name + "[" + std::to_string(*tile) + "], " + at(0) + ", " + at(1) + ");");
  }
  --depth_;
  line("}");
  return Unit{};
}

}  // namespace loopwright::codegen
