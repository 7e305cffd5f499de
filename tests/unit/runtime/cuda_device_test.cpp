// What the CUDA device says when something is wrong, and what it is: on the fake driver.
#include "tests/unit/runtime/fake_gpu.h"

namespace loopwright::runtime::testing {
namespace {

using CudaDriverTest = FakeGpu;
using CudaDeviceTest = FakeGpu;

TEST_F(CudaDriverTest, says_where_it_looked_when_there_is_no_driver) {
  ::unsetenv("LOOPWRIGHT_LIBCUDA");
  const auto missing = CudaDriver::open({"libcuda-of-nobody.so.1", "/nowhere/libcuda.so"});
  ::setenv("LOOPWRIGHT_LIBCUDA", "/nowhere/mine.so", 1);
  const auto named = CudaDriver::open({"libcuda.so.1"});
  ::setenv("LOOPWRIGHT_LIBCUDA", LOOPWRIGHT_FAKE_CUDA_LIBRARY, 1);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::not_found);
  EXPECT_NE(missing.error().where.find("libcuda-of-nobody.so.1"), std::string::npos);
  EXPECT_NE(missing.error().where.find("/nowhere/libcuda.so"), std::string::npos);
  ASSERT_FALSE(named.ok());
  EXPECT_NE(named.error().where.find("/nowhere/mine.so"), std::string::npos);
  EXPECT_EQ(named.error().where.find("libcuda.so.1"), std::string::npos)
      << "a file that is named is the only one tried";
}

TEST_F(CudaDriverTest, refuses_a_driver_that_is_too_old_and_says_how_old) {
  set("version", 11080);
  const auto old = CudaDriver::open({});
  ASSERT_FALSE(old.ok());
  EXPECT_EQ(old.error().code, ErrorCode::unsupported);
  EXPECT_NE(old.error().found.find("11.8"), std::string::npos);
  EXPECT_NE(old.error().works.find("12.0"), std::string::npos);
}

TEST_F(CudaDriverTest, says_when_there_is_no_device) {
  set("init", cuda::kNoDevice);
  const auto none = CudaDriver::open({});
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().found.find("CUDA error 100"), std::string::npos);
  reset();
  set("devices", 0);
  const auto list = list_cuda_devices();
  ASSERT_FALSE(list.ok());
  EXPECT_EQ(list.error().code, ErrorCode::not_found);
}

TEST_F(CudaDeviceTest, describes_every_device) {
  const auto devices = list_cuda_devices();
  ASSERT_TRUE(devices.ok()) << devices.error().message();
  ASSERT_EQ(devices->size(), 2U);
  const CudaInfo& info = (*devices)[1];
  EXPECT_EQ(info.ordinal, 1);
  EXPECT_EQ(info.name, "Fake GPU");
  EXPECT_EQ(info.uuid, "GPU-11111111-1111-1111-1111-111111111111");
  ASSERT_TRUE(info.target.ok());
  EXPECT_EQ(info.target->text(), "cuda:sm_90a");
  EXPECT_EQ(info.target->workers, 4);
  EXPECT_EQ(info.target->l2_bytes, 1 << 20);
}

TEST_F(CudaDeviceTest, gives_a_stable_fingerprint) {
  const db::DeviceRow row = open()->fingerprint();
  EXPECT_EQ(row.kind, "cuda");
  EXPECT_EQ(row.arch, "sm_90a");
  EXPECT_EQ(row.cores, 4);
  EXPECT_EQ(row.memory_bytes, 1 << 30);
  EXPECT_EQ(row.target, "cuda:sm_90a");
  EXPECT_EQ(open()->fingerprint().model, row.model);
}

TEST_F(CudaDeviceTest, refuses_an_ordinal_that_is_not_there_and_a_name_that_is_none) {
  EXPECT_EQ(open_cuda_device(2).error().code, ErrorCode::out_of_range);
  EXPECT_NE(open_cuda_device(7).error().works.find("cuda:1"), std::string::npos);
  EXPECT_EQ(open_device("gpu").error().code, ErrorCode::bad_argument);
  EXPECT_EQ(open_device("cuda:x").error().code, ErrorCode::bad_argument);
  EXPECT_EQ(parse_cuda_name("cuda:12"), 12);
  EXPECT_EQ(parse_cuda_name("cuda:-1"), std::nullopt);
}

TEST_F(CudaDeviceTest, refuses_a_capability_without_code_generation) {
  set("capability", 70);
  const auto device = open_cuda_device(1);
  ASSERT_FALSE(device.ok());
  EXPECT_EQ(device.error().code, ErrorCode::unsupported_target);
  EXPECT_NE(device.error().found.find("7.0"), std::string::npos);
  EXPECT_NE(device.error().works.find("sm_90"), std::string::npos);
}

TEST_F(CudaDeviceTest, runs_code_of_its_own_architecture_and_of_older_ones_of_its_generation) {
  const Target sm86 = *Target::parse("cuda:sm_86"), sm90a = *Target::parse("cuda:sm_90a");
  EXPECT_TRUE(check_runs_on(sm86, "cuda:sm_80").ok());
  EXPECT_TRUE(check_runs_on(sm90a, "cuda:sm_90").ok());
  EXPECT_TRUE(check_runs_on(sm90a, "cuda:sm_90a").ok());
  EXPECT_FALSE(check_runs_on(*Target::parse("cuda:sm_80"), "cuda:sm_86").ok());
  EXPECT_FALSE(check_runs_on(sm90a, "cuda:sm_89").ok());
  EXPECT_FALSE(check_runs_on(sm90a, "cpu:x86-64").ok());
}

TEST_F(CudaDeviceTest, says_that_code_may_be_of_a_compiler_newer_than_the_driver) {
  const auto device = open();
  set("load", 222);  // CUDA_ERROR_UNSUPPORTED_PTX_VERSION
  const auto loaded = device->load(*twice());
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().code, ErrorCode::bad_artifact);
  EXPECT_NE(loaded.error().found.find("CUDA error 222"), std::string::npos) << loaded.error().found;
  EXPECT_NE(loaded.error().works.find("not newer than the driver, which knows CUDA " + device->driver().version_text()), std::string::npos) << loaded.error().works;
  set("load", 0);
  EXPECT_TRUE(device->load(*twice()).ok());
}

TEST_F(CudaDeviceTest, refuses_code_that_is_damaged_or_does_not_fit_its_launches) {
  const auto device = open();
  const auto refuse = [&](const std::shared_ptr<Artifact>& artifact, ErrorCode code, const char* words) {
    const auto loaded = device->load(*artifact);
    ASSERT_FALSE(loaded.ok()) << words;
    EXPECT_EQ(loaded.error().code, code) << loaded.error().message();
    EXPECT_NE(loaded.error().message().find(words), std::string::npos) << loaded.error().message();
  };
  auto artifact = twice();
  artifact->image = {1, 2, 3};
  refuse(artifact, ErrorCode::bad_artifact, "cut short or damaged");
  artifact->image = {1, 2, 3, 0};
  refuse(artifact, ErrorCode::bad_artifact, "CUDA 13.0");
  artifact->image.clear();
  refuse(artifact, ErrorCode::bad_artifact, "no machine code");
  artifact = twice();
  std::get<CudaLaunch>(artifact->launches[0]).entry = "thrice";
  refuse(artifact, ErrorCode::bad_artifact, "no entry thrice");
  artifact = twice();
  artifact->args.pop_back();
  refuse(artifact, ErrorCode::bad_artifact, "does not take 2 parameters");
  artifact = twice();
  artifact->launches = {CpuLaunch{}};
  refuse(artifact, ErrorCode::bad_artifact, "another kind of device");
  artifact = twice();
  std::get<CudaLaunch>(artifact->launches[0]).block = {1024, 2, 1};
  refuse(artifact, ErrorCode::resource_exceeded, "2048 threads");
  artifact = twice();
  std::get<CudaLaunch>(artifact->launches[0]).shared_bytes = 300 << 10;
  refuse(artifact, ErrorCode::resource_exceeded, "shared memory");
  artifact = twice();
  std::get<CudaLaunch>(artifact->launches[0]).cluster = {32, 1, 1};
  refuse(artifact, ErrorCode::resource_exceeded, "clusters of 32");
  artifact = twice();
  artifact->target = "cuda:sm_80";
  refuse(artifact, ErrorCode::unsupported_target, "sm_80");
}

}  // namespace
}  // namespace loopwright::runtime::testing
