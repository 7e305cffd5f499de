// What device tests share: skipping where there is no GPU, kernels from text, device memory.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "src/codegen/cuda/nvrtc.h"
#include "src/runtime/cuda_device.h"
#include "src/runtime/plan.h"

namespace loopwright::device_tests {

using runtime::CudaDevice;
namespace cuda = runtime::cuda;

class OnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = runtime::open_cuda_device(0);
    if (!opened.ok()) GTEST_SKIP() << opened.error().message();
    const auto found = codegen::Nvrtc::shared();
    if (!found.ok()) GTEST_SKIP() << found.error().message();
    device_ = std::static_pointer_cast<const CudaDevice>(*opened);
    nvrtc_ = *found;
    ASSERT_EQ(driver().push_context(device_->context()), cuda::kSuccess);
  }
  void TearDown() override {
    cuda::Context popped = nullptr;
    if (device_ != nullptr) driver().pop_context(&popped);
  }
  const runtime::CudaDriver& driver() const { return device_->driver(); }
  const CudaDevice& device() const { return *device_; }

  /// One launch of `kernel` in `text`, a thread for each of s0 elements.
  std::shared_ptr<Artifact> compile(const std::string& text, const std::string& kernel,
                                    std::vector<ArtifactArg> args) const {
    const auto program = nvrtc_->compile({kernel + ".cu", text, device_->target().arch, {}});
    if (!program.ok()) throw std::runtime_error(program.error().message());
    auto artifact = std::make_shared<Artifact>();
    artifact->target = device_->target().text();
    artifact->symbols = {"s0"};
    artifact->args = std::move(args);
    CudaLaunch launch;
    launch.entry = kernel;
    launch.grid[0] = SizeExpr::apply(SizeExpr::Op::ceil_div, SizeExpr::symbol(0), 256);
    launch.block[0] = 256;
    artifact->launches = {launch};
    artifact->image = program->cubin;
    return artifact;
  }
  static ArtifactArg argument(std::string name, ArgRole role, SizeExpr size = SizeExpr::symbol(0),
                              DType dtype = DType::f32, bool zeroed = false) {
    return {std::move(name), dtype, role, {std::move(size)}, {SizeExpr(std::int64_t{1})}, zeroed};
  }
  /// y = 2 x over n in 0..hi as `kernels` kernels in a row.
  Result<Plan> plan_of(const std::shared_ptr<const Artifact>& artifact, int kernels = 1,
                       std::int64_t hi = 1LL << 34) const {
    const SizeExpr n = SizeExpr::symbol(0), one = 1;
    runtime::PlanParts parts;
    parts.device = device_;
    parts.spec.name = "twice";
    parts.spec.symbols = {{"n", 0, hi}};
    parts.spec.tensors = {{"x", artifact->args[0].dtype, ArgRole::input, {n}, {one}},
                          {"y", artifact->args[1].dtype, ArgRole::output, {n}, {one}}};
    for (int k = 1; k < kernels; ++k)
      parts.spec.tensors.push_back(
          {"t" + std::to_string(k), artifact->args[0].dtype, ArgRole::workspace, {n}, {one}});
    Variant variant;
    variant.artifact = artifact;
    for (int k = 0; k < kernels; ++k) {
      parts.spec.kernels.push_back(
          {"w", "elementwise", {k == 0 ? 0 : k + 1, k == kernels - 1 ? 1 : k + 2}, {0}, {"s0"}});
      parts.variants.push_back({variant});
    }
    return runtime::PlanAccess::make(std::move(parts));
  }

  struct Memory {
    Memory(const runtime::CudaDriver& d, std::size_t bytes) : driver(d) {
      if (driver.allocate(&address, bytes) != cuda::kSuccess) address = 0;
    }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    ~Memory() { driver.free(address); }
    void* pointer() const { return reinterpret_cast<void*>(address); }
    const runtime::CudaDriver& driver;
    cuda::Address address = 0;
  };
  void copy_in(const Memory& to, const std::vector<float>& from) const {
    EXPECT_EQ(driver().copy_to_device(to.address, from.data(), 4 * from.size(), nullptr), cuda::kSuccess);
    EXPECT_EQ(driver().wait_stream(nullptr), cuda::kSuccess);
  }
  std::vector<float> copy_out(const Memory& from, std::size_t count) const {
    std::vector<float> to(count);
    EXPECT_EQ(driver().copy_to_host(to.data(), from.address, 4 * count, nullptr), cuda::kSuccess);
    EXPECT_EQ(driver().wait_stream(nullptr), cuda::kSuccess);
    return to;
  }
  /// Runs the plan on 1, 2, 3, ... and says whether everything came out times `factor`.
  bool multiplies(const Plan& plan, std::int64_t n, float factor, cuda::Stream stream = nullptr) const {
    const auto count = static_cast<std::size_t>(n);
    const Memory x(driver(), 4 * count + 4), y(driver(), 4 * count + 4);
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i % 1000 + 1);
    copy_in(x, values);
    void* pointers[] = {x.pointer(), y.pointer()};
    if (plan.launch(pointers, &n, stream) != ErrorCode::ok || device_->wait(stream) != ErrorCode::ok)
      return false;
    const std::vector<float> out = copy_out(y, count);
    for (std::size_t i = 0; i < count; ++i)
      if (out[i] != factor * values[i]) return false;
    return true;
  }

  std::shared_ptr<const CudaDevice> device_;
  const codegen::Nvrtc* nvrtc_ = nullptr;
};

inline constexpr const char* kTwice = R"(
extern "C" __global__ void __launch_bounds__(256) twice(const float* x, float* y, long long n) {
  const long long i = blockIdx.x * 256LL + threadIdx.x;
  if (i < n) y[i] = x[i] + x[i];
})";

}  // namespace loopwright::device_tests
