// Fragments of a warp: operands and sums of products that 32 lanes make together, all of them in registers.
//
// A product of 16 rows and 8 columns takes from each lane two or four words of two summands. Which summands these are is
// free, as long as both operands agree: a lane takes neighbours, one quarter of the summands of a nest, so that what it
// holds of a row is one wide access to memory.
#include <algorithm>

#include "src/codegen/cuda/at_threads.h"
#include "src/codegen/cuda/body_emitter.h"
#include "src/codegen/cuda/engine_loops.h"
#include "src/ir/rewrite.h"

namespace loopwright::codegen {

using ir::Expr;
using ir::Stmt;

namespace {

constexpr std::int64_t kWarpLanes = 32, kLanesOfRow = 4;
constexpr std::int64_t kRows = 16, kColumns = 8, kOfInstruction = 16;  ///< of one instruction
constexpr std::int64_t kOfLane = kOfInstruction / kLanesOfRow;         ///< summands of a row in one lane

/// The number of the lane that holds what is eight rows (columns) deep at this row, in this quarter.
std::int64_t lane_of(std::int64_t row, std::int64_t quarter) { return row % 8 * kLanesOfRow + quarter; }

}  // namespace

/// What the products inside say of the buffer; a sum that others are added to is like one of its size around.
std::optional<BodyEmitter::WarpFragment> BodyEmitter::find_warp_layout(const ir::Alloc& a) const {
  using Side = WarpFragment::Side;
  const std::int64_t count = count_of(*a.buffer);
  std::optional<WarpFragment> like;
  for (const auto& [buffer, f] : warp_fragments_)
    if (f.side == Side::sums && f.rows * f.columns == count) like = f;
  for (const ir::Loop* l : loops_of(a.body, ir::LoopKind::mma)) {
    const auto p = ir::match_matrix_product(*l, facts_);
    if (!p.ok()) continue;
    if (p->a.buffer == a.buffer || p->b.buffer == a.buffer) {
      const ir::MatrixProduct::Operand& o = p->a.buffer == a.buffer ? p->a : p->b;
      return WarpFragment{{}, p->a.buffer == a.buffer ? Side::left : Side::right, count / std::max<std::int64_t>(1, o.along), o.along, true, p->k};
    }
    if (count_of(*p->acc) != count) continue;
    const bool lies = p->column_step == 1;
    const std::int64_t across = lies ? p->row_step : p->column_step;
    const WarpFragment found{{}, Side::sums, lies ? count / std::max<std::int64_t>(1, across) : across, lies ? across : count / std::max<std::int64_t>(1, across), lies, 0};
    if (p->acc == a.buffer) return found;
    like = found;
  }
  return like;
}

Status BodyEmitter::allocate_warp_fragment(const ir::Alloc& a) {
  const auto found = find_warp_layout(a);
  if (!found) return refuse("no product on tensor cores says how the fragment `" + a.buffer->name + "` lies", "a product on tensor cores inside");
  if (launch_.block.x != kWarpLanes) return refuse("rows of " + std::to_string(launch_.block.x) + " threads around products of warps", "32, a warp");
  WarpFragment f = *found;
  const bool is_sum = f.side == WarpFragment::Side::sums;
  const std::int64_t rows = f.side == WarpFragment::Side::right ? kColumns : kRows, columns = is_sum ? kColumns : f.slab;
  if (f.rows * f.columns != count_of(*a.buffer) || f.rows % rows != 0 || f.columns % columns != 0)
    return refuse("the fragment `" + a.buffer->name + "` of " + std::to_string(f.rows) + " by " + std::to_string(f.columns) + " is not made of tiles of " + std::to_string(rows) + " by " + std::to_string(columns),
                  "whole tiles");
  f.name = fresh(a.buffer->name);
  const std::int64_t held = f.rows * f.columns / kWarpLanes;
  line(is_sum ? "float " + f.name + "[" + std::to_string(held) + "];" : "unsigned " + f.name + "[" + std::to_string(held / 2) + "];");
  warp_fragments_[a.buffer] = f;
  std::int64_t words = 0;
  for (const auto& [buffer, other] : warp_fragments_) words += other.rows * other.columns / kWarpLanes / (other.side == WarpFragment::Side::sums ? 1 : 2);
  launch_.words_held = std::max(launch_.words_held, words);
  const Status status = emit_one(a.body);
  warp_fragments_.erase(a.buffer);
  return status;
}

/// Which lane holds the element with this position, in which element of its own.
BodyEmitter::WarpPlace BodyEmitter::WarpFragment::place(std::int64_t position) const {
  const std::int64_t row = lies ? position / columns : position % rows, column = lies ? position % columns : position / rows;
  if (side == Side::sums) return {lane_of(row, column % 8 / 2), (row / kRows * (columns / kColumns) + column / kColumns) * 4 + row / 8 % 2 * 2 + column % 2};
  const std::int64_t of_lane = slab / kLanesOfRow, in_lane = column % of_lane;  // summands of a slab
  const std::int64_t step = row / (side == Side::left ? kRows : kColumns) * (columns / kOfInstruction) + column / slab * (slab / kOfInstruction) + in_lane / kOfLane;
  const std::int64_t pair = in_lane % kOfLane / 2;
  const std::int64_t word = side == Side::left ? step * 4 + pair * 2 + row / 8 % 2 : step * 2 + pair;
  return {lane_of(row, column % slab / of_lane), word * 2 + column % 2};
}

/// The element of its own that each lane asks for: the same one in all of them, and one that it holds.
std::optional<std::int64_t> BodyEmitter::warp_element(const ir::Buffer& buffer, const Expr& linear) {
  const WarpFragment& f = warp_fragments_.at(buffer);
  const Expr in_lane = lanes_ ? ir::substitute(linear, {{lanes_->var, ir::int_imm(lanes_->now)}}) : linear;
  const Expr position = ir::simplify(ir::substitute(in_lane, lets_), facts_);
  std::optional<std::int64_t> element;
  for (std::int64_t x = 0; x < kWarpLanes; ++x) {
    std::map<ir::Var, std::int64_t> values;
    for (const auto& [v, loop] : threads_)
      if (loop.axis == 0) values[v] = x;
    const bool excluded = std::any_of(conditions_.begin(), conditions_.end(), [&](const Expr& c) { return at_threads(ir::substitute(c, lets_), values) == 0; });
    if (excluded) continue;
    const auto at = at_threads(position, values);
    const bool inside = at && *at >= 0 && *at < f.rows * f.columns;
    const WarpPlace place = inside ? f.place(*at) : WarpPlace{};
    if (inside && place.lane == x && (!element || *element == place.element)) {
      element = place.element;
      continue;
    }
    if (!failure_)
      failure_ = refuse("lanes ask for elements of the fragment `" + buffer->name + "` that others hold",
                        "sums: rows split by 8, columns by 4, 2; operands: rows split by 8, summands of a nest into quarters; the 8 and 4 of these fused and bound to thread_x");
    return std::nullopt;
  }
  return element;
}

/// The word of a half that a lane asks for, and which half it is.
std::optional<std::pair<std::string, int>> BodyEmitter::warp_half(const ir::Buffer& buffer, const Expr& linear) {
  const auto element = warp_element(buffer, linear);
  if (!element) return std::nullopt;
  return std::pair{warp_fragments_.at(buffer).name + "[" + std::to_string(*element / 2) + "]", static_cast<int>(*element % 2)};
}

/// Neighbours of the lanes of a vector loop that fill words of an operand: false when they do not.
bool BodyEmitter::store_warp_words(const ir::Store& s, const Expr& linear) {
  const std::int64_t lanes = lanes_->count;
  if (size_bytes(s.buffer->dtype) != 2 || lanes % 2 != 0) return false;
  std::vector<std::string> into;
  for (std::int64_t i = 0; i < lanes; i += 2) {
    lanes_->now = i;
    const auto low = warp_half(s.buffer, linear);
    lanes_->now = i + 1;
    const auto high = warp_half(s.buffer, linear);
    lanes_->now = 0;
    if (!low || !high || low->second != 0 || high->second != 1 || low->first != high->first) return false;
    into.push_back(low->first);
  }
  const std::vector<std::string> words = copy_words(s.value, lanes);
  const std::vector<std::string> packed = words.empty() ? pack_lanes(s.value, lanes) : words;
  for (std::size_t i = 0; i < into.size(); ++i) line(into[i] + " = " + packed[i] + ";");
  return true;
}

/// Words of a wide load that the value is, as they came; empty where it is none. What was loaded under a condition is zero
/// where that does not hold.
std::vector<std::string> BodyEmitter::copy_words(const Expr& value, std::int64_t lanes) {
  const auto* s = ir::as<ir::Select>(value);
  const auto* otherwise = s != nullptr ? ir::as<ir::FloatImm>(s->b) : nullptr;
  const bool is_guarded = otherwise != nullptr && otherwise->value == 0 && !depends_on_lane(s->condition);
  const auto loaded = lanes_->loads.find(is_guarded ? s->a.get() : value.get());
  if (loaded == lanes_->loads.end() || loaded->second.per_word != 2 || static_cast<std::int64_t>(loaded->second.words.size()) * 2 != lanes) return {};
  return loaded->second.words;
}

Status BodyEmitter::emit_warp_product(const ir::Loop& l) {
  LW_TRY(const ir::MatrixProduct p, ir::match_matrix_product(l, facts_));
  const std::array<ir::Buffer, 3> buffers{p.acc, p.a.buffer, p.b.buffer};
  const std::array<Expr, 3> firsts{p.acc_at, p.a.at, p.b.at};
  std::array<std::int64_t, 3> begins{};
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const auto f = warp_fragments_.find(buffers[i]);
    if (f == warp_fragments_.end()) return refuse("`" + buffers[i]->name + "` is no fragment of a warp", "operands and sums in fragments of the same warp");
    const auto first = ir::as_int(ir::simplify(ir::substitute(firsts[i], lets_), facts_));
    const WarpPlace place = first ? f->second.place(*first) : WarpPlace{1, 0};
    const bool is_sum = f->second.side == WarpFragment::Side::sums;
    if (place.lane != 0 || place.element % (is_sum ? 4 : f->second.side == WarpFragment::Side::left ? 8 : 4) != 0)
      return refuse("a tile of the fragment `" + buffers[i]->name + "` does not begin where an instruction's begins", "unrolled loops over tiles of 16 rows, 8 columns and the summands of a nest");
    if (!is_sum && f->second.slab != p.k) return refuse("`" + buffers[i]->name + "` is read by products of different lengths", "one number of summands");
    begins[i] = is_sum ? place.element : place.element / 2;
  }
  const auto words = [&](std::size_t i, std::int64_t first, std::int64_t count) {
    std::string out;
    for (std::int64_t w = 0; w < count; ++w) out += (out.empty() ? "" : ", ") + warp_fragments_.at(buffers[i]).name + "[" + std::to_string(first + w) + "]";
    return out;
  };
  for (std::int64_t step = 0; step < p.k / kOfInstruction; ++step)
    line("lw_mma_" + std::string(p.a.buffer->dtype == DType::bf16 ? "bf16" : "f16") + "(" + words(0, begins[0], 4) + ", " + words(1, begins[1] + step * 4, 4) + ", " + words(2, begins[2] + step * 2, 2) + ");");
  return Unit{};
}

}  // namespace loopwright::codegen
