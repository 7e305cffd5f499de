// Row normalisations and an elementwise chain against Eigen and against copying the same bytes.
#include <Eigen/Dense>
#include <immintrin.h>

#include <cmath>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "bench/support/contest.h"

namespace {

using namespace loopwright;
using Array = Eigen::Array<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using ArrayMap = Eigen::Map<Array>;
using ConstArrayMap = Eigen::Map<const Array>;

constexpr int kRows = 4096, kColumns = 4096;

std::vector<float> draw(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.1F, 1.0F);
  std::vector<float> out(count);
  for (float& x : out) x = normal(random);
  return out;
}

/// Eigen's expressions run on one thread: the rows are shared out as a careful user would.
void for_row_blocks(int rows, const std::function<void(int, int)>& block) {
  const int workers = host_target().workers;
  std::vector<std::thread> threads;
  for (int w = 1; w < workers; ++w) threads.emplace_back(block, rows * w / workers, rows * (w + 1) / workers);
  block(0, rows / workers);
  for (std::thread& t : threads) t.join();
}

/// Copies floats by all workers with `copy(to, from, count)`.
template <class Copy>
void copy_floats(std::vector<float>& to, const std::vector<float>& from, const Copy& copy) {
  constexpr std::size_t kPieces = 64;
  const std::size_t piece = from.size() / kPieces;
  for_row_blocks(kPieces, [&](int begin, int end) {
    const std::size_t first = piece * static_cast<std::size_t>(begin);
    copy(to.data() + first, from.data() + first, piece * static_cast<std::size_t>(end - begin));
  });
}

void copy_cached(float* to, const float* from, std::size_t count) { std::memcpy(to, from, count * sizeof(float)); }

/// The least that memory allows: stores that do not read the lines they fill.
void copy_streamed(float* to, const float* from, std::size_t count) {
  std::size_t i = 0;
  for (; i < count && reinterpret_cast<std::uintptr_t>(to + i) % 16 != 0; ++i) to[i] = from[i];
  for (; i + 4 <= count; i += 4) _mm_stream_ps(to + i, _mm_loadu_ps(from + i));
  for (; i < count; ++i) to[i] = from[i];
  _mm_sfence();
}

/// Both ways to copy, as contenders: what the least traffic costs.
std::vector<bench::Contender> make_copies(std::vector<float>& to, const std::vector<float>& from) {
  return {{"memcpy of the same bytes", [&] { copy_floats(to, from, copy_cached); }},
          {"copy with streamed stores", [&] { copy_floats(to, from, copy_streamed); }}};
}

struct RowCase {
  std::string name, graph;
  bool has_weight, has_bias;
  std::function<void(const ConstArrayMap& x, const float* w, const float* b, ArrayMap y, int begin, int end)>
      eigen;
  std::function<void(const double* x, const float* w, const float* b, double* y)> reference;  ///< one row
};

void softmax_eigen(const ConstArrayMap& x, const float*, const float*, ArrayMap y, int begin, int end) {
  for (int i = begin; i < end; ++i) {
    y.row(i) = (x.row(i) - x.row(i).maxCoeff()).exp();
    y.row(i) *= 1.0F / y.row(i).sum();
  }
}

void layer_norm_eigen(const ConstArrayMap& x, const float* w, const float* b, ArrayMap y, int begin,
                      int end) {
  const Eigen::Map<const Eigen::Array<float, 1, Eigen::Dynamic>> weight(w, kColumns), bias(b, kColumns);
  for (int i = begin; i < end; ++i) {
    const float mean = x.row(i).mean();
    const float variance = (x.row(i) - mean).square().mean();
    y.row(i) = (x.row(i) - mean) * (1.0F / std::sqrt(variance + 1e-5F)) * weight + bias;
  }
}

void rms_norm_eigen(const ConstArrayMap& x, const float* w, const float*, ArrayMap y, int begin, int end) {
  const Eigen::Map<const Eigen::Array<float, 1, Eigen::Dynamic>> weight(w, kColumns);
  for (int i = begin; i < end; ++i)
    y.row(i) = x.row(i) * (1.0F / std::sqrt(x.row(i).square().mean() + 1e-5F)) * weight;
}

void softmax_reference(const double* x, const float*, const float*, double* y) {
  double largest = x[0], sum = 0;
  for (int j = 0; j < kColumns; ++j) largest = std::max(largest, x[j]);
  for (int j = 0; j < kColumns; ++j) sum += y[j] = std::exp(x[j] - largest);
  for (int j = 0; j < kColumns; ++j) y[j] /= sum;
}

void layer_norm_reference(const double* x, const float* w, const float* b, double* y) {
  double mean = 0, variance = 0;
  for (int j = 0; j < kColumns; ++j) mean += x[j] / kColumns;
  for (int j = 0; j < kColumns; ++j) variance += (x[j] - mean) * (x[j] - mean) / kColumns;
  for (int j = 0; j < kColumns; ++j) y[j] = (x[j] - mean) / std::sqrt(variance + 1e-5) * w[j] + b[j];
}

void rms_norm_reference(const double* x, const float* w, const float*, double* y) {
  double square = 0;
  for (int j = 0; j < kColumns; ++j) square += x[j] * x[j] / kColumns;
  for (int j = 0; j < kColumns; ++j) y[j] = x[j] / std::sqrt(square + 1e-5) * w[j];
}

void compare_rows(bench::Contest& contest, const bench::Options& options, const RowCase& c) {
  const std::string size = "f32[" + std::to_string(kRows) + ", " + std::to_string(kColumns) + "]";
  const std::string row = "f32[" + std::to_string(kColumns) + "]";
  std::string text = "graph bench_" + c.name + "\ninput x: " + size + "\n";
  if (c.has_weight) text += "input w: " + row + "\n";
  if (c.has_bias) text += "input b: " + row + "\n";
  const Plan plan = bench::tune_and_look_up(text + c.graph + "\noutput y\n", options);
  const std::size_t count = std::size_t{kRows} * kColumns;
  std::vector<float> x = draw(count, 1), w = draw(kColumns, 2), b = draw(kColumns, 3), y(count), eigen(count);
  std::vector<void*> pointers = {x.data()};
  if (c.has_weight) pointers.push_back(w.data());
  if (c.has_bias) pointers.push_back(b.data());
  pointers.push_back(y.data());
  const auto ours = [&] { plan.launch(pointers.data(), nullptr); };
  ours();
  std::vector<double> reference(count);
  for (int i = 0; i < kRows; ++i) {
    const std::vector<double> wide(x.begin() + std::ptrdiff_t{i} * kColumns,
                                   x.begin() + std::ptrdiff_t{i + 1} * kColumns);
    c.reference(wide.data(), w.data(), b.data(), reference.data() + std::size_t(i) * kColumns);
  }
  const double error = bench::max_relative_error(y.data(), reference);
  const ConstArrayMap input(x.data(), kRows, kColumns);
  const auto run_eigen = [&] {
    for_row_blocks(kRows, [&](int begin, int end) {
      c.eigen(input, w.data(), b.data(), ArrayMap(eigen.data(), kRows, kColumns), begin, end);
    });
  };
  contest.add(c.name + " " + size, ours, {{"Eigen, rows over all workers", run_eigen}}, error, 2.0);
  contest.add(c.name + " " + size, ours, make_copies(eigen, x), error, 1 / 1.3);
}

void compare_chain(bench::Contest& contest, const bench::Options& options) {
  constexpr std::size_t kCount = std::size_t{64} << 20 >> 2;  // 64 MB of f32
  const Plan plan = bench::tune_and_look_up("graph bench_chain\ninput x: f32[" + std::to_string(kCount) +
                                                "]\ny = mul(add(max(sub(mul(add(mul(x, 1.5), 0.25), x), "
                                                "0.5), -1.0), 2.0), 0.125)\nz = add(y, x)\noutput z\n",
                                            options);
  std::vector<float> x = draw(kCount, 1), y(kCount), other(kCount);
  void* pointers[] = {x.data(), y.data()};
  const auto ours = [&] { plan.launch(pointers, nullptr); };
  ours();
  std::vector<double> reference;
  for (const double v : x)
    reference.push_back((std::max((v * 1.5 + 0.25) * v - 0.5, -1.0) + 2.0) * 0.125 + v);
  contest.add("chain of 8 ops, 64 MB", ours, make_copies(other, x), bench::max_relative_error(y.data(), reference), 1 / 1.2);
}

}  // namespace

int main(int argc, char** argv) {
  const bench::Options options = bench::Options::parse(argc, argv);
  bench::Contest contest("cpu_rows", options);
  compare_rows(contest, options,
               {"softmax", "y = softmax(x, axis=-1)", false, false, softmax_eigen, softmax_reference});
  compare_rows(contest, options,
               {"layer_norm", "y = layer_norm(x, w, b, eps=1e-5)", true, true, layer_norm_eigen,
                layer_norm_reference});
  compare_rows(contest, options,
               {"rms_norm", "y = rms_norm(x, w, eps=1e-5)", true, false, rms_norm_eigen, rms_norm_reference});
  compare_chain(contest, options);
  contest.finish();
}
