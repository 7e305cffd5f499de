// Plan::launch_graph on the fake GPU: the same launches as plain ones, whatever moves between calls.
#include "src/runtime/cuda_graphs.h"

#include <atomic>
#include <barrier>
#include <random>
#include <thread>

#include "tests/unit/runtime/count_new.h"
#include "tests/unit/runtime/fake_gpu.h"

namespace loopwright::runtime::testing {
namespace {

/// Calls until a graph is launched.
constexpr int kWarm = kCallsBeforeGraph + 1;

class CudaGraphsTest : public FakeGpu {
 protected:
  void SetUp() override {
    FakeGpu::SetUp();
    set("launch_us", 20);  // so that a graph is the quicker way
    device_ = open();
  }
  Plan chain(int kernels, const std::shared_ptr<Artifact>& artifact = twice()) {
    return plan_on(
               device_, chain_spec(kernels, 1000000),
               std::vector<std::vector<Variant>>(static_cast<std::size_t>(kernels), {variant_of(artifact)}))
        .value();
  }
  /// A kernel of two tensors that begins early where `edge` says so.
  static Variant kernel(const std::string& name, bool edge = false, Guard guard = {}) {
    const auto artifact = twice(name);
    std::get<CudaLaunch>(artifact->launches[0]).programmatic_dependent = edge;
    return variant_of(artifact, std::move(guard));
  }
  static bool launches(const Plan& plan, void* const* pointers, std::int64_t n, void* stream = nullptr) {
    return plan.launch_graph(pointers, &n, stream) == ErrorCode::ok;
  }

  std::shared_ptr<const CudaDevice> device_;
};

TEST_F(CudaGraphsTest, launches_once_what_was_launched_one_by_one) {
  const Plan plan = chain(5);
  const Memory x(*device_, 400), y(*device_, 400);
  std::fill_n(x.floats(), 100, 3.f);
  void* pointers[] = {x.pointer(), y.pointer()};
  digest();
  const std::int64_t n = 100;
  EXPECT_EQ(plan.launch(pointers, &n), ErrorCode::ok);
  const std::uint64_t plain = digest();
  for (int call = 1; call < kWarm; ++call) {
    EXPECT_TRUE(launches(plan, pointers, n));
    EXPECT_EQ(digest(), plain);
  }
  const std::int64_t before = count("launches"), graphs = count("graph launches");
  for (int call = 0; call < 3; ++call) {
    std::fill_n(y.floats(), 100, 0.f);
    EXPECT_TRUE(launches(plan, pointers, n));
    EXPECT_EQ(digest(), plain);
    EXPECT_EQ(y.floats()[99], 96);
  }
  EXPECT_EQ(count("launches"), before);
  EXPECT_EQ(count("graph launches"), graphs + 3);
}

TEST_F(CudaGraphsTest, edges_clusters_and_flights_are_those_of_plain_launches) {
  PlanSpec spec = chain_spec(6, 1000000);
  spec.kernels[3].args = {0, 5};  // beside the third
  const auto clusters = twice();
  std::get<CudaLaunch>(clusters->launches[0]).cluster = {2, 1, 1};
  const auto overlaps = artifact_of("adds_overlap", {vector_arg("x", ArgRole::input, symbol(0)),
                                                     vector_arg("y", ArgRole::output, symbol(0))});
  std::get<CudaLaunch>(overlaps->launches[0]).takes_overlap = true;
  const Plan plan = plan_on(device_, spec,
                            {{kernel("twice", true)},
                             {variant_of(clusters)},
                             {variant_of(overlaps)},
                             {variant_of(overlaps)},
                             {kernel("twice", true)},
                             {kernel("twice")}})
                        .value();
  const Memory x(*device_, 400), y(*device_, 400);
  std::fill_n(x.floats(), 100, 3.f);
  void* pointers[] = {x.pointer(), y.pointer()};
  digest();
  const std::int64_t n = 100, edges = count("own edges");
  EXPECT_EQ(plan.launch(pointers, &n), ErrorCode::ok);
  const std::uint64_t plain = digest();
  for (int call = 0; call <= kWarm; ++call) {
    EXPECT_TRUE(launches(plan, pointers, n));
    EXPECT_EQ(digest(), plain);
  }
  EXPECT_EQ(count("own edges"), edges + 2)
      << "the second of a flight, and the fifth; the first has nothing in front of it";
}

/// x, w -> ... -> y, z; c is updated in place. Intermediates, two variants a kernel, a tensor map, a flight.
class ManyCalls : public CudaGraphsTest {
 protected:
  static constexpr std::int64_t kMost = 200;
  Plan make() {
    PlanSpec spec = chain_spec(2, kMost);
    const SizeExpr n = symbol(0);
    spec.tensors = {vector_tensor("x", ArgRole::input, n),     vector_tensor("w", ArgRole::input, n),
                    vector_tensor("c", ArgRole::inout, n),     vector_tensor("y", ArgRole::output, n),
                    vector_tensor("z", ArgRole::output, n),    vector_tensor("t0", ArgRole::workspace, n),
                    vector_tensor("t1", ArgRole::workspace, n)};
    const PlanKernel k = spec.kernels[0];
    spec.kernels.assign(7, k);
    const std::int32_t args[7][2] = {{0, 5}, {1, 6}, {5, 2}, {6, 3}, {2, 3}, {1, 4}, {3, 4}};
    for (std::size_t i = 0; i < 7; ++i) spec.kernels[i].args = {args[i][0], args[i][1]};
    const auto accumulates = [](bool edge) {
      const auto artifact = artifact_of("accumulates", {vector_arg("x", ArgRole::input, symbol(0)),
                                                        vector_arg("y", ArgRole::inout, symbol(0))});
      std::get<CudaLaunch>(artifact->launches[0]).programmatic_dependent = edge;
      return variant_of(artifact);
    };
    const auto mapped = twice("twice_by_map");
    TensorMap map;
    map.shape = {n};
    map.box = {32};
    std::get<CudaLaunch>(mapped->launches[0]).tensor_maps = {map};
    const auto overlaps = artifact_of(
        "adds_overlap", {vector_arg("x", ArgRole::input, n), vector_arg("y", ArgRole::output, n)});
    std::get<CudaLaunch>(overlaps->launches[0]).takes_overlap = true;
    Guard aligned;
    aligned.alignment_bytes = 16;
    return plan_on(device_, spec,
                   {{kernel("twice", true, aligned), kernel("doubles", true)},
                    {variant_of(overlaps)},
                    {accumulates(true)},
                    {variant_of(mapped)},
                    {accumulates(false)},
                    {kernel("triples", true, bounds(0, 99)), kernel("triples", true, bounds(100, kMost))},
                    {accumulates(true)}})
        .value();
  }
};

TEST_F(ManyCalls, a_thousand_steps_in_turn_are_the_launches_of_the_plain_way) {
  const Plan plan = make();
  // Several places for each tensor; inputs may be one another, outputs are kept until their place comes up again.
  std::vector<std::unique_ptr<Memory>> places;
  for (int i = 0; i < 30; ++i) places.push_back(std::make_unique<Memory>(*device_, 4 * kMost + 16));
  std::mt19937 random(7);
  const auto pick = [&](int from, int to) {
    return static_cast<std::size_t>(std::uniform_int_distribution(from, to)(random));
  };
  std::int64_t sizes[] = {1, 77, 99, 100, 200};
  std::int64_t n = 77;
  std::vector<float*> at = {places[0]->floats(), places[1]->floats(), places[10]->floats(),
                            places[15]->floats(), places[20]->floats()};
  std::vector<float> kept_y, kept_z;
  const std::int64_t before = count("graph launches"), set_before = count("nodes set");
  for (int step = 0; step < 1000; ++step) {
    if (pick(0, 3) == 0) at[0] = places[pick(0, 4)]->floats() + pick(0, 1);
    if (pick(0, 3) == 0) at[1] = pick(0, 1) == 0 ? at[0] : places[pick(0, 4)]->floats();
    if (pick(0, 9) == 0) at[2] = places[pick(10, 12)]->floats();
    float* const last_y = at[3];
    float* const last_z = at[4];
    if (pick(0, 1) == 0) at[3] = places[pick(15, 19)]->floats();
    if (pick(0, 1) == 0) at[4] = places[pick(20, 24)]->floats();
    if (pick(0, 19) == 0) n = sizes[pick(0, 4)];
    if (last_y != at[3]) {
      EXPECT_TRUE(std::equal(kept_y.begin(), kept_y.end(), last_y)) << "an output that was kept";
    }
    if (last_z != at[4]) {
      EXPECT_TRUE(std::equal(kept_z.begin(), kept_z.end(), last_z)) << "an output that was kept";
    }
    const auto count_n = static_cast<std::size_t>(n);
    for (std::size_t i = 0; i < count_n; ++i)
      at[0][i] = static_cast<float>(pick(0, 9)), at[1][i] = static_cast<float>(pick(0, 9)),
      at[2][i] = static_cast<float>(i % 7);
    std::vector<void*> pointers(at.begin(), at.end());
    digest();
    ASSERT_EQ(plan.launch(pointers.data(), &n), ErrorCode::ok);
    const std::uint64_t plain = digest();
    const std::vector<float> c(at[2], at[2] + n), y(at[3], at[3] + n), z(at[4], at[4] + n);
    for (std::size_t i = 0; i < count_n; ++i) at[2][i] = static_cast<float>(i % 7), at[3][i] = at[4][i] = -1;
    ASSERT_TRUE(launches(plan, pointers.data(), n)) << device_->describe_failure();
    ASSERT_EQ(digest(), plain) << "step " << step;
    ASSERT_TRUE(std::equal(c.begin(), c.end(), at[2]));
    ASSERT_TRUE(std::equal(y.begin(), y.end(), at[3]));
    ASSERT_TRUE(std::equal(z.begin(), z.end(), at[4]));
    kept_y = y, kept_z = z;
  }
  EXPECT_GT(count("graph launches") - before, 700);
  EXPECT_GT(count("nodes set") - set_before, 1000);
  EXPECT_LE(count("executables"), static_cast<std::int64_t>(kMostGraphs));
}

TEST_F(ManyCalls, generations_with_fresh_caches_do_not_show_in_each_other) {
  const Plan plan = make();
  const Memory x(*device_, 400), w(*device_, 400), first(*device_, 400), second(*device_, 400),
      y(*device_, 400), z(*device_, 400);
  const std::int64_t n = 100, before = count("graph launches");
  const auto generate = [&](const Memory& cache) {
    std::vector<float> seen;
    std::fill_n(cache.floats(), n, 0.f);
    void* pointers[] = {x.pointer(), w.pointer(), cache.pointer(), y.pointer(), z.pointer()};
    for (int token = 1; token <= 12; ++token) {
      std::fill_n(x.floats(), n, static_cast<float>(token));
      std::fill_n(w.floats(), n, 1.f);
      EXPECT_TRUE(launches(plan, pointers, n));
      seen.insert(seen.end(), {cache.floats()[n - 1], y.floats()[0], z.floats()[n - 1]});
    }
    return seen;
  };
  const std::vector<float> one = generate(first), two = generate(second);
  EXPECT_EQ(one[33], 2 * (12 * 13 / 2)) << "every token was added to the cache, in place";
  EXPECT_EQ(one, two);
  EXPECT_EQ(generate(first), one);
  EXPECT_EQ(second.floats()[0], one[33]) << "what another generation left is still there";
  EXPECT_GT(count("graph launches") - before, 30);
}

TEST_F(CudaGraphsTest, only_nodes_that_moved_are_set) {
  const Plan plan = chain(6);
  const Memory x(*device_, 400), y(*device_, 400), other(*device_, 400);
  void* pointers[] = {x.pointer(), y.pointer()};
  for (int call = 0; call < kWarm; ++call) EXPECT_TRUE(launches(plan, pointers, 100));
  std::int64_t before = count("nodes set");
  EXPECT_TRUE(launches(plan, pointers, 100));
  EXPECT_EQ(count("nodes set"), before);
  pointers[1] = other.pointer();
  EXPECT_TRUE(launches(plan, pointers, 100));
  EXPECT_EQ(count("nodes set"), before + 1);
  before = count("nodes set");
  EXPECT_TRUE(launches(plan, pointers, 50));
  EXPECT_EQ(count("nodes set"), before + 6) << "another size is in every node";
}

TEST_F(CudaGraphsTest, workspace_that_grew_for_another_plan_is_followed) {
  const Plan plan = chain(5), larger = chain(5);
  const std::int64_t n = 100, many = 200000;
  const Memory x(*device_, 400), y(*device_, 400), large_x(*device_, 4 * many), large_y(*device_, 4 * many);
  void* pointers[] = {x.pointer(), y.pointer()};
  void* others[] = {large_x.pointer(), large_y.pointer()};
  const auto is_plain = [&] {
    digest();
    EXPECT_EQ(plan.launch(pointers, &n), ErrorCode::ok);
    const std::uint64_t plain = digest();
    EXPECT_TRUE(launches(plan, pointers, n));
    return digest() == plain;
  };
  std::thread([&] {  // whose workspace is new
    for (int call = 0; call <= kWarm; ++call) EXPECT_TRUE(is_plain());
    const std::int64_t allocations = count("allocations");
    EXPECT_TRUE(launches(larger, others, many));
    EXPECT_GT(count("allocations"), allocations);
    const std::int64_t replays = count("graph launches");
    EXPECT_TRUE(is_plain());
    EXPECT_EQ(count("graph launches"), replays + 1);
  })
      .join();
}

TEST_F(CudaGraphsTest, warm_calls_allocate_nothing) {
  const Plan plan = chain(6);
  const Memory x(*device_, 400), y(*device_, 400), other(*device_, 400);
  void* here[] = {x.pointer(), y.pointer()};
  void* there[] = {x.pointer(), other.pointer()};
  for (int call = 0; call < kWarm; ++call) EXPECT_TRUE(launches(plan, here, 100));
  EXPECT_TRUE(launches(plan, there, 100));
  set("idle", 1);
  const CurrentContext current(device_->driver(), device_->context());
  const std::int64_t allocations = count_allocations(), graphs = count("graph launches");
  bool all = true;
  for (int i = 0; i < 10; ++i)
    all = launches(plan, here, 100) && launches(plan, here, 100) && launches(plan, there, 90 + i) && all;
  EXPECT_EQ(count_allocations(), allocations);
  EXPECT_TRUE(all);
  EXPECT_EQ(count("graph launches"), graphs + 30);
}

TEST_F(CudaGraphsTest, variants_in_turn_have_graphs_of_their_own_up_to_a_bound) {
  PlanSpec spec = chain_spec(4, 1000000);
  std::vector<Variant> variants;
  for (int i = 0; i < 12; ++i) variants.push_back(kernel("twice", false, bounds(10 * i, 10 * i + 9)));
  const Plan plan =
      plan_on(device_, spec, {variants, {kernel("twice")}, {kernel("twice")}, {kernel("twice")}}).value();
  const Memory x(*device_, 480), y(*device_, 480);
  std::fill_n(x.floats(), 120, 1.f);
  void* pointers[] = {x.pointer(), y.pointer()};
  const auto right = [&](std::int64_t n) {
    std::fill_n(y.floats(), n, 0.f);
    return launches(plan, pointers, n) && y.floats()[0] == 16 && y.floats()[n - 1] == 16;
  };
  const std::int64_t graphs = count("graphs"), before = count("executables");
  for (int round = 0; round < 5; ++round)
    for (int i = 0; i < 12; ++i) EXPECT_TRUE(right(10 * i + 1));
  EXPECT_EQ(count("graphs"), graphs)
      << "more variants in turn than there is room for: no graph is made for nothing";
  for (int i = 0; i < 12; ++i) {
    for (int call = 0; call < kWarm; ++call) EXPECT_TRUE(right(10 * i + 1));
    EXPECT_LE(count("executables") - before, static_cast<std::int64_t>(kMostGraphs));
  }
  EXPECT_EQ(count("graphs"), graphs + 12);
  const std::int64_t replays = count("graph launches");
  for (int i = 11; i >= 5; --i) EXPECT_TRUE(right(10 * i + 1));
  EXPECT_EQ(count("graph launches"), replays + 7) << "the newest are all there";
  EXPECT_TRUE(right(1));
  EXPECT_EQ(count("graph launches"), replays + 7) << "the oldest is not";
}

TEST_F(CudaGraphsTest, graphs_go_with_their_plan) {
  const std::int64_t before = count("executables");
  {
    const Plan plan = chain(4);
    const Memory x(*device_, 400), y(*device_, 400);
    void* pointers[] = {x.pointer(), y.pointer()};
    for (int call = 0; call < kWarm; ++call) EXPECT_TRUE(launches(plan, pointers, 100));
    EXPECT_EQ(count("executables"), before + 1);
  }
  EXPECT_EQ(count("executables"), before);
}

TEST_F(CudaGraphsTest, where_setting_nodes_is_slower_than_launching_they_are_launched) {
  const Plan plan = chain(6);
  const Memory x(*device_, 400), y(*device_, 400);
  void* pointers[] = {x.pointer(), y.pointer()};
  set("node_us", 200);
  for (int call = 0; call < kWarm; ++call) EXPECT_TRUE(launches(plan, pointers, 100));
  std::int64_t graphs = count("graph launches"), nodes = count("nodes set"), before = count("launches");
  EXPECT_TRUE(launches(plan, pointers, 100));
  EXPECT_EQ(count("graph launches"), graphs + 1) << "nothing moved";
  for (std::int64_t n = 50; n < 70; ++n) EXPECT_TRUE(launches(plan, pointers, n));
  EXPECT_EQ(count("graph launches"), graphs + 1);
  EXPECT_EQ(count("nodes set"), nodes);
  EXPECT_EQ(count("launches"), before + 20 * 6);
  EXPECT_TRUE(launches(plan, pointers, 100)) << "and the graph is as it was";
  EXPECT_EQ(count("graph launches"), graphs + 2);
}

TEST_F(CudaGraphsTest, what_is_captured_are_plain_launches) {
  const Plan plan = chain(5);
  cuda::Stream stream = nullptr;
  ASSERT_EQ(device_->driver().create_stream(&stream, cuda::kStreamNonBlocking), cuda::kSuccess);
  const Memory x(*device_, 400), y(*device_, 400);
  void* pointers[] = {x.pointer(), y.pointer()};
  for (int call = 0; call <= kWarm; ++call) EXPECT_TRUE(launches(plan, pointers, 100, stream));
  const std::int64_t n = 100;
  EXPECT_EQ(plan.launch(pointers, &n), ErrorCode::ok) << "workspace of the other stream";
  const std::int64_t before = count("launches"), replays = count("graph launches");
  cuda::Graph graph = nullptr;
  ASSERT_EQ(device_->driver().begin_capture(stream, 0), cuda::kSuccess);
  EXPECT_TRUE(launches(plan, pointers, 100, stream));
  // Beside a capture a graph may be made for another stream.
  for (int call = 0; call < kWarm; ++call) EXPECT_TRUE(launches(plan, pointers, 100));
  ASSERT_EQ(device_->driver().end_capture(stream, &graph), cuda::kSuccess);
  EXPECT_EQ(count("launches"), before + 5 * kWarm);
  EXPECT_EQ(count("graph launches"), replays + 1);
  EXPECT_TRUE(launches(plan, pointers, 100, stream));
  EXPECT_EQ(count("graph launches"), replays + 2);
  device_->driver().destroy_graph(graph);
  device_->driver().destroy_stream(stream);
}

TEST_F(CudaGraphsTest, streams_have_graphs_and_workspace_of_their_own) {
  const Plan plan = chain(5);
  cuda::Stream stream = nullptr;
  ASSERT_EQ(device_->driver().create_stream(&stream, cuda::kStreamNonBlocking), cuda::kSuccess);
  const Memory x(*device_, 400), y(*device_, 400);
  void* pointers[] = {x.pointer(), y.pointer()};
  const std::int64_t n = 100, before = count("executables");
  digest();
  for (int call = 0; call <= kWarm; ++call)
    for (void* s : {static_cast<void*>(stream), static_cast<void*>(nullptr)}) {
      EXPECT_EQ(plan.launch(pointers, &n, s), ErrorCode::ok);
      const std::uint64_t plain = digest();
      EXPECT_TRUE(launches(plan, pointers, n, s));
      EXPECT_EQ(digest(), plain);
      digest();
    }
  EXPECT_EQ(count("executables"), before + 2);
  device_->driver().destroy_stream(stream);
}

TEST_F(CudaGraphsTest, threads_have_graphs_of_their_own_that_later_threads_take_over) {
  const Plan plan = chain(4);
  const std::int64_t before = count("executables");
  const auto run = [&](std::int64_t n) {
    const Memory x(*device_, 4 * n), y(*device_, 4 * n);
    void* pointers[] = {x.pointer(), y.pointer()};
    bool right = true;
    for (int call = 0; call < 20; ++call) {
      std::fill_n(x.floats(), n, static_cast<float>(call));
      right = launches(plan, pointers, n - call) &&
              y.floats()[n - call - 1] == static_cast<float>(16 * call) && right;
    }
    return right;
  };
  for (int round = 0; round < 3; ++round) {
    std::vector<std::thread> threads;
    std::vector<int> right(4, 0);
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] { right[static_cast<std::size_t>(t)] = run(100 + t) ? 1 : 0; });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(right, std::vector<int>(4, 1));
  }
  EXPECT_LE(count("executables") - before, 4);
}

TEST_F(CudaGraphsTest, more_threads_at_once_than_have_graphs_launch_one_by_one) {
  const Plan plan = chain(4);
  constexpr int kThreads = static_cast<int>(kMostGraphThreads) + 6;
  std::barrier all(kThreads);
  std::atomic<int> right = 0;
  const std::int64_t before = count("executables");
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      const Memory x(*device_, 400), y(*device_, 400);
      void* pointers[] = {x.pointer(), y.pointer()};
      std::fill_n(x.floats(), 100, 1.f);
      bool good = true;
      for (int call = 0; call < kWarm; ++call) {
        all.arrive_and_wait();  // so that all of them run
        good = launches(plan, pointers, 100) && good;
      }
      right += good && y.floats()[99] == 16 ? 1 : 0;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, kThreads);
  EXPECT_GT(count("executables") - before, 50);
  EXPECT_LE(count("executables") - before, static_cast<std::int64_t>(kMostGraphThreads));
}

TEST_F(CudaGraphsTest, a_driver_that_makes_no_graphs_costs_a_call_nothing) {
  const Plan plan = chain(4);
  const Memory x(*device_, 400), y(*device_, 400);
  void* pointers[] = {x.pointer(), y.pointer()};
  const std::int64_t graphs = count("graphs"), before = count("launches"), executables = count("executables");
  set("node", 801);
  for (int call = 0; call < 10; ++call) EXPECT_TRUE(launches(plan, pointers, 100));
  set("node", 0);
  EXPECT_TRUE(launches(plan, pointers, 100));
  EXPECT_EQ(count("graphs"), graphs) << "it is asked once";
  EXPECT_EQ(count("launches"), before + 44);
  // A node that cannot be set: launched one by one, with the right parameters.
  const Plan other = chain(4);
  for (int call = 0; call < kWarm; ++call) EXPECT_TRUE(launches(other, pointers, 100));
  std::fill_n(x.floats(), 100, 1.f);
  std::fill_n(y.floats(), 100, 0.f);
  set("node", 1);
  EXPECT_TRUE(launches(other, pointers, 50));
  EXPECT_EQ(y.floats()[49], 16);
  EXPECT_EQ(count("executables"), executables);
}

TEST_F(CudaGraphsTest, a_graph_that_cannot_be_launched_is_an_error_in_the_drivers_words) {
  const Plan plan = chain(4);
  const Memory x(*device_, 400), y(*device_, 400);
  void* pointers[] = {x.pointer(), y.pointer()};
  for (int call = 0; call < kWarm; ++call) EXPECT_TRUE(launches(plan, pointers, 100));
  set("graph", 700);
  const std::int64_t n = 100, other = 50, outside = 2000000;
  EXPECT_EQ(plan.launch_graph(pointers, &n), ErrorCode::launch_failed);
  EXPECT_NE(device_->describe_failure().find("CUDA error 700"), std::string::npos);
  EXPECT_EQ(plan.launch_graph(pointers, &other), ErrorCode::launch_failed);
  set("graph", 0);
  EXPECT_TRUE(launches(plan, pointers, 100));
  EXPECT_EQ(plan.launch_graph(pointers, &outside), ErrorCode::out_of_range);
}

TEST_F(CudaGraphsTest, launches_without_blocks_are_left_out) {
  // The second kernel has blocks from 100 on only.
  const auto sometimes = artifact_of(
      "twice", {vector_arg("x", ArgRole::input, symbol(0)), vector_arg("y", ArgRole::output, symbol(0))},
      SizeExpr::apply(SizeExpr::Op::mul, SizeExpr::apply(SizeExpr::Op::floor_div, symbol(0), 100), 128));
  const Plan plan = plan_on(device_, chain_spec(6, 1000),
                            {{kernel("twice")},
                             {variant_of(sometimes)},
                             {kernel("twice")},
                             {kernel("twice")},
                             {kernel("twice")},
                             {kernel("twice")}})
                        .value();
  const Memory x(*device_, 800), y(*device_, 800);
  void* pointers[] = {x.pointer(), y.pointer()};
  for (int call = 0; call < 20; ++call)
    for (const std::int64_t n : {99, 100, 0}) {
      digest();
      EXPECT_EQ(plan.launch(pointers, &n), ErrorCode::ok);
      const std::uint64_t plain = digest();
      EXPECT_TRUE(launches(plan, pointers, n));
      EXPECT_EQ(digest(), plain);
    }
}

TEST_F(CudaGraphsTest, few_kernels_are_launched_as_before) {
  const std::int64_t graphs = count("graphs");
  const Memory x(*device_, 400), y(*device_, 400);
  void* pointers[] = {x.pointer(), y.pointer()};
  for (const int kernels : {1, 3}) {
    const Plan plan = chain(kernels);
    for (int call = 0; call < 10; ++call) EXPECT_TRUE(launches(plan, pointers, 100));
  }
  EXPECT_EQ(count("graphs"), graphs);
}

TEST_F(CudaGraphsTest, every_call_at_untuned_sizes_is_counted) {
  PlanParts parts;
  parts.spec = chain_spec(4, 1000);
  Variant untuned = kernel("twice");
  untuned.match = Match::untuned;
  parts.variants.assign(4, {untuned});
  parts.device = device_;
  parts.misses.assign(4, nullptr);
  parts.misses[2] = std::make_shared<MissTable>(1);
  const auto misses = parts.misses[2];
  const Plan plan = PlanAccess::make(std::move(parts)).value();
  const Memory x(*device_, 400), y(*device_, 400);
  void* pointers[] = {x.pointer(), y.pointer()};
  const std::int64_t replays = count("graph launches");
  for (int call = 0; call < 10; ++call) EXPECT_TRUE(launches(plan, pointers, 100));
  EXPECT_EQ(count("graph launches"), replays + 10 - kCallsBeforeGraph);
  const auto entries = misses->take();
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].count, 10);
}

TEST(LaunchCostTest, weighs_nodes_that_have_to_be_set_against_launches) {
  LaunchCost cost;
  cost.note_plain(20000);
  cost.note_patches(6 * 500, 6);
  EXPECT_TRUE(cost.prefers_graph(6)) << "until its launch was timed";
  cost.note_replay(1e9);  // brings it to the device
  cost.note_replay(5000);
  EXPECT_TRUE(cost.prefers_graph(29));
  EXPECT_FALSE(cost.prefers_graph(31));
  EXPECT_TRUE(cost.prefers_replay());
  cost.note_replay(1e9);
  EXPECT_TRUE(cost.prefers_graph(25)) << "one call that the machine held up";
  for (int i = 0; i < 40; ++i) cost.note_replay(30000);
  EXPECT_FALSE(cost.prefers_graph(0)) << "all of them";
  EXPECT_FALSE(cost.prefers_replay());
  int tried = 0;
  for (int i = 0; i < 128; ++i) tried += cost.prefers_graph(0) ? 1 : 0;
  EXPECT_EQ(tried, 2);
  cost.note_replay(5000), cost.note_replay(5000);
  EXPECT_TRUE(cost.prefers_graph(0)) << "quicker is believed at once";
}

TEST(CpuGraphs, are_plain_launches) {
  const Plan plan = twice_plan();
  Held<float> x({1, 2, 3}), y({0, 0, 0});
  void* pointers[] = {x.data.data(), y.data.data()};
  const std::int64_t n = 3;
  EXPECT_EQ(plan.launch_graph(pointers, &n), ErrorCode::ok);
  EXPECT_EQ(y.data, (std::vector<float>{2, 4, 6}));
}

}  // namespace
}  // namespace loopwright::runtime::testing
