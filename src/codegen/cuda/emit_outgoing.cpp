// Tiles that the copy engine takes away: threads fill them in shared memory, the engine reads them while the threads go on.
// They lie as the engine reads them: in blocks of at most 128 bytes of columns, one behind the other, 16-byte units exchanged by the
// row.
#include <algorithm>

#include "src/codegen/cuda/at_threads.h"
#include "src/codegen/cuda/body_emitter.h"
#include "src/codegen/cuda/ops_text.h"
#include "src/ir/rewrite.h"

namespace loopwright::codegen {

using ir::Expr;
using ir::LoopKind;
using ir::Stmt;

namespace {

constexpr std::int64_t kPatternBytes = 128;    ///< from here on the bits of an offset say how units are exchanged
constexpr std::int64_t kExchangedBytes = 16;
constexpr std::int64_t kMatrices = 4;          ///< of one instruction
constexpr std::int64_t kMatrixSide = 8;        ///< rows, and elements of a row
constexpr std::int64_t kThreadsOfWarp = 32;

/// A loop of two lanes around a store of 16 bits each to one of the tiles.
const ir::Store* find_pair(const Stmt& s, const std::map<ir::Buffer, ir::BulkCopy>& tiles) {
  const auto* l = ir::as<ir::Loop>(s);
  if (l == nullptr || l->kind != LoopKind::vectorize || ir::as_int(l->extent) != 2) return nullptr;
  const auto* store = ir::as<ir::Store>(l->body);
  return store != nullptr && tiles.contains(store->buffer) && size_bytes(store->buffer->dtype) == 2 ? store : nullptr;
}

}  // namespace

/// All of them lie in one place, one after the other: who fills it waits until the engine has read what was there.
Status BodyEmitter::allocate_outgoing(const ir::Alloc& a) {
  if (has_outgoing_) return refuse("two tiles on their way out at the same time", "each copied out before the next is filled");
  line("if (threadIdx.x == 0) lw_outgoing_wait();");
  barrier();
  const std::string name = fresh(a.buffer->name), type(c_type(a.buffer->dtype));
  line(type + "* const " + name + " = (" + type + "*)(lw_shared + " + std::to_string(outgoing_offset_) +
       (is_in_axis(1) ? " + threadIdx.y * " + std::to_string(outgoing_bytes_) : "") + ");");
  shared_[a.buffer] = name;
  has_outgoing_ = true;
  const Status status = emit_one(a.body);
  has_outgoing_ = false;
  return status;
}

/// Where an element of such a tile lies: in blocks of columns, 16-byte units exchanged by the row.
std::string BodyEmitter::place_in_blocks(const ir::Buffer& buffer, const Expr& linear) {
  const ir::BulkCopy& c = outgoing_.at(buffer);
  const std::int64_t element = size_bytes(buffer->dtype), width = std::min(c.columns, block_columns(buffer->dtype)), units = width * element / kExchangedBytes;
  Expr place = linear;
  if (c.columns > width) {
    const auto n = [](std::int64_t v) { return ir::int_imm(v); };
    const Expr position = ir::substitute(linear, lets_), row = ir::floor_div(position, n(c.columns)), column = ir::mod(position, n(c.columns));
    place = ir::simplify(ir::floor_div(column, n(width)) * n(c.rows * width) + row * n(width) + ir::mod(column, n(width)), facts_);
  }
  const std::string at = name_value("unsigned", index(place));
  return shared_.at(buffer) + "[" + at + " ^ " + at + " / " + std::to_string(kPatternBytes / element) + " % " + std::to_string(units) + " * " + std::to_string(kExchangedBytes / element) + "]";
}

/// A filled tile: the engine reads it while the threads go on. Where rows end inside the tile the threads write those that there are.
Status BodyEmitter::emit_outgoing(const ir::BulkCopy& c) {
  line("lw_outgoing_fence();");
  barrier();
  if (!c.rows_end) return send_tile(c);
  const Expr whole = ir::binary(ir::BinaryOp::le, c.at[*c.row_dim] + ir::int_imm(c.rows), c.rows_end);
  begin({whole});
  LW_CHECK(block("if (" + text(whole) + ") ", [&] { return send_tile(c); }));
  return block("else ", [&] { return write_rows(c); });
}

/// One thread gives the tile to the engine.
Status BodyEmitter::send_tile(const ir::BulkCopy& c) {
  const std::int64_t width = std::min(c.columns, block_columns(c.tile->dtype));
  const int map = use_map(c);
  return block("if (" + std::string(is_in_axis(1) ? "threadIdx.x" : "threadIdx.x + threadIdx.y") + " == 0) ", [&] {
    begin(c.at);
    std::vector<std::string> at;
    for (std::size_t d = c.at.size(); d-- > 0;) at.push_back(index(c.at[d]));
    for (std::int64_t column = 0; column < c.columns; column += width) {
      std::string text = "lw_copy_out_" + std::to_string(at.size()) + "(lw_shared_address(" + shared_.at(c.tile) + ")" +
                         (column > 0 ? " + " + std::to_string(column * c.rows * size_bytes(c.tile->dtype)) : "") + ", &m" + std::to_string(map);
      for (std::size_t d = 0; d < at.size(); ++d) text += ", " + at[d] + (d == 0 && column > 0 ? " + " + std::to_string(column) : "");
      line(text + ");");
    }
    line("lw_outgoing_commit();");
    return Status(Unit{});
  });
}

/// The threads write the tile's rows in front of their end, neighbours the 16-byte units of a row side by side.
Status BodyEmitter::write_rows(const ir::BulkCopy& c) {
  const std::int64_t width = kExchangedBytes / size_bytes(c.tile->dtype), units = c.columns / width;
  const bool in_turn = is_in_axis(1);
  const std::int64_t threads = in_turn ? launch_.block.x : launch_.block.x * launch_.consumers;
  const std::string unit = fresh("unit"), first = in_turn ? "threadIdx.x" : "threadIdx.y * " + std::to_string(launch_.block.x) + " + threadIdx.x";
  return block("for (int " + unit + " = " + first + "; " + unit + " < " + std::to_string(c.rows * units) + "; " + unit + " += " + std::to_string(threads) + ") ", [&]() -> Status {
    const ir::Var which = ir::fresh_var("unit");
    bind(which, unit, ir::int_imm(c.rows * units));
    const Expr row = ir::floor_div(ir::var(which), ir::int_imm(units)), column = ir::mod(ir::var(which), ir::int_imm(units)) * ir::int_imm(width);
    std::vector<Expr> at = c.at;
    at[*c.row_dim] = at[*c.row_dim] + row;
    at.back() = at.back() + column;
    const Expr inside = ir::simplify(ir::logical_and(ir::lt(at[*c.row_dim], c.rows_end), ir::lt(at.back(), c.param->shape.back())), facts_);
    begin({inside});
    return block("if (" + text(inside) + ") ", [&]() -> Status {
      facts_.assume(inside);
      const Expr to = ir::simplify(linear_index(*c.param, at), facts_), from = row * ir::int_imm(c.columns) + column;
      begin({to, from});
      const std::string source = "*(const uint4*)&" + place_of(c.tile, from);
      line("*(uint4*)&" + place_of(c.param, to) + " = " + source + ";");
      return Unit{};
    });
  });
}

/// Stores of pairs that the threads of a warp hold as the tensor cores lay them out, four neighbouring matrices of 8 x 8 in
/// one instruction. How many of the statements from `first` on that were; none when they are not such stores.
Result<std::size_t> BodyEmitter::emit_matrices(const std::vector<Stmt>& items, std::size_t first) {
  if (outgoing_.empty() || role_ != Role::consumer || first + kMatrices > items.size()) return std::size_t{0};
  const auto thread = std::find_if(threads_.begin(), threads_.end(), [](const auto& t) { return t.second.axis == 0; });
  if (thread == threads_.end()) return std::size_t{0};
  const ir::Var x = thread->first;
  for (const Expr& c : conditions_)
    if (ir::uses(ir::substitute(c, lets_), x)) return std::size_t{0};  // a warp goes through it together
  Expr position;
  for (std::int64_t k = 0; k < kMatrices; ++k) {
    const Stmt& item = items[first + static_cast<std::size_t>(k)];
    const ir::Store* store = find_pair(item, outgoing_);
    if (store == nullptr || (k > 0 && store->buffer != find_pair(items[first], outgoing_)->buffer)) return std::size_t{0};
    const ir::Var lane = std::get<ir::Loop>(item->v).var;
    const Expr linear = ir::substitute(linear_index(*store->buffer, store->index), lets_);
    const Expr at = ir::simplify(ir::substitute(linear, {{lane, ir::int_imm(0)}}), facts_);
    const Expr step = ir::simplify(ir::substitute(linear, {{lane, ir::int_imm(1)}}) - at - ir::int_imm(1), facts_);
    if (k == 0) position = at;
    if (ir::as_int(step) != 0 || ir::as_int(ir::simplify(at - position, facts_)) != k * kMatrixSide) return std::size_t{0};
  }
  for (std::int64_t t = 0; t < thread->second.threads; ++t) {
    const auto mine = at_threads(position, {{x, t}}), of_row = at_threads(position, {{x, t / kMatrices * kMatrices}});
    if (!mine || *mine - *of_row != t % kMatrices * 2 || *of_row % (kMatrices * kMatrixSide) != 0) return std::size_t{0};
  }
  // The thread says where a row of a matrix begins: where the first of the four threads that hold it would write.
  const auto n = [](std::int64_t v) { return ir::int_imm(v); };
  const Expr self = ir::var(x), owner = ir::floor_div(self, n(kThreadsOfWarp)) * n(kThreadsOfWarp) + ir::mod(self, n(kMatrixSide)) * n(kMatrices);
  const Expr matrix = ir::floor_div(ir::mod(self, n(kThreadsOfWarp)), n(kMatrixSide));
  const Expr row = ir::simplify(ir::substitute(position, {{x, owner}}) + matrix * n(kMatrixSide), facts_);
  const ir::Buffer buffer = find_pair(items[first], outgoing_)->buffer;
  const Status status = block("", [&]() -> Status {
    std::string words;
    for (std::int64_t k = 0; k < kMatrices; ++k) {
      const ir::Loop& l = std::get<ir::Loop>(items[first + static_cast<std::size_t>(k)]->v);
      const ir::Store& store = std::get<ir::Store>(l.body->v);
      narrow_[l.var] = true;
      facts_.bind_loop(l.var, l.extent);
      lanes_ = Lanes{l.var, 2, 0, {}, {}};
      begin({store.value});
      load_wide({store.value});
      words += ", " + name_value("unsigned", pack_lanes(store.value, 2)[0]);
      lanes_.reset();
    }
    begin({row});
    line("lw_store_matrices(lw_shared_address(&" + place_in_blocks(buffer, row) + ")" + words + ");");
    return Unit{};
  });
  LW_CHECK(status);
  return static_cast<std::size_t>(kMatrices);
}

}  // namespace loopwright::codegen
