// Products of f32 in bf16 parts: what the parts are, by the interpreter; and what comes of them on tensor cores, which
// truncate, by a model of these.
#include "src/schedule/steps/separate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "src/ir/arithmetic.h"
#include "src/ir/interpret.h"
#include "src/ir/text.h"
#include "src/schedule/trace.h"

namespace loopwright::schedule {
namespace {

constexpr std::int64_t kLength = 64;

enum class Way { guarded, rechecked, mixed };  ///< mixed: x is bf16, and rechecked

/// y[i] = the sum over r of x[i, r]*w[r], separated at blocks of 32 summands.
ir::Kernel make_separated(Way way) {
  const std::string x = way == Way::mixed ? "bf16" : "f32", load = way == Way::mixed ? "f32(x[i, r_o*32 + r])" : "x[i, r_o*32 + r]";
  const auto naive = ir::parse_kernel("kernel dot(x: " + x + R"([1, 64] in, w: f32[64] in, y: f32[1] out)
  level scheduled
  for i in 0..1
    alloc acc: f32[1] registers
    acc[0] = 0.0f32
    for r_o in 0..2
      for r in 0..32
        update sum acc[0] by )" + load + R"(*w[r_o*32 + r]
    y[i] = acc[0]
)");
  LW_BUG_IF(!naive.ok(), naive.error().message());
  auto separated = replay(*naive, "trace 1\nseparate r_o" + std::string(way == Way::guarded ? "" : " rechecked") + "\n");
  LW_BUG_IF(!separated.ok(), separated.error().message());
  return *separated;
}

double run(const std::vector<double>& x, const std::vector<double>& w, Way way = Way::guarded) {
  std::map<std::string, ir::Array> arguments{{"x", ir::Array::dense(way == Way::mixed ? DType::bf16 : DType::f32, {1, kLength})}, {"w", ir::Array::dense(DType::f32, {kLength})}, {"y", ir::Array::dense(DType::f32, {1})}};
  for (std::int64_t r = 0; r < kLength; ++r) {
    arguments["x"].set({0, r}, x[static_cast<std::size_t>(r)]);
    arguments["w"].set({r}, w[static_cast<std::size_t>(r)]);
  }
  const Status status = ir::interpret(make_separated(way), {}, arguments);
  EXPECT_TRUE(status.ok()) << status.error().message();
  return arguments["y"].get({0});
}

/// x at one place, w everywhere.
double product(double x, double w, Way way = Way::guarded) {
  std::vector<double> xs(kLength, 0), ws(kLength, w);
  xs[40] = x;
  return run(xs, ws, way);
}

constexpr Way kWays[] = {Way::guarded, Way::rechecked, Way::mixed};

TEST(Separate, products_are_those_of_f32) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> any(-2, 2);
  for (int i = 0; i < 200; ++i) {
    const Way way = kWays[i % 3];
    const float any_x = std::ldexp(static_cast<float>(any(random)), static_cast<int>(random() % 60) - 30), w = static_cast<float>(any(random));
    const double x = way == Way::mixed ? ir::round_to(DType::bf16, any_x) : any_x;
    const double exact = x * static_cast<double>(w);
    EXPECT_LE(std::abs(product(x, w, way) - exact), std::abs(exact) * 0x1p-23) << x << " " << w;
  }
}

TEST(Separate, denormal_factors_keep_bits_beyond_their_last) {
  for (const double x : {0x1p-149, 0x1.8p-140, 0x1.fffffcp-127, 0x1.234p-133, -0x1.abcdep-120})
    for (const double w : {0x1.000002p100, -0x1.7fffep90, 1.0})
      for (const Way way : {Way::guarded, Way::rechecked}) {
        const double exact = static_cast<float>(x) * w;
        EXPECT_LE(std::abs(product(x, w, way) - exact), std::max({std::abs(exact) * 0x1p-23, std::abs(w) * 0x1p-156, 0x1p-149})) << x << " " << w;
      }
}

TEST(Separate, infinities_and_no_numbers_are_those_of_f32) {
  const double inf = INFINITY;
  for (const Way way : kWays) {
    for (const double w : {1.5, -0x1.004002p3, 0x1p-100, -0x1p-149, 0x1.fffffep127, inf, -inf}) {
      std::vector<double> xs(kLength, 1), ws(kLength, 2);
      xs[3] = inf, ws[3] = w;
      EXPECT_EQ(run(xs, ws, way), w > 0 ? inf : -inf) << w;
      xs[3] = ir::round_to(DType::bf16, w), ws[3] = inf;
      if (xs[3] == 0) continue;  // bf16 has no such denormals
      EXPECT_EQ(run(xs, ws, way), w > 0 ? inf : -inf) << w;
    }
    EXPECT_TRUE(std::isnan(product(inf, 0, way)));
    EXPECT_TRUE(std::isnan(product(NAN, 1, way)));
    EXPECT_TRUE(std::isnan(product(1, NAN, way)));
    std::vector<double> xs(kLength, 1), ws(kLength, 1);
    xs[0] = inf, xs[50] = -inf;
    EXPECT_TRUE(std::isnan(run(xs, ws, way)));
  }
}

TEST(Separate, what_rounds_beyond_the_largest_bf16_is_no_infinity) {
  const double largest = 0x1.fffffep127;
  for (const Way way : kWays) {
    EXPECT_NEAR(product(0.5, largest, way) / (largest * 0.5), 1, 0x1p-23);
    EXPECT_NEAR(product(0.25, -0x1.ffp127, way) / (-0x1.ffp127 * 0.25), 1, 0x1p-23);
    if (way == Way::mixed) continue;
    EXPECT_NEAR(product(largest, 0.5, way) / (largest * 0.5), 1, 0x1p-23);
    EXPECT_NEAR(product(-0x1.ffp127, 0.25, way) / (-0x1.ffp127 * 0.25), 1, 0x1p-23);
  }
}

/// The smallest products are summed first: they may leave the range where the sum in order does not.
TEST(Separate, rechecked_sums_are_finite_where_those_of_f32_are) {
  std::vector<double> xs(kLength, 0), ws(kLength, 0);
  for (std::size_t k = 0; k < 32; ++k) xs[k] = k % 2 == 0 ? 0x1p126 : -0x1p126, ws[k] = 1 + 0x1p-9 + (k % 2 == 0 ? 0x1p-18 : -0x1p-18);  // last parts of 1/4 and -1/4
  for (const Way way : {Way::rechecked, Way::mixed}) EXPECT_EQ(run(xs, ws, way), 0x1p113);
}

// ---------------------------------------------------------------- a model of tensor cores

/// A sum as tensor cores make it: addends are cut to 25 bits below the largest, the sum to the 24 of f32, both toward zero.
float add_cut(float acc, const double* products, int count) {
  int highest = acc != 0 ? std::ilogb(acc) : -1000;
  for (int i = 0; i < count; ++i)
    if (products[i] != 0) highest = std::max(highest, std::ilogb(products[i]));
  if (highest == -1000) return acc;
  const int unit = highest - 24;
  double sum = std::trunc(std::ldexp(static_cast<double>(acc), -unit));
  for (int i = 0; i < count; ++i) sum += std::trunc(std::ldexp(products[i], -unit));
  if (sum == 0) return 0;
  const int cut = std::max(0, std::ilogb(sum) - 23);
  return static_cast<float>(std::ldexp(std::trunc(std::ldexp(sum, -cut)), unit + cut));
}

/// The parts, as the step's nest makes them of ordinary values.
std::array<float, 3> cut_parts(float x) {
  std::array<float, 3> out{};
  for (float& part : out) {
    part = static_cast<float>(ir::round_to(DType::bf16, x));
    x = (x - part) * 256;
  }
  return out;
}

struct Sums {
  float plain = 0, parts = 0;
};

/// One dot product by FMA, in order, and in parts, `gathered` summands at a time.
Sums sum_up(const std::vector<float>& x, const std::vector<float>& w, std::size_t gathered) {
  Sums out;
  for (std::size_t k = 0; k < x.size(); ++k) out.plain = std::fma(x[k], w[k], out.plain);
  std::vector<std::array<float, 3>> xs, ws;
  for (const float v : x) xs.push_back(cut_parts(v));
  for (const float v : w) ws.push_back(cut_parts(v));
  for (std::size_t block = 0; block < x.size(); block += gathered) {
    float partial = 0;
    for (int last = 2; last >= 0; --last) {
      for (int p = 0; p <= last; ++p)
        for (std::size_t k = block; k < block + gathered; k += 16) {
          double products[16];
          for (std::size_t i = 0; i < 16; ++i)
            products[i] = static_cast<double>(xs[k + i][static_cast<std::size_t>(p)]) * static_cast<double>(ws[k + i][static_cast<std::size_t>(last - p)]);
          partial = add_cut(partial, products, 16);
        }
      if (last > 0) partial /= 256;
    }
    out.parts += partial;
  }
  return out;
}

struct Errors {
  double plain = 0, parts = 0;
};

/// |found - exact| / |exact| over several sums, `graded`: summands over four powers of ten.
Errors measure(const char* data, std::size_t length, std::size_t gathered) {
  std::mt19937_64 random(length);
  std::normal_distribution<float> normal(0, 1);
  std::uniform_real_distribution<float> uniform(0, 1);
  const bool graded = data == std::string("graded");
  Errors difference;
  double size = 0;
  for (int n = 0; n < 48; ++n) {
    std::vector<float> x, w;
    for (std::size_t k = 0; k < length; ++k) {
      const float scale = graded ? std::pow(10.0f, 4 * static_cast<float>(k) / static_cast<float>(length) - 2) : 1;
      x.push_back(data == std::string("uniform") ? uniform(random) : normal(random) * scale);
      w.push_back(data == std::string("uniform") ? uniform(random) : normal(random) * scale);
    }
    double exact = 0;
    for (std::size_t k = 0; k < length; ++k) exact += static_cast<double>(x[k]) * static_cast<double>(w[k]);
    const Sums sums = sum_up(x, w, gathered);
    difference.plain += (sums.plain - exact) * (sums.plain - exact);
    difference.parts += (sums.parts - exact) * (sums.parts - exact);
    size += exact * exact;
  }
  return {std::sqrt(difference.plain / size), std::sqrt(difference.parts / size)};
}

TEST(Separate, errors_on_tensor_cores_are_no_larger_than_those_of_f32) {
  for (const char* data : {"normal", "uniform", "graded"})
    for (const std::size_t length : {512, 4096, 16384})
      for (const std::size_t gathered : {32, 64}) {
        const Errors errors = measure(data, length, gathered);
        EXPECT_LE(errors.parts, errors.plain) << data << " " << length << " " << gathered;
        if (std::getenv("LOOPWRIGHT_PRINT_ERRORS") != nullptr) std::printf("%s %zu, %zu at a time: f32 %.2e, parts %.2e\n", data, length, gathered, errors.plain, errors.parts);
      }
}

}  // namespace
}  // namespace loopwright::schedule
