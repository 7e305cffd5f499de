// The runtime on the fake CUDA driver: plans over its kernels, and memory of its devices.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "src/runtime/cuda_device.h"
#include "src/runtime/plan.h"
#include "tests/fake_cuda/fake_artifact.h"
#include "tests/unit/runtime/hand_made.h"

namespace loopwright::runtime::testing {

class FakeGpu : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { ::setenv("LOOPWRIGHT_LIBCUDA", LOOPWRIGHT_FAKE_CUDA_LIBRARY, 1); }
  void SetUp() override {
    library_ = dlopen(LOOPWRIGHT_FAKE_CUDA_LIBRARY, RTLD_NOW);
    ASSERT_NE(library_, nullptr) << dlerror();
    reset();
  }
  void TearDown() override { reset(); }
  void reset() {
    set("version", 13000), set("devices", 2), set("capability", 90), set("memory", 1 << 30);
    set("init", 0), set("launch", 0), set("lost", 0), set("hanging", 0);
    set("node", 0), set("graph", 0), set("launch_us", 0), set("node_us", 0), set("idle", 0);
  }
  void set(const char* name, std::int64_t value) {
    reinterpret_cast<void (*)(const char*, std::int64_t)>(dlsym(library_, "fake_cuda_set"))(name, value);
  }
  std::int64_t count(const char* name) {
    return reinterpret_cast<std::int64_t (*)(const char*)>(dlsym(library_, "fake_cuda_count"))(name);
  }

  std::uint64_t digest() { return reinterpret_cast<std::uint64_t (*)()>(dlsym(library_, "fake_cuda_digest"))(); }

  static std::shared_ptr<const CudaDevice> open(int ordinal = 0) {
    auto device = open_cuda_device(ordinal);
    EXPECT_TRUE(device.ok()) << device.error().message();
    return std::static_pointer_cast<const CudaDevice>(*device);
  }
  /// A launch of `kernel` with a thread for each of `threads` elements.
  static std::shared_ptr<Artifact> artifact_of(const std::string& kernel, std::vector<ArtifactArg> args,
                                               const SizeExpr& threads = symbol(0)) {
    auto artifact = std::make_shared<Artifact>();
    artifact->symbols = {"s0"};
    artifact->args = std::move(args);
    test::set_fake_kernel(*artifact, kernel, threads);
    return artifact;
  }
  static std::shared_ptr<Artifact> twice(const std::string& kernel = "twice") {
    return artifact_of(
        kernel, {vector_arg("x", ArgRole::input, symbol(0)), vector_arg("y", ArgRole::output, symbol(0))});
  }
  static Result<Plan> plan_on(const std::shared_ptr<const Device>& device, PlanSpec spec,
                              std::vector<std::vector<Variant>> variants) {
    PlanParts parts;
    parts.spec = std::move(spec);
    parts.variants = std::move(variants);
    parts.device = device;
    return PlanAccess::make(std::move(parts));
  }

  /// Device memory, freed with the object.
  struct Memory {
    Memory(const CudaDevice& owner, std::size_t bytes) : device(owner) {
      const CurrentContext current(device.driver(), device.context());
      EXPECT_EQ(device.driver().allocate(&address, bytes), cuda::kSuccess);
    }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    ~Memory() { device.driver().free(address); }
    float* floats() const { return reinterpret_cast<float*>(address); }
    void* pointer() const { return reinterpret_cast<void*>(address); }
    const CudaDevice& device;
    cuda::Address address = 0;
  };

 private:
  void* library_ = nullptr;
};

}  // namespace loopwright::runtime::testing
