#include "tests/support/random_graph.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "tests/support/graph_data.h"

namespace loopwright::test {
namespace {

constexpr double kLargest = 200;         // keeps f16 far from its limit
constexpr std::int64_t kElements = 240;  // of any tensor, with all symbols at kRandomGraphSymbol

/// What is known of a value: |value| <= bound, two faithful kernels differ by at most `error`.
struct Known {
  Value v;
  double bound = 2;
  double error = 0;
  bool exact() const { return error == 0; }
};

double unit(DType d) {
  return d == DType::f16    ? 0x1p-11
         : d == DType::bf16 ? 0x1p-8
         : d == DType::f32  ? 0x1p-24
         : d == DType::f64  ? 0x1p-53
                            : 0;
}

struct Curve {
  const char* op;
  double steepness;                   ///< |f'| on the domain
  std::function<double(double)> top;  ///< bound of the result from the bound of the operand
  double domain = 1e9;                ///< largest bound of the operand
};

class Maker {
 public:
  explicit Maker(std::uint64_t seed) : random_(seed), g_("random" + std::to_string(seed)) {}

  RandomGraph make() {
    if (random_.chance(0.6)) symbols_.push_back(g_.symbol("n", random_.between(0, 1), 64).value());
    if (random_.chance(0.3)) symbols_.push_back(g_.symbol("m", 1, 32).value());
    new_input(any_dtype(), any_shape());
    const std::int64_t steps = random_.between(1, 14);
    for (std::int64_t i = 0; i < steps; ++i) step();
    choose_outputs();
    return std::move(out_);
  }

 private:
  // ---- dice

  template <class T>
  const T& one_of(const std::vector<T>& items) {
    return items[static_cast<std::size_t>(random_.between(0, static_cast<std::int64_t>(items.size()) - 1))];
  }

  DType any_dtype() {
    static const std::vector<DType> kWeighted = {
        DType::f32, DType::f32, DType::f32, DType::f32, DType::f64, DType::bf16, DType::bf16,
        DType::f16, DType::i64, DType::i32, DType::i8,  DType::u8,  DType::i16,  DType::boolean};
    return one_of(kWeighted);
  }

  Dim any_dim() {
    if (!symbols_.empty() && random_.chance(0.35)) {
      const Dim s = one_of(symbols_);
      const std::int64_t form = random_.between(0, 5);
      return form == 0 ? s * 2 : form == 1 ? s + 1 : s;
    }
    return random_.chance(0.04) ? 0 : random_.between(1, 6);
  }

  std::vector<Dim> any_shape() {
    std::vector<Dim> shape;
    for (std::int64_t d = random_.between(0, 3); d > 0; --d) shape.push_back(any_dim());
    while (size_of(shape) > kElements) shape.pop_back();
    return shape;
  }

  std::int64_t size_of(const Dim& dim) const {
    return dim.evaluate({{"n", kRandomGraphSymbol}, {"m", kRandomGraphSymbol}}).value();
  }
  std::int64_t size_of(const std::vector<Dim>& shape) const {
    std::int64_t out = 1;
    for (const Dim& dim : shape) out *= size_of(dim);
    return out;
  }

  const TensorType& type(const Known& k) const { return g_.type(k.v); }
  DType dtype(const Known& k) const { return type(k).dtype; }
  bool is_real(const Known& k) const { return is_float(dtype(k)); }

  // ---- values

  Known keep(Known k) {
    known_.push_back(k);
    return k;
  }

  Known new_input(DType d, const std::vector<Dim>& shape) {
    TensorType t{d, shape, {}};
    const std::int64_t form = random_.between(0, 9);
    if (!shape.empty() && form < 3) {
      Dim stride(1);
      t.strides.assign(shape.size(), Dim(0));
      std::vector<std::size_t> order;
      for (std::size_t i = 0; i < shape.size(); ++i) order.push_back(i);
      if (form == 0) std::rotate(order.begin(), order.begin() + 1, order.end());  // transposed
      for (std::size_t i = order.size(); i-- > 0;) {
        t.strides[order[i]] = stride;
        stride = stride * shape[order[i]] + (form == 1 ? Dim(2) : Dim(0));  // rows apart
      }
      if (form == 2) t.strides[0] = Dim(random_.between(0, 1));  // overlapping
    }
    const double bound = d == DType::boolean ? 1 : is_float(d) ? 2 : d == DType::u8 ? 18 : 9;
    return keep({g_.input("x" + std::to_string(++inputs_), t).value(), bound, 0});
  }

  Known pick(const std::function<bool(const Known&)>& wanted, DType otherwise) {
    std::vector<Known> fitting;
    for (const Known& k : known_)
      if (wanted(k)) fitting.push_back(k);
    if (fitting.empty() || random_.chance(0.1)) return new_input(otherwise, any_shape());
    return fitting[fitting.size() - 1 -
                   static_cast<std::size_t>(random_.between(
                       0, std::min<std::int64_t>(5, static_cast<std::int64_t>(fitting.size()) - 1)))];
  }
  Known pick_real() {
    return pick([&](const Known& k) { return is_real(k); }, DType::f32);
  }
  Known pick_exact() {
    return pick([](const Known& k) { return k.exact(); }, any_dtype());
  }
  Known pick_integer() {
    static const std::vector<DType> kIntegers = {DType::i8, DType::u8, DType::i16, DType::i32, DType::i64};
    return pick([&](const Known& k) { return is_integer(dtype(k)); }, one_of(kIntegers));
  }

  /// Another value of x's dtype that broadcasts with it.
  Known partner(const Known& x) {
    std::vector<Known> fitting;
    for (const Known& k : known_) {
      if (dtype(k) != dtype(x)) continue;
      const std::vector<Dim>&a = type(k).shape, &b = type(x).shape;
      bool fits = true;
      for (std::size_t back = 1; back <= std::min(a.size(), b.size()); ++back) {
        const Dim &p = a[a.size() - back], &q = b[b.size() - back];
        fits = fits && (p == q || p == Dim(1) || q == Dim(1));
      }
      if (fits) fitting.push_back(k);
    }
    if (random_.chance(0.15)) return constant_like(x);
    if (!fitting.empty() && random_.chance(0.6)) return one_of(fitting);
    std::vector<Dim> shape = type(x).shape;
    if (!shape.empty() && random_.chance(0.3)) shape.erase(shape.begin());
    if (!shape.empty() && random_.chance(0.3)) one_dim(shape) = Dim(1);
    return new_input(dtype(x), shape);
  }
  Dim& one_dim(std::vector<Dim>& shape) {
    return shape[static_cast<std::size_t>(random_.between(0, static_cast<std::int64_t>(shape.size()) - 1))];
  }

  Known constant_like(const Known& x) {
    const bool real = is_real(x);
    const double value = real ? random_.real(-2, 2)
                              : static_cast<double>(random_.between(0, dtype(x) == DType::boolean ? 1 : 5));
    return {g_.constant(value, dtype(x)).value(), std::max(std::fabs(value), 1.0), 0};
  }

  /// Applies an op; nothing happens when it does not type-check or would grow too large.
  std::optional<Known> apply(const std::string& op, const std::vector<Value>& inputs,
                             std::vector<NamedAttribute> attributes, double bound, double error) {
    Result<Value> made = g_.apply(op, inputs, std::move(attributes));
    if (!made.ok()) return std::nullopt;
    const DType d = g_.type(*made).dtype;
    if (size_of(g_.type(*made).shape) > kElements) return std::nullopt;
    if (is_float(d) && !(bound <= kLargest)) return std::nullopt;
    if (!is_float(d)) error = 0;
    return keep({*made, bound, error});
  }
  /// The same, with one rounding of the result.
  std::optional<Known> rounded(const std::string& op, const std::vector<Value>& inputs,
                               std::vector<NamedAttribute> attributes, double bound, double error) {
    const double one = unit(g_.type(inputs.back()).dtype);
    return apply(op, inputs, std::move(attributes), bound, error + 4 * one * std::max(bound, 1e-3));
  }

  Known number(double value, const Known& like) {
    return {g_.constant(value, dtype(like)).value(), std::fabs(value), 0};
  }

  /// |x| + least, away from zero.
  std::optional<Known> away(const Known& x, double least) {
    std::optional<Known> magnitude = apply("abs", {x.v}, {}, x.bound, x.error);
    if (!magnitude) return std::nullopt;
    return rounded("add", {magnitude->v, number(least, x).v}, {}, x.bound + least, x.error);
  }

  // ---- steps

  void step() {
    switch (random_.between(0, 13)) {
      case 0:
      case 1: return curve();
      case 2:
      case 3: return arithmetic();
      case 4: return jump();
      case 5: return integers();
      case 6: return choice();
      case 7: return convert();
      case 8:
      case 9: return view();
      case 10: return gather();
      case 11: return reduce();
      case 12: return matmul();
      default: return random_.chance(0.5) ? write() : source();
    }
  }

  void curve() {
    auto same = [](double b) { return b; };
    auto one = [](double) { return 1.6; };
    static const std::vector<Curve> kPlain = {{"neg", 1, same},
                                              {"abs", 1, same},
                                              {"sin", 1, one},
                                              {"cos", 1, one},
                                              {"tanh", 1, one},
                                              {"erf", 1.2, one},
                                              {"sigmoid", 0.3, one},
                                              {"atan", 1, one},
                                              {"exp", 60, [](double b) { return std::exp(b); }, 4},
                                              {"exp2", 12, [](double b) { return std::exp2(b); }, 4},
                                              {"expm1", 60, [](double b) { return std::exp(b); }, 4},
                                              {"sinh", 30, [](double b) { return std::cosh(b); }, 4},
                                              {"cosh", 30, [](double b) { return std::cosh(b); }, 4}};
    static const std::vector<Curve> kPositive = {{"log", 2, [](double b) { return std::log(b + 1) + 1; }},
                                                 {"log2", 3, [](double b) { return std::log2(b + 1) + 1; }},
                                                 {"log1p", 1, [](double b) { return std::log1p(b) + 1; }},
                                                 {"sqrt", 1, [](double b) { return std::sqrt(b) + 1; }},
                                                 {"rsqrt", 1.5, one},
                                                 {"reciprocal", 4, [](double) { return 2.0; }},
                                                 {"cbrt", 1, [](double b) { return std::cbrt(b) + 1; }}};
    Known x = pick_real();
    if (random_.chance(0.2)) {  // within (-1, 1)
      auto squashed = rounded("tanh", {x.v}, {}, 1, x.error);
      if (!squashed) return;
      auto half = rounded("mul", {squashed->v, number(0.5, x).v}, {}, 0.5, squashed->error);
      static const std::vector<Curve> kInside = {
          {"asin", 1.2, one}, {"acos", 1.2, [](double) { return 3.2; }}, {"tan", 2, one}};
      const Curve& c = one_of(kInside);
      if (half) rounded(c.op, {half->v}, {}, c.top(0.5), c.steepness * half->error);
      return;
    }
    const bool positive = random_.chance(0.4);
    if (positive) {
      const auto moved = away(x, 0.5);
      if (!moved) return;
      x = *moved;
    }
    const Curve& c = one_of(positive ? kPositive : kPlain);
    if (x.bound > c.domain) return;
    if (c.steepness == 1 && std::string(c.op) != "sin" && c.top(x.bound) == x.bound)
      apply(c.op, {x.v}, {}, x.bound, x.error);
    else rounded(c.op, {x.v}, {}, c.top(x.bound), c.steepness * x.error);
  }

  void arithmetic() {
    const Known a = pick([&](const Known& k) { return dtype(k) != DType::boolean; }, DType::f32);
    const Known b = partner(a);
    static const std::vector<std::string> kOps = {"add", "sub", "mul",   "min",  "max",
                                                  "div", "pow", "atan2", "clamp"};
    const std::string& op = one_of(kOps);
    const double mixed = a.error * b.bound + b.error * a.bound;
    if (op == "add" || op == "sub") rounded(op, {a.v, b.v}, {}, a.bound + b.bound, a.error + b.error);
    else if (op == "mul") rounded(op, {a.v, b.v}, {}, a.bound * b.bound, mixed);
    else if (op == "min" || op == "max")
      apply(op, {a.v, b.v}, {}, std::max(a.bound, b.bound), std::max(a.error, b.error));
    else if (op == "clamp")
      apply(op, {a.v, b.v, partner(a).v}, {}, std::max({a.bound, b.bound, 20.0}),
            known_.back().error + a.error + b.error);
    else if (!is_real(a)) apply(op == "div" ? "div" : "floor_div", {a.v, b.v}, {}, std::max(a.bound, 1.0), 0);
    else if (auto away_from_zero = away(op == "div" || op == "atan2" ? b : a, 0.5)) {
      if (op == "div")
        rounded(op, {a.v, away_from_zero->v}, {}, 2 * a.bound,
                2 * a.error + 4 * a.bound * away_from_zero->error);
      else if (op == "atan2")
        rounded(op, {a.v, away_from_zero->v}, {}, 1.6, 2 * (a.error + away_from_zero->error));
      else if (a.bound <= 4 && b.bound <= 2)
        rounded(op, {away_from_zero->v, b.v}, {}, 21, 32 * (away_from_zero->error + b.error));
    }
  }

  /// Ops whose result jumps: only where all kernels see the same bits.
  void jump() {
    const Known a = pick_exact();
    if (dtype(a) == DType::boolean) {
      apply("logical_not", {a.v}, {}, 1, 0);
      return;
    }
    const Known b = partner(a);
    static const std::vector<std::string> kCompare = {"eq", "ne", "lt", "le", "gt", "ge"};
    static const std::vector<std::string> kReal = {"floor", "ceil",   "round", "trunc",
                                                   "sign",  "is_nan", "is_inf"};
    if (b.exact() && random_.chance(0.5)) apply(one_of(kCompare), {a.v, b.v}, {}, 1, 0);
    else if (is_real(a) && b.exact() && random_.chance(0.3)) apply("fmod", {a.v, b.v}, {}, a.bound, 0);
    else if (is_real(a)) apply(one_of(kReal), {a.v}, {}, a.bound + 1, 0);
    else apply("sign", {a.v}, {}, 1, 0);
  }

  void integers() {
    const Known a = pick_integer();
    const Known b = partner(a);
    static const std::vector<std::string> kOps = {"and", "or",        "xor",     "shl", "shr",
                                                  "mod", "floor_div", "bit_not", "neg", "abs"};
    const std::string& op = one_of(kOps);
    if (op == "bit_not" || op == "neg" || op == "abs") apply(op, {a.v}, {}, 1e9, 0);
    else apply(op, {a.v, b.v}, {}, op == "mod" ? b.bound : 1e9, 0);
  }

  void choice() {
    const Known c = pick([&](const Known& k) { return dtype(k) == DType::boolean; }, DType::boolean);
    if (random_.chance(0.2)) {
      static const std::vector<std::string> kLogic = {"and", "or", "xor", "eq", "ne"};
      apply(one_of(kLogic), {c.v, partner(c).v}, {}, 1, 0);
      return;
    }
    const Known a =
        known_[static_cast<std::size_t>(random_.between(0, static_cast<std::int64_t>(known_.size()) - 1))];
    const Known b = partner(a);
    apply("select", {c.v, a.v, b.v}, {}, std::max(a.bound, b.bound), std::max(a.error, b.error));
  }

  void convert() {
    Known x = random_.chance(0.5) ? pick_real() : pick_exact();
    const DType to = any_dtype();
    if (is_real(x) && !is_float(to) && !x.exact()) return;
    if (!is_real(x) && is_float(to) && x.bound > 100) {
      const auto small = apply("mod", {x.v, number(7, x).v}, {}, 7, 0);
      if (!small) return;
      x = *small;
    }
    // Rounding a value that all agree on gives a value that all agree on.
    const double error = x.exact() ? 0 : x.error + 2 * unit(to) * x.bound;
    apply("cast", {x.v}, {{"dtype", to}}, !is_float(to) && is_real(x) ? x.bound + 256 : x.bound, error);
  }

  std::vector<std::int64_t> any_axes(int rank) {
    std::vector<std::int64_t> axes;
    for (int d = 0; d < rank; ++d)
      if (random_.chance(0.6)) axes.push_back(random_.chance(0.5) ? d : d - rank);
    return axes;
  }

  void view() {
    const Known x =
        known_[static_cast<std::size_t>(random_.between(0, static_cast<std::int64_t>(known_.size()) - 1))];
    const std::vector<Dim> shape = type(x).shape;
    const int rank = type(x).rank();
    auto same = [&](const std::string& op, std::vector<NamedAttribute> attributes) {
      apply(op, {x.v}, std::move(attributes), x.bound, x.error);
    };
    switch (random_.between(0, 7)) {
      case 0: return reshape(x);
      case 1: {
        std::vector<std::int64_t> axes;
        for (int d = 0; d < rank; ++d)
          axes.insert(axes.begin() + random_.between(0, static_cast<std::int64_t>(axes.size())), d);
        return same("permute", {{"axes", axes}});
      }
      case 2: {
        std::vector<Dim> target = shape;
        for (Dim& dim : target)
          if (dim == Dim(1)) dim = any_dim();
        target.insert(target.begin(), any_dim());
        return same("broadcast", {{"shape", target}});
      }
      case 3: return slice(x);
      case 4: {
        if (rank == 0) return;
        std::vector<Dim> other = shape;
        const std::int64_t axis = random_.between(0, rank - 1);
        other[axis] = any_dim();
        const Known y = new_input(dtype(x), other);
        std::vector<Value> parts{x.v, y.v};
        if (random_.chance(0.5)) std::swap(parts[0], parts[1]);
        if (random_.chance(0.2)) parts.push_back(x.v);
        apply("concat", parts, {{"axis", axis}}, std::max(x.bound, y.bound), x.error);
        return;
      }
      case 5: {
        std::vector<Dim> low, high;
        for (int d = 0; d < rank; ++d)
          low.push_back(random_.between(0, 2)), high.push_back(random_.between(0, 2));
        apply("pad", {x.v, constant_like(x).v}, {{"low", low}, {"high", high}}, std::max(x.bound, 5.0),
              x.error);
        return;
      }
      case 6: return same("flip", {{"axes", any_axes(rank)}});
      default: return same("copy", {});
    }
  }

  void reshape(const Known& x) {
    std::vector<Dim> shape = type(x).shape;
    switch (random_.between(0, 3)) {
      case 0: shape = {Dim(-1)}; break;
      case 1:
        shape.insert(shape.begin() + random_.between(0, static_cast<std::int64_t>(shape.size())), Dim(1));
        break;
      case 2:
        if (shape.size() >= 2) {  // join two axes
          const auto d = random_.between(0, static_cast<std::int64_t>(shape.size()) - 2);
          shape[d] = shape[d] * shape[d + 1];
          shape.erase(shape.begin() + d + 1);
        }
        break;
      default:
        for (std::size_t d = 0; d < shape.size(); ++d)
          if (auto half = shape[d].divide_exactly(Dim(2)); half && shape[d] != Dim(0)) {
            shape[d] = *half;
            shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(d) + random_.between(0, 1), Dim(2));
            break;
          }
    }
    apply("reshape", {x.v}, {{"shape", shape}}, x.bound, x.error);
  }

  void slice(const Known& x) {
    std::vector<std::int64_t> axes, step;
    std::vector<Dim> start, stop;
    for (int d = 0; d < type(x).rank(); ++d) {
      if (!random_.chance(0.7)) continue;
      const Dim& size = type(x).shape[d];
      axes.push_back(d);
      if (auto fixed = size.constant()) {
        const std::int64_t from = random_.between(0, *fixed);
        start.push_back(from);
        stop.push_back(random_.between(from, *fixed));
        step.push_back(random_.between(1, 2));
      } else {
        start.push_back(random_.between(0, 1));
        stop.push_back(size);
        step.push_back(1);
      }
    }
    apply("slice", {x.v}, {{"axes", axes}, {"start", start}, {"stop", stop}, {"step", step}}, x.bound,
          x.error);
  }

  void gather() {
    const Known x =
        known_[static_cast<std::size_t>(random_.between(0, static_cast<std::int64_t>(known_.size()) - 1))];
    const int rank = type(x).rank();
    if (rank == 0) return;
    const std::int64_t axis = random_.between(0, rank - 1);
    static const std::vector<DType> kIndex = {DType::i64, DType::i32, DType::u8};
    switch (random_.between(0, 2)) {
      case 0: {
        std::vector<Dim> shape = type(x).shape;
        shape[axis] = any_dim();
        apply("gather", {x.v, new_input(one_of(kIndex), shape).v}, {{"axis", axis}}, x.bound, x.error);
        return;
      }
      case 1: apply("embedding", {x.v, pick_integer().v}, {}, x.bound, x.error); return;
      default:
        apply("index_select", {x.v, new_input(one_of(kIndex), {any_dim()}).v}, {{"axis", axis}}, x.bound,
              x.error);
    }
  }

  void reduce() {
    const Known x =
        known_[static_cast<std::size_t>(random_.between(0, static_cast<std::int64_t>(known_.size()) - 1))];
    const std::vector<std::int64_t> axes = any_axes(type(x).rank());
    const DType d = dtype(x);
    const double length = static_cast<double>(axes.empty() ? size_of(type(x).shape) : kElements);
    double count = 1;
    for (std::size_t k = 0; k < type(x).shape.size(); ++k) {
      const auto rank = static_cast<std::int64_t>(type(x).shape.size()), at = static_cast<std::int64_t>(k);
      if (axes.empty() ||
          std::count(axes.begin(), axes.end(), at) + std::count(axes.begin(), axes.end(), at - rank) > 0)
        count *= static_cast<double>(size_of(type(x).shape[k]));
    }
    count = std::min(count, length);
    const std::vector<NamedAttribute> over{{"axes", axes}, {"keepdim", random_.chance(0.5)}};
    std::vector<NamedAttribute> wide = over;
    if (random_.chance(0.3)) wide.push_back({"out", accumulator(d)});
    const double small = 2 * unit(d) + (count + 8) * unit(accumulator(d));
    if (d == DType::boolean) {
      static const std::vector<std::string> kBool = {"any", "all", "sum"};
      const std::string& op = one_of(kBool);
      apply(op, {x.v}, over, op == "sum" ? count : 1, 0);
      return;
    }
    static const std::vector<std::string> kOps = {"sum",        "sum",           "mean",     "reduce_max",
                                                  "reduce_min", "product",       "variance", "argmax",
                                                  "argmin",     "cumulative_sum"};
    const std::string& op = one_of(kOps);
    if (op == "sum") apply(op, {x.v}, wide, x.bound * count, count * x.error + small * count * x.bound);
    else if (op == "mean") apply(op, {x.v}, wide, x.bound, x.error + small * x.bound * 2);
    else if (op == "reduce_max" || op == "reduce_min") apply(op, {x.v}, over, x.bound, x.error);
    else if (op == "product") {
      const double top = std::pow(std::max(x.bound, 1.0), std::max(count - 1, 0.0));
      apply(op, {x.v}, wide, top * std::max(x.bound, 1.0),
            count * top * x.error + count * small * top * x.bound);
    } else if (op == "variance") {
      wide.push_back({"correction", random_.between(0, 1)});
      apply(op, {x.v}, wide, 8 * x.bound * x.bound, 16 * x.bound * x.error + 32 * small * x.bound * x.bound);
    } else if (op == "cumulative_sum") {
      if (type(x).rank() > 0)
        apply(op, {x.v}, {{"axis", random_.between(0, type(x).rank() - 1)}}, x.bound * 12,
              12 * x.error + 12 * (2 * unit(d) + 20 * unit(accumulator(d))) * x.bound);
    } else if (x.exact()) {
      apply(op, {x.v}, over, kElements, 0);
    }
  }

  void matmul() {
    const Known a = pick([&](const Known& k) { return dtype(k) != DType::boolean && type(k).rank() >= 2; },
                         DType::boolean);
    if (dtype(a) == DType::boolean || type(a).rank() < 2) return;
    const bool ta = random_.chance(0.4), tb = random_.chance(0.4);
    std::vector<Dim> shape = type(a).shape;
    const Dim k = shape[shape.size() - (ta ? 2 : 1)], columns = any_dim();
    shape.resize(random_.chance(0.5) ? 2 : shape.size());
    shape[shape.size() - 2] = tb ? columns : k;
    shape[shape.size() - 1] = tb ? k : columns;
    if (shape.size() > 2 && random_.chance(0.3)) shape[0] = Dim(1);
    if (size_of(shape) > kElements) return;
    const Known b = new_input(dtype(a), shape);
    std::vector<NamedAttribute> attributes{{"transpose_a", ta}, {"transpose_b", tb}};
    const DType carried = accumulator(dtype(a));
    if (random_.chance(0.3)) attributes.push_back({"out", carried});
    const double length = static_cast<double>(size_of(k)), bound = length * a.bound * b.bound;
    apply("matmul", {a.v, b.v}, attributes, bound,
          length * (a.error * b.bound + b.error * a.bound) +
              ((length + 8) * unit(carried) + 2 * unit(dtype(a))) * bound);
  }

  void write() {
    const Known x =
        known_[static_cast<std::size_t>(random_.between(0, static_cast<std::int64_t>(known_.size()) - 1))];
    const int rank = type(x).rank();
    if (rank == 0) return;
    const std::int64_t axis = random_.between(0, rank - 1);
    std::vector<Dim> shape = type(x).shape;
    shape[axis] = any_dim();
    const Known part = new_input(dtype(x), shape);
    std::optional<Known> made;
    if (random_.chance(0.5)) {
      const Known at = new_input(DType::i64, {});
      made = apply("slice_update", {x.v, part.v, at.v}, {{"axis", axis}}, std::max(x.bound, part.bound),
                   x.error);
    } else {
      const bool add = random_.chance(0.5);
      const double count = add ? static_cast<double>(size_of(shape[axis])) : 0;
      const double error =
          x.error +
          (add ? (4 * unit(dtype(x)) + 40 * unit(accumulator(dtype(x)))) * (x.bound + 2 * count) : 0);
      made = apply("scatter", {x.v, new_input(DType::i64, shape).v, part.v},
                   {{"axis", axis}, {"reduce", std::string(add ? "add" : "none")}},
                   x.bound + (count + 1) * part.bound, error);
    }
    if (made && g_.node(x.v).op == "input" && random_.chance(0.5)) update(x, *made);
  }

  void source() {
    DType d = any_dtype();
    if (d == DType::boolean) d = DType::i64;
    const std::vector<Dim> shape = any_shape();
    if (shape.empty()) return;
    apply("iota", {},
          {{"shape", shape},
           {"axis", random_.between(0, static_cast<std::int64_t>(shape.size()) - 1)},
           {"dtype", d},
           {"start", random_.between(-3, 3)},
           {"step", random_.between(-1, 2)}},
          27, 0);
  }

  // ---- results

  Allowance tolerance_of(const Known& k) const {
    return {8 * k.error + 1e-30, is_real(k) ? 8 * unit(dtype(k)) : 0};
  }

  void update(const Known& input, const Known& value) {
    if (!updated_.insert(input.v.id).second || !g_.update(input.v, value.v).ok()) return;
    out_.tolerances[g_.node(input.v).name] = tolerance_of(value);
  }

  void choose_outputs() {
    std::vector<Known> made;
    for (const Known& k : known_)
      if (g_.node(k.v).op != "input") made.push_back(k);
    if (made.empty()) made.push_back(known_[0]);
    for (std::int64_t i = 0, count = random_.between(1, 3); i < count; ++i) {
      const Known& k = i == 0 ? made.back() : one_of(made);
      const std::string name = "y" + std::to_string(i);
      if (g_.output(name, k.v).ok()) out_.tolerances[name] = tolerance_of(k);
    }
    for (const Known& input : known_) {
      if (g_.node(input.v).op != "input" || !random_.chance(0.05)) continue;
      for (const Known& value : known_)
        if (g_.type(value.v).dtype == dtype(input) && g_.type(value.v).shape == type(input).shape &&
            !(value.v == input.v)) {
          update(input, value);
          break;
        }
    }
    out_.graph = std::move(g_);
  }

  Random random_;
  Graph g_;
  std::vector<Dim> symbols_;
  std::vector<Known> known_;
  std::set<std::int32_t> updated_;
  int inputs_ = 0;
  RandomGraph out_;
};

}  // namespace

RandomGraph random_graph_with_tolerances(std::uint64_t seed) { return Maker(seed).make(); }
Graph random_graph(std::uint64_t seed) { return random_graph_with_tolerances(seed).graph; }

}  // namespace loopwright::test
