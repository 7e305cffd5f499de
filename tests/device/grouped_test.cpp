// Products over groups of rows on the device against float64 on the host: edges of groups and of tiles, empty groups, offsets out of
// order and out of range, candidates at random.
#include <cmath>
#include <cstring>
#include <random>

#include "src/driver/build.h"
#include "src/driver/planner.h"
#include "src/graph/group.h"
#include "src/ir/arithmetic.h"
#include "tests/device/device_test_support.h"

namespace loopwright::device_tests {
namespace {

struct Grouped {
  std::int64_t groups, n, k;
  bool transposed = true;
  std::string dtype = "bf16";
  std::string text() const {
    const auto number = [](std::int64_t v) { return std::to_string(v); };
    return "graph grouped\nsymbol rows in 0..4000\ninput x: " + dtype + "[rows, " + number(k) +
           "]\ninput w: " + dtype + "[" + number(groups) + ", " +
           (transposed ? number(n) + ", " + number(k) : number(k) + ", " + number(n)) +
           "]\ninput ends: i32[" + number(groups) + "]\noutput y = grouped_matmul(x, w, ends" +
           (transposed ? ", transpose_b=true" : "") + ")\n";
  }
};

class GroupedProducts : public OnGpu {
 protected:
  std::optional<Artifact> build(const Grouped& g, std::uint64_t seed, const Picks& kept) {
    const auto graph = Graph::parse(g.text(), "test");
    EXPECT_TRUE(graph.ok()) << graph.error().message();
    const auto job = driver::make_job(
        graph::make_workload(graph::group_ops(*graph, driver::grouping_for(TargetKind::cuda))[0].graph));
    Space space = seed == 0 ? Space(kept) : Space(seed, kept);
    const auto scheduled = driver::run_template(*job, *driver::templates_for(*job, device().target()).front(),
                                                space, device().target());
    what_ = g.text() + print_picks(space.picks());
    if (!scheduled.ok()) {
      EXPECT_NE(seed, 0u) << what_ << "\n" << scheduled.error().message();
      return std::nullopt;
    }
    const auto artifact = driver::build(*scheduled, device().target());
    if (!artifact.ok()) {
      EXPECT_NE(seed, 0u) << what_ << "\n" << artifact.error().message();
      return std::nullopt;
    }
    return *artifact;
  }

  cuda::Address upload(const void* data, std::size_t bytes) {
    cuda::Address a = 0;
    EXPECT_EQ(driver().allocate(&a, std::max<std::size_t>(bytes, 16)), cuda::kSuccess);
    if (bytes > 0) {
      EXPECT_EQ(driver().copy_to_device(a, data, bytes, nullptr), cuda::kSuccess);
    }
    memory_.push_back(a);
    return a;
  }
  void TearDown() override {
    for (const cuda::Address a : memory_) driver().free(a);
    OnGpu::TearDown();
  }

  /// Small multiples of 1/8: every sum is exact in f32.
  static std::vector<std::uint16_t> draw(const std::string& dtype, std::int64_t count,
                                         std::mt19937_64& random) {
    std::vector<std::uint16_t> out;
    for (std::int64_t i = 0; i < count; ++i) {
      const float v = static_cast<float>(static_cast<int>(random() % 31) - 15) / 8;
      out.push_back(dtype == "f16" ? ir::to_f16_bits(v) : ir::to_bf16_bits(v));
    }
    return out;
  }

  void check(const Grouped& g, const Artifact& artifact, const std::vector<std::int32_t>& ends,
             std::int64_t rows) {
    const auto loaded = device().load(artifact);
    ASSERT_TRUE(loaded.ok()) << what_ << loaded.error().message();
    std::mt19937_64 random(static_cast<std::uint64_t>(rows) + 1);
    const std::vector<std::uint16_t> x = draw(g.dtype, rows * g.k, random),
                                     w = draw(g.dtype, g.groups * g.n * g.k, random);
    std::vector<std::uint16_t> y(static_cast<std::size_t>(rows * g.n), 0xffff);
    const cuda::Address xs = upload(x.data(), x.size() * 2), ws = upload(w.data(), w.size() * 2),
                        es = upload(ends.data(), ends.size() * 4), ys = upload(y.data(), y.size() * 2);
    std::vector<void*> buffers;
    for (const ArtifactArg& a : artifact.args) {
      cuda::Address at = a.role == ArgRole::output ? ys : a.name == "i0" ? xs : a.name == "i1" ? ws : es;
      if (a.role == ArgRole::workspace) {
        std::int64_t bytes = size_bytes(a.dtype);
        for (const SizeExpr& n : a.shape) bytes *= n.evaluate(&rows);
        const std::vector<std::uint8_t> zeros(static_cast<std::size_t>(bytes));
        at = upload(zeros.data(), zeros.size());
      }
      buffers.push_back(reinterpret_cast<void*>(at));
    }
    runtime::KernelCall call;
    call.buffers = buffers.data();
    call.symbols = &rows;
    ASSERT_EQ(device().launch(**loaded, call), ErrorCode::ok) << what_ << device().describe_failure();
    ASSERT_EQ(device().wait(nullptr), ErrorCode::ok) << what_ << device().describe_failure();
    if (rows > 0) {
      ASSERT_EQ(driver().copy_to_host(y.data(), ys, y.size() * 2, nullptr), cuda::kSuccess);
    }
    driver().wait_stream(nullptr);
    const auto value = [&](std::uint16_t bits) -> double {
      return g.dtype == "f16" ? ir::from_f16_bits(bits) : ir::from_bf16_bits(bits);
    };
    for (std::int64_t r = 0; r < rows; ++r) {
      std::int64_t group = 0;
      while (group < g.groups && ends[static_cast<std::size_t>(group)] <= r) ++group;
      for (std::int64_t j = 0; j < g.n; ++j) {
        double exact = 0;
        for (std::int64_t k = 0; group < g.groups && k < g.k; ++k)
          exact += value(x[static_cast<std::size_t>(r * g.k + k)]) *
                   value(w[static_cast<std::size_t>(group * g.n * g.k +
                                                    (g.transposed ? j * g.k + k : k * g.n + j))]);
        const double found = value(y[static_cast<std::size_t>(r * g.n + j)]);
        ASSERT_LE(std::abs(found - exact), (g.dtype == "f16" ? 2e-3 : 8e-3) * (std::abs(exact) + 1e-3))
            << what_ << "\nrows " << rows << ", at " << r << ", " << j << " of group " << group;
      }
    }
  }

  void check_all(const Grouped& g, std::uint64_t seed = 0, const Picks& kept = {}) {
    const auto artifact = build(g, seed, kept);
    if (!artifact) return;
    ++built_;
    std::mt19937_64 random(seed + 3);
    for (const std::int64_t rows : {0, 1, 130, 700}) {
      std::vector<std::vector<std::int32_t>> all;
      std::vector<std::int32_t> ragged, mixed;
      for (std::int64_t e = 0; e < g.groups; ++e)
        ragged.push_back(static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(rows + 1))),
            mixed.push_back(static_cast<std::int32_t>(random() % 3000) - 1000);
      std::sort(ragged.begin(), ragged.end());
      all.push_back(ragged);  // some rows behind the last offset
      ragged.back() = static_cast<std::int32_t>(rows);
      all.push_back(ragged);
      all.push_back(mixed);  // out of order, out of range
      all.emplace_back(static_cast<std::size_t>(g.groups), 0);
      all.emplace_back(static_cast<std::size_t>(g.groups), static_cast<std::int32_t>(rows));
      for (const auto& ends : all) {
        check(g, *artifact, ends, rows);
        if (HasFatalFailure()) return;
      }
    }
  }

  std::vector<cuda::Address> memory_;
  std::string what_;
  int built_ = 0;
};

TEST_F(GroupedProducts, agree_by_default) {
  for (const bool transposed : {true, false})
    for (const char* dtype : {"bf16", "f16"}) {
      check_all({5, 136 - (transposed ? 0 : 8), 200, transposed, dtype});
      if (HasFatalFailure()) return;
    }
  check_all({1, 64, 64});
  if (HasFatalFailure()) return;
  check_all({70, 264, 72});
}

TEST_F(GroupedProducts, agree_for_every_way_to_share_them_out) {
  const std::vector<Picks> ways{{{"thin", 0}, {"turns", 2}, {"tiles", 2}, {"columns", 128}},
                                {{"thin", 0}, {"turns", 2}, {"tiles", 1}, {"columns", 128}},
                                {{"thin", 0}, {"turns", 2}, {"tiles", 2}, {"columns", 128}, {"exit", 0}, {"ahead", 1}},
                                {{"thin", 0}, {"turns", 2}, {"tiles", 2}, {"columns", 192}, {"exit", 64}, {"ahead", 1}},
                                {{"thin", 0}, {"turns", 1}, {"groups", 2}, {"columns", 256}, {"exit", 64}, {"ahead", 1}},
                                {{"thin", 0}, {"turns", 1}, {"groups", 1}, {"columns", 64}, {"exit", 32}, {"persist", 0}},
                                {{"thin", 0}, {"turns", 1}, {"groups", 2}, {"columns", 128}, {"exit", 0}},
                                {{"thin", 0}, {"turns", 1}, {"groups", 2}, {"columns", 256}},
                                {{"thin", 0}, {"turns", 1}, {"groups", 1}, {"columns", 64}, {"persist", 0}},
                                {{"thin", 1}},
                                {{"thin", 1}, {"swap", 1}},
                                {{"thin", 1}, {"swap", 0}}};
  for (const Picks& picks : ways) {
    check_all({7, 264, 200}, 0, picks);
    if (HasFatalFailure()) return;
  }
}

TEST_F(GroupedProducts, agree_for_random_picks) {
  for (std::uint64_t seed = 1; seed <= 16; ++seed) {
    check_all({6, 264, 200, seed % 3 != 0, seed % 2 == 0 ? "bf16" : "f16"}, seed, {});
    if (HasFatalFailure()) return;
  }
  EXPECT_GE(built_, 3);
}

}  // namespace
}  // namespace loopwright::device_tests
