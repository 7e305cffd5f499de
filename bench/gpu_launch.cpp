// What a launch costs beyond the launch: Plan::launch against a bare cuLaunchKernelEx with the same arguments, in one
// run, in turn. Host time of one call while the queue has room; the kernel does nothing.
//
// Usage: bench_gpu_launch [cuda:N]. The last line is the verdict: at most 100 ns above the bare call.
#include <cstdio>
#include <string>
#include <vector>

#include "bench/support/host_time.h"
#include "src/codegen/cuda/nvrtc.h"
#include "src/runtime/cuda_artifact.h"
#include "src/runtime/plan.h"

namespace {

using namespace loopwright;
namespace cuda = runtime::cuda;

constexpr int kRounds = 400;

template <class T>
T need(Result<T> result) {
  if (result.ok()) return std::move(*result);
  std::fprintf(stderr, "%s\n", result.error().message().c_str());
  std::exit(1);
}

std::shared_ptr<const Artifact> make_nothing(const Target& target) {
  const codegen::Nvrtc* nvrtc = need(codegen::Nvrtc::shared());
  codegen::CudaProgram program = need(nvrtc->compile({"nothing.cu",
                                                      "extern \"C\" __global__ void __launch_bounds__(128) "
                                                      "nothing(const float* x, float* y, long long n) {}",
                                                      target.arch,
                                                      {}}));
  const SizeExpr n = SizeExpr::symbol(0), one = 1;
  auto artifact = std::make_shared<Artifact>();
  artifact->target = target.text();
  artifact->symbols = {"s0"};
  artifact->args = {
      {.name = "x", .dtype = DType::f32, .role = ArgRole::input, .shape = {n}, .strides = {one}},
      {.name = "y", .dtype = DType::f32, .role = ArgRole::output, .shape = {n}, .strides = {one}}};
  CudaLaunch launch;
  launch.entry = "nothing";
  launch.grid[0] = SizeExpr::apply(SizeExpr::Op::ceil_div, n, 128);
  launch.block[0] = 128;
  artifact->launches = {launch};
  artifact->image = std::move(program.cubin);
  return artifact;
}

/// One kernel or several in a row, each with `ranges` tuned ranges and a general variant.
Plan make_plan(const std::shared_ptr<const runtime::Device>& device,
               const std::shared_ptr<const Artifact>& artifact, int kernels, int ranges) {
  const SizeExpr n = SizeExpr::symbol(0), one = 1;
  runtime::PlanParts parts;
  parts.device = device;
  parts.spec.name = "nothing";
  parts.spec.symbols = {{"n", 1, 1 << 20}};
  parts.spec.tensors = {{"x", DType::f32, ArgRole::input, {n}, {one}},
                        {"y", DType::f32, ArgRole::output, {n}, {one}}};
  for (int k = 1; k < kernels; ++k)
    parts.spec.tensors.push_back({"t" + std::to_string(k), DType::f32, ArgRole::workspace, {n}, {one}});
  std::vector<Variant> variants;
  for (int r = 0; r <= ranges; ++r) {
    Variant variant;
    variant.artifact = artifact;
    if (r < ranges) variant.guard.symbols = {{"s0", 256 * r, 256 * r + 255, 1}};
    variants.push_back(std::move(variant));
  }
  for (int k = 0; k < kernels; ++k)
    parts.spec.kernels.push_back(
        {"w", "elementwise", {k == 0 ? 0 : k + 1, k == kernels - 1 ? 1 : k + 2}, {0}, {"s0"}});
  parts.variants.assign(static_cast<std::size_t>(kernels), variants);
  return need(runtime::PlanAccess::make(std::move(parts)));
}

}  // namespace

int main(int argc, char** argv) {
  const auto opened = need(runtime::open_device(argc > 1 ? argv[1] : "cuda"));
  const auto device = std::dynamic_pointer_cast<const runtime::CudaDevice>(opened);
  if (device == nullptr) return 2;
  const runtime::CudaDriver& driver = device->driver();
  const runtime::CurrentContext current(driver, device->context());
  const auto artifact = make_nothing(device->target());
  cuda::Stream stream = nullptr;
  cuda::Address memory = 0;
  if (driver.create_stream(&stream, 1) != 0 || driver.allocate(&memory, 1 << 20) != 0) return 1;

  const auto loaded = need(runtime::CudaArtifact::load(driver, device->info(), device->context(), *artifact));
  std::int64_t n = 4096;
  void* pointers[] = {reinterpret_cast<void*>(memory), reinterpret_cast<void*>(memory + (1 << 19))};
  void* parameters[] = {&pointers[0], &pointers[1], &n};
  cuda::LaunchConfig config = loaded->steps()[0].config;
  config.grid[0] = 32;
  config.stream = stream;
  const cuda::Function function = loaded->steps()[0].function;

  const Plan one = make_plan(device, artifact, 1, 0), many = make_plan(device, artifact, 1, 32),
             chain = make_plan(device, artifact, 4, 8);
  const auto launch = [&](const Plan& plan) {
    return
        [&plan, &pointers, &n, stream] { return plan.launch(pointers, &n, stream) == ErrorCode::ok ? 0 : 1; };
  };
  std::vector<bench::HostCall> contenders;
  contenders.push_back({"bare cuLaunchKernelEx",
                        [&] { return driver.launch(&config, function, parameters, nullptr); },
                        1,
                        {}});
  contenders.push_back({"Plan::launch, one variant", launch(one), 1, {}});
  contenders.push_back({"Plan::launch, 32 ranges", launch(many), 1, {}});
  contenders.push_back({"Plan::launch, 4 kernels and an arena", launch(chain), 4, {}});
  contenders.push_back({"bare, again", contenders[0].call, 1, {}});
  bench::time_calls(*device, stream, kRounds, contenders);

  const double bare = contenders[0].quantile(0.5);
  std::printf("%s, driver for CUDA %s, %d rounds of %d launches in turn\n\n", device->info().name.c_str(),
              driver.version_text().c_str(), kRounds, bench::kBatchedLaunches);
  std::printf("%-40s %10s %10s %10s %14s\n", "call", "median ns", "p10", "p90", "above bare");
  for (const bench::HostCall& c : contenders) {
    const double per = c.quantile(0.5) / c.launches;
    std::printf("%-40s %10.1f %10.1f %10.1f %11.1f ns%s\n", c.name.c_str(), c.quantile(0.5),
                c.quantile(0.1), c.quantile(0.9), per - bare, c.launches > 1 ? " a kernel" : "");
  }
  const double above = contenders[2].quantile(0.5) - bare;
  std::printf("\nrange lookup and launch: %.1f ns above the bare call (limit 100): %s\n", above,
              above <= 100 ? "ok" : "TOO SLOW");
  return above <= 100 ? 0 : 3;
}
