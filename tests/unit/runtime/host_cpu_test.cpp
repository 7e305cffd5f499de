#include "src/runtime/host_cpu.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "loopwright/runtime.h"
#include "src/runtime/device.h"

namespace loopwright::runtime {
namespace {

TEST(HostCpu, QuotaIsRoundedUpToWholeCpus) {
  EXPECT_EQ(parse_cpu_quota("max 100000"), 0);
  EXPECT_EQ(parse_cpu_quota("150000 100000"), 2);
  EXPECT_EQ(parse_cpu_quota("50000 100000"), 1);
  EXPECT_EQ(parse_cpu_quota("-1 100000"), 0);
  EXPECT_EQ(parse_cpu_quota(""), 0);
}

TEST(HostCpu, GenericLevelsFollowFeatures) {
  EXPECT_EQ(generic_level("x86-64"), 1);
  EXPECT_EQ(generic_level("x86-64-v3"), 3);
  EXPECT_EQ(generic_level("x86-64-v9"), 0);
  EXPECT_EQ(generic_level("znver3"), 0);
  EXPECT_EQ(feature_level({}), 1);
  EXPECT_EQ(feature_level({"popcnt", "sse3", "sse4.1", "sse4.2", "ssse3"}), 2);
  EXPECT_EQ(feature_level({"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"}), 1)
      << "level 3 stands on level 2";
}

TEST(HostCpu, IsReadWithSortedFeaturesAndCaches) {
  const HostCpu& host = host_cpu();
  EXPECT_FALSE(host.arch.empty());
  EXPECT_TRUE(std::is_sorted(host.features.begin(), host.features.end()));
  EXPECT_GE(host.threads, host.cores);
  EXPECT_GE(host.cores, 1);
  EXPECT_GE(host.l1_bytes, 8 << 10);
  EXPECT_GE(host.l2_bytes, host.l1_bytes);
}

TEST(HostTarget, TextReadsBackAndRunsItself) {
  const Target target = host_target();
  const auto parsed = Target::parse(target.text());
  ASSERT_TRUE(parsed.ok()) << parsed.error().message();
  EXPECT_EQ(parsed->text(), target.text());
  EXPECT_EQ(parsed->vector_bytes, target.vector_bytes);
  EXPECT_TRUE(check_runs_on(target, target.text()).ok());
}

TEST(HostTarget, WorkersCanBeSet) {
  const char* before = std::getenv("LOOPWRIGHT_WORKERS");
  const std::string saved = before == nullptr ? "" : before;
  setenv("LOOPWRIGHT_WORKERS", "7", 1);
  EXPECT_EQ(host_target().workers, 7);
  setenv("LOOPWRIGHT_WORKERS", "none", 1);
  EXPECT_GE(host_target().workers, 1);
  if (before == nullptr) unsetenv("LOOPWRIGHT_WORKERS");
  else setenv("LOOPWRIGHT_WORKERS", saved.c_str(), 1);
}

Target some_target() {
  Target target;
  target.arch = "znver3";
  target.features = {"avx",   "avx2",   "bmi",  "bmi2",   "f16c",   "fma",  "lzcnt",
                     "movbe", "popcnt", "sse3", "sse4.1", "sse4.2", "ssse3"};
  return target;
}

TEST(RunsOn, GenericCodeUpToTheLevelRuns) {
  EXPECT_TRUE(check_runs_on(some_target(), "cpu:x86-64").ok());
  EXPECT_TRUE(check_runs_on(some_target(), "cpu:x86-64-v3").ok());
  EXPECT_EQ(check_runs_on(some_target(), "cpu:x86-64-v4").error().code, ErrorCode::unsupported_target);
}

TEST(RunsOn, OtherModelsFeaturesKindsAndNonsenseAreRefused) {
  for (const char* code : {"cpu:znver4", "cpu:znver3:+avx512f", "cuda:sm_90a", "", "nonsense"}) {
    const Status status = check_runs_on(some_target(), code);
    ASSERT_FALSE(status.ok()) << code;
    EXPECT_EQ(status.error().code, ErrorCode::unsupported_target) << code;
    EXPECT_FALSE(status.error().found.empty());
  }
}

TEST(Fingerprint, IsTheSameEachTime) {
  const db::DeviceRow a = make_cpu_device(2)->fingerprint();
  const db::DeviceRow b = make_cpu_device(2)->fingerprint();
  EXPECT_EQ(a.target, b.target);
  EXPECT_EQ(a.clock_khz, b.clock_khz);
  EXPECT_EQ(a.features, b.features);
  EXPECT_EQ(a.kind, "cpu");
  EXPECT_EQ(a.threads, 2);
}

}  // namespace
}  // namespace loopwright::runtime
