#include "tests/support/random_graph.h"

#include <set>

#include "tests/support/random_graph_values.h"

namespace loopwright::test {
namespace {

struct Curve {
  const char* op;
  double steepness;                   ///< |f'| on the domain
  std::function<double(double)> top;  ///< bound of the result from the bound of the operand
  double domain = 1e9;                ///< largest bound of the operand
};
class Maker : RandomValues {
 public:
  explicit Maker(std::uint64_t seed) : RandomValues(seed) {}

  RandomGraph make() {
    if (random_.chance(0.6)) symbols_.push_back(g_.symbol("n", random_.between(0, 1), 64).value());
    if (random_.chance(0.3)) symbols_.push_back(g_.symbol("m", 1, 32).value());
    const DType first = any_dtype();
    new_input(first, any_shape());
    const std::int64_t steps = random_.between(1, 14);
    for (std::int64_t i = 0; i < steps; ++i) step();
    choose_outputs();
    return std::move(out_);
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
    else if (op == "clamp") {
      const Known top = partner(a);
      apply(op, {a.v, b.v, top.v}, {}, std::max({a.bound, b.bound, top.bound}),
            std::max({a.error, b.error, top.error}));
    } else if (!is_real(a))
      apply(op == "div" ? "div" : "floor_div", {a.v, b.v}, {}, std::max(a.bound, 1.0), 0);
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
      const std::string& op = one_of(kLogic);
      apply(op, {c.v, partner(c).v}, {}, 1, 0);
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
    if (is_integer(dtype(x)) && is_float(to) && x.bound > 100) {
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
      default: {
        const DType index = one_of(kIndex);
        apply("index_select", {x.v, new_input(index, {any_dim()}).v}, {{"axis", axis}}, x.bound, x.error);
      }
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

  void grouped_matmul() {
    const Known x = pick([&](const Known& k) { return dtype(k) != DType::boolean && type(k).rank() == 2; }, DType::boolean);
    if (dtype(x) == DType::boolean || type(x).rank() != 2) return;
    const bool transposed = random_.chance(0.5);
    const Dim k = type(x).shape[1], columns = any_dim(), groups = Dim(random_.between(1, 5));
    const std::vector<Dim> shape = transposed ? std::vector{groups, columns, k} : std::vector{groups, k, columns};
    if (size_of(shape) > kElements) return;
    const Known w = new_input(dtype(x), shape), ends = new_input(random_.chance(0.5) ? DType::i32 : DType::i64, {groups});
    const auto group = apply("group_of", {ends.v}, {{"shape", std::vector<Dim>{type(x).shape[0]}}}, 5, 0);
    if (!group) return;
    const double length = static_cast<double>(size_of(k)), bound = length * x.bound * w.bound;
    apply("matmul_at", {x.v, w.v, group->v}, {{"transpose_b", transposed}}, bound,
          length * x.error * w.bound + ((length + 8) * unit(accumulator(dtype(x))) + 2 * unit(dtype(x))) * bound);
  }

  void matmul() {
    if (random_.chance(0.3)) return grouped_matmul();
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

  std::set<std::int32_t> updated_;
  RandomGraph out_;
};

}  // namespace

RandomGraph random_graph_with_tolerances(std::uint64_t seed) { return Maker(seed).make(); }
Graph random_graph(std::uint64_t seed) { return random_graph_with_tolerances(seed).graph; }

}  // namespace loopwright::test
