// Plans on the fake GPU: launches, workspace, streams, threads, and calls that must be refused.
#include <thread>

#include "tests/unit/runtime/count_new.h"
#include "tests/unit/runtime/fake_gpu.h"

namespace loopwright::runtime::testing {
namespace {

class CudaLaunchTest : public FakeGpu {
 protected:
  static Plan make_twice(const std::shared_ptr<const Device>& device, const std::string& kernel = "twice") {
    return plan_on(device, twice_spec(0, 4000000000), {{variant_of(twice(kernel))}}).value();
  }
  static bool doubles(const Plan& plan, const CudaDevice& device, std::int64_t n, float factor,
                      void* stream = nullptr) {
    const Memory x(device, 4 * n + 4), y(device, 4 * n + 4);
    for (std::int64_t i = 0; i < n; ++i) x.floats()[i] = static_cast<float>(i % 100 + 1);
    void* pointers[] = {x.pointer(), y.pointer()};
    if (plan.launch(pointers, &n, stream) != ErrorCode::ok || device.wait(stream) != ErrorCode::ok)
      return false;
    for (std::int64_t i = 0; i < n; ++i)
      if (y.floats()[i] != factor * x.floats()[i]) return false;
    return true;
  }
  static TensorView view(const Memory& memory, const std::int64_t& n) {
    return {memory.pointer(), DType::f32, {&n, 1}, {}};
  }
};

TEST_F(CudaLaunchTest, evaluates_the_grid_for_each_call) {
  const auto device = open();
  const Plan plan = make_twice(device);
  for (const std::int64_t n : {1, 127, 128, 129, 5000}) EXPECT_TRUE(doubles(plan, *device, n, 2)) << n;
}

TEST_F(CudaLaunchTest, launches_nothing_for_an_empty_tensor) {
  const auto device = open();
  const Plan plan = make_twice(device);
  const std::int64_t before = count("launches");
  EXPECT_TRUE(doubles(plan, *device, 0, 2));
  EXPECT_EQ(count("launches"), before);
}

TEST_F(CudaLaunchTest, maps_of_empty_tensors_are_no_reason_to_fail) {
  const auto device = open();
  const auto mapped = twice("twice_by_map");
  TensorMap map;
  map.shape = {SizeExpr::symbol(0)};
  map.box = {32};
  auto& launch = std::get<CudaLaunch>(mapped->launches[0]);
  launch.tensor_maps = {map};
  launch.grid[0] = SizeExpr(std::int64_t{132});  // whatever the size, as blocks are that go through tiles in rounds
  const Plan plan = plan_on(device, twice_spec(0, 4000000000), {{variant_of(mapped)}}).value();
  EXPECT_TRUE(doubles(plan, *device, 100, 2));
  const std::int64_t none = 0;
  void* nowhere[] = {nullptr, nullptr};
  EXPECT_EQ(plan.launch(nowhere, &none), ErrorCode::ok);
  EXPECT_EQ(device->wait(nullptr), ErrorCode::ok);
}

TEST_F(CudaLaunchTest, leaves_the_context_of_the_calling_thread_alone) {
  const auto first = open(0), second = open(1);
  const Plan plan = make_twice(second);
  EXPECT_TRUE(doubles(plan, *second, 100, 2)) << "no current context";
  const CurrentContext other(first->driver(), first->context());
  EXPECT_TRUE(doubles(plan, *second, 100, 2)) << "another device's context";
  cuda::Address address = 0;
  ASSERT_EQ(first->driver().allocate(&address, 16), cuda::kSuccess);
  EXPECT_TRUE(first->check_memory(address, 16).ok()) << "the first device is current as before";
  EXPECT_FALSE(second->check_memory(address, 16).ok());
  first->driver().free(address);
}

TEST_F(CudaLaunchTest, keeps_intermediates_in_an_arena_that_calls_share) {
  const auto device = open();
  const Plan plan =
      plan_on(device, chain_spec(5, 1000000), std::vector<std::vector<Variant>>(5, {variant_of(twice())})).value();
  EXPECT_TRUE(doubles(plan, *device, 3000, 32));
  const std::int64_t n = 3000;
  const Memory x(*device, 12000), y(*device, 12000);
  void* pointers[] = {x.pointer(), y.pointer()};
  const CurrentContext current(device->driver(), device->context());
  const std::int64_t allocations = count("allocations");
  EXPECT_EQ(plan.launch(pointers, &n), ErrorCode::ok);
  EXPECT_EQ(count("allocations"), allocations);
}

TEST_F(CudaLaunchTest, gives_zeroed_workspace_zero_at_first_and_apart_for_each_stream) {
  const auto device = open();
  ArtifactArg counter = vector_arg("c", ArgRole::workspace, 1, DType::i32);
  counter.zeroed = true;
  const auto counting = artifact_of("twice_counting", {vector_arg("x", ArgRole::input, symbol(0)),
                                                       vector_arg("y", ArgRole::output, symbol(0)), counter});
  const Plan plan = plan_on(device, twice_spec(1, 1000), {{variant_of(counting)}}).value();
  cuda::Stream stream = nullptr;
  ASSERT_EQ(device->driver().create_stream(&stream, 1), cuda::kSuccess);
  EXPECT_TRUE(doubles(plan, *device, 64, 2));
  EXPECT_TRUE(doubles(plan, *device, 64, 2, stream));
  EXPECT_TRUE(doubles(plan, *device, 64, 2));
  device->driver().destroy_stream(stream);
}

TEST_F(CudaLaunchTest, passes_cluster_and_programmatic_attributes) {
  const auto device = open();
  const auto artifact = twice();
  std::get<CudaLaunch>(artifact->launches[0]).cluster = {2, 1, 1};
  std::get<CudaLaunch>(artifact->launches[0]).programmatic_dependent = true;
  const Plan plan = plan_on(device, twice_spec(), {{variant_of(artifact)}}).value();
  const std::int64_t before = count("launches with attributes");
  EXPECT_TRUE(doubles(plan, *device, 100, 2));
  EXPECT_EQ(count("launches with attributes"), before + 1);
}

TEST_F(CudaLaunchTest, large_grids_do_not_begin_before_the_last_one_ends) {
  const auto device = open();
  const auto artifact = twice();
  std::get<CudaLaunch>(artifact->launches[0]).programmatic_dependent = true;
  const Plan plan = plan_on(device, twice_spec(0, 4000000000), {{variant_of(artifact)}}).value();
  const std::int64_t blocks = 16 * device->target().workers, before = count("launches with attributes");
  EXPECT_TRUE(doubles(plan, *device, blocks * 128 + 1, 2));
  EXPECT_EQ(count("launches with attributes"), before);
  EXPECT_TRUE(doubles(plan, *device, blocks * 128, 2));
  EXPECT_EQ(count("launches with attributes"), before + 1);
}

/// y0 = f0(x), y1 = f1(x), y2 = f2(y0).
PlanSpec two_and_one() {
  PlanSpec spec = twice_spec(0, 1000000);
  const PlanTensor y = spec.tensors[1];
  spec.tensors = {spec.tensors[0], y, y, y};
  for (int i = 0; i < 3; ++i) spec.tensors[static_cast<std::size_t>(i + 1)].name = "y" + std::to_string(i);
  const PlanKernel kernel = spec.kernels[0];
  spec.kernels = {kernel, kernel, kernel};
  spec.kernels[0].args = {0, 1}, spec.kernels[1].args = {0, 2}, spec.kernels[2].args = {1, 3};
  return spec;
}

TEST_F(CudaLaunchTest, launches_of_a_flight_overlap_where_all_of_them_fit_the_device) {
  const auto device = open();
  const auto adds = [](const SizeExpr& threads, bool always = true) {
    const auto artifact = artifact_of("adds_overlap", {vector_arg("x", ArgRole::input, symbol(0)), vector_arg("y", ArgRole::output, symbol(0))}, threads);
    auto& launch = std::get<CudaLaunch>(artifact->launches[0]);
    launch.takes_overlap = true;
    launch.programmatic_dependent = always;
    return variant_of(artifact);
  };
  const auto results = [&](const Plan& plan, std::int64_t n) {
    const auto bytes = static_cast<std::size_t>(4 * n);
    const Memory x(*device, bytes), y0(*device, bytes), y1(*device, bytes), y2(*device, bytes);
    std::fill_n(x.floats(), n, 10.f);
    void* pointers[] = {x.pointer(), y0.pointer(), y1.pointer(), y2.pointer()};
    EXPECT_EQ(plan.launch(pointers, &n), ErrorCode::ok);
    EXPECT_EQ(device->wait(nullptr), ErrorCode::ok);
    return std::vector<float>{y0.floats()[n - 1] - 10, y1.floats()[n - 1] - 10, y2.floats()[n - 1] - y0.floats()[n - 1]};
  };
  const Variant plain = adds(symbol(0));
  const Plan plan = plan_on(device, two_and_one(), {{plain}, {plain}, {plain}}).value();
  // 2 lets the next one begin, 1 waits last.
  EXPECT_EQ(results(plan, 100), (std::vector<float>{2, 1, 0}));
  EXPECT_EQ(results(plan, 100), (std::vector<float>{2, 1, 0})) << "a call waits for the one in front of it";
  const std::int64_t half = 8 * 128 * device->target().workers;  // the fake device holds 16 blocks of 128 a multiprocessor
  EXPECT_EQ(results(plan, half), (std::vector<float>{2, 1, 0}));
  EXPECT_EQ(results(plan, half + 1), (std::vector<float>{0, 0, 0}));
  // What was not launched has not waited: the next one has to.
  const Variant none = adds(SizeExpr::apply(SizeExpr::Op::floor_div, symbol(0), 1000));
  const Plan skipping = plan_on(device, two_and_one(), {{none}, {plain}, {plain}}).value();
  EXPECT_EQ(results(skipping, 100)[1], 0);
  // Where edges are for flights alone, only the second of the first flight has one.
  const Variant rarely = adds(symbol(0), false);
  const Plan rare = plan_on(device, two_and_one(), {{rarely}, {rarely}, {rarely}}).value();
  std::int64_t before = count("launches with attributes");
  EXPECT_EQ(results(rare, 100), (std::vector<float>{2, 1, 0}));
  EXPECT_EQ(count("launches with attributes"), before + 1);
  before = count("launches with attributes");
  EXPECT_EQ(results(rare, half + 1), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(count("launches with attributes"), before);
}

TEST_F(CudaLaunchTest, launches_in_flight_have_zeroed_workspace_of_their_own) {
  const auto device = open();
  ArtifactArg counter = vector_arg("c", ArgRole::workspace, 1, DType::i32);
  counter.zeroed = true;
  const std::vector<ArtifactArg> args = {vector_arg("x", ArgRole::input, symbol(0)), vector_arg("y", ArgRole::output, symbol(0)), counter};
  // The first one's counter is as that of a kernel that still runs.
  const Plan plan = plan_on(device, two_and_one(), {{variant_of(artifact_of("forgets_counter", args))}, {variant_of(artifact_of("twice_counting", args))}, {variant_of(twice())}}).value();
  const std::int64_t n = 100;
  const Memory x(*device, 400), y0(*device, 400), y1(*device, 400), y2(*device, 400);
  for (std::int64_t i = 0; i < n; ++i) x.floats()[i] = 10;
  void* pointers[] = {x.pointer(), y0.pointer(), y1.pointer(), y2.pointer()};
  ASSERT_EQ(plan.launch(pointers, &n), ErrorCode::ok);
  ASSERT_EQ(device->wait(nullptr), ErrorCode::ok);
  EXPECT_EQ(y1.floats()[0], 20);
}

TEST_F(CudaLaunchTest, launches_in_flight_share_no_intermediates) {
  // x -> w1 -> y0 and x -> w2 -> y1: w2 is written while w1 may still be read.
  PlanSpec spec = two_and_one();
  PlanTensor work = spec.tensors[1];
  work.role = ArgRole::workspace;
  spec.tensors = {spec.tensors[0], spec.tensors[1], spec.tensors[2], work, work};
  spec.kernels.push_back(spec.kernels[0]);
  spec.kernels[0].args = {0, 3}, spec.kernels[1].args = {3, 1}, spec.kernels[2].args = {0, 4}, spec.kernels[3].args = {4, 2};
  const std::int64_t n = 3200;
  const Plan plan = plan_on(open(), spec, std::vector<std::vector<Variant>>(4, {variant_of(twice())})).value();
  EXPECT_EQ(plan.arena_bytes({&n, 1}), 2 * 4 * n);
}

TEST_F(CudaLaunchTest, allows_large_shared_memory_once_when_it_loads) {
  const auto device = open();
  const auto artifact = twice();
  std::get<CudaLaunch>(artifact->launches[0]).shared_bytes =
      SizeExpr::apply(SizeExpr::Op::mul, symbol(0), 1024);
  const Plan plan = plan_on(device, twice_spec(), {{variant_of(artifact)}}).value();
  EXPECT_TRUE(doubles(plan, *device, 200, 2));
  const std::int64_t n = 300;  // more than a block has
  const Memory x(*device, 1200), y(*device, 1200);
  void* pointers[] = {x.pointer(), y.pointer()};
  EXPECT_EQ(plan.launch(pointers, &n), ErrorCode::launch_failed);
}

TEST_F(CudaLaunchTest, allocates_nothing_on_the_hot_path) {
  const auto device = open();
  const Plan direct = make_twice(device);
  const Plan chained =
      plan_on(device, chain_spec(3, 1000000), std::vector<std::vector<Variant>>(3, {variant_of(twice())})).value();
  EXPECT_TRUE(doubles(chained, *device, 1000, 8));
  EXPECT_TRUE(doubles(direct, *device, 1000, 2));
  set("launch", 2);  // the fake driver allocates when it runs a kernel
  const Memory x(*device, 4000), y(*device, 4000);
  void* pointers[] = {x.pointer(), y.pointer()};
  const std::int64_t n = 1000;
  const CurrentContext current(device->driver(), device->context());
  const auto before = count_allocations();
  EXPECT_EQ(direct.launch(pointers, &n), ErrorCode::out_of_memory);
  EXPECT_EQ(chained.launch(pointers, &n), ErrorCode::out_of_memory);
  EXPECT_EQ(count_allocations(), before);
}

TEST_F(CudaLaunchTest, is_shared_by_threads) {
  const auto device = open();
  const Plan plan =
      plan_on(device, chain_spec(4, 1000000), std::vector<std::vector<Variant>>(4, {variant_of(twice())})).value();
  std::vector<std::thread> threads;
  std::vector<int> right(4, 0);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 1; i <= 20; ++i) right[t] += doubles(plan, *device, 100 * i + t, 16) ? 1 : 0;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, std::vector<int>(4, 20));
}

TEST_F(CudaLaunchTest, memory_of_a_thread_that_ended_is_used_again) {
  const auto device = open();
  const Plan plan =
      plan_on(device, chain_spec(2, 1000000), std::vector<std::vector<Variant>>(2, {variant_of(twice())})).value();
  std::thread([&] { EXPECT_TRUE(doubles(plan, *device, 1000, 4)); }).join();
  const std::int64_t allocations = count("allocations");
  std::thread([&] { EXPECT_TRUE(doubles(plan, *device, 1000, 4)); }).join();
  EXPECT_EQ(count("allocations"), allocations + 2) << "x and y of the test, nothing for the plan";
}

TEST_F(CudaLaunchTest, workspace_grows_while_a_stream_is_captured) {
  const auto device = open();
  const Plan plan =
      plan_on(device, chain_spec(2, 1000000), std::vector<std::vector<Variant>>(2, {variant_of(twice())})).value();
  cuda::Stream stream = nullptr;
  ASSERT_EQ(device->driver().create_stream(&stream, cuda::kStreamNonBlocking), cuda::kSuccess);
  const Memory x(*device, 4000), y(*device, 4000);
  void* pointers[] = {x.pointer(), y.pointer()};
  const std::int64_t n = 1000;
  const std::int64_t allocations = count("allocations"), launches = count("launches");
  cuda::Graph graph = nullptr;
  ASSERT_EQ(device->driver().begin_capture(stream, 0), cuda::kSuccess);
  EXPECT_EQ(plan.launch(pointers, &n, stream), ErrorCode::ok) << device->describe_failure();
  cuda::Address other = 0;
  EXPECT_NE(device->driver().allocate(&other, 64), cuda::kSuccess) << "the thread is strict again";
  ASSERT_EQ(device->driver().end_capture(stream, &graph), cuda::kSuccess);
  EXPECT_EQ(count("allocations"), allocations + 1);
  EXPECT_EQ(count("launches"), launches + 2);
  device->driver().destroy_graph(graph);
  device->driver().destroy_stream(stream);
}

TEST_F(CudaLaunchTest, says_when_memory_is_out) {
  const auto device = open();
  const Plan plan =
      plan_on(device, chain_spec(2, 1000000), std::vector<std::vector<Variant>>(2, {variant_of(twice())})).value();
  const std::int64_t n = 500000;
  const Memory x(*device, 4 * n), y(*device, 4 * n);
  set("memory", 5 << 20);
  const TensorView views[] = {view(x, n), view(y, n)};
  const Status ran = plan.run(views);
  ASSERT_FALSE(ran.ok());
  EXPECT_EQ(ran.error().code, ErrorCode::out_of_memory);
  EXPECT_NE(ran.error().found.find("CUDA error 2 (CUDA_ERROR_OUT_OF_MEMORY)"), std::string::npos)
      << ran.error().found;
}

TEST_F(CudaLaunchTest, says_when_the_device_is_lost) {
  const auto device = open();
  const Plan plan = make_twice(device, "illegal_address");
  const std::int64_t n = 10;
  const Memory x(*device, 40), y(*device, 40);
  const TensorView views[] = {view(x, n), view(y, n)};
  const Status ran = plan.run(views);
  ASSERT_FALSE(ran.ok());
  EXPECT_EQ(ran.error().code, ErrorCode::launch_failed);
  EXPECT_NE(ran.error().found.find("CUDA error 700"), std::string::npos) << ran.error().found;
  EXPECT_NE(ran.error().found.find("started again"), std::string::npos);
  void* pointers[] = {x.pointer(), y.pointer()};
  EXPECT_EQ(plan.launch(pointers, &n), ErrorCode::launch_failed) << "and it stays so";
}

TEST_F(CudaLaunchTest, refuses_memory_that_kernels_cannot_use) {
  const auto device = open(0), other = open(1);
  const Plan plan = make_twice(device);
  const std::int64_t n = 100;
  std::vector<float> host(100);
  const Memory x(*device, 400), y(*device, 400), small(*device, 300), foreign(*other, 400);
  const auto refuse = [&](const TensorView& in, const char* words) {
    const TensorView views[] = {in, view(y, n)};
    const Status ran = plan.run(views);
    ASSERT_FALSE(ran.ok()) << words;
    EXPECT_EQ(ran.error().code, ErrorCode::wrong_arguments);
    EXPECT_NE(ran.error().found.find(words), std::string::npos) << ran.error().found;
    EXPECT_NE(ran.error().where.find("`x`"), std::string::npos);
  };
  refuse({host.data(), DType::f32, {&n, 1}, {}}, "not known to the CUDA driver");
  refuse(view(foreign, n), "memory of the device cuda:1");
  refuse(view(small, n), "300 bytes");
  const TensorView views[] = {view(x, n), view(y, n)};
  EXPECT_TRUE(plan.run(views).ok());
}

TEST_F(CudaLaunchTest, refuses_a_grid_that_no_device_has) {
  const auto device = open();
  const auto artifact = twice();
  std::get<CudaLaunch>(artifact->launches[0]).grid = {SizeExpr(1), symbol(0), SizeExpr(1)};
  const Plan plan = plan_on(device, twice_spec(1, 1000000), {{variant_of(artifact)}}).value();
  const std::int64_t n = 70000;
  void* pointers[] = {nullptr, nullptr};
  EXPECT_EQ(plan.launch(pointers, &n), ErrorCode::launch_failed);
}

TEST_F(CudaLaunchTest, a_misaligned_view_falls_to_a_variant_whose_guard_holds) {
  const auto device = open();
  Guard aligned;
  aligned.alignment_bytes = 16;
  const Plan plan =
      plan_on(device, twice_spec(), {{variant_of(twice("wrong_tile"), aligned), variant_of(twice())}})
          .value();
  const std::int64_t n = 64;
  const Memory x(*device, 400), y(*device, 400);
  std::fill_n(x.floats(), 100, 1.0F);
  void* pointers[] = {x.floats() + 1, y.floats() + 1};
  ASSERT_EQ(plan.launch(pointers, &n), ErrorCode::ok);
  EXPECT_EQ(y.floats()[1 + 40], 2) << "the first variant would have left 1 here";
}

}  // namespace
}  // namespace loopwright::runtime::testing
