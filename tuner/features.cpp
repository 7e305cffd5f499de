#include "tuner/features.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace loopwright::tuner {
namespace {

using ir::Expr;
using ir::LoopKind;
using ir::Memory;
using ir::Stmt;
using ir::on;

struct LoopFrame {
  std::uint32_t var = 0;
  double extent = 1;
  LoopKind kind = LoopKind::serial;
};

/// One load or store with the loops around it.
struct Access {
  const ir::BufferInfo* buffer = nullptr;
  bool is_store = false;
  double trips = 1;                    ///< how often it happens in all
  std::vector<double> footprints;      ///< different bytes from loop depth d inwards, for d = 0..depth
  double inner_stride = 0;             ///< elements by which the innermost moving loop moves it; -1: not known
};

struct Totals {
  double loops = 0, depth = 0, nodes = 0, statements = 0, conditions = 0;
  double parallel_extent = 1, launches = 0, serial_trips = 0, loop_overhead = 0;
  double simple_ops = 0, divisions = 0, transcendental = 0, integer_ops = 0, vector_ops = 0, float_ops = 0;
  double unrolled_extent = 1, innermost_extent = 0, vector_extent = 1;
  double alloc_bytes[5] = {};
  std::map<std::string, double> other;
};

class Walker {
 public:
  Walker(const ir::Kernel& kernel, const Bindings& probe) {
    for (const ir::SymbolParam& s : kernel.symbols) {
      const auto at = probe.find(s.symbol.name);
      values_[s.var.id] = static_cast<double>(at == probe.end() ? s.symbol.hi : at->second);
    }
    walk(kernel.body);
  }
  Totals totals;
  std::vector<Access> accesses;

 private:
  /// The value with loop variables at zero: full tiles, first iterations.
  double evaluate(const Expr& e) const {
    return std::visit(
        on{[](const ir::IntImm& i) { return static_cast<double>(i.value); }, [](const ir::FloatImm& f) { return f.value; },
           [&](const ir::VarRef& v) {
             const auto known = values_.find(v.var.id);
             return known == values_.end() ? 0.0 : known->second;
           },
           [&](const ir::Unary& u) { return u.op == ir::UnaryOp::neg ? -evaluate(u.a) : evaluate(u.a); },
           [&](const ir::Binary& b) { return evaluate(b); },
           [&](const ir::Select& s) { return evaluate(s.condition) != 0 ? evaluate(s.a) : evaluate(s.b); },
           [&](const ir::Cast& c) { return evaluate(c.a); }, [](const ir::Load&) { return 0.0; }},
        e->v);
  }
  double evaluate(const ir::Binary& b) const {
    const double x = evaluate(b.a), y = evaluate(b.b);
    switch (b.op) {
      case ir::BinaryOp::add: return x + y;
      case ir::BinaryOp::sub: return x - y;
      case ir::BinaryOp::mul: return x * y;
      case ir::BinaryOp::div:
      case ir::BinaryOp::floor_div: return y == 0 ? 0 : std::floor(x / y);
      case ir::BinaryOp::mod: return y == 0 ? 0 : x - y * std::floor(x / y);
      case ir::BinaryOp::min: return std::min(x, y);
      case ir::BinaryOp::max: return std::max(x, y);
      case ir::BinaryOp::lt: return x < y;
      case ir::BinaryOp::le: return x <= y;
      case ir::BinaryOp::gt: return x > y;
      case ir::BinaryOp::ge: return x >= y;
      case ir::BinaryOp::eq: return x == y;
      case ir::BinaryOp::and_: return x != 0 && y != 0;
      case ir::BinaryOp::or_: return x != 0 || y != 0;
      default: return 0;
    }
  }

  /// How much `e` grows when the loop variable does by one; not known (NaN) when it is not linear in it.
  double slope(const Expr& e, std::uint32_t var) const {
    return std::visit(
        on{[](const ir::IntImm&) { return 0.0; }, [](const ir::FloatImm&) { return 0.0; },
           [&](const ir::VarRef& v) {
             if (v.var.id == var) return 1.0;
             const auto let = lets_.find(v.var.id);
             return let == lets_.end() ? 0.0 : slope(let->second, var);
           },
           [&](const ir::Unary& u) { return u.op == ir::UnaryOp::neg ? -slope(u.a, var) : unknown(e, var); },
           [&](const ir::Binary& b) {
             if (b.op == ir::BinaryOp::add) return slope(b.a, var) + slope(b.b, var);
             if (b.op == ir::BinaryOp::sub) return slope(b.a, var) - slope(b.b, var);
             if (b.op == ir::BinaryOp::mul && slope(b.a, var) == 0) return evaluate(b.a) * slope(b.b, var);
             if (b.op == ir::BinaryOp::mul && slope(b.b, var) == 0) return slope(b.a, var) * evaluate(b.b);
             return unknown(e, var);
           },
           [&](const ir::Select&) { return unknown(e, var); }, [&](const ir::Cast& c) { return slope(c.a, var); },
           [&](const ir::Load&) { return unknown(e, var); }},
        e->v);
  }
  double unknown(const Expr& e, std::uint32_t var) const { return depends(e, var) ? std::nan("") : 0.0; }
  bool depends(const Expr& e, std::uint32_t var) const {
    return std::visit(
        on{[](const ir::IntImm&) { return false; }, [](const ir::FloatImm&) { return false; },
           [&](const ir::VarRef& v) {
             if (v.var.id == var) return true;
             const auto let = lets_.find(v.var.id);
             return let != lets_.end() && depends(let->second, var);
           },
           [&](const ir::Unary& u) { return depends(u.a, var); },
           [&](const ir::Binary& b) { return depends(b.a, var) || depends(b.b, var); },
           [&](const ir::Select& s) { return depends(s.condition, var) || depends(s.a, var) || depends(s.b, var); },
           [&](const ir::Cast& c) { return depends(c.a, var); },
           [&](const ir::Load& l) {
             return std::any_of(l.index.begin(), l.index.end(), [&](const Expr& i) { return depends(i, var); });
           }},
        e->v);
  }

  double trips() const {
    double product = 1;
    for (const LoopFrame& f : stack_) product *= f.extent;
    return product;
  }

  void note_access(const ir::Buffer& buffer, const std::vector<Expr>& index, bool is_store) {
    Access a{.buffer = buffer.get(), .is_store = is_store, .trips = trips()};
    const double element = size_bytes(buffer->dtype);
    double whole = element;
    std::vector<double> strides(index.size(), 1);
    for (std::size_t d = buffer->shape.size(); d-- > 0;) {
      if (d < strides.size()) strides[d] = buffer->strides.empty() ? whole / element : evaluate(buffer->strides[d]);
      whole *= std::max(1.0, evaluate(buffer->shape[d]));
    }
    a.footprints.assign(stack_.size() + 1, element);
    bool found_inner = false;
    double bytes = element;
    for (std::size_t level = stack_.size(); level-- > 0;) {
      double move = 0;
      for (std::size_t d = 0; d < index.size(); ++d) move += strides[d] * slope(index[d], stack_[level].var);
      if (move != 0) bytes *= stack_[level].extent;  // NaN, not known, counts as moving
      if (!found_inner && stack_[level].extent > 1) {
        found_inner = true;
        a.inner_stride = std::isnan(move) ? -1 : std::fabs(move);
      }
      a.footprints[level] = std::min(bytes, whole);
    }
    accesses.push_back(std::move(a));
  }

  void count_op(DType dtype, double weight, double& kind) {
    kind += weight;
    if (!is_float(dtype)) return;
    totals.float_ops += weight;
    const bool vector = std::any_of(stack_.begin(), stack_.end(), [](const LoopFrame& f) { return f.kind == LoopKind::vectorize; });
    if (vector) totals.vector_ops += weight;
  }

  void walk_expr(const Expr& e) {
    ++totals.nodes;
    std::visit(on{[](const ir::IntImm&) {}, [](const ir::FloatImm&) {}, [](const ir::VarRef&) {},
                  [&](const ir::Unary& u) {
                    const bool cheap = u.op == ir::UnaryOp::neg || u.op == ir::UnaryOp::abs || u.op == ir::UnaryOp::logical_not ||
                                       u.op == ir::UnaryOp::bit_not || u.op >= ir::UnaryOp::floor;
                    const bool slow = u.op == ir::UnaryOp::sqrt || u.op == ir::UnaryOp::rsqrt || u.op == ir::UnaryOp::reciprocal;
                    count_op(e->dtype, trips(), cheap ? totals.simple_ops : slow ? totals.divisions : totals.transcendental);
                    walk_expr(u.a);
                  },
                  [&](const ir::Binary& b) {
                    const bool divides = b.op == ir::BinaryOp::div || b.op == ir::BinaryOp::floor_div || b.op == ir::BinaryOp::mod;
                    const bool slow = b.op == ir::BinaryOp::pow || b.op == ir::BinaryOp::atan2 || b.op == ir::BinaryOp::fmod;
                    double& kind = !is_float(e->dtype) ? totals.integer_ops
                                   : slow              ? totals.transcendental
                                   : divides           ? totals.divisions
                                                       : totals.simple_ops;
                    count_op(e->dtype, trips(), kind);
                    walk_expr(b.a), walk_expr(b.b);
                  },
                  [&](const ir::Select& s) {
                    count_op(e->dtype, trips(), totals.simple_ops);
                    walk_expr(s.condition), walk_expr(s.a), walk_expr(s.b);
                  },
                  [&](const ir::Cast& c) {
                    if (is_float(e->dtype)) count_op(e->dtype, trips(), totals.simple_ops);
                    walk_expr(c.a);
                  },
                  [&](const ir::Load& l) {
                    note_access(l.buffer, l.index, false);
                    for (const Expr& i : l.index) walk_expr(i);
                  }},
               e->v);
  }

  void walk_loop(const ir::Loop& l) {
    const double extent = std::max(0.0, evaluate(l.extent));
    ++totals.loops;
    if (l.kind == LoopKind::parallel) totals.parallel_extent = std::max(totals.parallel_extent, extent), ++totals.launches;
    if (l.kind == LoopKind::unroll) totals.unrolled_extent = std::max(totals.unrolled_extent, extent);
    if (l.kind == LoopKind::vectorize) totals.vector_extent = std::max(totals.vector_extent, extent);
    if (l.kind == LoopKind::serial) totals.loop_overhead += trips() * extent;
    stack_.push_back({l.var.id, extent, l.kind});
    totals.depth = std::max(totals.depth, static_cast<double>(stack_.size()));
    const double loops_before = totals.loops;
    walk(l.body);
    if (totals.loops == loops_before) totals.innermost_extent = std::max(totals.innermost_extent, extent);
    stack_.pop_back();
  }

  void walk(const Stmt& s) {
    std::visit(on{[&](const ir::Loop& l) { walk_loop(l); },
                  [&](const ir::Store& st) {
                    ++totals.statements;
                    note_access(st.buffer, st.index, true);
                    walk_expr(st.value);
                  },
                  [&](const ir::Update& u) {
                    ++totals.statements;
                    for (const ir::Buffer& b : u.buffers) {
                      note_access(b, u.index, false), note_access(b, u.index, true);
                      count_op(b->dtype, trips(), totals.simple_ops);
                    }
                    for (const Expr& v : u.values) walk_expr(v);
                  },
                  [&](const ir::If& i) {
                    totals.conditions += trips();
                    walk_expr(i.condition);
                    walk(i.then);
                  },
                  [&](const ir::Let& l) {
                    walk_expr(l.value);
                    lets_[l.var.id] = l.value;
                    values_[l.var.id] = evaluate(l.value);
                    walk(l.body);
                  },
                  [&](const ir::Alloc& a) {
                    double bytes = size_bytes(a.buffer->dtype);
                    for (const Expr& d : a.buffer->shape) bytes *= std::max(1.0, evaluate(d));
                    totals.alloc_bytes[static_cast<int>(a.buffer->memory)] += bytes;
                    walk(a.body);
                  },
                  [&](const ir::Seq& q) {
                    for (const Stmt& item : q.items) walk(item);
                  }},
               s->v);
  }

  std::map<std::uint32_t, double> values_;
  std::map<std::uint32_t, Expr> lets_;
  std::vector<LoopFrame> stack_;
};

/// Bytes that move into a cache of `bytes`: an access is served from it from the outermost loop inwards whose
/// footprint fits; every entry of that loop brings its footprint in once.
double estimate_traffic(const std::vector<Access>& accesses, const std::vector<double>& working_sets, double bytes) {
  double traffic = 0;
  for (const Access& a : accesses) {
    if (a.buffer->memory == Memory::registers) continue;
    std::size_t level = 0;
    while (level + 1 < a.footprints.size() && level < working_sets.size() && working_sets[level] > bytes) ++level;
    const double inner = a.footprints[level];
    const double per_entry = a.footprints.back() > 0 ? inner : 0;
    // Entries of that loop: all trips divided by the trips inside one entry, of which the footprint is a lower bound.
    const double entries = std::max(1.0, a.trips * a.footprints.back() / std::max(a.footprints[level], 1.0));
    traffic += std::min(per_entry * entries, a.trips * a.footprints.back());
  }
  return traffic;
}

float scale(double x) { return static_cast<float>(std::log2(1 + std::max(0.0, std::min(x, 1e18)))); }

}  // namespace

const std::vector<std::string_view>& feature_names() {
  static const std::vector<std::string_view> names = {
      "loops", "depth", "ir_nodes", "statements", "conditions", "parallel_extent", "launches", "loop_overhead",
      "simple_ops", "divisions", "transcendental", "integer_ops", "float_ops", "vector_share", "unrolled_extent",
      "innermost_extent", "vector_extent", "global_alloc_bytes", "shared_alloc_bytes", "register_alloc_bytes",
      "global_load_bytes", "global_store_bytes", "shared_bytes", "register_bytes", "stride_zero_share",
      "stride_one_share", "stride_small_share", "stride_large_share", "unique_global_bytes", "traffic_l1", "traffic_l2",
      "traffic_l3", "working_set_outer", "working_set_middle", "working_set_inner", "worker_balance",
      "register_pressure", "ops_per_byte", "narrow_float_share"};
  return names;
}

double count_float_ops(const ir::Kernel& kernel, const Bindings& probe) { return Walker(kernel, probe).totals.float_ops; }

std::vector<float> extract_features(const ir::Kernel& kernel, const Target& target, const Bindings& probe) {
  const Walker walker(kernel, probe);
  const Totals& t = walker.totals;
  double bytes[2] = {}, shared = 0, registers = 0, strides[4] = {}, all = 0, narrow = 0;
  std::map<const ir::BufferInfo*, double> unique;
  std::size_t depth = 0;
  for (const Access& a : walker.accesses) depth = std::max(depth, a.footprints.size());
  std::vector<double> working_sets(depth, 0);
  for (const Access& a : walker.accesses) {
    const double moved = a.trips * size_bytes(a.buffer->dtype);
    if (a.buffer->memory == Memory::global) bytes[a.is_store] += moved;
    if (a.buffer->memory == Memory::shared) shared += moved;
    if (a.buffer->memory == Memory::registers) registers += moved;
    if (a.buffer->memory != Memory::registers) {
      const int kind = a.inner_stride == 0 ? 0 : a.inner_stride == 1 ? 1 : a.inner_stride > 0 && a.inner_stride <= 16 ? 2 : 3;
      strides[kind] += moved;
      all += moved;
      if (size_bytes(a.buffer->dtype) < 4) narrow += moved;
      unique[a.buffer] = std::max(unique[a.buffer], a.footprints[0]);
      for (std::size_t d = 0; d < depth; ++d) working_sets[d] += a.footprints[std::min(d, a.footprints.size() - 1)];
    }
  }
  double unique_bytes = 0;
  for (const auto& [buffer, size] : unique) unique_bytes += buffer->memory == Memory::global ? size : 0;
  const auto working_set = [&](double share) {
    return working_sets.empty() ? 0 : working_sets[static_cast<std::size_t>(share * static_cast<double>(working_sets.size() - 1))];
  };
  const double share_of = all > 0 ? 1 / all : 0;
  const double workers = std::max(1, target.workers);
  const double rounds = std::ceil(t.parallel_extent / workers);
  const double floats = std::max(t.float_ops, 1.0);
  return {scale(t.loops), scale(t.depth), scale(t.nodes), scale(t.statements), scale(t.conditions),
          scale(t.parallel_extent), scale(t.launches), scale(t.loop_overhead), scale(t.simple_ops), scale(t.divisions),
          scale(t.transcendental), scale(t.integer_ops), scale(t.float_ops), static_cast<float>(t.vector_ops / floats),
          scale(t.unrolled_extent), scale(t.innermost_extent), scale(t.vector_extent), scale(t.alloc_bytes[0]),
          scale(t.alloc_bytes[2]), scale(t.alloc_bytes[3]), scale(bytes[0]), scale(bytes[1]), scale(shared),
          scale(registers), static_cast<float>(strides[0] * share_of), static_cast<float>(strides[1] * share_of),
          static_cast<float>(strides[2] * share_of), static_cast<float>(strides[3] * share_of), scale(unique_bytes),
          scale(estimate_traffic(walker.accesses, working_sets, static_cast<double>(target.l1_bytes))),
          scale(estimate_traffic(walker.accesses, working_sets, static_cast<double>(target.l2_bytes))),
          scale(estimate_traffic(walker.accesses, working_sets, static_cast<double>(std::max<std::int64_t>(target.l3_bytes, 1)))),
          scale(working_set(0)), scale(working_set(0.5)), scale(working_set(1)),
          static_cast<float>(t.parallel_extent / (rounds * workers)),
          scale(t.alloc_bytes[3] / std::max(1, target.vector_bytes * target.vector_registers) * 16),
          scale(t.float_ops / std::max(unique_bytes, 1.0)), static_cast<float>(narrow * share_of)};
}

}  // namespace loopwright::tuner
