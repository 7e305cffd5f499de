// Plan::launch_graph on a real driver: graphs with addresses and sizes that move, against plain launches of the same calls.
#include <random>

#include "loopwright/compile.h"
#include "src/runtime/cuda_graphs.h"
#include "tests/device/device_test_support.h"

namespace loopwright::device_tests {
namespace {

constexpr int kSteps = 1000;

class Graphs : public OnGpu {
 protected:
  void SetUp() override {
    OnGpu::SetUp();
    if (IsSkipped()) return;
    if (!driver().makes_graphs()) GTEST_SKIP() << "needs a driver for CUDA 12.3 or newer";
    ASSERT_EQ(driver().create_stream(&stream_, cuda::kStreamNonBlocking), cuda::kSuccess);
  }
  void TearDown() override {
    if (stream_ != nullptr) driver().destroy_stream(stream_);
    OnGpu::TearDown();
  }
  /// Whether the last call of the calling thread that met something new went as a graph, and how many nodes it set.
  const runtime::CudaThreadGraphs& graphs_of(const Plan& plan) {
    const auto& state = runtime::PlanAccess::state(plan);
    if (state.graphs == nullptr) throw std::runtime_error("a plan without graphs");
    return *static_cast<runtime::CudaThreadGraphs*>(state.graphs->of_thread(stream_));
  }
  std::vector<std::uint8_t> read(cuda::Address from, std::size_t bytes) const {
    std::vector<std::uint8_t> to(bytes);
    EXPECT_EQ(driver().copy_to_host(to.data(), from, bytes, stream_), cuda::kSuccess);
    EXPECT_EQ(driver().wait_stream(stream_), cuda::kSuccess);
    return to;
  }
  cuda::Stream stream_ = nullptr;
};

/// Kernels that wait for the one in front, with and without an edge, in clusters, in place.
constexpr const char* kWaiting = R"(
extern "C" __global__ void __launch_bounds__(256) adds(const float* x, float* y, long long n) {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  const long long i = blockIdx.x * 256LL + threadIdx.x;
  if (i < n) y[i] = y[i] + 0.5f * x[i];
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
extern "C" __global__ void __launch_bounds__(256) mixes(const float* x, float* y, long long n) {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  const long long i = blockIdx.x * 256LL + threadIdx.x;
  if (i < n) y[i] = x[i] - 0.25f * x[n - 1 - i];
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
})";

TEST_F(Graphs, a_thousand_steps_with_moved_aliased_and_in_place_tensors_are_those_of_plain_launches) {
  if (device().info().capability < 90) GTEST_SKIP() << "needs compute capability 9.0";
  constexpr std::int64_t kMost = 20000;
  const auto make = [&](const std::string& name, ArgRole role, bool edge, int cluster = 1) {
    Variant variant;
    const auto artifact = compile(kWaiting, name, {argument("x", ArgRole::input), argument("y", role)});
    auto& launch = std::get<CudaLaunch>(artifact->launches[0]);
    launch.programmatic_dependent = edge;
    launch.cluster[0] = cluster;
    if (cluster > 1)
      launch.grid[0] = SizeExpr::apply(
          SizeExpr::Op::mul, SizeExpr::apply(SizeExpr::Op::ceil_div, SizeExpr::symbol(0), 256 * cluster),
          cluster);
    variant.artifact = artifact;
    return variant;
  };
  const SizeExpr n = SizeExpr::symbol(0), one = 1;
  runtime::PlanParts parts;
  parts.device = device_;
  parts.spec.name = "many";
  parts.spec.symbols = {{"n", 1, kMost}};
  const auto tensor = [&](const char* name, ArgRole role) {
    parts.spec.tensors.push_back({name, DType::f32, role, {n}, {one}});
  };
  tensor("x", ArgRole::input), tensor("w", ArgRole::input), tensor("c", ArgRole::inout),
      tensor("y", ArgRole::output), tensor("z", ArgRole::output);
  tensor("t0", ArgRole::workspace), tensor("t1", ArgRole::workspace);
  const std::int32_t args[8][2] = {{0, 5}, {1, 6}, {5, 2}, {2, 3}, {6, 3}, {3, 5}, {5, 2}, {2, 4}};
  for (const auto& a : args) parts.spec.kernels.push_back({"w", "", {a[0], a[1]}, {0}, {"s0"}});
  const Variant mixes = make("mixes", ArgRole::output, true), adds = make("adds", ArgRole::inout, true);
  Variant small = mixes, large = make("mixes", ArgRole::output, true, 4);
  small.guard.symbols = {{"s0", 1, 5000, 1}};
  large.guard.symbols = {{"s0", 5001, kMost, 1}};
  parts.variants = {{mixes},        {make("mixes", ArgRole::output, false)}, {adds},        {mixes}, {adds},
                    {small, large}, {make("adds", ArgRole::inout, false)},   {large, small}};
  parts.variants[7][0].guard = {};
  const Plan plan = runtime::PlanAccess::make(std::move(parts)).value();

  std::vector<std::unique_ptr<Memory>> places;
  for (int i = 0; i < 12; ++i) places.push_back(std::make_unique<Memory>(driver(), 4 * kMost + 16));
  std::mt19937 random(11);
  std::vector<float> values(kMost + 4);
  for (float& v : values) v = static_cast<float>(static_cast<int>(random() % 17) - 8);
  for (int i = 0; i < 4; ++i) copy_in(*places[static_cast<std::size_t>(i)], values);
  const Memory cache(driver(), 4 * kMost + 16);
  copy_in(cache, values);
  const auto pick = [&](int from, int to) {
    return places[static_cast<std::size_t>(std::uniform_int_distribution(from, to)(random))]->address;
  };
  cuda::Address at[] = {pick(0, 3), pick(0, 3), pick(4, 5), pick(6, 8), pick(9, 11)};
  std::int64_t count = 1000;
  int by_graph = 0;
  std::size_t moved = 0;
  for (int step = 0; step < kSteps; ++step) {
    if (random() % 3 == 0) at[0] = pick(0, 3) + 4 * (random() % 2);
    if (random() % 3 == 0) at[1] = random() % 2 == 0 ? at[0] : pick(0, 3);
    if (random() % 8 == 0) at[2] = pick(4, 5);
    if (random() % 2 == 0) at[3] = pick(6, 8);
    if (random() % 2 == 0) at[4] = pick(9, 11);
    if (random() % 16 == 0) count = std::uniform_int_distribution<std::int64_t>(1, kMost)(random);
    void* pointers[5];
    for (int i = 0; i < 5; ++i) pointers[i] = reinterpret_cast<void*>(at[i]);
    const auto bytes = static_cast<std::size_t>(4 * count);
    const auto run = [&](bool graph) {
      EXPECT_EQ(driver().copy_on_device(at[2], cache.address, bytes, stream_), cuda::kSuccess);
      const ErrorCode code =
          graph ? plan.launch_graph(pointers, &count, stream_) : plan.launch(pointers, &count, stream_);
      EXPECT_EQ(code, ErrorCode::ok) << device().describe_failure();
      std::vector<std::uint8_t> all;
      for (const int i : {2, 3, 4}) {
        const auto one = read(at[i], bytes);
        all.insert(all.end(), one.begin(), one.end());
        EXPECT_EQ(driver().fill(at[i], 0x55, bytes, stream_), cuda::kSuccess);
      }
      return all;
    };
    const auto plain = run(false);
    const runtime::CudaThreadGraphs& graphs = graphs_of(plan);
    ASSERT_EQ(run(true), plain) << "step " << step << ", n = " << count;
    by_graph += graphs.last_by_graph() ? 1 : 0;
    moved += graphs.last_moved();
  }
  std::printf("%d of %d calls by graph, %zu nodes moved\n", by_graph, kSteps, moved);
  EXPECT_GT(by_graph, kSteps / 10) << "else this shows little";
}

TEST_F(Graphs, generated_kernels_with_tensor_maps_and_a_cache_written_in_place) {
  const auto graph = Graph::parse(R"(
graph block
symbol tokens in 1..300
input x: bf16[tokens, 256]
input up: bf16[512, 256]
input down: bf16[256, 512]
input cache: f32[512, 256]
input position: i64[]
h = cast(x, f32)
n = cast(mul(h, rsqrt(add(mean(mul(h, h), axes=[-1], keepdim=true), 1e-5))), bf16)
u = linear(n, up)
d = linear(silu(u), down)
y = cast(add(cast(d, f32), h), bf16)
filled = slice_update(cache, cast(d, f32), position, axis=0)
output y
output total = sum(filled, axes=[0])
update cache = filled
)",
                                  "test");
  ASSERT_TRUE(graph.ok()) << graph.error().message();
  const auto made = make_plan(*graph, {.target = device().target(), .device = "cuda:0"});
  ASSERT_TRUE(made.ok()) << made.error().message();
  const Plan& plan = *made;
  const runtime::CudaThreadGraphs& graphs = graphs_of(plan);
  constexpr std::size_t kCache = 4 * 512 * 256, kRows = 2 * 300 * 256;
  const std::size_t sizes[] = {kRows, 2 * 512 * 256, 2 * 512 * 256, kCache, 8, kRows, 4 * 256};
  std::mt19937 random(3);
  std::vector<std::vector<std::unique_ptr<Memory>>> places(7);
  for (std::size_t t = 0; t < 7; ++t) {
    std::vector<std::uint16_t> values(sizes[t] / 2, 0);
    if (t < 3)  // bf16 of 1 to 2, negative or not
      for (std::uint16_t& v : values) v = static_cast<std::uint16_t>(0x3f80 | (random() & 0x803f));
    for (int i = 0; i < 3; ++i) {
      places[t].push_back(std::make_unique<Memory>(driver(), sizes[t] + 64));
      ASSERT_EQ(driver().copy_to_device(places[t].back()->address, values.data(), sizes[t], stream_),
                cuda::kSuccess);
    }
  }
  cuda::Address at[7];
  for (std::size_t t = 0; t < 7; ++t) at[t] = places[t][0]->address;
  const Memory before(driver(), kCache);
  std::int64_t tokens = 37, position = 0;
  int by_graph = 0;
  for (int step = 0; step < kSteps; ++step) {
    for (std::size_t t = 0; t < 7; ++t)
      if (random() % (t == 0 || t > 4 ? 2 : 40) == 0)
        at[t] = places[t][random() % 3]->address + (t == 0 && random() % 8 == 0 ? 2 : 0);
    if (random() % 10 == 0) tokens = std::uniform_int_distribution<std::int64_t>(1, 300)(random);
    position = std::uniform_int_distribution<std::int64_t>(0, 512 - tokens)(random);
    ASSERT_EQ(driver().copy_to_device(at[4], &position, 8, stream_), cuda::kSuccess);
    ASSERT_EQ(driver().copy_on_device(before.address, at[3], kCache, stream_), cuda::kSuccess);
    void* pointers[7];
    for (int i = 0; i < 7; ++i) pointers[i] = reinterpret_cast<void*>(at[i]);
    const auto run = [&](bool by_graph_too) {
      EXPECT_EQ(driver().copy_on_device(at[3], before.address, kCache, stream_), cuda::kSuccess);
      const ErrorCode code = by_graph_too ? plan.launch_graph(pointers, &tokens, stream_)
                                          : plan.launch(pointers, &tokens, stream_);
      EXPECT_EQ(code, ErrorCode::ok) << device().describe_failure();
      std::vector<std::uint8_t> all = read(at[5], static_cast<std::size_t>(2 * tokens * 256));
      for (const int i : {6, 3}) {
        const auto one = read(at[i], sizes[i]);
        all.insert(all.end(), one.begin(), one.end());
      }
      EXPECT_EQ(driver().fill(at[5], 0x55, sizes[5], stream_), cuda::kSuccess);
      EXPECT_EQ(driver().fill(at[6], 0x55, sizes[6], stream_), cuda::kSuccess);
      return all;
    };
    const auto plain = run(false);
    ASSERT_EQ(run(true), plain) << "step " << step << ", " << tokens << " tokens";
    by_graph += graphs.last_by_graph() ? 1 : 0;
  }
  std::printf("%zu kernels, %d of %d calls by graph\n", plan.spec().kernels.size(), by_graph, kSteps);
  EXPECT_GT(by_graph, kSteps / 10);
}

TEST_F(Graphs, replays_follow_each_other_without_waiting_and_end_with_their_plan) {
  const Memory x(driver(), 4096), y(driver(), 4096), z(driver(), 4096);
  copy_in(x, std::vector<float>(1000, 3));
  const std::int64_t n = 1000;
  {
    const Plan plan =
        plan_of(compile(kTwice, "twice", {argument("x", ArgRole::input), argument("y", ArgRole::output)}), 5)
            .value();
    // Nodes are set while earlier launches of the same graph are queued or run: these keep what they had.
    for (int call = 0; call < 200; ++call) {
      void* pointers[] = {call % 2 == 0 ? x.pointer() : y.pointer(),
                          call % 2 == 0 ? y.pointer() : z.pointer()};
      ASSERT_EQ(plan.launch_graph(pointers, &n, stream_), ErrorCode::ok) << device().describe_failure();
    }
  }
  ASSERT_EQ(device().wait(stream_), ErrorCode::ok);
  EXPECT_EQ(copy_out(y, 1000), std::vector<float>(1000, 96));
  EXPECT_EQ(copy_out(z, 1000), std::vector<float>(1000, 3072));
}

TEST_F(Graphs, a_capture_holds_plain_launches) {
  const Plan plan =
      plan_of(compile(kTwice, "twice", {argument("x", ArgRole::input), argument("y", ArgRole::output)}), 5)
          .value();
  const std::int64_t n = 1000;
  const Memory x(driver(), 4096), y(driver(), 4096), other(driver(), 4096);
  void* pointers[] = {x.pointer(), y.pointer()};
  void* elsewhere[] = {x.pointer(), other.pointer()};
  for (int call = 0; call < 5; ++call) ASSERT_EQ(plan.launch_graph(pointers, &n, stream_), ErrorCode::ok);
  cuda::Graph graph = nullptr;
  cuda::GraphExec exec = nullptr;
  ASSERT_EQ(driver().begin_capture(stream_, 0), cuda::kSuccess);
  EXPECT_EQ(plan.launch_graph(pointers, &n, stream_), ErrorCode::ok) << device().describe_failure();
  ASSERT_EQ(driver().end_capture(stream_, &graph), cuda::kSuccess);
  ASSERT_EQ(driver().instantiate(&exec, graph, 0), cuda::kSuccess);
  for (int call = 0; call < 5; ++call) ASSERT_EQ(plan.launch_graph(elsewhere, &n, stream_), ErrorCode::ok);
  copy_in(x, std::vector<float>(1000, 7));
  ASSERT_EQ(driver().launch_graph(exec, stream_), cuda::kSuccess);
  ASSERT_EQ(device().wait(stream_), ErrorCode::ok);
  EXPECT_EQ(copy_out(y, 1000), std::vector<float>(1000, 224));
  driver().destroy_graph_exec(exec);
  driver().destroy_graph(graph);
}

}  // namespace
}  // namespace loopwright::device_tests
