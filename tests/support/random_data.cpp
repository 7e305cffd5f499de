#include "tests/support/random_data.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "src/ir/rewrite.h"
#include "src/ir/text.h"

namespace loopwright::test {

namespace {

std::int64_t evaluate(const ir::Expr& e, const ir::Kernel& k, const Bindings& symbols) {
  const auto size = ir::to_size_expr(e, k.symbols);
  LW_BUG_IF(!size, "a parameter has a shape that is no size: " + ir::print(e));
  std::vector<std::int64_t> values;
  for (const ir::SymbolParam& s : k.symbols) {
    const auto it = symbols.find(s.symbol.name);
    LW_BUG_IF(it == symbols.end(), "no value for symbol " + s.symbol.name);
    values.push_back(it->second);
  }
  values.push_back(0);  // data() of an empty vector may be null
  return size->evaluate(values.data());
}

ir::Array make_array(const ir::Param& p, const ir::Kernel& k, const Bindings& symbols) {
  std::vector<std::int64_t> shape;
  for (const ir::Expr& e : p.buffer->shape) shape.push_back(evaluate(e, k, symbols));
  ir::Array array = ir::Array::dense(p.buffer->dtype, shape);
  if (p.buffer->strides.empty()) return array;
  array.strides.clear();
  std::int64_t last = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    array.strides.push_back(evaluate(p.buffer->strides[d], k, symbols));
    last += array.strides[d] * std::max<std::int64_t>(0, shape[d] - 1);
  }
  array.data.assign(static_cast<std::size_t>(last + 1) * static_cast<std::size_t>(size_bytes(array.dtype)),
                    0);
  return array;
}

void fill(ir::Array& array, std::mt19937_64& random) {
  const std::size_t bytes = static_cast<std::size_t>(size_bytes(array.dtype));
  std::uniform_real_distribution<double> real(-0.75, 1.75);
  for (std::size_t at = 0; at + bytes <= array.data.size(); at += bytes) {
    double value = real(random);
    if (array.dtype == DType::boolean) value = value > 0.5 ? 1 : 0;
    else if (is_integer(array.dtype)) value = static_cast<double>(random() % 4);
    ir::store_element(array.dtype, array.data.data() + at, value);
  }
}

bool is_close(double a, double b, const Tolerance& t) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (a == b) return std::signbit(a) == std::signbit(b) || t.relative > 0 || t.signless_zero;
  return std::abs(a - b) <= t.relative * std::max({std::abs(a), std::abs(b), t.floor});
}

/// Of an output whose value may come through any of the kernel's own buffers: the widest of theirs, or what tf32 loses.
Tolerance regrouped_in(const ir::Kernel& k, DType output) {
  Tolerance widest = regrouped(output);
  if (!is_float(output)) return widest;
  if (k.accuracy == Accuracy::tf32)
    widest = {std::max(widest.relative, 1e-3), 8};  // sums near zero lose as much as others
  ir::walk(
      k.body,
      [&](const ir::Stmt& s) {
        const auto* alloc = ir::as<ir::Alloc>(s);
        if (alloc == nullptr || !is_float(alloc->buffer->dtype)) return;
        const Tolerance own = regrouped(alloc->buffer->dtype);
        if (own.relative > widest.relative) widest = own;
      },
      [](const ir::Expr&) {});
  return widest;
}

}  // namespace

Arguments random_arguments(const ir::Kernel& k, const Bindings& symbols, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Arguments out;
  for (const ir::Param& p : k.params) {
    ir::Array array = make_array(p, k, symbols);
    if (p.role != ArgRole::output) fill(array, random);
    out.emplace(p.buffer->name, std::move(array));
  }
  return out;
}

Tolerance regrouped(DType dtype) {
  switch (dtype) {
    case DType::f64: return {1e-11, 1};
    case DType::f32: return {1e-4, 1};
    case DType::f16: return {1e-2, 1};
    case DType::bf16: return {6e-2, 1};
    default: return {0, 1};
  }
}

Result<Arguments> interpret_copy(const ir::Kernel& k, const Bindings& symbols, const Arguments& arguments) {
  Arguments copy = arguments;
  LW_CHECK(ir::interpret(k, symbols, copy));
  return copy;
}

std::optional<std::string> find_difference(const ir::Kernel& k, const Arguments& expected,
                                           const Arguments& found, bool may_regroup, bool signless_zero) {
  for (const ir::Param& p : k.params) {
    if (p.role == ArgRole::input) continue;
    const ir::Array &a = expected.at(p.buffer->name), &b = found.at(p.buffer->name);
    Tolerance tolerance = may_regroup ? regrouped_in(k, a.dtype) : Tolerance{};
    tolerance.signless_zero = signless_zero;
    const std::size_t bytes = static_cast<std::size_t>(size_bytes(a.dtype));
    for (std::size_t at = 0; at + bytes <= a.data.size(); at += bytes) {
      const double x = ir::load_element(a.dtype, a.data.data() + at),
                   y = ir::load_element(b.dtype, b.data.data() + at);
      if (is_close(x, y, tolerance)) continue;
      return p.buffer->name + " at element " + std::to_string(at / bytes) + ": expected " +
             std::to_string(x) + ", found " + std::to_string(y);
    }
  }
  return std::nullopt;
}

}  // namespace loopwright::test
