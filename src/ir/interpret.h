// Runs a kernel of any level slowly and checks everything: the oracle of all tests.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "src/ir/kernel.h"

namespace loopwright::ir {

/// A tensor in memory: `data` holds `strides`-addressed elements of `dtype`.
struct Array {
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  ///< elements
  std::vector<std::uint8_t> data;
  /// Dense, zero filled.
  static Array dense(DType dtype, std::vector<std::int64_t> shape);
  std::int64_t element_count() const;
  double get(const std::vector<std::int64_t>& index) const;
  void set(const std::vector<std::int64_t>& index, double value);
  std::int64_t get_int(const std::vector<std::int64_t>& index) const;
  void set_int(const std::vector<std::int64_t>& index, std::int64_t value);
};

struct InterpretOptions {
  bool check_races = true;
  bool check_uninitialised = true;
  std::uint64_t max_steps = 1ull << 33;  ///< statements executed before giving up (timeout)
};

/// Runs `k` on `arguments` (by parameter name; outputs are written in place, and count as uninitialised before).
/// out_of_bounds, nondeterministic (a race or an uninitialised read), wrong_arguments, timeout. Errors mark the place.
Status interpret(const Kernel& k, const Bindings& symbols, std::map<std::string, Array>& arguments,
                 const InterpretOptions& options = {});

/// Exact conversions between stored bits and double, as the IR defines casts (f16, bf16 round to nearest even).
double load_element(DType dtype, const std::uint8_t* bytes);
void store_element(DType dtype, std::uint8_t* bytes, double value);
/// The same for integers, exact for i64.
std::int64_t load_integer(DType dtype, const std::uint8_t* bytes);
void store_integer(DType dtype, std::uint8_t* bytes, std::int64_t value);

}  // namespace loopwright::ir
