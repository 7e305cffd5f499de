// The launch path on a real driver.
#include <thread>

#include "tests/device/device_test_support.h"

namespace loopwright::device_tests {
namespace {

class Launch : public OnGpu {
 protected:
  std::shared_ptr<Artifact> twice() const {
    return compile(kTwice, "twice", {argument("x", ArgRole::input), argument("y", ArgRole::output)});
  }
};

TEST_F(Launch, the_device_describes_itself) {
  const db::DeviceRow row = device().fingerprint();
  EXPECT_EQ(row.kind, "cuda");
  EXPECT_GT(row.cores, 0);
  EXPECT_GT(row.memory_bytes, 1LL << 30);
  std::printf("%s, %s, %lld multiprocessors, L2 %lld MB, driver for CUDA %s, NVRTC %s\n", row.model.c_str(),
              row.target.c_str(), static_cast<long long>(row.cores),
              static_cast<long long>(row.l2_bytes >> 20), driver().version_text().c_str(),
              nvrtc_->version_text().c_str());
}

TEST_F(Launch, computes_at_any_size) {
  const Plan plan = plan_of(twice()).value();
  for (const std::int64_t n : {0, 1, 255, 256, 257, 100003}) EXPECT_TRUE(multiplies(plan, n, 2)) << n;
}

TEST_F(Launch, intermediates_live_in_an_arena_of_the_stream) {
  const Plan plan = plan_of(twice(), 5).value();
  cuda::Stream stream = nullptr;
  ASSERT_EQ(driver().create_stream(&stream, 1), cuda::kSuccess);
  for (const std::int64_t n : {1000, 200000, 10}) {
    EXPECT_TRUE(multiplies(plan, n, 32));
    EXPECT_TRUE(multiplies(plan, n, 32, stream));
  }
  driver().destroy_stream(stream);
}

TEST_F(Launch, threads_share_a_plan_and_need_no_current_context) {
  const Plan plan = plan_of(twice(), 3).value();
  std::vector<int> right(4, 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      // The first launch of the thread comes before anything made a context current in it.
      std::int64_t n = 0;
      void* none[] = {nullptr, nullptr};
      if (plan.launch(none, &n) != ErrorCode::ok) return;
      const runtime::CurrentContext current(driver(), device().context());
      for (int i = 1; i <= 20; ++i) right[t] += multiplies(plan, 1000 * i + t, 8) ? 1 : 0;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, std::vector<int>(4, 20));
  const Plan direct = plan_of(twice()).value();
  const Memory x(driver(), 4096), y(driver(), 4096);
  std::thread([&] {
    std::int64_t n = 1000;
    void* pointers[] = {x.pointer(), y.pointer()};
    EXPECT_EQ(direct.launch(pointers, &n), ErrorCode::ok) << device().describe_failure();
    EXPECT_EQ(device().wait(nullptr), ErrorCode::ok);
  }).join();
}

TEST_F(Launch, is_captured_into_a_graph_at_its_first_launch) {
  const Plan plan = plan_of(twice(), 4).value();
  cuda::Stream stream = nullptr;
  ASSERT_EQ(driver().create_stream(&stream, 1), cuda::kSuccess);
  const std::int64_t n = 5000;
  const Memory x(driver(), 4 * n), y(driver(), 4 * n);
  copy_in(x, std::vector<float>(5000, 3));
  void* pointers[] = {x.pointer(), y.pointer()};
  cuda::Graph graph = nullptr;
  cuda::GraphExec exec = nullptr;
  ASSERT_EQ(driver().begin_capture(stream, 0), cuda::kSuccess);
  EXPECT_EQ(plan.launch(pointers, &n, stream), ErrorCode::ok) << device().describe_failure();
  ASSERT_EQ(driver().end_capture(stream, &graph), cuda::kSuccess);
  ASSERT_EQ(driver().instantiate(&exec, graph, 0), cuda::kSuccess);
  copy_in(x, std::vector<float>(5000, 7));
  ASSERT_EQ(driver().launch_graph(exec, stream), cuda::kSuccess);
  ASSERT_EQ(device().wait(stream), ErrorCode::ok);
  EXPECT_EQ(copy_out(y, 5000), std::vector<float>(5000, 112));
  driver().destroy_graph_exec(exec);
  driver().destroy_graph(graph);
  driver().destroy_stream(stream);
}

TEST_F(Launch, zeroed_workspace_is_zero_whenever_a_kernel_starts) {
  // The last block to arrive adds 1 to every element when all counted from zero, and puts the counter back.
  const auto artifact = compile(R"(
extern "C" __global__ void __launch_bounds__(256) counted(const float* x, float* y, unsigned* c, long long n) {
  const long long i = blockIdx.x * 256LL + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    const unsigned before = atomicAdd(c, 1u);
    if (before >= gridDim.x) y[0] = -1;
    if (before == gridDim.x - 1) *c = 0;
  }
})",
                                "counted",
                                {argument("x", ArgRole::input), argument("y", ArgRole::output),
                                 argument("c", ArgRole::workspace, 1, DType::i32, true)});
  const Plan plan = plan_of(artifact).value();
  cuda::Stream stream = nullptr;
  ASSERT_EQ(driver().create_stream(&stream, 1), cuda::kSuccess);
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(multiplies(plan, 100000, 2));
    EXPECT_TRUE(multiplies(plan, 30000, 2, stream));
  }
  driver().destroy_stream(stream);
}

TEST_F(Launch, clusters_large_shared_memory_and_programmatic_edges_work) {
  if (device().info().capability < 90) GTEST_SKIP() << "needs compute capability 9.0";
  const auto artifact = compile(R"(
extern __shared__ float staged[];
extern "C" __global__ void __launch_bounds__(256) twice(const float* x, float* y, long long n) {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  unsigned size;
  asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(size));
  const long long i = blockIdx.x * 256LL + threadIdx.x;
  staged[25600 + threadIdx.x] = i < n ? x[i] : 0;
  __syncthreads();
  if (i < n) y[i] = staged[25600 + threadIdx.x] * size;
})",
                                "twice", {argument("x", ArgRole::input), argument("y", ArgRole::output)});
  auto& launch = std::get<CudaLaunch>(artifact->launches[0]);
  launch.cluster = {2, 1, 1};
  launch.grid[0] = SizeExpr::apply(SizeExpr::Op::mul,
                                   SizeExpr::apply(SizeExpr::Op::ceil_div, SizeExpr::symbol(0), 512), 2);
  launch.shared_bytes = 104 << 10;
  launch.programmatic_dependent = true;
  EXPECT_TRUE(multiplies(plan_of(artifact, 3).value(), 100000, 8));
}

TEST_F(Launch, kernels_of_a_flight_run_at_the_same_time_and_are_over_when_the_next_begins) {
  if (device().info().capability < 90) GTEST_SKIP() << "needs compute capability 9.0";
  // Two kernels tell in x that they have begun, and look for a second at most whether the other has. The third adds what
  // both found.
  const auto make = [&](const std::string& name, const std::string& body, std::vector<ArtifactArg> args) {
    std::string text = "extern \"C\" __global__ void __launch_bounds__(256) " + name + "(";
    for (const ArtifactArg& a : args) text += "volatile float* " + a.name + ", ";
    const std::string wait = "asm volatile(\"griddepcontrol.wait;\" : : : \"memory\");\n";
    text += "long long n, long long overlap) {\n  if (!(overlap & 1)) " + wait +
            "  asm volatile(\"griddepcontrol.launch_dependents;\" : : : \"memory\");\n  if (threadIdx.x == 0) {" + body +
            "}\n  if (overlap & 1) " + wait + "}\n";
    const auto artifact = compile(text, name, std::move(args));
    auto& launch = std::get<CudaLaunch>(artifact->launches[0]);
    launch.programmatic_dependent = launch.takes_overlap = true;
    Variant variant;
    variant.artifact = artifact;
    return variant;
  };
  const auto meet = [&](const std::string& name, int mine) {
    const std::string other = "x[" + std::to_string(1 - mine) + "]";
    return make(name, "x[" + std::to_string(mine) + "] = 1; __threadfence(); const long long end = clock64() + 2000000000ll;\n"
                      "    while (" + other + " == 0 && clock64() < end) ; *y = " + other + ";",
                {argument("x", ArgRole::input), argument("y", ArgRole::output)});
  };
  const Variant add = make("add", "*y = *a + 10 * *b;", {argument("a", ArgRole::input), argument("b", ArgRole::input), argument("y", ArgRole::output)});
  const SizeExpr n = SizeExpr::symbol(0), one = 1;
  runtime::PlanParts parts;
  parts.device = device_;
  parts.spec.name = "meet";
  parts.spec.symbols = {{"n", 1, 256}};
  for (const char* name : {"x", "y", "a", "b"})
    parts.spec.tensors.push_back({name, DType::f32, ArgRole::workspace, {n}, {one}});
  parts.spec.tensors[0].role = ArgRole::input, parts.spec.tensors[1].role = ArgRole::output;
  parts.spec.kernels = {{"w", "", {0, 2}, {0}, {"s0"}}, {"w", "", {0, 3}, {0}, {"s0"}}, {"w", "", {2, 3, 1}, {0}, {"s0"}}};
  parts.variants = {{meet("first", 0)}, {meet("second", 1)}, {add}};
  const Plan plan = runtime::PlanAccess::make(std::move(parts)).value();
  const std::int64_t count = 256;
  const Memory x(driver(), 1024), y(driver(), 1024);
  void* pointers[] = {x.pointer(), y.pointer()};
  for (int i = 0; i < 10; ++i) {
    copy_in(x, std::vector<float>(256, 0));
    ASSERT_EQ(plan.launch(pointers, &count), ErrorCode::ok);
    ASSERT_EQ(device().wait(nullptr), ErrorCode::ok);
    ASSERT_EQ(copy_out(y, 1)[0], 11);
  }
}

TEST_F(Launch, refuses_host_memory_and_short_memory) {
  const Plan plan = plan_of(twice()).value();
  const std::int64_t n = 1000;
  std::vector<float> host(1000);
  const Memory x(driver(), 4000), y(driver(), 4000);
  const auto view = [&](void* data) { return TensorView{data, DType::f32, {&n, 1}, {}}; };
  const TensorView good[] = {view(x.pointer()), view(y.pointer())};
  EXPECT_TRUE(plan.run(good).ok());
  const TensorView from_host[] = {view(host.data()), view(y.pointer())};
  const Status refused = plan.run(from_host);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::wrong_arguments) << refused.error().message();
}

TEST_F(Launch, refuses_damaged_code_and_missing_entries) {
  auto artifact = twice();
  artifact->image.resize(artifact->image.size() / 2);
  EXPECT_FALSE(device().load(*artifact).ok());
  artifact = twice();
  std::get<CudaLaunch>(artifact->launches[0]).entry = "thrice";
  EXPECT_EQ(device().load(*artifact).error().code, ErrorCode::bad_artifact);
  artifact = twice();
  artifact->args.pop_back();
  EXPECT_EQ(device().load(*artifact).error().code, ErrorCode::bad_artifact);
  artifact = twice();
  std::get<CudaLaunch>(artifact->launches[0]).block[0] = 512;
  EXPECT_EQ(device().load(*artifact).error().code, ErrorCode::resource_exceeded) << "launch bounds say 256";
}

TEST_F(Launch, says_when_device_memory_is_out) {
  const Plan plan = plan_of(twice(), 2, 1LL << 44).value();
  const std::int64_t n = 1LL << 42;
  void* pointers[] = {nullptr, nullptr};
  EXPECT_EQ(plan.launch(pointers, &n), ErrorCode::out_of_memory);
  EXPECT_NE(device().describe_failure().find("CUDA error 2"), std::string::npos)
      << device().describe_failure();
  EXPECT_TRUE(multiplies(plan, 1000, 4)) << "and goes on";
}

TEST_F(Launch, LargeTensorsBeyondTwoToThe31ElementsWork) {
  const std::int64_t n = (1LL << 31) + 1000;
  const Memory x(driver(), 4 * n), y(driver(), 4 * n);
  if (x.address == 0 || y.address == 0) GTEST_SKIP() << "17 GB of device memory are not free";
  ASSERT_EQ(driver().fill(x.address, 0, 4 * n, nullptr), cuda::kSuccess);
  const float last = 21;
  ASSERT_EQ(driver().copy_to_device(x.address + 4 * (n - 1), &last, 4, nullptr), cuda::kSuccess);
  const Plan plan = plan_of(twice()).value();
  void* pointers[] = {x.pointer(), y.pointer()};
  ASSERT_EQ(plan.launch(pointers, &n), ErrorCode::ok);
  float out = 0;
  ASSERT_EQ(driver().copy_to_host(&out, y.address + 4 * (n - 1), 4, nullptr), cuda::kSuccess);
  ASSERT_EQ(device().wait(nullptr), ErrorCode::ok);
  EXPECT_EQ(out, 42);
}

}  // namespace
}  // namespace loopwright::device_tests
