#include "tests/support/graph_data.h"

#include <algorithm>

namespace loopwright::test {

std::uint64_t Random::next() {
  std::uint64_t z = state_ += 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

std::int64_t Random::between(std::int64_t lo, std::int64_t hi) {
  const std::uint64_t width = static_cast<std::uint64_t>(hi) - static_cast<std::uint64_t>(lo) + 1;
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(lo) + (width == 0 ? next() : next() % width));
}

double Random::real(double lo, double hi) {
  return lo + (hi - lo) * (static_cast<double>(next() >> 11) * 0x1p-53);
}

namespace {

std::vector<std::int64_t> values_of(const std::vector<Dim>& dims, const Bindings& bindings) {
  std::vector<std::int64_t> out;
  for (const Dim& dim : dims) out.push_back(dim.evaluate(bindings).value());
  return out;
}

double random_element(DType dtype, Random& random) {
  if (dtype == DType::boolean) return static_cast<double>(random.between(0, 1));
  if (is_float(dtype)) return random.real(-2, 2);
  return static_cast<double>(dtype == DType::u8 ? random.between(0, 18) : random.between(-9, 9));
}

}  // namespace

ir::Array random_array(const TensorType& type, const Bindings& bindings, Random& random) {
  ir::Array out = ir::Array::dense(type.dtype, values_of(type.shape, bindings));
  if (!type.strides.empty()) out.strides = values_of(type.strides, bindings);
  std::int64_t span = 1;
  for (std::size_t d = 0; d < out.shape.size(); ++d) {
    if (out.shape[d] == 0) span = 0;
    else if (span > 0) span += (out.shape[d] - 1) * out.strides[d];
  }
  const int width = size_bytes(type.dtype);
  out.data.assign(static_cast<std::size_t>(span * width), 0);
  for (std::int64_t at = 0; at < span; ++at)
    ir::store_element(type.dtype, out.data.data() + at * width, random_element(type.dtype, random));
  return out;
}

std::map<std::string, ir::Array> random_inputs(const Graph& g, const Bindings& bindings, std::uint64_t seed) {
  Random random(seed * 2 + 1);
  std::map<std::string, ir::Array> out;
  for (Value v : g.inputs()) out[g.node(v).name] = random_array(g.type(v), bindings, random);
  return out;
}

Bindings small_bindings(const Graph& g, std::uint64_t seed, std::int64_t largest) {
  Random random(seed ^ 0x5eed);
  Bindings out;
  for (const Symbol& s : g.symbols())
    out[s.name] = random.between(s.lo, std::max(s.lo, std::min(s.hi, largest)));
  return out;
}

std::map<std::string, ir::Array> kernel_arguments(const Graph& g, const Bindings& bindings,
                                                  const std::map<std::string, ir::Array>& inputs) {
  std::map<std::string, ir::Array> out = inputs;
  for (const Graph::Output& output : g.outputs()) {
    const TensorType& type = g.type(output.value);
    out[output.name] = ir::Array::dense(type.dtype, values_of(type.shape, bindings));
  }
  return out;
}

}  // namespace loopwright::test
