// Matrix products against Eigen and OpenBLAS, both with as many threads as the machine has workers.
#include <cblas.h>

#include <Eigen/Dense>
#include <cstring>
#include <random>
#include <vector>

#include "bench/support/contest.h"

namespace {

using namespace loopwright;
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using MatrixMap = Eigen::Map<Matrix>;

std::vector<float> draw(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.1F, 1.0F);
  std::vector<float> out(static_cast<std::size_t>(count));
  for (float& x : out) x = normal(random);
  return out;
}

std::uint16_t to_bf16(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, 4);
  return static_cast<std::uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

float from_bf16(std::uint16_t x) {
  const std::uint32_t bits = std::uint32_t{x} << 16;
  float out;
  std::memcpy(&out, &bits, 4);
  return out;
}

std::vector<double> multiply_in_double(const std::vector<float>& a, const std::vector<float>& b, int m, int n,
                                       int k) {
  const Eigen::MatrixXd c = Eigen::Map<const Matrix>(a.data(), m, k).cast<double>() *
                            Eigen::Map<const Matrix>(b.data(), k, n).cast<double>();
  std::vector<double> out(static_cast<std::size_t>(m) * n);
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) out[static_cast<std::size_t>(i) * n + j] = c(i, j);
  return out;
}

void compare_f32(bench::Contest& contest, const bench::Options& options, int m, int n, int k) {
  const std::string shape = std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
  const Plan plan = bench::tune_and_look_up(
      "graph matmul_f32_" + std::to_string(m) + "_" + std::to_string(n) + "_" + std::to_string(k) +
          "\ninput a: f32[" + std::to_string(m) + ", " + std::to_string(k) + "]\ninput b: f32[" +
          std::to_string(k) + ", " + std::to_string(n) + "]\nc = matmul(a, b)\noutput c\n",
      options);
  std::vector<float> a = draw(std::int64_t{m} * k, 1), b = draw(std::int64_t{k} * n, 2),
                     c(static_cast<std::size_t>(m) * n);
  Matrix eigen(m, n);
  std::vector<float> blas(c.size());
  void* pointers[] = {a.data(), b.data(), c.data()};
  const auto ours = [&] { plan.launch(pointers, nullptr); };
  ours();
  const double error = bench::max_relative_error(c.data(), multiply_in_double(a, b, m, n, k));
  contest.add("f32 " + shape, ours,
              {{"Eigen", [&] { eigen.noalias() = MatrixMap(a.data(), m, k) * MatrixMap(b.data(), k, n); }},
               {"OpenBLAS",
                [&] {
                  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1.0F, a.data(), k, b.data(),
                              n, 0.0F, blas.data(), n);
                }}},
              error, 0.85);
}

void compare_bf16(bench::Contest& contest, const bench::Options& options, int m, int n, int k) {
  const std::string shape = std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
  const Plan plan = bench::tune_and_look_up(
      "graph matmul_bf16_" + std::to_string(m) + "_" + std::to_string(n) + "_" + std::to_string(k) +
          "\ninput a: bf16[" + std::to_string(m) + ", " + std::to_string(k) + "]\ninput b: bf16[" +
          std::to_string(k) + ", " + std::to_string(n) + "]\nc = matmul(a, b)\noutput c\n",
      options);
  std::vector<float> a = draw(std::int64_t{m} * k, 1), b = draw(std::int64_t{k} * n, 2);
  std::vector<std::uint16_t> a16, b16, c16(static_cast<std::size_t>(m) * n), eigen16(c16.size());
  for (float& x : a) a16.push_back(to_bf16(x)), x = from_bf16(a16.back());
  for (float& x : b) b16.push_back(to_bf16(x)), x = from_bf16(b16.back());
  Matrix wide_a(m, k), wide_b(k, n), wide_c(m, n);
  void* pointers[] = {a16.data(), b16.data(), c16.data()};
  const auto ours = [&] { plan.launch(pointers, nullptr); };
  ours();
  std::vector<float> c;
  for (std::uint16_t x : c16) c.push_back(from_bf16(x));
  const double error = bench::max_relative_error(c.data(), multiply_in_double(a, b, m, n, k));
  contest.add("bf16 " + shape, ours,
              {{"convert + Eigen f32 + convert",
                [&] {
                  for (std::size_t i = 0; i < a16.size(); ++i) wide_a.data()[i] = from_bf16(a16[i]);
                  for (std::size_t i = 0; i < b16.size(); ++i) wide_b.data()[i] = from_bf16(b16[i]);
                  wide_c.noalias() = wide_a * wide_b;
                  for (std::size_t i = 0; i < eigen16.size(); ++i) eigen16[i] = to_bf16(wide_c.data()[i]);
                }}},
              error, 2.0);
}

}  // namespace

int main(int argc, char** argv) {
  const bench::Options options = bench::Options::parse(argc, argv);
  Eigen::setNbThreads(host_target().workers);
  openblas_set_num_threads(host_target().workers);
  bench::Contest contest("cpu_matmul", options);
  compare_f32(contest, options, 1024, 1024, 1024);
  compare_f32(contest, options, 512, 256, 3584);
  compare_f32(contest, options, 512, 3584, 256);
  compare_bf16(contest, options, 1024, 1024, 1024);
  compare_bf16(contest, options, 512, 256, 3584);
  contest.finish();
}
