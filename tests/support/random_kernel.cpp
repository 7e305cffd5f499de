#include "tests/support/random_kernel.h"

#include <random>

#include "src/ir/monoid.h"
#include "src/ir/rewrite.h"
#include "src/ir/simplify.h"

namespace loopwright::testing {
namespace {

using namespace ir;  // NOLINT: a generator of IR

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : rng_(seed) {}

  Kernel run() {
    k_.name = "random";
    add_symbols();
    const int inputs = 1 + pick(3);
    for (int n = 0; n < inputs; ++n) add_input(n);
    const int nests = 1 + pick(4);
    std::vector<std::pair<Buffer, Stmt>> parts;
    for (int n = 0; n < nests; ++n) parts.push_back(nest(n, n + 1 == nests));
    Stmt body = seq({});
    for (std::size_t n = parts.size(); n-- > 0;) {
      body = seq({parts[n].second, body});
      if (parts[n].first) body = alloc(parts[n].first, body);
    }
    k_.body = body;
    return std::move(k_);
  }

 private:
  struct Axis {
    Var var;
    Expr extent;
  };

  int pick(int n) { return static_cast<int>(rng_() % static_cast<std::uint64_t>(n)); }
  bool chance(int percent) { return pick(100) < percent; }

  // ---------------------------------------------------------------- sizes and parameters

  void add_symbols() {
    for (const char* name : {"n", "m"}) {
      if (!chance(60)) continue;
      const std::int64_t hi = 3 + pick(15);
      k_.symbols.push_back({Symbol{name, pick(3) == 0 ? 0 : 1, hi}, fresh_var(name)});
      if (hi >= 8 && chance(30))
        k_.guard = Guard::both(k_.guard, Guard{{SymbolGuard{name, 0, INT64_MAX, 4}}, 1});
    }
  }

  Expr extent() {
    if (!k_.symbols.empty() && chance(50)) {
      const Expr s = var(k_.symbols[static_cast<std::size_t>(pick(static_cast<int>(k_.symbols.size())))].var);
      if (chance(15)) return s + int_imm(1);
      return chance(15) ? s * int_imm(2) : s;
    }
    constexpr std::int64_t kSizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 16};
    return int_imm(kSizes[pick(9)]);
  }

  /// Sizes repeat often, so that nests can be fused and computed at each other.
  std::vector<Expr> shape() {
    if (!shapes_.empty() && chance(60))
      return shapes_[static_cast<std::size_t>(pick(static_cast<int>(shapes_.size())))];
    std::vector<Expr> out;
    const int rank = 1 + pick(3);
    for (int d = 0; d < rank; ++d) out.push_back(extent());
    shapes_.push_back(out);
    return out;
  }

  DType dtype() {
    constexpr DType kTypes[] = {DType::f32, DType::f32, DType::f32, DType::f32, DType::bf16,
                                DType::f16, DType::f64, DType::i64, DType::i32, DType::i8};
    return kTypes[pick(10)];
  }

  void add_input(int n) {
    BufferInfo b{"x" + std::to_string(n), dtype(), Memory::global, shape(), {}};
    if (chance(30)) b.strides = wide_strides(b.shape);
    const ArgRole role = chance(15) && b.strides.empty() ? ArgRole::inout : ArgRole::input;
    k_.params.push_back({std::make_shared<const BufferInfo>(std::move(b)), role});
    readable_.push_back(k_.params.back().buffer);
  }

  /// Padded rows, or every second element.
  std::vector<Expr> wide_strides(const std::vector<Expr>& shape) {
    std::vector<Expr> strides(shape.size(), int_imm(1));
    Expr step = int_imm(chance(50) ? 2 : 1);
    for (std::size_t d = shape.size(); d-- > 0;) {
      strides[d] = step;
      step = step * shape[d] + int_imm(d + 1 == shape.size() && chance(50) ? 3 : 0);
    }
    return strides;
  }

  // ---------------------------------------------------------------- expressions

  /// Whether `e` can be zero when the kernel runs.
  bool may_be_empty(const Expr& e) const { return Facts(k_).bounds(e).lo < 1; }

  /// A load of `b` somewhere, guarded where the axes may leave it.
  Expr read(const Buffer& b, const std::vector<Axis>& axes) {
    std::vector<Expr> index;
    Expr inside = int_imm(1, DType::boolean);
    for (const Expr& d : b->shape) {
      std::vector<Axis> fitting;
      for (const Axis& a : axes)
        if (same(a.extent, d)) fitting.push_back(a);
      if (!fitting.empty() && chance(85)) {
        const Expr v = var(fitting[static_cast<std::size_t>(pick(static_cast<int>(fitting.size())))].var);
        index.push_back(chance(10) ? d - int_imm(1) - v : v);
        continue;
      }
      const Expr v = axes.empty()
                         ? int_imm(0)
                         : var(axes[static_cast<std::size_t>(pick(static_cast<int>(axes.size())))].var);
      if (!may_be_empty(d) && chance(40)) {
        index.push_back(chance(50) ? mod(v + int_imm(pick(4)), d) : ir::min(v, d - int_imm(1)));
        continue;
      }
      index.push_back(v);
      inside = logical_and(inside, lt(v, d));
    }
    return select(inside, load(b, index), constant(1, b->dtype));
  }

  Expr leaf(DType t, const std::vector<Axis>& axes) {
    if (chance(15)) return constant(0.5 * (pick(9) - 4), t);
    if (!axes.empty() && chance(8)) return cast(var(axes[0].var), t);
    return cast(read(readable_[static_cast<std::size_t>(pick(static_cast<int>(readable_.size())))], axes), t);
  }

  Expr value(DType t, const std::vector<Axis>& axes, int depth) {
    if (depth == 0 || chance(25)) return leaf(t, axes);
    const auto next = [&] { return value(t, axes, depth - 1); };
    switch (pick(9)) {
      case 0:
      case 1: return binary(BinaryOp::add, next(), next());
      case 2: return binary(BinaryOp::sub, next(), next());
      case 3: return binary(BinaryOp::mul, next(), next());
      case 4: return ir::min(next(), next());
      case 5: return ir::max(next(), next());
      case 6: return unary(UnaryOp::abs, next());
      case 7: return select(lt(next(), next()), next(), next());
      default:
        return is_float(t) ? unary(chance(50) ? UnaryOp::tanh : UnaryOp::sigmoid, next())
                           : unary(UnaryOp::neg, next());
    }
  }

  // ---------------------------------------------------------------- nests

  static Stmt wrap(const std::vector<Axis>& axes, Stmt body) {
    for (std::size_t d = axes.size(); d-- > 0;) body = loop(axes[d].var, axes[d].extent, std::move(body));
    return body;
  }

  std::vector<Axis> axes_of(const std::vector<Expr>& shape, const std::string& prefix) {
    std::vector<Axis> out;
    for (std::size_t d = 0; d < shape.size(); ++d)
      out.push_back({fresh_var(prefix + "_" + std::to_string(d)), shape[d]});
    return out;
  }

  static std::vector<Expr> vars_of(const std::vector<Axis>& axes) {
    std::vector<Expr> out;
    for (const Axis& a : axes) out.push_back(var(a.var));
    return out;
  }

  /// The temporary that the nest needs, if any, and its statements.
  std::pair<Buffer, Stmt> nest(int n, bool is_last) {
    const std::string name = (is_last || chance(30) ? "y" : "t") + std::to_string(n);
    const bool is_output = name[0] == 'y';
    const auto b = std::make_shared<const BufferInfo>(BufferInfo{name, dtype(), Memory::global, shape(), {}});
    if (is_output) k_.params.push_back({b, ArgRole::output});
    const std::vector<Axis> axes = axes_of(b->shape, name);
    Stmt body;
    switch (pick(6)) {
      case 0:
      case 1: body = reduction(b, axes); break;
      case 2: body = scan(b, axes); break;
      case 3: body = argument(b, axes, n); break;
      default: body = wrap(axes, pointwise(b, axes)); break;
    }
    readable_.push_back(b);
    return {is_output ? nullptr : b, body};
  }

  Stmt pointwise(const Buffer& b, const std::vector<Axis>& axes) {
    const Expr v = value(b->dtype, axes, 3);
    const Stmt plain = store(b, vars_of(axes), v);
    if (chance(15)) {
      const Var t = fresh_var(b->name + "_v");
      return let(t, v,
                 store(b, vars_of(axes), binary(BinaryOp::add, var(t, b->dtype), constant(1, b->dtype))));
    }
    if (!chance(15)) return plain;
    return seq({plain, if_then(lt(var(axes[0].var), int_imm(1 + pick(4))),
                               store(b, vars_of(axes), value(b->dtype, axes, 1)))});
  }

  /// Over one or two axes; the sum is set first for each element.
  Stmt reduction(const Buffer& b, const std::vector<Axis>& axes) {
    std::vector<Axis> inner;
    const Buffer& source = readable_[static_cast<std::size_t>(pick(static_cast<int>(readable_.size())))];
    const int count = 1 + pick(2);
    for (int r = 0; r < count; ++r) {
      const auto d = static_cast<std::size_t>(pick(static_cast<int>(source->shape.size())));
      inner.push_back({fresh_var(b->name + "_r" + std::to_string(r)), source->shape[d]});
    }
    std::vector<Axis> all = axes;
    all.insert(all.end(), inner.begin(), inner.end());
    constexpr Monoid kMonoids[] = {Monoid::sum, Monoid::sum, Monoid::max, Monoid::min};
    const Monoid monoid = kMonoids[pick(4)];
    const Stmt step = update(monoid, {b}, vars_of(axes), {value(b->dtype, all, 2)});
    const Stmt start = store(b, vars_of(axes), identity(monoid, {b->dtype})[0]);
    if (!chance(30)) return wrap(axes, seq({start, wrap(inner, step)}));
    // Two nests: the second under new variables.
    std::vector<Axis> second;
    std::map<Var, Expr> renaming;
    for (const Axis& a : axes) {
      second.push_back({fresh_var(a.var.hint + "u"), a.extent});
      renaming[a.var] = var(second.back().var);
    }
    second.insert(second.end(), inner.begin(), inner.end());
    return seq({wrap(axes, start), wrap(second, substitute(step, renaming))});
  }

  /// b[.., i] from b[.., i - 1]: an order that none but scan_across may change.
  Stmt scan(const Buffer& b, const std::vector<Axis>& axes) {
    std::vector<Expr> here = vars_of(axes), before = here;
    before.back() = here.back() - int_imm(1);
    const Expr previous = select(binary(BinaryOp::eq, here.back(), int_imm(0)), constant(0, b->dtype), load(b, before));
    return wrap(axes, store(b, here, binary(BinaryOp::add, previous, value(b->dtype, axes, 1))));
  }

  /// Position and value of the largest element along an axis.
  Stmt argument(const Buffer& b, const std::vector<Axis>& axes, int n) {
    const auto position = std::make_shared<const BufferInfo>(
        BufferInfo{"p" + std::to_string(n), DType::i64, Memory::global, b->shape, {}});
    const Axis r{fresh_var(b->name + "_r"), extent()};
    std::vector<Axis> all = axes;
    all.push_back(r);
    const Monoid monoid = chance(50) ? Monoid::argmax : Monoid::argmin;
    const std::vector<Expr> start = identity(monoid, {b->dtype, DType::i64});
    k_.params.push_back({position, ArgRole::output});
    return wrap(axes, seq({store(b, vars_of(axes), start[0]), store(position, vars_of(axes), start[1]),
                           wrap({r}, update(monoid, {b, position}, vars_of(axes),
                                            {value(b->dtype, all, 2), var(r.var)}))}));
  }

  std::mt19937_64 rng_;
  Kernel k_;
  std::vector<std::vector<Expr>> shapes_;
  std::vector<Buffer> readable_;
};

std::vector<std::int64_t> sizes_of(const std::vector<Expr>& list, const Kernel& k, const Bindings& bindings) {
  std::vector<std::int64_t> out;
  for (const Expr& e : list) out.push_back(size_of(e, k, bindings));
  return out;
}

}  // namespace

ir::Kernel random_kernel(std::uint64_t seed) { return Generator(seed).run(); }

std::int64_t size_of(const ir::Expr& e, const ir::Kernel& k, const Bindings& bindings) {
  std::map<Var, Expr> values;
  for (const SymbolParam& s : k.symbols) values[s.var] = int_imm(bindings.at(s.symbol.name));
  const auto value = as_int(substitute(e, values));
  LW_BUG_IF(!value, "a size that is not made of symbols");
  return *value;
}

Bindings random_bindings(const ir::Kernel& k, std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  Bindings out;
  for (const SymbolParam& s : k.symbols) {
    SymbolGuard guard{s.symbol.name, s.symbol.lo, s.symbol.hi, 1};
    for (const SymbolGuard& g : k.guard.symbols)
      if (g.name == s.symbol.name)
        guard = {g.name, std::max(g.lo, s.symbol.lo), std::min(g.hi, s.symbol.hi), g.multiple_of};
    const std::int64_t first = (guard.lo + guard.multiple_of - 1) / guard.multiple_of,
                       last = guard.hi / guard.multiple_of;
    LW_BUG_IF(first > last, "no value of " + s.symbol.name + " satisfies the guard");
    out[s.symbol.name] =
        (first + static_cast<std::int64_t>(rng() % static_cast<std::uint64_t>(last - first + 1))) *
        guard.multiple_of;
  }
  return out;
}

std::map<std::string, ir::Array> random_arguments(const ir::Kernel& k, const Bindings& bindings,
                                                  std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::map<std::string, Array> out;
  for (const Param& p : k.params) {
    const BufferInfo& b = *p.buffer;
    Array a = Array::dense(b.dtype, sizes_of(b.shape, k, bindings));
    if (!b.strides.empty()) a.strides = sizes_of(b.strides, k, bindings);
    if (!b.strides.empty() && a.element_count() > 0) {
      std::int64_t span = 1;
      for (std::size_t d = 0; d < a.shape.size(); ++d) span += (a.shape[d] - 1) * a.strides[d];
      a.data.assign(static_cast<std::size_t>(span * size_bytes(b.dtype)), 0);
    }
    const auto width = static_cast<std::size_t>(size_bytes(b.dtype));
    for (std::size_t at = 0; at + width <= a.data.size(); at += width) {
      const auto step = static_cast<std::int64_t>(rng() % 17) - 8;
      if (p.role == ArgRole::output) store_integer(b.dtype, a.data.data() + at, 99);
      else if (is_float(b.dtype)) store_element(b.dtype, a.data.data() + at, 0.5 * static_cast<double>(step));
      else
        store_integer(b.dtype, a.data.data() + at,
                      b.dtype == DType::u8 || b.dtype == DType::boolean ? step & 1 : step);
    }
    out[b.name] = std::move(a);
  }
  return out;
}

}  // namespace loopwright::testing
