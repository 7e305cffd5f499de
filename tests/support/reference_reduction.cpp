// Reductions, running sums and products of the reference.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/reference_tensor.h"

namespace loopwright::test {
namespace {

/// For every element of the result the elements of operand 0 that it stands for, in row-major order.
std::vector<std::vector<std::int64_t>> find_members(const Job& job) {
  const Sizes axes = job.integers("axes");
  const bool keepdim = job.flag("keepdim");
  std::vector<std::vector<std::int64_t>> members(job.out.count());
  for_each_index(job.in[0]->shape, [&, at = std::int64_t{0}](const Sizes& index) mutable {
    Sizes outer;
    for (std::size_t d = 0; d < index.size(); ++d) {
      const bool reduced = std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(d)) != axes.end();
      if (!reduced) outer.push_back(index[d]);
      else if (keepdim) outer.push_back(0);
    }
    members[job.out.offset(outer)].push_back(at++);
  });
  return members;
}

double fold_reals(const std::string& op, const Tensor& x, const std::vector<std::int64_t>& members,
                  std::int64_t correction) {
  double sum = 0, product = 1;
  double most = -std::numeric_limits<double>::infinity(), least = std::numeric_limits<double>::infinity();
  bool has_nan = false;
  for (std::int64_t at : members) {
    const double v = x.real[at];
    sum += v;
    product *= v;
    has_nan = has_nan || std::isnan(v);
    most = std::max(most, v);
    least = std::min(least, v);
  }
  const auto count = static_cast<double>(members.size());
  if (op == "sum") return sum;
  if (op == "mean") return sum / count;
  if (op == "product") return product;
  if (op == "reduce_max") return has_nan ? std::nan("") : most;
  if (op == "reduce_min") return has_nan ? std::nan("") : least;
  double squares = 0;  // variance, in two passes
  for (std::int64_t at : members) squares += (x.real[at] - sum / count) * (x.real[at] - sum / count);
  return squares / std::max(count - static_cast<double>(correction), 0.0);
}

std::int64_t fold_wholes(const std::string& op, const Tensor& x, const std::vector<std::int64_t>& members) {
  std::uint64_t sum = 0, product = 1;
  const int bits = size_bytes(x.dtype) * 8;
  std::int64_t most = x.dtype == DType::u8 ? 0 : std::numeric_limits<std::int64_t>::min() >> (64 - bits);
  std::int64_t least = x.dtype == DType::u8 ? 255 : std::numeric_limits<std::int64_t>::max() >> (64 - bits);
  bool any = false, all = true;
  for (std::int64_t at : members) {
    const std::int64_t v = x.whole[at];
    sum += static_cast<std::uint64_t>(v);
    product *= static_cast<std::uint64_t>(v);
    most = std::max(most, v);
    least = std::min(least, v);
    any = any || v != 0;
    all = all && v != 0;
  }
  if (op == "sum") return static_cast<std::int64_t>(sum);
  if (op == "product") return static_cast<std::int64_t>(product);
  if (op == "reduce_max") return most;
  if (op == "reduce_min") return least;
  return op == "any" ? any : all;
}

/// Position among the members of the first NaN, else of the first largest (smallest).
std::int64_t find_extreme(const Tensor& x, const std::vector<std::int64_t>& members, bool largest) {
  std::size_t best = 0;
  for (std::size_t k = 0; k < members.size(); ++k) {
    if (x.holds_reals()) {
      const double v = x.real[members[k]], b = x.real[members[best]];
      if (std::isnan(v)) return static_cast<std::int64_t>(k);
      if (largest ? v > b : v < b) best = k;
    } else {
      const std::int64_t v = x.whole[members[k]], b = x.whole[members[best]];
      if (largest ? v > b : v < b) best = k;
    }
  }
  return static_cast<std::int64_t>(best);
}

bool run_fold(Job& job) {
  const std::string& op = job.node.op;
  const bool is_arg = op == "argmax" || op == "argmin";
  if (!is_arg && op != "sum" && op != "mean" && op != "product" && op != "reduce_max" && op != "reduce_min" &&
      op != "any" && op != "all" && op != "variance")
    return false;
  const Tensor& x = *job.in[0];
  const auto members = find_members(job);
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (is_arg) job.out.whole[i] = find_extreme(x, members[i], op == "argmax");
    else if (x.holds_reals()) job.out.real[i] = fold_reals(op, x, members[i], job.integer("correction", 1));
    else job.out.whole[i] = wrap_to(job.out.dtype, fold_wholes(op, x, members[i]));
  }
  return true;
}

void run_matmul(Job& job) {
  const Tensor &a = *job.in[0], &b = *job.in[1];
  const bool ta = job.flag("transpose_a"), tb = job.flag("transpose_b");
  const std::int64_t length = a.shape[a.shape.size() - (ta ? 2 : 1)];
  auto at = [](const Tensor& t, const Sizes& index, std::int64_t row, std::int64_t column) {
    const std::size_t batch = t.shape.size() - 2, skip = index.size() - t.shape.size();
    Sizes source;
    for (std::size_t d = 0; d < batch; ++d) source.push_back(t.shape[d] == 1 ? 0 : index[skip + d]);
    source.push_back(row);
    source.push_back(column);
    return t.offset(source);
  };
  for_each_index(job.out.shape, [&, to = std::int64_t{0}](const Sizes& index) mutable {
    const std::int64_t m = index[index.size() - 2], n = index.back();
    double real = 0;
    std::uint64_t whole = 0;
    for (std::int64_t k = 0; k < length; ++k) {
      const std::int64_t i = ta ? at(a, index, k, m) : at(a, index, m, k),
                         j = tb ? at(b, index, n, k) : at(b, index, k, n);
      if (a.holds_reals()) real += a.real[i] * b.real[j];
      else whole += static_cast<std::uint64_t>(a.whole[i]) * static_cast<std::uint64_t>(b.whole[j]);
    }
    if (a.holds_reals()) job.out.real[to++] = real;
    else job.out.whole[to++] = wrap_to(job.out.dtype, static_cast<std::int64_t>(whole));
  });
}

void run_group_of(Job& job) {
  const Tensor& ends = *job.in[0];
  for (std::int64_t row = 0; row < job.out.count(); ++row) {
    std::int64_t group = 0;
    while (group < ends.count() && ends.whole[group] <= row) ++group;
    job.out.whole[row] = group;
  }
}

void run_matmul_at(Job& job) {
  const Tensor &x = *job.in[0], &w = *job.in[1], &at = *job.in[2];
  const bool transposed = job.flag("transpose_b");
  const std::int64_t rows = x.shape[0], length = x.shape[1], columns = job.out.shape[1];
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t which = at.whole[r];
    if (which < 0 || which >= w.shape[0]) continue;
    for (std::int64_t n = 0; n < columns; ++n) {
      double real = 0;
      std::uint64_t whole = 0;
      for (std::int64_t k = 0; k < length; ++k) {
        const std::int64_t i = r * length + k, j = (which * w.shape[1] + (transposed ? n : k)) * w.shape[2] + (transposed ? k : n);
        if (x.holds_reals()) real += x.real[i] * w.real[j];
        else whole += static_cast<std::uint64_t>(x.whole[i]) * static_cast<std::uint64_t>(w.whole[j]);
      }
      if (x.holds_reals()) job.out.real[r * columns + n] = real;
      else job.out.whole[r * columns + n] = wrap_to(job.out.dtype, static_cast<std::int64_t>(whole));
    }
  }
}

void run_cumulative_sum(Job& job) {
  const auto axis = static_cast<std::size_t>(job.integer("axis"));
  const Tensor& x = *job.in[0];
  Tensor sums = x;  // integers run in int64 and are narrowed at the end
  for_each_index(x.shape, [&, at = std::int64_t{0}](const Sizes& index) mutable {
    const std::int64_t here = at++;
    if (index[axis] == 0) return;
    Sizes before = index;
    --before[axis];
    const std::int64_t from = x.offset(before);
    if (x.holds_reals()) sums.real[here] += sums.real[from];
    else
      sums.whole[here] = static_cast<std::int64_t>(static_cast<std::uint64_t>(sums.whole[here]) +
                                                   static_cast<std::uint64_t>(sums.whole[from]));
  });
  job.out.real = sums.real;
  for (std::size_t i = 0; i < sums.whole.size(); ++i)
    job.out.whole[i] = wrap_to(job.out.dtype, sums.whole[i]);
}

}  // namespace

bool run_reduction(Job& job) {
  if (job.node.op == "matmul") return run_matmul(job), true;
  if (job.node.op == "group_of") return run_group_of(job), true;
  if (job.node.op == "matmul_at") return run_matmul_at(job), true;
  if (job.node.op == "cumulative_sum") return run_cumulative_sum(job), true;
  return run_fold(job);
}

}  // namespace loopwright::test
