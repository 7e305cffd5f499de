// Thin products in the epilogue of a ring: their sums lie in the warpgroup as the tile's do, and its warps make them on
// tensor cores, each its own rows. The operands are fragments that are nowhere as a whole: each lane loads what it
// multiplies. Which summands a lane takes is free (emit_warp.cpp); it takes four neighbours of each row and column.
//
// f32 operands are three bf16 parts each, of which six products count, the smallest first. With so few summands the tensor
// cores' truncation stays below the rounding of f32 sums. Parts of what is infinite, no number, or near the largest float
// make no number: then the warp sums once more, as threads do.
#include <array>

#include "src/codegen/cuda/body_emitter.h"
#include "src/codegen/cuda/engine_loops.h"
#include "src/ir/rewrite.h"

namespace loopwright::codegen {

using ir::Expr;
using ir::Stmt;

namespace {

constexpr std::int64_t kSummandsAtOnce = 16, kSummandsOfLane = 4;  ///< summands
constexpr std::array<std::pair<int, int>, 6> kPairs = {{{2, 0}, {1, 1}, {0, 2}, {1, 0}, {0, 1}, {0, 0}}};

}  // namespace

/// Whether products of a warpgroup read the buffer, and nothing else does.
bool BodyEmitter::is_group_operand(const ir::Alloc& a) const {
  bool found = false;
  for (const ir::Loop* l : loops_of(a.body, ir::LoopKind::mma)) {
    const auto p = ir::match_matrix_product(*l, facts_);
    found = found || (p.ok() && (p->a.buffer == a.buffer || p->b.buffer == a.buffer));
  }
  return found;
}

/// The nest that fills such an operand says what its elements are, and is no text.
bool BodyEmitter::defines_group_operand(const ir::Loop& outermost) {
  std::vector<const ir::Loop*> loops{&outermost};
  while (const auto* inner = ir::as<ir::Loop>(loops.back()->body)) loops.push_back(inner);
  const auto* store = ir::as<ir::Store>(loops.back()->body);
  if (store == nullptr || !group_operands_.contains(store->buffer) || loops.size() < 2) return false;
  std::map<ir::Var, Expr> single;  // batches of one
  for (std::size_t i = 0; i + 2 < loops.size(); ++i) {
    if (ir::as_int(loops[i]->extent) != 1) return false;
    single[loops[i]->var] = ir::int_imm(0);
  }
  const ir::Loop &rows = *loops[loops.size() - 2], &summands = *loops.back();
  group_operands_[store->buffer] = GroupOperand{rows.var, summands.var, ir::as_int(summands.extent).value_or(0), ir::substitute(store->value, single)};
  return true;
}

/// The four elements from this summand on of a row: words of two 16-bit ones, of f32 those of its parts, the largest first.
std::vector<std::array<std::string, 2>> BodyEmitter::load_group_words(const GroupOperand& o, const Expr& row, const Expr& quarter, std::int64_t step) {
  const ir::Var lane = ir::fresh_var("lane");
  facts_.bind_loop(lane, ir::int_imm(kSummandsOfLane));
  const Expr lane_group = quarter + ir::int_imm(step * (kSummandsAtOnce / kSummandsOfLane));
  const Expr summand = lane_group * ir::int_imm(kSummandsOfLane) + ir::var(lane);
  Expr value = ir::substitute(o.value, {{o.row, row}, {o.summand, summand}});
  // Beyond the sum an instruction takes zeros.
  if ((step + 1) * kSummandsAtOnce > o.summands) {
    const bool whole = o.summands % kSummandsOfLane == 0;
    Expr inside = whole ? ir::lt(lane_group, ir::int_imm(o.summands / kSummandsOfLane)) : ir::lt(summand, ir::int_imm(o.summands));
    const auto* guarded = ir::as<ir::Select>(value);
    if (guarded != nullptr) inside = ir::binary(ir::BinaryOp::and_, inside, guarded->condition);
    value = ir::select(inside, guarded != nullptr ? guarded->a : value, ir::constant(0, value->dtype));
  }
  value = ir::simplify(value, facts_);
  lanes_ = Lanes{lane, kSummandsOfLane, 0, {}, {}};
  narrow_[lane] = true;
  begin({value});
  load_wide({value});
  std::vector<std::array<std::string, 2>> out;
  if (size_bytes(value->dtype) == 2) {
    std::vector<std::string> words = copy_words(value, kSummandsOfLane);
    if (words.empty()) words = pack_lanes(value, kSummandsOfLane);
    out.push_back({name_value("unsigned", words[0]), name_value("unsigned", words[1])});
  } else {
    std::array<std::string, kSummandsOfLane> values;
    for (lanes_->now = 0; lanes_->now < kSummandsOfLane; ++lanes_->now) {
      lane_memo_.assign(1, {});
      values[static_cast<std::size_t>(lanes_->now)] = text(value);
    }
    out.resize(3);
    for (std::size_t pair = 0; pair < 2; ++pair) {
      for (auto& part : out) part[pair] = fresh("part");
      line("unsigned " + out[0][pair] + ", " + out[1][pair] + ", " + out[2][pair] + ";");
      line("lw_bf16_parts(" + values[pair * 2] + ", " + values[pair * 2 + 1] + ", " + out[0][pair] + ", " + out[1][pair] + ", " + out[2][pair] + ");");
    }
  }
  lanes_.reset();
  return out;
}

Status BodyEmitter::emit_group_product(const ir::MatrixProduct& p) {
  const Fragment& f = fragments_.at(p.acc);
  const bool is_whole = f.columns == p.n && f.tiles * kTileRows == p.m && p.row_step == p.n && ir::as_int(ir::simplify(p.acc_at, facts_)) == 0;
  std::set<std::int64_t>& begun = begun_[p.acc];
  if (!is_whole || static_cast<std::int64_t>(begun.size()) != f.tiles)
    return refuse("a thin product that is not all of its sums, from zero on", "a sum over the whole of `" + p.acc->name + "` in one nest");
  begun.clear();
  const auto &a = group_operands_.at(p.a.buffer), &b = group_operands_.at(p.b.buffer);
  if (!a || !b) return refuse("an operand of a thin product that no nest fills", "both operands staged in fragments");
  const bool separated = p.a.buffer->dtype == DType::f32;
  const std::string call = p.a.buffer->dtype == DType::f16 ? "lw_mma_f16(" : "lw_mma_bf16(";
  const std::int64_t steps = (p.k + kSummandsAtOnce - 1) / kSummandsAtOnce;
  const ir::Var warp = ir::fresh_var("warp"), eight = ir::fresh_var("eight"), quarter = ir::fresh_var("quarter"), column = ir::fresh_var("column");
  return block("", [&]() -> Status {
    bind(warp, "(int)(threadIdx.x / 32)", ir::int_imm(4));
    bind(eight, "(int)(threadIdx.x / 4 % 8)", ir::int_imm(8));
    bind(quarter, "(int)(threadIdx.x % 4)", ir::int_imm(4));
    const auto row_of = [&](std::int64_t tile, std::int64_t half) {
      return ir::int_imm(tile * kTileRows + half * 8) + ir::var(warp) * ir::int_imm(16) + ir::var(eight);
    };
    // By tile and step: the words of both halves of the rows.
    std::vector<std::array<std::vector<std::array<std::string, 2>>, 2>> rows;
    for (std::int64_t tile = 0; tile < f.tiles; ++tile)
      for (std::int64_t step = 0; step < steps; ++step) {
        auto& halves = rows.emplace_back();
        for (std::int64_t half = 0; half < 2; ++half) halves[static_cast<std::size_t>(half)] = load_group_words(*a, row_of(tile, half), ir::var(quarter), step);
      }
    const std::string c = fresh("c");
    const auto sum = [&](std::int64_t tile, std::int64_t element) { return f.name + "[" + std::to_string(tile) + "][" + c + " * 4 + " + std::to_string(element) + "]"; };
    const std::string for_columns = "for (int " + c + " = 0; " + c + " < " + std::to_string(p.n / 8) + "; ++" + c + ") ";
    line("#pragma unroll");
    LW_CHECK(block(for_columns, [&]() -> Status {
      bind(column, c, ir::int_imm(p.n / 8));
      for (std::int64_t tile = 0; tile < f.tiles; ++tile)
        for (std::int64_t e = 0; e < 4; ++e) line(sum(tile, e) + " = 0.0f;");
      std::vector<std::vector<std::array<std::string, 2>>> columns;
      for (std::int64_t step = 0; step < steps; ++step) columns.push_back(load_group_words(*b, ir::var(column) * ir::int_imm(8) + ir::var(eight), ir::var(quarter), step));
      for (const auto& [i, j] : kPairs)
        for (std::int64_t step = 0; step < steps; ++step)
          for (std::int64_t tile = 0; tile < f.tiles; ++tile) {
            if (!separated && (i > 0 || j > 0)) continue;
            const auto& halves = rows[static_cast<std::size_t>(tile * steps + step)];
            const auto &low = halves[0][static_cast<std::size_t>(i)], &high = halves[1][static_cast<std::size_t>(i)], &right = columns[static_cast<std::size_t>(step)][static_cast<std::size_t>(j)];
            line(call + sum(tile, 0) + ", " + sum(tile, 1) + ", " + sum(tile, 2) + ", " + sum(tile, 3) + ", " + low[0] + ", " + high[0] + ", " + low[1] + ", " + high[1] + ", " + right[0] + ", " + right[1] + ");");
          }
      return Unit{};
    }));
    if (!separated) return Unit{};
    const std::string doubt = fresh("doubt");
    line("float " + doubt + " = 0.0f;");
    line("#pragma unroll");
    LW_CHECK(block(for_columns, [&]() -> Status {
      for (std::int64_t tile = 0; tile < f.tiles; ++tile)
        for (std::int64_t e = 0; e < 4; ++e) line(doubt + " = __fmaf_rn(" + sum(tile, e) + ", 0.0f, " + doubt + ");");
      return Unit{};
    }));
    return block("if (__any_sync(0xffffffffu, " + doubt + " != " + doubt + ")) ", [&]() -> Status {
      line("#pragma unroll");
      return block(for_columns, [&]() -> Status {
        bind(column, c, ir::int_imm(p.n / 8));
        for (std::int64_t tile = 0; tile < f.tiles; ++tile)
          for (std::int64_t e = 0; e < 4; ++e) line(sum(tile, e) + " = 0.0f;");
        const ir::Var summand = ir::fresh_var("summand");
        const std::string k = fresh("k");
        line("#pragma unroll 1");
        return block("for (int " + k + " = 0; " + k + " < " + std::to_string(p.k) + "; ++" + k + ") ", [&]() -> Status {
          bind(summand, k, ir::int_imm(p.k));
          const auto element = [&](const GroupOperand& o, const Expr& row) {
            const Expr value = ir::simplify(ir::substitute(o.value, {{o.row, row}, {o.summand, ir::var(summand)}}), facts_);
            begin({value});
            return name_value("float", text(value));
          };
          std::vector<std::string> right;
          for (std::int64_t e = 0; e < 2; ++e) right.push_back(element(*b, ir::var(column) * ir::int_imm(8) + ir::var(quarter) * ir::int_imm(2) + ir::int_imm(e)));
          for (std::int64_t tile = 0; tile < f.tiles; ++tile)
            for (std::int64_t half = 0; half < 2; ++half) {
              const std::string left = element(*a, row_of(tile, half));
              for (std::int64_t e = 0; e < 2; ++e) line(sum(tile, half * 2 + e) + " = __fmaf_rn(" + left + ", " + right[static_cast<std::size_t>(e)] + ", " + sum(tile, half * 2 + e) + ");");
            }
          return Unit{};
        });
      });
    });
  });
}

}  // namespace loopwright::codegen
