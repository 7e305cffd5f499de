// Values inside the reference: whole dense tensors of doubles or int64, and what the op files share.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "loopwright/graph.h"

namespace loopwright::test {

using Sizes = std::vector<std::int64_t>;

/// Row-major. Floats live in `real`, integers and bool in `whole`; the other is empty.
struct Tensor {
  DType dtype = DType::f32;
  Sizes shape;
  std::vector<double> real;
  std::vector<std::int64_t> whole;

  Tensor() = default;
  Tensor(DType dtype, Sizes shape);  ///< zeros
  bool holds_reals() const { return is_float(dtype); }
  std::int64_t count() const;
  std::int64_t offset(const Sizes& index) const;
  /// Copies one element, of the same dtype.
  void copy(std::int64_t to, const Tensor& from, std::int64_t at);
};

/// One op with everything it needs.
struct Job {
  const Node& node;
  std::vector<const Tensor*> in;
  const Bindings& bindings;
  Tensor out;  ///< zeros, of the node's dtype and shape
  bool round_casts = false;

  const Attribute* find(const std::string& name) const;
  std::int64_t integer(const std::string& name, std::int64_t otherwise = 0) const;
  bool flag(const std::string& name) const;
  Sizes integers(const std::string& name) const;
  Sizes dims(const std::string& name) const;
};

/// Calls `f` with every index of `shape`, in row-major order.
void for_each_index(const Sizes& shape, const std::function<void(const Sizes&)>& f);
/// An integer as `dtype` stores it.
std::int64_t wrap_to(DType dtype, std::int64_t value);
double round_float(DType dtype, double value);

// Each returns false when the op is not one of its kind.
bool run_pointwise(Job& job);
bool run_movement(Job& job);
bool run_reduction(Job& job);

}  // namespace loopwright::test
