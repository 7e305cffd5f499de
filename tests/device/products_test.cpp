// Matrix products on the device against float64 on the host: tile edges, every layout, epilogues, candidates at random.
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include "src/driver/build.h"
#include "src/driver/planner.h"
#include "src/graph/group.h"
#include "src/ir/arithmetic.h"
#include "tests/device/device_test_support.h"

namespace loopwright::device_tests {
namespace {

struct Product {
  std::int64_t m, n, k;
  std::string dtype = "bf16";
  bool transposed = true;        ///< w is [n, k]
  std::string epilogue = "none"; ///< bias: max(y + b, 0); wide: y as f32; gated: max(y, 0) times the product with b, which is as w
  bool fixed = false;            ///< the number of rows is known to the generator
  bool full = false;             ///< f32 operands with all their bits
  std::map<std::int64_t, float> special = {};  ///< elements of x
  bool mixed = false;            ///< x is bf16, cast to the f32 of w and y
  bool rounded = false;          ///< f32 in tf32 accuracy
  bool positive = false;         ///< with `full`: between 0 and 1
  std::string x_dtype() const { return mixed ? "bf16" : dtype; }
  std::string result() const { return epilogue == "wide" ? "f32" : dtype; }
  std::string text() const {
    const auto dims = [](std::int64_t a, std::int64_t b) { return "[" + std::to_string(a) + ", " + std::to_string(b) + "]"; };
    std::string out = "graph product\n" + std::string(rounded ? "accuracy tf32\n" : "") + std::string(fixed ? "" : "symbol rows in 1..9000\n") + "input x: " + x_dtype() + "[" + (fixed ? std::to_string(m) : "rows") + ", " + std::to_string(k) + "]\ninput w: " + dtype + (transposed ? dims(n, k) : dims(k, n)) + "\n";
    const std::string y = std::string(mixed ? "matmul(cast(x, f32), w" : "matmul(x, w") + (transposed ? ", transpose_b=true)" : ")");
    if (epilogue == "none") return out + "output y = " + y + "\n";
    if (epilogue == "wide") return out + "output y = cast(" + y + ", f32)\n";
    if (epilogue == "gated") return out + "input b: " + dtype + (transposed ? dims(n, k) : dims(k, n)) + "\noutput y = mul(max(" + y + ", 0), matmul(x, b" + (transposed ? ", transpose_b=true" : "") + "))\n";
    return out + "input b: " + dtype + "[" + std::to_string(n) + "]\noutput y = max(add(" + y + ", b), 0)\n";
  }
};

class Products : public OnGpu {
 protected:
  static double value_of(const std::string& dtype, const std::uint8_t* p, std::int64_t i) {
    if (dtype == "f32") return reinterpret_cast<const float*>(p)[i];
    const std::uint16_t bits = reinterpret_cast<const std::uint16_t*>(p)[i];
    return dtype == "bf16" ? ir::from_bf16_bits(bits) : ir::from_f16_bits(bits);
  }

  /// Small multiples of 1/8, exact in every dtype and in tf32; or, with `full`, normal values of f32, or even ones between 0 and 1.
  static std::vector<std::uint8_t> draw(const std::string& dtype, std::int64_t count, std::mt19937_64& random, bool full = false, bool positive = false) {
    const std::int64_t es = dtype == "f32" ? 4 : 2;
    std::vector<std::uint8_t> out(static_cast<std::size_t>(std::max<std::int64_t>(count, 1) * es));
    std::normal_distribution<float> normal(0, 1);
    std::uniform_real_distribution<float> even(0, 1);
    for (std::int64_t i = 0; i < count; ++i) {
      const float v = full ? positive ? even(random) : normal(random) : static_cast<float>(static_cast<int>(random() % 31) - 15) / 8;
      const std::uint16_t bits = dtype == "f16" ? ir::to_f16_bits(v) : ir::to_bf16_bits(v);
      if (dtype == "f32") std::memcpy(&out[static_cast<std::size_t>(i * 4)], &v, 4);
      else std::memcpy(&out[static_cast<std::size_t>(i * 2)], &bits, 2);
    }
    return out;
  }

  cuda::Address upload(const std::vector<std::uint8_t>& data) {
    cuda::Address a = 0;
    EXPECT_EQ(driver().allocate(&a, data.size()), cuda::kSuccess);
    EXPECT_EQ(driver().copy_to_device(a, data.data(), data.size(), nullptr), cuda::kSuccess);
    memory_.push_back(a);
    return a;
  }
  void TearDown() override {
    for (const cuda::Address a : memory_) driver().free(a);
    OnGpu::TearDown();
  }

  /// The default of the first template that takes the product, and has to work; false when random picks are rejected.
  bool check(const Product& p, std::uint64_t seed = 0, const Picks& kept = {}) {
    if (const auto known = built_.find(p.text() + std::to_string(seed)); known != built_.end()) return known->second && launch(p, *known->second, seed, p.text());
    auto& artifact_for = built_[p.text() + std::to_string(seed)];
    const auto graph = Graph::parse(p.text(), "test");
    EXPECT_TRUE(graph.ok()) << graph.error().message();
    const auto groups = graph::group_ops(*graph, driver::grouping_for(TargetKind::cuda));
    EXPECT_EQ(groups.size(), 1u) << p.text();
    const auto job = driver::make_job(graph::make_workload(groups[0].graph));
    Space space = seed == 0 ? Space(kept) : Space(seed, kept);
    const auto templates = driver::templates_for(*job, device().target());
    auto scheduled = driver::run_template(*job, *templates.front(), space, device().target());
    for (std::size_t t = 1; seed == 0 && !scheduled.ok() && t < templates.size(); ++t) {
      space = Space(kept);
      scheduled = driver::run_template(*job, *templates[t], space, device().target());
    }
    const std::string what = p.text() + "rows " + std::to_string(p.m) + " " + print_picks(space.picks());
    if (!scheduled.ok()) {
      EXPECT_NE(seed, 0u) << what << "\n" << scheduled.error().message();
      return false;
    }
    const auto artifact = driver::build(*scheduled, device().target());
    if (!artifact.ok()) {
      EXPECT_TRUE(seed != 0 && artifact.error().code == ErrorCode::resource_exceeded) << what << "\n" << artifact.error().message();
      return false;
    }
    artifact_for = *artifact;
    return launch(p, *artifact_for, seed, what);
  }

  bool launch(const Product& p, const Artifact& artifact, std::uint64_t seed, const std::string& what) {
    const auto loaded = device().load(artifact);
    if (!loaded.ok()) {
      EXPECT_TRUE(seed != 0 && loaded.error().code == ErrorCode::resource_exceeded) << what << "\n" << loaded.error().message();
      return false;
    }
    std::mt19937_64 random(seed + 1);
    std::vector<std::uint8_t> x = draw(p.x_dtype(), p.m * p.k, random, p.full, p.positive), w = draw(p.dtype, p.n * p.k, random, p.full, p.positive), b = draw(p.dtype, p.epilogue == "gated" ? p.n * p.k : p.n, random);
    for (const auto& [at, value] : p.special) {
      const std::uint16_t bits = ir::to_bf16_bits(value);
      if (p.mixed) std::memcpy(&x[static_cast<std::size_t>(at * 2)], &bits, 2);
      else std::memcpy(&x[static_cast<std::size_t>(at * 4)], &value, 4);
    }
    std::vector<std::uint8_t> y(static_cast<std::size_t>(p.m * p.n * (p.result() == "f32" ? 4 : 2)), 0xff);
    void* buffers[8];
    std::size_t count = 0;
    cuda::Address result = 0;
    for (const ArtifactArg& a : artifact.args) {
      std::int64_t elements = 1;
      for (const SizeExpr& n : a.shape) elements *= std::max<std::int64_t>(n.evaluate(&p.m), 1);
      const std::vector<std::uint8_t> room(a.role == ArgRole::workspace ? static_cast<std::size_t>(elements * size_bytes(a.dtype)) : 0, a.zeroed ? 0 : 0xff);
      buffers[count++] = reinterpret_cast<void*>(upload(a.role == ArgRole::workspace ? room : a.role == ArgRole::output ? y : a.name == "i0" ? x : a.name == "i1" ? w : b));
      if (a.role == ArgRole::output) result = memory_.back();
    }
    runtime::KernelCall call;
    call.buffers = buffers;
    call.symbols = &p.m;
    EXPECT_EQ(device().launch(**loaded, call), ErrorCode::ok) << what << device().describe_failure();
    EXPECT_EQ(device().wait(nullptr), ErrorCode::ok) << what << device().describe_failure();
    EXPECT_EQ(driver().copy_to_host(y.data(), result, y.size(), nullptr), cuda::kSuccess);
    driver().wait_stream(nullptr);
    if (p.rounded && p.full) compare_norms(p, x, w, y, what);
    else compare(p, x, w, b, y, what);
    return true;
  }

  /// What rounding both factors to the nearest loses: 2.9e-4 of normal data, and next to nothing of sums of positive data, where
  /// bits that are cut off would lose 6.5e-4.
  static void compare_norms(const Product& p, const std::vector<std::uint8_t>& x, const std::vector<std::uint8_t>& w, const std::vector<std::uint8_t>& y, const std::string& what) {
    double difference = 0, size = 0;
    for (std::int64_t i = 0; i < p.m; ++i)
      for (std::int64_t j = 0; j < p.n; ++j) {
        double exact = 0;
        for (std::int64_t k = 0; k < p.k; ++k) exact += value_of(p.dtype, x.data(), i * p.k + k) * value_of(p.dtype, w.data(), j * p.k + k);
        const double found = value_of(p.dtype, y.data(), i * p.n + j);
        difference += (found - exact) * (found - exact), size += exact * exact;
      }
    const double lost = std::sqrt(difference / size);
    ASSERT_LT(lost, p.positive ? 5e-5 : 3.5e-4) << what;
    ASSERT_GT(lost, p.positive ? 2e-6 : 2.4e-4) << what;
  }

  static void compare(const Product& p, const std::vector<std::uint8_t>& x, const std::vector<std::uint8_t>& w, const std::vector<std::uint8_t>& b,
                      const std::vector<std::uint8_t>& y, const std::string& what) {
    std::vector<double> xs, ws, bs;
    for (std::int64_t i = 0; p.epilogue == "gated" && i < p.n * p.k; ++i) bs.push_back(value_of(p.dtype, b.data(), i));
    for (std::int64_t i = 0; i < p.m * p.k; ++i) xs.push_back(value_of(p.x_dtype(), x.data(), i));
    for (std::int64_t i = 0; i < p.n * p.k; ++i) ws.push_back(value_of(p.dtype, w.data(), i));
    for (std::int64_t i = 0; i < p.m; ++i)
      for (std::int64_t j = 0; j < p.n; ++j) {
        const auto sum = [&](const std::vector<double>& weights) {
          double out = 0;
          for (std::int64_t k = 0; k < p.k; ++k) out += xs[static_cast<std::size_t>(i * p.k + k)] * weights[static_cast<std::size_t>(p.transposed ? j * p.k + k : k * p.n + j)];
          return out;
        };
        double exact = sum(ws);
        if (p.epilogue == "gated") exact = std::max(0.0, exact) * sum(bs);
        if (p.epilogue == "bias") exact = std::max(0.0, exact + value_of(p.dtype, b.data(), j));
        const double found = value_of(p.result(), y.data(), i * p.n + j);
        if (std::abs(exact) > 0x1.fffffep127 && p.dtype == "f32") exact = exact > 0 ? INFINITY : -INFINITY;
        if (!std::isfinite(exact)) {
          ASSERT_TRUE(std::isnan(exact) ? std::isnan(found) : found == exact) << what << " at " << i << ", " << j << ": " << found << " for " << exact;
          continue;
        }
        // Sums are exact in f32; what is rounded is the result, and the sum in front of a bias.
        if (p.full) {
          double size = 0;
          for (std::int64_t k = 0; k < p.k; ++k) size += std::abs(xs[static_cast<std::size_t>(i * p.k + k)] * ws[static_cast<std::size_t>(p.transposed ? j * p.k + k : k * p.n + j)]);
          ASSERT_LE(std::abs(found - exact), 4e-7 * (size + std::abs(exact)) + 1e-43) << what << " at " << i << ", " << j << ": " << found << " for " << exact;
          continue;
        }
        const double bound = (p.dtype == "f32" ? 1e-6 : p.dtype == "f16" ? 2e-3 : 1.2e-2) * (std::abs(exact) + 4);
        ASSERT_LE(std::abs(found - exact), bound) << what << " at " << i << ", " << j << ": " << found << " for " << exact;
      }
  }

  std::vector<cuda::Address> memory_;
  std::map<std::string, std::optional<Artifact>> built_;  ///< by graph and seed
};

TEST_F(Products, agree_at_the_edges_of_tiles) {
  for (const std::int64_t m : {1, 7, 8, 63, 65, 127, 128, 129, 257})
    for (const std::int64_t n : {8, 120, 128, 136})
      for (const std::int64_t k : {8, 64, 72, 520}) {
        check({m, n, k, "bf16", true, "none"});
        check({m, n, k, "f16", false, "bias"});
        if (HasFatalFailure()) return;
      }
}

TEST_F(Products, agree_for_few_rows_that_are_known) {
  for (const std::int64_t m : {1, 7, 8, 16, 33})
    for (const std::int64_t n : {8, 136})
      for (const std::int64_t k : {8, 72, 520}) {
        check({m, n, k, "bf16", true, "none", true});
        check({m, n, k, "f16", false, "bias", true});
        if (HasFatalFailure()) return;
      }
}

TEST_F(Products, agree_with_odd_sizes_and_in_f32) {
  for (const std::int64_t m : {1, 7, 130})
    for (const std::int64_t n : {1, 7, 129})
      for (const std::int64_t k : {1, 7, 33, 129})
        for (const char* dtype : {"bf16", "f32"})
          for (const bool transposed : {false, true}) {
            check({m, n, k, dtype, transposed, "bias"});
            if (HasFatalFailure()) return;
          }
}

TEST_F(Products, agree_with_thin_sides_and_sums_that_blocks_share_out) {
  for (const bool fixed : {false, true})
    for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{512, 16, 2048}, {37, 264, 2048}, {300, 12, 1000}, {16, 520, 400}, {520, 1024, 16}, {130, 24, 3584}, {256, 256, 3584}})
      for (const bool transposed : {true, false}) {
        check({m, n, k, "f32", transposed, transposed ? "none" : "bias", fixed});
        if (HasFatalFailure()) return;
      }
}

TEST_F(Products, agree_where_blocks_go_on_from_tile_to_tile) {
  int made = 0;
  for (std::uint64_t seed = 1; seed <= 24 && !HasFatalFailure(); ++seed) {
    const Product p{1500, 1544, seed % 3 == 0 ? 520 : 72, seed % 2 == 0 ? "bf16" : "f16", seed % 4 < 2, seed % 5 < 2 ? "bias" : "none", seed % 8 < 4};
    made += check(p, seed, {{"thin", 0}, {"tensor", 1}, {"turns", seed % 4 == 0 ? 1 : 2}}) ? 1 : 0;
  }
  EXPECT_GE(made, 8);
}

TEST_F(Products, agree_where_f32_is_multiplied_in_parts) {
  int made = 0;
  for (std::uint64_t seed = 1; seed <= 16 && !HasFatalFailure(); ++seed) {
    const bool sizes_known = seed % 4 < 2;
    Product p{seed % 2 == 0 ? 300 : 257, seed % 3 == 0 ? 128 : 136, seed % 5 == 0 ? 1032 : 520, "f32", seed % 3 != 0, seed % 4 == 1 ? "bias" : "none", sizes_known, true};
    made += check(p, seed, {{"thin", 0}, {"parts", 1}}) ? 1 : 0;
  }
  EXPECT_GE(made, 8);
}

TEST_F(Products, of_parts_keep_what_is_infinite_no_number_or_tiny) {
  const float inf = INFINITY;
  Product p{130, 128, 136, "f32", true, "none", true, true};
  p.special = {{0 * 136 + 5, inf}, {1 * 136 + 7, -inf}, {2 * 136, NAN}, {3 * 136 + 1, inf}, {3 * 136 + 70, -inf}, {5 * 136 + 4, 1.5e38f}};  // beyond, sums of parts may leave the range
  for (std::int64_t k = 0; k < 136; ++k) p.special[4 * 136 + k] = std::ldexp(1.0f + static_cast<float>(k) / 64, -140);
  bool made = false;
  for (std::uint64_t seed = 1; seed <= 12 && !made && !HasFatalFailure(); ++seed) made = check(p, seed, {{"thin", 0}, {"parts", 1}});
  EXPECT_TRUE(made);
}

TEST_F(Products, of_warps_agree_for_thin_sides_of_any_size) {
  constexpr std::int64_t kPrimes[] = {2, 3, 7, 13, 31, 61, 127, 251, 509, 1021};
  std::mt19937_64 random(5);
  int made = 0;
  for (std::uint64_t seed = 1; seed <= 36 && !HasFatalFailure(); ++seed) {
    const std::int64_t thin = static_cast<std::int64_t>(1 + random() % 64), other = kPrimes[random() % 10] + (random() % 2 == 0 ? 1 : 0), k = kPrimes[6 + random() % 4] + (random() % 2 == 0 ? 1 : 3);
    const bool rows_thin = random() % 2 == 0;
    Product p{rows_thin ? thin : other, rows_thin ? other : thin, k, seed % 4 < 2 ? "f32" : seed % 4 == 2 ? "bf16" : "f16", true, seed % 3 == 0 ? "bias" : "none", rows_thin || seed % 2 == 0};
    p.mixed = seed % 4 == 1;
    p.full = p.dtype == "f32";
    // A third by their default picks, the others at random.
    made += check(p, seed % 3 == 0 ? 0 : seed, {{"thin", 1}}) ? 1 : 0;
  }
  EXPECT_GE(made, 20);
}

TEST_F(Products, of_warps_agree_at_the_sizes_that_matter) {
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{37, 1024, 2048}, {512, 16, 2048}, {4096, 16, 3584}, {16, 2048, 2048}, {64, 264, 520}, {300, 16, 1024}})
    for (const char* dtype : {"bf16", "f32", "mixed"}) {
      Product p{m, n, k, dtype == std::string("bf16") ? "bf16" : "f32", true, "none", m <= 64};
      p.mixed = dtype == std::string("mixed");
      p.full = p.dtype == "f32";
      check(p, 0, {{"thin", 1}});
      if (HasFatalFailure()) return;
    }
}

TEST_F(Products, of_warps_keep_what_is_infinite_no_number_or_tiny) {
  const float inf = INFINITY;
  for (const bool mixed : {false, true}) {
    Product p{130, 16, 136, "f32", true, "none", true, true};
    p.mixed = mixed;
    p.special = {{0 * 136 + 5, inf}, {1 * 136 + 7, -inf}, {2 * 136, NAN}, {3 * 136 + 1, inf}, {3 * 136 + 70, -inf}, {5 * 136 + 4, mixed ? 0x1.fep127f : 3.4e38f}};
    for (std::int64_t k = 0; k < 136; ++k) p.special[4 * 136 + k] = std::ldexp(1.0f + static_cast<float>(k) / 64, mixed ? -120 : -140);
    EXPECT_TRUE(check(p, 0, {{"thin", 1}}));
  }
}

TEST_F(Products, agree_at_the_edges_of_tiles_of_rounded_f32) {
  for (const std::int64_t m : {1, 7, 8, 63, 65, 128, 129, 257})
    for (const std::int64_t n : {8, 128, 136})
      for (const std::int64_t k : {4, 36, 260}) {
        check({.m = m, .n = n, .k = k, .dtype = "f32", .epilogue = k == 36 ? "bias" : "none", .rounded = true});
        if (HasFatalFailure()) return;
      }
  for (const std::int64_t m : {7, 16, 33}) check({.m = m, .n = 136, .k = 260, .dtype = "f32", .fixed = true, .rounded = true});
}

TEST_F(Products, of_rounded_f32_agree_for_random_candidates) {
  int made = 0;
  for (std::uint64_t seed = 1; seed <= 24 && !HasFatalFailure(); ++seed)
    made += check({.m = seed % 3 == 0 ? 1500 : 300, .n = seed % 3 == 0 ? 1544 : 136, .k = seed % 2 == 0 ? 260 : 72, .dtype = "f32", .epilogue = seed % 5 < 2 ? "bias" : "none",
                   .fixed = seed % 4 < 2, .rounded = true}, seed, {{"tensor", 1}}) ? 1 : 0;
  EXPECT_GE(made, 8);
}

TEST_F(Products, of_rounded_f32_lose_what_rounding_to_the_nearest_loses) {
  for (const bool positive : {false, true})
    check({.m = 257, .n = 136, .k = 520, .dtype = "f32", .fixed = true, .full = true, .rounded = true, .positive = positive}, 0);
}

TEST_F(Products, of_rounded_f32_keep_what_is_infinite_or_no_number) {
  Product p{.m = 130, .n = 128, .k = 136, .dtype = "f32", .fixed = true, .rounded = true};
  p.special = {{0 * 136 + 5, INFINITY}, {1 * 136 + 7, -INFINITY}, {2 * 136, NAN}, {3 * 136 + 1, INFINITY}, {3 * 136 + 70, -INFINITY}};
  check(p);
}

TEST_F(Products, results_of_f32_leave_by_the_engine) {
  for (const std::int64_t m : {65, 257, 1500})
    for (const char* dtype : {"bf16", "f16"}) check({.m = m, .n = 264, .k = 136, .dtype = dtype, .epilogue = "wide"});
  int made = 0;
  for (std::uint64_t seed = 1; seed <= 16 && !HasFatalFailure(); ++seed)
    made += check({.m = 300, .n = 256, .k = 520, .dtype = "f32", .epilogue = seed % 2 == 0 ? "bias" : "none", .fixed = true, .full = seed % 2 != 0}, seed,
                  {{"parts", 1}, {"exit", seed % 4 < 2 ? 32 : 64}, {"columns", seed % 3 == 0 ? 128 : 64}}) ? 1 : 0;
  EXPECT_GE(made, 4);
}

TEST_F(Products, of_one_operand_agree_as_sums_of_one_tile) {
  for (const std::int64_t m : {1, 7, 8, 9, 63, 65, 128, 129, 257}) {
    for (const std::int64_t k : {8, 72, 520}) check({m, 136, k, "bf16", true, "gated"});
    check({m, 8, 72, "f16", false, "gated"});
    check({m, 128, 72, "f16", false, "gated"});
    if (HasFatalFailure()) return;
  }
  int made = 0;
  for (std::uint64_t seed = 1; seed <= 12 && !HasFatalFailure(); ++seed)
    made += check({seed % 3 == 0 ? 1500 : 300, seed % 3 == 0 ? 1536 : 136, seed % 3 == 0 ? 72 : 520, "bf16", seed % 8 != 0, "gated", seed % 4 < 2}, seed, {{"tensor", seed % 5 == 0 ? 0 : 1}}) ? 1 : 0;
  EXPECT_GE(made, 4);
}

TEST_F(Products, agree_for_random_candidates) {
  std::mt19937_64 random(3);
  int made = 0;
  for (std::uint64_t seed = 1; seed <= 60 && !HasFatalFailure(); ++seed) {
    const auto upto = [&](std::uint64_t n) { return static_cast<std::int64_t>(1 + random() % n); };
    const bool aligned = random() % 4 != 0;
    Product p{upto(400), upto(50) * (aligned ? 8 : 1), upto(100) * (aligned ? 8 : 1), random() % 3 == 0 ? "f32" : random() % 2 == 0 ? "bf16" : "f16", random() % 2 == 0,
              random() % 2 == 0 ? "none" : "bias"};
    made += check(p, seed) ? 1 : 0;
  }
  EXPECT_GE(made, 20);
}

}  // namespace
}  // namespace loopwright::device_tests
