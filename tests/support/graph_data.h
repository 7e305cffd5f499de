// Input tensors with random contents, and values for symbols.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "loopwright/graph.h"
#include "src/ir/interpret.h"

namespace loopwright::test {

/// SplitMix64: the same numbers everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  /// In [lo, hi].
  std::int64_t between(std::int64_t lo, std::int64_t hi);
  double real(double lo, double hi);
  bool chance(double probability) { return real(0, 1) < probability; }

 private:
  std::uint64_t state_;
};

/// A strided array of `type` with random contents: floats in [-2, 2] rounded to the dtype, integers in [-9, 9] (u8: 0 to
/// 18), bools. Elements that no index reaches hold other random bits.
ir::Array random_array(const TensorType& type, const Bindings& bindings, Random& random);
/// One for each input of the graph, by name.
std::map<std::string, ir::Array> random_inputs(const Graph& g, const Bindings& bindings, std::uint64_t seed);
/// A value for each symbol, small where the range allows: at most `largest`, or the symbol's lower bound.
Bindings small_bindings(const Graph& g, std::uint64_t seed, std::int64_t largest = 5);
/// Inputs, and zero-filled outputs by name: what interpret takes for the graph's naive kernel.
std::map<std::string, ir::Array> kernel_arguments(const Graph& g, const Bindings& bindings,
                                                  const std::map<std::string, ir::Array>& inputs);

}  // namespace loopwright::test
