// The dice and the bookkeeping of random graphs: values with their bounds and errors, and ops that keep them.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "tests/support/graph_data.h"

namespace loopwright::test {

inline constexpr double kLargest = 200;         // keeps f16 far from its limit
inline constexpr std::int64_t kElements = 240;  // of any tensor, with all symbols at kRandomGraphSymbol

/// What is known of a value: |value| <= bound, two faithful kernels differ by at most `error`.
struct Known {
  Value v;
  double bound = 2;
  double error = 0;
  bool exact() const { return error == 0; }
};

inline double unit(DType d) {
  return d == DType::f16    ? 0x1p-11
         : d == DType::bf16 ? 0x1p-8
         : d == DType::f32  ? 0x1p-24
         : d == DType::f64  ? 0x1p-53
                            : 0;
}
/// A graph in the making. The order of the draws is written out everywhere, so that every compiler makes the same graph.
class RandomValues {
 protected:
  explicit RandomValues(std::uint64_t seed) : random_(seed), g_("random" + std::to_string(seed)) {}

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

  Random random_;
  Graph g_;
  std::vector<Dim> symbols_;
  std::vector<Known> known_;
  int inputs_ = 0;
};

}  // namespace loopwright::test
