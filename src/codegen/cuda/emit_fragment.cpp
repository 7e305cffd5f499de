// Fragments: the accumulators of tensor cores in the registers of warpgroups, what begins and ends their sums, and which
// thread holds which element.
#include <algorithm>

#include "src/codegen/cuda/at_threads.h"
#include "src/codegen/cuda/body_emitter.h"
#include "src/codegen/cuda/engine_loops.h"
#include "src/ir/rewrite.h"

namespace loopwright::codegen {

using ir::Expr;
using ir::LoopKind;
using ir::Stmt;

std::vector<const ir::Loop*> loops_of(const Stmt& s, LoopKind kind) {
  std::vector<const ir::Loop*> out;
  ir::walk(s, [&](const Stmt& x) {
    const auto* l = ir::as<ir::Loop>(x);
    if (l != nullptr && l->kind == kind) out.push_back(l);
  }, [](const Expr&) {});
  return out;
}

std::int64_t count_of(const ir::BufferInfo& b) {
  std::int64_t count = 1;
  for (const Expr& n : b.shape) count *= ir::as_int(n).value_or(0);
  return count;
}

/// Statements that begin a sum anew are no text: the next product of each tile does not add to what is there.
bool BodyEmitter::begins_sum(const Stmt& s) {
  std::int64_t count = 1;
  const Stmt* inside = &s;
  while (const auto* l = ir::as<ir::Loop>(*inside)) {
    count *= ir::as_int(l->extent).value_or(0);
    inside = &l->body;
  }
  const auto* store = ir::as<ir::Store>(*inside);
  const auto* value = store != nullptr ? ir::as<ir::FloatImm>(store->value) : nullptr;
  if (value == nullptr || value->value != 0 || !fragments_.contains(store->buffer) || count != count_of(*store->buffer)) return false;
  for (std::int64_t t = 0; t < fragments_.at(store->buffer).tiles; ++t) begun_[store->buffer].insert(t);
  return true;
}

/// Waits for the products under way, if any, before what comes next touches their sums.
void BodyEmitter::end_products() {
  if (multiplying_.empty()) return;
  line("lw_products_commit();");
  line("lw_products_wait_0();");
  for (const ir::Buffer& b : multiplying_) {
    const Fragment& f = fragments_.at(b);
    for (std::int64_t t = 0; t < f.tiles; ++t) line("lw_settled_" + std::to_string(f.columns / 2) + "(" + f.name + "[" + std::to_string(t) + "]);");
  }
  multiplying_.clear();
}

/// A product into the fragment, or, for one that products of others are added to, into one of its size.
std::optional<ir::MatrixProduct> BodyEmitter::find_layout(const ir::Alloc& a) const {
  std::optional<ir::MatrixProduct> like;
  for (const ir::Loop* l : loops_of(a.body, LoopKind::mma)) {
    const auto p = ir::match_matrix_product(*l, facts_);
    if (p.ok() && p->acc == a.buffer) return *p;
    if (p.ok() && count_of(*p->acc) == count_of(*a.buffer)) like = *p;
  }
  return like;
}

/// Elements from one row to the next of a fragment that no product fills: between what lanes 0 and 4 write. 0: nobody does.
std::int64_t find_row_length(const ir::Alloc& a) {
  std::int64_t found = 0;
  for (const ir::Loop* l : loops_of(a.body, LoopKind::thread_x))
    ir::walk(l->body, [&](const Stmt& s) {
      const auto* store = ir::as<ir::Store>(s);
      if (found != 0 || store == nullptr || store->buffer != a.buffer) return;
      std::map<ir::Var, Expr> at_zero;
      for (const ir::Var& v : ir::free_vars(store->index[0])) at_zero[v] = ir::int_imm(0);
      std::map<ir::Var, Expr> at_next_row = at_zero;
      at_next_row[l->var] = ir::int_imm(4);
      const Expr step = ir::substitute(store->index[0], at_next_row) - ir::substitute(store->index[0], at_zero);
      found = ir::as_int(ir::simplify(step, ir::Facts())).value_or(0);
    }, [](const Expr&) {});
  return found;
}

/// Tiles of 64 rows: each warpgroup has as many neighbouring ones.
Status BodyEmitter::allocate_fragment(const ir::Alloc& a) {
  if (!ring_) return allocate_warp_fragment(a);
  if (is_group_operand(a)) {
    group_operands_[a.buffer] = std::nullopt;
    const Status status = emit_one(a.body);
    group_operands_.erase(a.buffer);
    return status;
  }
  Fragment f{fresh(a.buffer->name), 1, 0};
  f.groups = ring_->plan.turns > 1 ? 1 : launch_.consumers;
  if (const auto p = find_layout(a)) {
    f.columns = p->n;
    f.row_step = p->row_step;
    f.column_step = p->column_step;
    if (p->a.buffer->memory == ir::Memory::fragment) f.groups = 1;  // a thin product inside a warpgroup
  } else if (const std::int64_t columns = find_row_length(a); columns > 0) {  // an epilogue's own, inside a warpgroup
    f.columns = f.row_step = columns;
    f.groups = 1;
  }
  const std::int64_t count = count_of(*a.buffer), of_groups = kTileRows * f.columns * f.groups;
  if (f.columns == 0 || of_groups == 0 || count % of_groups != 0)
    return refuse("the fragment `" + a.buffer->name + "` of " + std::to_string(count) + " elements is not shared out among " + std::to_string(f.groups) + " warpgroups",
                  "a product on tensor cores inside, 64 rows of it a multiple of times in each warpgroup");
  f.tiles = count / of_groups;
  const std::int64_t rows = f.tiles * f.groups * kTileRows;
  if (f.column_step == 1 ? f.row_step != f.columns : f.column_step != rows) return refuse("the fragment `" + a.buffer->name + "` has gaps", "a tile of exactly the rows and columns");
  fragments_[a.buffer] = f;
  if (role_ == Role::consumer) line("float " + f.name + "[" + std::to_string(f.tiles) + "][" + std::to_string(f.columns / 2) + "];");
  const Status status = emit_one(a.body);
  fragments_.erase(a.buffer);
  return status;
}

/// The register that holds an element, the same one in all threads: each of them must ask for an element that it holds.
std::string BodyEmitter::fragment_element(const ir::Buffer& buffer, const Expr& linear) {
  if (const auto f = warp_fragments_.find(buffer); f != warp_fragments_.end()) return f->second.name + "[" + std::to_string(warp_element(buffer, linear).value_or(0)) + "]";
  const Fragment& f = fragments_.at(buffer);
  const Expr in_lane = lanes_ ? ir::substitute(linear, {{lanes_->var, ir::int_imm(lanes_->now)}}) : linear;
  const Expr position = ir::simplify(ir::substitute(in_lane, lets_), facts_);
  std::optional<std::pair<std::int64_t, std::int64_t>> place;
  for (std::int64_t y = 0; y < launch_.consumers; ++y)
    for (std::int64_t x = 0; x < kGroup; ++x) {
      std::map<ir::Var, std::int64_t> values;
      for (const auto& [v, loop] : threads_) values[v] = loop.axis == 1 ? y : x;
      // Under a condition that lets one row alone pass, the index may say no more which thread has it.
      const bool excluded = std::any_of(conditions_.begin(), conditions_.end(), [&](const Expr& c) { return at_threads(ir::substitute(c, lets_), values) == 0; });
      if (excluded) continue;
      const auto at = at_threads(position, values);
      const std::int64_t row = !at ? 0 : f.column_step == 1 ? *at / f.row_step : *at % f.column_step;
      const std::int64_t column = !at ? 0 : f.column_step == 1 ? *at % f.row_step : *at / f.column_step;
      const std::int64_t in_tile = row % kTileRows, tile = row / kTileRows - f.tiles_before(y);
      const std::int64_t owner = in_tile / 16 * 32 + in_tile % 8 * 4 + column % 8 / 2;
      const std::pair found{tile, column / 8 * 4 + in_tile / 8 % 2 * 2 + column % 2};
      if (!at || *at < 0 || tile < 0 || tile >= f.tiles || owner != x || (place && *place != found)) {
        if (!failure_)
          failure_ = refuse("threads ask for elements of the fragment `" + buffer->name + "` that others hold",
                            "rows split by 4, 2, 8 and columns by 4, 2; the 4, 8 and 4 of these fused and bound to thread_x");
        return f.name + "[0][0]";
      }
      place = found;
    }
  if (!place) return "0.0f";  // no thread gets here
  return f.name + "[" + std::to_string(place->first) + "][" + std::to_string(place->second) + "]";
}

}  // namespace loopwright::codegen
