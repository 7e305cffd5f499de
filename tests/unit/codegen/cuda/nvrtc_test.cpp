#include "src/codegen/cuda/nvrtc.h"

#include <gtest/gtest.h>

#include <thread>

namespace loopwright::codegen {
namespace {

constexpr const char* kTwoKernels = R"(
extern "C" __global__ void __launch_bounds__(256) rotate(float* a) {
  __shared__ float s[64];
  s[threadIdx.x % 64] = a[threadIdx.x];
  __syncthreads();
  a[threadIdx.x] = s[(threadIdx.x + 1) % 64];
}
extern "C" __global__ void __launch_bounds__(1024) gather(float* a, long long n) {
  float x[64];
  for (int i = 0; i < 64; i++) x[i] = a[i * n];
  for (int i = 0; i < n; i++) a[i] = x[(i * 7) % 64];
}
)";

/// NVRTC where it is installed; tests that compile are skipped elsewhere.
const Nvrtc* find_nvrtc() {
  const Result<const Nvrtc*> nvrtc = Nvrtc::shared();
  return nvrtc.ok() ? *nvrtc : nullptr;
}

TEST(Nvrtc, says_where_it_looked_when_there_is_none) {
  const Result<Nvrtc> missing = Nvrtc::open({"libnvrtc-of-nobody.so.1", "/nowhere/libnvrtc.so"});
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::not_found);
  EXPECT_NE(missing.error().where.find("libnvrtc-of-nobody.so.1"), std::string::npos);
  EXPECT_NE(missing.error().where.find("/nowhere/libnvrtc.so"), std::string::npos);
  EXPECT_NE(missing.error().works.find("LOOPWRIGHT_LIBNVRTC"), std::string::npos);
}

TEST(Nvrtc, names_the_function_that_another_library_lacks) {
  const Result<Nvrtc> other = Nvrtc::open({"libm.so.6"});
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().code, ErrorCode::unsupported);
  EXPECT_NE(other.error().found.find("nvrtcVersion"), std::string::npos);
}

TEST(Nvrtc, compiles_two_kernels_in_one_program_and_reports_each) {
  const Nvrtc* nvrtc = find_nvrtc();
  if (nvrtc == nullptr) GTEST_SKIP() << "no NVRTC on this machine";
  const Result<CudaProgram> program = nvrtc->compile({"two.cu", kTwoKernels, "sm_90a", {}});
  ASSERT_TRUE(program.ok()) << program.error().message();
  ASSERT_GT(program->cubin.size(), 64U);
  EXPECT_EQ(std::string(program->cubin.begin() + 1, program->cubin.begin() + 4), "ELF");
  ASSERT_EQ(program->report.kernels.size(), 2U);
  const KernelFigures* rotate = program->find("rotate");
  const KernelFigures* gather = program->find("gather");
  ASSERT_TRUE(rotate != nullptr && gather != nullptr);
  EXPECT_EQ(rotate->shared_bytes, 256);
  EXPECT_EQ(rotate->barriers, 1);
  EXPECT_EQ(rotate->stack_bytes, 0);
  EXPECT_GT(rotate->registers, 0);
  EXPECT_EQ(gather->stack_bytes, 256);
  EXPECT_EQ(program->find("nobody"), nullptr);
}

TEST(Nvrtc, gives_the_compilers_words_for_text_that_is_wrong) {
  const Nvrtc* nvrtc = find_nvrtc();
  if (nvrtc == nullptr) GTEST_SKIP() << "no NVRTC on this machine";
  const Result<CudaProgram> program =
      nvrtc->compile({"wrong.cu", "__global__ void k() { nobody(); }", "sm_90a", {}});
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.error().code, ErrorCode::compile_failed);
  EXPECT_NE(program.error().where.find("wrong.cu(1)"), std::string::npos) << program.error().where;
  EXPECT_NE(program.error().where.find("nobody"), std::string::npos);
}

TEST(Nvrtc, refuses_an_architecture_it_does_not_know) {
  const Nvrtc* nvrtc = find_nvrtc();
  if (nvrtc == nullptr) GTEST_SKIP() << "no NVRTC on this machine";
  for (const char* arch : {"sm_10", "znver3", "sm_"}) {
    const Result<CudaProgram> program = nvrtc->compile({"k.cu", kTwoKernels, arch, {}});
    ASSERT_FALSE(program.ok());
    EXPECT_EQ(program.error().code, ErrorCode::unsupported_target);
    EXPECT_NE(program.error().works.find("sm_90"), std::string::npos);
  }
}

TEST(Nvrtc, compiles_in_several_threads_at_once) {
  const Nvrtc* nvrtc = find_nvrtc();
  if (nvrtc == nullptr) GTEST_SKIP() << "no NVRTC on this machine";
  std::vector<std::vector<std::uint8_t>> images(2);
  std::vector<std::thread> threads;
  for (std::vector<std::uint8_t>& image : images)
    threads.emplace_back([&image, nvrtc] {
      Result<CudaProgram> program = nvrtc->compile({"two.cu", kTwoKernels, "sm_90a", {}});
      if (program.ok()) image = std::move(program->cubin);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(images[0].empty());
  EXPECT_EQ(images[0], images[1]);
}

TEST(PtxasLog, takes_warnings_with_code_and_kernel) {
  const PtxasReport report = parse_ptxas_log(
      "ptxas info    : Compiling entry function 'mm' for 'sm_90a'\n"
      "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due "
      "to "
      "non wgmma instructions defining accumulator registers in the function 'mm'\n"
      "ptxas info    : Function properties for helper\n"
      "ptxas         .     64 bytes stack frame, 9 bytes spill stores, 9 bytes spill loads\n"
      "ptxas info    : Function properties for mm\n"
      "ptxas         .     0 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads\n"
      "ptxas info    : Used 168 registers, used 16 barriers, 1024 bytes smem\n");
  ASSERT_EQ(report.kernels.size(), 1U);
  EXPECT_EQ(report.kernels[0], (KernelFigures{"mm", 168, 16, 1024, 0, 12, 16}));
  ASSERT_EQ(report.diagnostics.size(), 1U);
  EXPECT_EQ(report.diagnostics[0].code, "C7510");
  EXPECT_EQ(report.diagnostics[0].entry, "mm");
}

TEST(PtxasLog, survives_a_log_that_is_cut_or_foreign) {
  EXPECT_TRUE(parse_ptxas_log("").kernels.empty());
  EXPECT_TRUE(parse_ptxas_log("Used 3 registers\n\nnonsense '").kernels.empty());
  EXPECT_EQ(parse_ptxas_log("ptxas info : Compiling entry function 'k").kernels.size(), 0U);
}

}  // namespace
}  // namespace loopwright::codegen
