#include "bench/support/gpu_timer.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <random>

#include "src/codegen/cuda/nvrtc.h"
#include "tuner/values.h"

namespace loopwright::bench {
namespace {

namespace cuda = runtime::cuda;

constexpr double kReplayNs = 250e3;
constexpr std::size_t kMaxSets = 256, kReplays = 21, kTurns = 3, kReplaysOfTurn = 5;
constexpr std::int64_t kAlignment = 256;

/// One 16-byte vector a thread where something is written; many loads in flight where not.
constexpr const char* kCeilings = R"(
extern "C" __global__ void __launch_bounds__(128) copy(const uint4* x, uint4* y, long long n) {
  const long long i = blockIdx.x * 128LL + threadIdx.x;
  if (i < n) y[i] = x[i];
}
extern "C" __global__ void __launch_bounds__(256) write(const uint4*, uint4* y, long long n) {
  const long long i = blockIdx.x * 256LL + threadIdx.x;
  if (i < n) y[i] = make_uint4(1, 2, 3, 4);
}
extern "C" __global__ void __launch_bounds__(512) read(const uint4* x, uint4* y, long long n) {
  const long long step = gridDim.x * 512LL;
  uint4 s = make_uint4(0, 0, 0, 0);
  long long i = blockIdx.x * 512LL + threadIdx.x;
  for (; i + 3 * step < n; i += 4 * step) {
    const uint4 a = x[i], b = x[i + step], c = x[i + 2 * step], d = x[i + 3 * step];
    s.x ^= a.x ^ b.x ^ c.x ^ d.x; s.y ^= a.y ^ b.y ^ c.y ^ d.y; s.z ^= a.z ^ b.z ^ c.z ^ d.z; s.w ^= a.w ^ b.w ^ c.w ^ d.w;
  }
  for (; i < n; i += step) { const uint4 a = x[i]; s.x ^= a.x; s.y ^= a.y; s.z ^= a.z; s.w ^= a.w; }
  if ((s.x ^ s.y ^ s.z ^ s.w) == 0x9e3779b9u) y[0] = s;
})";

std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/// Normal numbers with mean 0.25, integers from 3 to 8; never zeros, which cost less power.
void fill_tensor(DType dtype, std::uint8_t* data, std::int64_t bytes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> block(1 << 16);
  std::normal_distribution<float> normal(0.25F, 1.0F);
  for (float& value : block) value = normal(random);
  const std::int64_t count = bytes / size_bytes(dtype);
  for (std::int64_t i = 0; i < count; ++i) {
    // Blocks of one drawn sequence at shifting starts: as random as caches and power can tell.
    const float value = block[static_cast<std::size_t>((i + (i >> 16) * 40503) & 0xffff)];
    const auto whole = static_cast<std::int64_t>(3 + (i * 2654435761 >> 7) % 6);
    switch (dtype) {
      case DType::bf16: reinterpret_cast<std::uint16_t*>(data)[i] = to_bf16(value); break;
      case DType::f16:
        reinterpret_cast<std::uint16_t*>(data)[i] = static_cast<std::uint16_t>(0x3800 + (i * 40503 & 0x3ff));
        break;
      case DType::f32: reinterpret_cast<float*>(data)[i] = value; break;
      case DType::f64: reinterpret_cast<double*>(data)[i] = value; break;
      case DType::i64: reinterpret_cast<std::int64_t*>(data)[i] = whole; break;
      case DType::i32: reinterpret_cast<std::int32_t*>(data)[i] = static_cast<std::int32_t>(whole); break;
      default: data[i * size_bytes(dtype)] = static_cast<std::uint8_t>(whole & 1); break;
    }
  }
}

std::int64_t span_of(const PlanTensor& tensor, const std::int64_t* symbols) {
  std::int64_t last = 0;
  for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
    const std::int64_t extent = tensor.shape[d].evaluate(symbols);
    if (extent == 0) return 0;
    last += (extent - 1) * tensor.strides[d].evaluate(symbols);
  }
  return (last + 1) * size_bytes(tensor.dtype);
}

/// Of inputs and outputs.
std::vector<std::int64_t> tensor_bytes(const Plan& plan, const std::vector<std::int64_t>& symbols) {
  std::vector<std::int64_t> bytes;
  for (const PlanTensor& tensor : plan.spec().tensors) {
    if (tensor.role == ArgRole::workspace) break;
    bytes.push_back(span_of(tensor, symbols.data()));
  }
  return bytes;
}

/// Of each tensor |found - expected| / |expected|; infinite where a number is missing.
double largest_difference(const std::vector<std::vector<double>>& found, const std::vector<std::vector<double>>& expected) {
  double largest = 0;
  for (std::size_t t = 0; t < expected.size(); ++t) {
    double difference = 0, size = 0;
    for (std::size_t i = 0; i < expected[t].size(); ++i) {
      if (!std::isfinite(found[t][i])) return INFINITY;
      difference += (found[t][i] - expected[t][i]) * (found[t][i] - expected[t][i]);
      size += expected[t][i] * expected[t][i];
    }
    if (difference > 0) largest = std::max(largest, std::sqrt(difference / size));
  }
  return largest;
}

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(std::lround(q * static_cast<double>(values.size() - 1)))];
}

}  // namespace

struct GpuTimer::Memory {
  explicit Memory(const runtime::CudaDriver& d) : driver(d) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { driver.free(base); }
  void* at(std::size_t set, std::size_t tensor) const {
    return reinterpret_cast<void*>(base + set * stride + offsets[tensor]);
  }
  const runtime::CudaDriver& driver;
  cuda::Address base = 0;
  std::vector<std::uint64_t> offsets;
  std::uint64_t stride = 0;
  std::size_t sets = 1;
};

Error GpuTimer::failed(cuda::Status status) const {
  return {ErrorCode::launch_failed, "time on " + device_->info().name, device_->driver().describe(status), "",
          ""};
}

Result<GpuTimer> GpuTimer::open(const std::string& device) {
  LW_TRY(auto opened, runtime::open_device(device));
  auto gpu = std::dynamic_pointer_cast<const runtime::CudaDevice>(std::move(opened));
  if (gpu == nullptr)
    return Error{ErrorCode::bad_argument, "time on " + device, "it is no GPU", "", "cuda:0"};
  GpuTimer timer(std::move(gpu));
  LW_CHECK(timer.start());
  return timer;
}

/// The context stays current in this thread: a benchmark does nothing else.
Status GpuTimer::start() {
  const runtime::CudaDriver& driver = device_->driver();
  cuda::Status status = driver.push_context(device_->context());
  clock_ = std::make_unique<tuner::ReplayClock>(driver);
  if (status == cuda::kSuccess) status = clock_->open();
  stream_ = clock_->stream();
  if (status != cuda::kSuccess) return failed(status);
  LW_TRY(const codegen::Nvrtc* nvrtc, codegen::Nvrtc::shared());
  LW_TRY(const codegen::CudaProgram program,
         nvrtc->compile({"ceilings.cu", kCeilings, device_->target().arch, {}}));
  status = driver.load_library(&ceilings_, program.cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  for (const char* name : {"copy", "write", "read"}) {
    cuda::Kernel kernel = nullptr;
    if (status == cuda::kSuccess) status = driver.get_kernel(&kernel, ceilings_, name);
    if (status == cuda::kSuccess) status = driver.get_function(&functions_[name], kernel);
  }
  return status == cuda::kSuccess ? Status(Unit{}) : Status(failed(status));
}

Result<std::shared_ptr<GpuTimer::Memory>> GpuTimer::make_sets(
    const std::vector<std::int64_t>& bytes, bool cold,
    const std::function<void(std::size_t, std::uint8_t*)>& fill) {
  const runtime::CudaDriver& driver = device_->driver();
  auto memory = std::make_shared<Memory>(driver);
  for (const std::int64_t b : bytes) {
    memory->offsets.push_back(memory->stride);
    memory->stride += static_cast<std::uint64_t>((b + kAlignment - 1) / kAlignment * kAlignment);
  }
  memory->stride = std::max<std::uint64_t>(memory->stride, kAlignment);
  const auto wanted = 3 * static_cast<std::uint64_t>(device_->target().l2_bytes) / memory->stride + 1;
  memory->sets = cold ? std::min<std::uint64_t>(wanted, kMaxSets) : 1;
  cuda::Status status = driver.allocate(&memory->base, memory->stride * memory->sets);
  for (std::size_t t = 0; t < bytes.size() && status == cuda::kSuccess; ++t) {
    std::vector<std::uint8_t> host(static_cast<std::size_t>(bytes[t]) + 8);
    fill(t, host.data());
    status = driver.copy_to_device(memory->base + memory->offsets[t], host.data(),
                                   static_cast<std::size_t>(bytes[t]), stream_);
    if (status == cuda::kSuccess) status = driver.wait_stream(stream_);
  }
  for (std::size_t s = 1; s < memory->sets && status == cuda::kSuccess; ++s)
    status = driver.copy_on_device(memory->base + s * memory->stride, memory->base, memory->stride, stream_);
  if (status == cuda::kSuccess) status = driver.wait_stream(stream_);
  if (status != cuda::kSuccess) return failed(status);
  return memory;
}

Result<GpuTime> GpuTimer::time(const Launch& launch, std::size_t sets) {
  const auto queue = [&](std::int64_t set) { return launch(static_cast<std::size_t>(set)) ? ErrorCode::ok : ErrorCode::launch_failed; };
  const auto count = static_cast<std::int64_t>(sets);
  if (!launch(0)) return failed(cuda::kInvalidValue);
  double one_ns = 0;
  std::int64_t calls = 0;
  cuda::GraphExec exec = nullptr;
  std::vector<double> ns;
  cuda::Status status = clock_->estimate(queue, count, one_ns);
  if (status == cuda::kSuccess) {
    calls = tuner::ReplayClock::count_calls(one_ns, kReplayNs, count);
    status = clock_->capture(queue, count, calls, exec);
  }
  if (status == cuda::kSuccess) status = clock_->warm_up(exec);
  if (status == cuda::kSuccess) status = clock_->measure(exec, calls, kReplays, ns);
  if (exec != nullptr) device_->driver().destroy_graph_exec(exec);
  if (status != cuda::kSuccess) return failed(status);
  return GpuTime{1e-3 * quantile(ns, 0.5), 1e-3 * quantile(ns, 0.1), 1e-3 * quantile(ns, 0.9), static_cast<int>(calls)};
}

Result<std::shared_ptr<GpuTimer::Memory>> GpuTimer::make_plan_sets(const Plan& plan, const std::vector<std::int64_t>& bytes, bool cold) {
  return make_sets(bytes, cold, [&](std::size_t t, std::uint8_t* data) { fill_tensor(plan.spec().tensors[t].dtype, data, bytes[t], 17 * t + 1); });
}

Result<GpuTime> GpuTimer::time_plan(const Plan& plan, const std::vector<std::int64_t>& symbols, How how) {
  const std::vector<std::int64_t> bytes = tensor_bytes(plan, symbols);
  if (how.links > 1 && bytes.front() != bytes.back())
    return Error{ErrorCode::bad_argument, "time a chain of " + plan.spec().name, "its first tensor has another size than its last", "",
                 "a graph whose result may be its input"};
  LW_TRY(const auto memory, make_plan_sets(plan, bytes, how.cold));
  std::vector<void*> pointers(bytes.size());
  const auto launch = [&](std::size_t set) {
    for (std::size_t t = 0; t < pointers.size(); ++t) pointers[t] = memory->at(set, t);
    for (int i = 0; i < how.links; ++i) {
      if (plan.launch(pointers.data(), symbols.data(), stream_) != ErrorCode::ok) return false;
      if (how.links > 1) std::swap(pointers.front(), pointers.back());
    }
    return true;
  };
  LW_TRY(GpuTime found, time(launch, memory->sets));
  for (double* us : {&found.median_us, &found.p10_us, &found.p90_us}) *us /= how.links;
  return found;
}

Result<std::vector<std::vector<double>>> GpuTimer::results_of(const Plan& plan, const std::vector<std::int64_t>& symbols, const std::vector<std::int64_t>& bytes, const Memory& memory) {
  const runtime::CudaDriver& driver = device_->driver();
  std::vector<void*> pointers(bytes.size());
  for (std::size_t t = 0; t < bytes.size(); ++t) {
    pointers[t] = memory.at(0, t);
    if (plan.spec().tensors[t].role == ArgRole::output) driver.fill(memory.base + memory.offsets[t], 0xff, static_cast<std::size_t>(bytes[t]), stream_);
  }
  if (plan.launch(pointers.data(), symbols.data(), stream_) != ErrorCode::ok) return failed(cuda::kInvalidValue);
  std::vector<std::vector<double>> out;
  for (std::size_t t = 0; t < bytes.size(); ++t) {
    const PlanTensor& tensor = plan.spec().tensors[t];
    if (tensor.role != ArgRole::output) continue;
    std::vector<std::uint8_t> host(static_cast<std::size_t>(bytes[t]));
    cuda::Status status = driver.copy_to_host(host.data(), memory.base + memory.offsets[t], host.size(), stream_);
    if (status == cuda::kSuccess) status = driver.wait_stream(stream_);
    if (status != cuda::kSuccess) return failed(status);
    // A prime step sees all rows and columns of large results.
    const std::int64_t count = bytes[t] / size_bytes(tensor.dtype), step = count > 100'000 ? 97 : 1;
    auto& values = out.emplace_back();
    for (std::int64_t i = 0; i < count; i += step) values.push_back(tuner::read_element(tensor.dtype, host.data(), i));
  }
  return out;
}

Result<std::vector<ComparedTime>> GpuTimer::time_plans(const std::vector<const Plan*>& plans, const std::vector<std::int64_t>& symbols, How how) {
  const std::vector<std::int64_t> bytes = tensor_bytes(*plans.front(), symbols);
  LW_TRY(const auto memory, make_plan_sets(*plans.front(), bytes, how.cold));
  std::vector<ComparedTime> out(plans.size());
  std::vector<std::vector<double>> samples(plans.size());
  std::vector<cuda::GraphExec> execs(plans.size());
  LW_TRY(const auto expected, results_of(*plans.front(), symbols, bytes, *memory));
  std::vector<void*> pointers(bytes.size());
  const auto sets = static_cast<std::int64_t>(memory->sets);
  std::vector<std::int64_t> calls(plans.size());
  for (std::size_t p = 0; p < plans.size(); ++p) {
    const auto queue = [&](std::int64_t set) {
      for (std::size_t t = 0; t < pointers.size(); ++t) pointers[t] = memory->at(static_cast<std::size_t>(set), t);
      return plans[p]->launch(pointers.data(), symbols.data(), stream_);
    };
    const auto found = results_of(*plans[p], symbols, bytes, *memory);
    if (!found.ok()) continue;
    out[p].difference = largest_difference(*found, expected);
    double one_ns = 0;
    if (clock_->estimate(queue, sets, one_ns) != cuda::kSuccess) continue;
    calls[p] = tuner::ReplayClock::count_calls(one_ns, kReplayNs, sets);
    if (clock_->capture(queue, sets, calls[p], execs[p]) != cuda::kSuccess) execs[p] = nullptr;
  }
  cuda::Status status = execs.front() == nullptr ? cuda::kInvalidValue : clock_->warm_up(execs.front());
  for (std::size_t round = 0; round < kTurns && status == cuda::kSuccess; ++round)
    for (std::size_t p = 0; p < plans.size() && status == cuda::kSuccess; ++p)
      if (execs[p] != nullptr) status = clock_->measure(execs[p], calls[p], kReplaysOfTurn, samples[p]);
  for (std::size_t p = 0; p < plans.size(); ++p) {
    if (execs[p] != nullptr) device_->driver().destroy_graph_exec(execs[p]);
    if (!samples[p].empty()) out[p].median_us = 1e-3 * quantile(samples[p], 0.5);
  }
  if (status != cuda::kSuccess) return failed(status);
  return out;
}

Result<double> GpuTimer::first_launch_ms(const Plan& plan, const std::vector<std::int64_t>& symbols) {
  LW_TRY(const auto memory, make_plan_sets(plan, tensor_bytes(plan, symbols), false));
  std::vector<void*> pointers(memory->offsets.size());
  for (std::size_t t = 0; t < pointers.size(); ++t) pointers[t] = memory->at(0, t);
  const auto from = std::chrono::steady_clock::now();
  if (plan.launch(pointers.data(), symbols.data(), stream_) != ErrorCode::ok) return failed(cuda::kInvalidValue);
  if (const cuda::Status status = device_->driver().wait_stream(stream_); status != cuda::kSuccess) return failed(status);
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - from).count();
}

Result<GpuTime> GpuTimer::time_ceiling(const std::string& kernel, std::int64_t bytes) {
  const bool reads = kernel != "write", writes = kernel != "read";
  LW_TRY(const auto memory,
         make_sets({reads ? bytes : 16, writes ? bytes : 16}, true, [&](std::size_t t, std::uint8_t* data) {
           fill_tensor(DType::bf16, data, t == 0 ? (reads ? bytes : 16) : (writes ? bytes : 16), t + 1);
         }));
  std::int64_t vectors = bytes / 16;
  cuda::LaunchConfig config{};
  const std::uint32_t threads = kernel == "copy" ? 128 : kernel == "write" ? 256 : 512;
  const auto blocks = static_cast<std::uint32_t>((vectors + threads - 1) / threads);
  config.grid[0] =
      writes ? blocks
             : std::min<std::uint32_t>(blocks, static_cast<std::uint32_t>(device_->target().workers) * 4);
  config.grid[1] = config.grid[2] = config.block[1] = config.block[2] = 1;
  config.block[0] = threads;
  config.stream = stream_;
  return time(
      [&](std::size_t set) {
        void *x = memory->at(set, 0), *y = memory->at(set, 1);
        void* parameters[] = {&x, &y, &vectors};
        return device_->driver().launch(&config, functions_.at(kernel), parameters, nullptr) ==
               cuda::kSuccess;
      },
      memory->sets);
}

Result<double> GpuTimer::ceiling_us(double read, double written) {
  const std::string kernel = written > 0 ? "copy" : "read";
  const auto bytes = static_cast<std::int64_t>(read) / 16 * 16;
  const auto known = known_.find({kernel, bytes});
  if (known != known_.end()) return known->second;
  LW_TRY(const GpuTime time, time_ceiling(kernel, std::max<std::int64_t>(bytes, 16)));
  return known_[{kernel, bytes}] = time.median_us;
}

Result<std::string> GpuTimer::describe_ceilings() {
  std::string text = device_->info().name + ", cold, us (GB/s)\n";
  char line[200];
  for (const std::int64_t mib : {256, 64, 16, 2}) {
    std::snprintf(line, sizeof line, "%5lld MiB", static_cast<long long>(mib));
    text += line;
    for (const char* kernel : {"read", "write", "copy"}) {
      LW_TRY(const GpuTime time, time_ceiling(kernel, mib << 20));
      const double moved = static_cast<double>(mib << 20) * (std::strcmp(kernel, "copy") == 0 ? 2 : 1);
      std::snprintf(line, sizeof line, "   %s %7.2f (%4.0f)", kernel, time.median_us,
                    moved * 1e-3 / time.median_us);
      text += line;
    }
    text += "\n";
  }
  return text;
}

}  // namespace loopwright::bench
