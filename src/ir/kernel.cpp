#include "src/ir/kernel.h"

namespace loopwright::ir {
namespace {

Expr symbol_var(const std::string& name, const std::vector<SymbolParam>& symbols) {
  for (const SymbolParam& s : symbols)
    if (s.symbol.name == name) return var(s.var);
  throw_bug(__FILE__, __LINE__, "symbol has a variable", "the kernel has no symbol " + name);
}

/// |coefficient| * product of the symbols.
Expr term_expr(const std::vector<std::string>& names, std::int64_t magnitude,
               const std::vector<SymbolParam>& symbols) {
  if (names.empty()) return int_imm(magnitude);
  Expr product = symbol_var(names[0], symbols);
  for (std::size_t i = 1; i < names.size(); ++i) product = product * symbol_var(names[i], symbols);
  return magnitude == 1 ? product : product * int_imm(magnitude);
}

std::optional<SizeExpr::Op> size_op(BinaryOp op) {
  switch (op) {
    case BinaryOp::add: return SizeExpr::Op::add;
    case BinaryOp::sub: return SizeExpr::Op::sub;
    case BinaryOp::mul: return SizeExpr::Op::mul;
    case BinaryOp::floor_div: return SizeExpr::Op::floor_div;
    case BinaryOp::mod: return SizeExpr::Op::mod;
    case BinaryOp::min: return SizeExpr::Op::min;
    case BinaryOp::max: return SizeExpr::Op::max;
    default: return std::nullopt;
  }
}

}  // namespace

std::string_view name(Level level) {
  switch (level) {
    case Level::naive: return "naive";
    case Level::scheduled: return "scheduled";
    case Level::flat: return "flat";
    case Level::emittable: return "emittable";
  }
  throw_bug(__FILE__, __LINE__, "level", std::to_string(static_cast<int>(level)));
}

std::string_view name(LoopKind kind) {
  switch (kind) {
    case LoopKind::serial: return "serial";
    case LoopKind::unroll: return "unroll";
    case LoopKind::vectorize: return "vectorize";
    case LoopKind::parallel: return "parallel";
    case LoopKind::grid_x: return "grid_x";
    case LoopKind::grid_y: return "grid_y";
    case LoopKind::grid_z: return "grid_z";
    case LoopKind::thread_x: return "thread_x";
    case LoopKind::thread_y: return "thread_y";
    case LoopKind::cluster_x: return "cluster_x";
    case LoopKind::across: return "across";
    case LoopKind::last_block: return "last_block";
    case LoopKind::ring: return "ring";
    case LoopKind::bulk: return "bulk";
    case LoopKind::mma: return "mma";
    case LoopKind::async: return "async";
  }
  throw_bug(__FILE__, __LINE__, "loop kind", std::to_string(static_cast<int>(kind)));
}

bool is_grid(LoopKind kind) { return kind == LoopKind::grid_x || kind == LoopKind::grid_y || kind == LoopKind::grid_z; }

bool is_thread(LoopKind kind) { return kind == LoopKind::thread_x || kind == LoopKind::thread_y; }

bool is_engine(LoopKind kind) { return kind == LoopKind::ring || kind == LoopKind::bulk || kind == LoopKind::mma || kind == LoopKind::async; }

bool is_unordered(LoopKind kind) {
  switch (kind) {
    case LoopKind::serial:
    case LoopKind::unroll:
    case LoopKind::across:
    case LoopKind::ring:
    case LoopKind::mma: return false;
    default: return true;
  }
}

std::string_view name(CachePolicy policy) {
  switch (policy) {
    case CachePolicy::normal: return "normal";
    case CachePolicy::no_allocate: return "no_allocate";
    case CachePolicy::evict_first: return "evict_first";
    case CachePolicy::evict_last: return "evict_last";
  }
  throw_bug(__FILE__, __LINE__, "cache policy", std::to_string(static_cast<int>(policy)));
}

std::string_view name(Memory memory) {
  switch (memory) {
    case Memory::global: return "global";
    case Memory::cluster: return "cluster";
    case Memory::shared: return "shared";
    case Memory::registers: return "registers";
    case Memory::fragment: return "fragment";
  }
  throw_bug(__FILE__, __LINE__, "memory", std::to_string(static_cast<int>(memory)));
}

Expr to_expr(const Dim& dim, const std::vector<SymbolParam>& symbols) {
  LW_BUG_IF(dim.overflowed(), "an overflowed dimension reached the IR");
  // The form that `simplify` keeps: added terms, then subtracted ones, each with the constant last.
  Expr sum = int_imm(0);
  bool first = true;
  for (const bool positive : {true, false}) {
    for (auto it = dim.terms().rbegin(); it != dim.terms().rend(); ++it) {
      const auto& [names, coefficient] = *it;
      if ((coefficient > 0) != positive) continue;
      const bool subtract = coefficient < 0 && coefficient != INT64_MIN;
      const Expr term = term_expr(names, subtract ? -coefficient : coefficient, symbols);
      if (subtract) sum = sum - term;
      else sum = first ? term : sum + term;
      first = false;
    }
  }
  return sum;
}

std::optional<SizeExpr> to_size_expr(const Expr& e, const std::vector<SymbolParam>& symbols) {
  if (const auto value = as_int(e)) return SizeExpr(*value);
  if (const auto* ref = as<VarRef>(e)) {
    for (std::size_t i = 0; i < symbols.size(); ++i)
      if (symbols[i].var == ref->var) return SizeExpr::symbol(static_cast<int>(i));
    return std::nullopt;
  }
  const auto* b = as<Binary>(e);
  if (!b || e->dtype != DType::i64) return std::nullopt;
  const auto op = size_op(b->op);
  if (!op) return std::nullopt;
  const auto left = to_size_expr(b->a, symbols);
  const auto right = to_size_expr(b->b, symbols);
  if (!left || !right || std::max(left->depth(), right->depth() + 1) > SizeExpr::kMaxDepth)
    return std::nullopt;
  return SizeExpr::apply(*op, *left, *right);
}

}  // namespace loopwright::ir
