// A library with the driver interface that Loopwright uses, on host memory: the launch path, error paths and the worker
// are tested with it where there is no GPU. LOOPWRIGHT_LIBCUDA names it.
//
// A "cubin" is the text `fake cubin: <kernel> <kernel> ...` and a zero; the kernels are those of fake_kernels.cpp, which
// `<entry>=<kernel>` gives another name and `<entry>=<kernel>/<count>` more parameters, which the kernel does not look at.
// Settings are numbers by name: from the environment (LOOPWRIGHT_FAKE_CUDA="devices=2 version=11080") when the library
// is loaded, and through fake_cuda_set afterwards.
#include "tests/fake_cuda/fake_cuda.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "src/runtime/cuda_driver.h"
#include "tests/fake_cuda/fake_kernels.h"

using namespace loopwright::runtime;
using cuda::Address;
using cuda::Ordinal;
using cuda::Status;

namespace loopwright::runtime::cuda {
struct ContextOpaque {
  int ordinal = 0;
  int retained = 0;
};
struct LibraryOpaque {
  std::map<std::string, std::string> kernels;  ///< of fake_kernels.cpp, by entry
};
struct KernelOpaque {
  const fake_cuda::FakeKernel* kernel = nullptr;
  int parameters = 0;
  long largest_shared = 48 << 10;
};
struct FunctionOpaque {
  KernelOpaque* kernel = nullptr;
  Context context = nullptr;
};
struct EventOpaque {
  std::chrono::steady_clock::time_point at;
};
struct Launched {
  const fake_cuda::FakeKernel* kernel;
  fake_cuda::Grid grid;
  std::vector<std::uint64_t> values;
};
struct GraphOpaque {
  std::vector<Launched> launches;
};
struct GraphExecOpaque {
  std::vector<Launched> launches;
};
struct StreamOpaque {
  Graph capture = nullptr;
};
}  // namespace loopwright::runtime::cuda

namespace {

constexpr Status kOk = 0, kInvalidValue = 1, kInvalidImage = 200, kBusyForEver = -1;
constexpr int kMostDevices = 8;

struct Block {
  std::size_t bytes;
  int ordinal;
};

struct State {
  std::mutex mutex;
  std::map<std::string, std::int64_t> settings = {{"version", 13000},  {"devices", 1}, {"capability", 90},
                                                  {"memory", 1 << 30}, {"init", 0},    {"launch", 0},
                                                  {"lost", 0},         {"hanging", 0}};
  std::map<std::string, std::int64_t> counts;
  std::map<Address, Block> blocks;
  std::size_t used = 0;
  cuda::ContextOpaque contexts[kMostDevices];
  std::map<std::pair<cuda::Kernel, cuda::Context>, cuda::FunctionOpaque> functions;
  std::map<std::string, cuda::KernelOpaque> kernels;
  cuda::StreamOpaque default_stream;

  State() {
    for (int i = 0; i < kMostDevices; ++i) contexts[i].ordinal = i;
    const char* text = std::getenv("LOOPWRIGHT_FAKE_CUDA");
    std::istringstream words(text != nullptr ? text : "");
    for (std::string word; words >> word;) {
      const std::size_t equals = word.find('=');
      if (equals != std::string::npos)
        settings[word.substr(0, equals)] = std::atoll(word.c_str() + equals + 1);
    }
  }
};
State& state() {
  static State it;
  return it;
}
std::int64_t setting(const char* name) {
  const std::lock_guard lock(state().mutex);
  return state().settings[name];
}
void count(const char* name) {
  const std::lock_guard lock(state().mutex);
  ++state().counts[name];
}

thread_local std::vector<cuda::Context> current;
std::atomic<int> captures{0};
thread_local int capture_mode = 0;
cuda::Context current_context() { return current.empty() ? nullptr : current.back(); }
cuda::StreamOpaque& stream_of(cuda::Stream stream) {
  return stream != nullptr ? *stream : state().default_stream;
}

Status run(const cuda::Launched& launched) {
  std::vector<void*> parameters;
  for (const std::uint64_t& value : launched.values) parameters.push_back(const_cast<std::uint64_t*>(&value));
  const Status status = launched.kernel->run(parameters.data(), launched.grid);
  const std::lock_guard lock(state().mutex);
  if (status == kBusyForEver) state().settings["hanging"] = 1;
  else if (status != kOk) state().settings["lost"] = status;
  return kOk;  // asynchronous: the failure shows at the next call
}

Status pending() { return static_cast<Status>(setting("lost")); }

}  // namespace

extern "C" {

void fake_cuda_set(const char* name, std::int64_t value) {
  const std::lock_guard lock(state().mutex);
  state().settings[name] = value;
}
std::int64_t fake_cuda_count(const char* name) {
  const std::lock_guard lock(state().mutex);
  return state().counts[name];
}

Status cuInit(unsigned) { return static_cast<Status>(setting("init")); }
Status cuDriverGetVersion(int* version) {
  *version = static_cast<int>(setting("version"));
  return kOk;
}
Status cuGetErrorName(Status status, const char** name) {
  *name = status == 2     ? "CUDA_ERROR_OUT_OF_MEMORY"
          : status == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                          : "CUDA_ERROR_FAKE";
  return kOk;
}
Status cuGetErrorString(Status status, const char** text) {
  *text = status == 2     ? "out of memory"
          : status == 700 ? "an illegal memory access was encountered"
                          : "a fake error";
  return kOk;
}
Status cuDeviceGetCount(int* value) {
  *value = static_cast<int>(setting("devices"));
  return kOk;
}
Status cuDeviceGet(Ordinal* device, int ordinal) {
  *device = ordinal;
  return kOk;
}
Status cuDeviceGetName(char* name, int length, Ordinal) {
  std::strncpy(name, "Fake GPU", static_cast<std::size_t>(length));
  return kOk;
}
Status cuDeviceGetUuid_v2(cuda::Uuid* uuid, Ordinal device) {
  std::memset(uuid->bytes, 0x10 + device, sizeof uuid->bytes);
  return kOk;
}
Status cuDeviceTotalMem_v2(std::size_t* bytes, Ordinal) {
  *bytes = static_cast<std::size_t>(setting("memory"));
  return kOk;
}
Status cuDeviceGetAttribute(int* value, int which, Ordinal) {
  const std::int64_t capability = setting("capability");
  switch (which) {
    case cuda::kCapabilityMajor: *value = static_cast<int>(capability / 10); break;
    case cuda::kCapabilityMinor: *value = static_cast<int>(capability % 10); break;
    case cuda::kMaxThreadsPerBlock: *value = 1024; break;
    case cuda::kClockRateKhz: *value = 1000000; break;
    case cuda::kMultiprocessors: *value = 4; break;
    case cuda::kL2Bytes: *value = 1 << 20; break;
    case cuda::kMaxThreadsPerMultiprocessor: *value = 2048; break;
    case cuda::kSharedBytesPerMultiprocessor: *value = 228 << 10; break;
    case cuda::kSharedBytesPerBlockOptIn: *value = 227 << 10; break;
    default: return kInvalidValue;
  }
  return kOk;
}

Status cuDevicePrimaryCtxRetain(cuda::Context* context, Ordinal device) {
  if (device < 0 || device >= kMostDevices) return 101;
  *context = &state().contexts[device];
  ++(*context)->retained;
  return kOk;
}
Status cuDevicePrimaryCtxRelease_v2(Ordinal device) {
  --state().contexts[device].retained;
  return kOk;
}
Status cuCtxPushCurrent_v2(cuda::Context context) {
  current.push_back(context);
  return kOk;
}
Status cuCtxPopCurrent_v2(cuda::Context* context) {
  if (current.empty()) return cuda::kInvalidContext;
  *context = current.back();
  current.pop_back();
  return kOk;
}

Status cuLibraryLoadData(cuda::Library* library, const void* image, void*, void*, unsigned, void*, void*,
                         unsigned) {
  if (pending() != kOk) return pending();
  if (setting("load") != kOk) return static_cast<Status>(setting("load"));
  const char* text = static_cast<const char*>(image);
  constexpr const char* kHead = "fake cubin:";
  if (std::strncmp(text, kHead, std::strlen(kHead)) != 0) return kInvalidImage;
  auto* made = new cuda::LibraryOpaque;
  std::istringstream words(text + std::strlen(kHead));
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    made->kernels[word.substr(0, equals)] = equals == std::string::npos ? word : word.substr(equals + 1);
  }
  *library = made;
  return kOk;
}
Status cuLibraryUnload(cuda::Library library) {
  delete library;
  return kOk;
}
Status cuLibraryGetKernel(cuda::Kernel* kernel, cuda::Library library, const char* name) {
  const auto entry = library->kernels.find(name);
  if (entry == library->kernels.end()) return cuda::kNotFound;
  const std::size_t slash = entry->second.find('/');
  const fake_cuda::FakeKernel* found = fake_cuda::find_kernel(std::string_view(entry->second).substr(0, slash));
  if (found == nullptr) return cuda::kNotFound;
  const std::lock_guard lock(state().mutex);
  *kernel = &state().kernels[entry->second];
  (*kernel)->kernel = found;
  (*kernel)->parameters = slash == std::string::npos ? found->parameters : std::atoi(entry->second.c_str() + slash + 1);
  return kOk;
}
Status cuKernelGetFunction(cuda::Function* function, cuda::Kernel kernel) {
  if (current_context() == nullptr) return cuda::kInvalidContext;
  const std::lock_guard lock(state().mutex);
  auto& made = state().functions[{kernel, current_context()}];
  made = {kernel, current_context()};
  *function = &made;
  return kOk;
}
Status cuKernelGetAttribute(int* value, int which, cuda::Kernel, Ordinal) {
  *value = which == cuda::kFunctionMaxThreads ? 1024 : 0;
  return kOk;
}
Status cuKernelSetAttribute(int which, int value, cuda::Kernel kernel, Ordinal) {
  if (which == cuda::kFunctionMaxDynamicSharedBytes) kernel->largest_shared = value;
  return kOk;
}
Status cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, cuda::Function, int threads, std::size_t) {
  *blocks = 2048 / threads;
  return kOk;
}
Status cuKernelGetParamInfo(cuda::Kernel kernel, std::size_t index, std::size_t* offset, std::size_t* bytes) {
  if (index >= static_cast<std::size_t>(kernel->parameters)) return kInvalidValue;
  *offset = 8 * index;
  *bytes = 8;
  return kOk;
}
Status cuLaunchKernelEx(const cuda::LaunchConfig* config, cuda::Function function, void** parameters,
                        void**) {
  if (pending() != kOk) return pending();
  if (current_context() == nullptr) return cuda::kInvalidContext;
  if (function->context != current_context()) return cuda::kInvalidHandle;
  if (const auto refused = static_cast<Status>(setting("launch")); refused != kOk) return refused;
  const std::uint32_t* grid = config->grid;
  if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0 || config->shared_bytes > function->kernel->largest_shared)
    return kInvalidValue;
  count("launches");
  if (config->attribute_count > 0) count("launches with attributes");
  cuda::Launched launched{function->kernel->kernel, {{grid[0], grid[1], grid[2]}, {}}, {}};
  std::copy_n(config->block, 3, launched.grid.block);
  for (int i = 0; i < launched.kernel->parameters; ++i)
    launched.values.push_back(*static_cast<const std::uint64_t*>(parameters[i]));
  if (cuda::Graph graph = stream_of(config->stream).capture; graph != nullptr) {
    graph->launches.push_back(std::move(launched));
    return kOk;
  }
  return run(launched);
}

Status cuMemGetInfo_v2(std::size_t* free_bytes, std::size_t* total) {
  *total = static_cast<std::size_t>(setting("memory"));
  *free_bytes = *total - state().used;
  return kOk;
}
Status cuMemAlloc_v2(Address* address, std::size_t bytes) {
  if (pending() != kOk) return pending();
  if (captures > 0 && capture_mode != cuda::kCaptureRelaxed) return 900;  // CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
  if (current_context() == nullptr) return cuda::kInvalidContext;
  const auto limit = static_cast<std::size_t>(setting("memory"));
  const std::lock_guard lock(state().mutex);
  if (state().used + bytes > limit) return cuda::kOutOfMemory;
  void* memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (memory == nullptr) return cuda::kOutOfMemory;
  std::memset(memory, 0x77, bytes);  // nothing is zero by luck
  *address = reinterpret_cast<Address>(memory);
  state().blocks[*address] = {bytes, current_context()->ordinal};
  state().used += bytes;
  ++state().counts["allocations"];
  return kOk;
}
Status cuMemHostAlloc(void** memory, std::size_t bytes, unsigned) {
  if (current_context() == nullptr) return cuda::kInvalidContext;
  *memory = std::malloc(bytes);
  return *memory != nullptr ? kOk : cuda::kOutOfMemory;
}
Status cuMemFree_v2(Address address) {
  const std::lock_guard lock(state().mutex);
  const auto it = state().blocks.find(address);
  if (it == state().blocks.end()) return kInvalidValue;
  state().used -= it->second.bytes;
  state().blocks.erase(it);
  std::free(reinterpret_cast<void*>(address));
  return kOk;
}
Status cuMemcpyHtoDAsync_v2(Address to, const void* from, std::size_t bytes, cuda::Stream) {
  if (pending() != kOk) return pending();
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return kOk;
}
Status cuMemcpyDtoHAsync_v2(void* to, Address from, std::size_t bytes, cuda::Stream) {
  if (pending() != kOk) return pending();
  std::memcpy(to, reinterpret_cast<void*>(from), bytes);
  return kOk;
}
Status cuMemcpyDtoDAsync_v2(Address to, Address from, std::size_t bytes, cuda::Stream) {
  std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
  return pending();
}
Status cuMemsetD8Async(Address to, unsigned char value, std::size_t bytes, cuda::Stream stream) {
  if (stream_of(stream).capture != nullptr) return 900;  // this fake captures launches alone
  std::memset(reinterpret_cast<void*>(to), value, bytes);
  return pending();
}
Status cuPointerGetAttributes(unsigned attributes, const int* which, void** values, Address address) {
  if (pending() != kOk) return pending();
  const std::lock_guard lock(state().mutex);
  auto it = state().blocks.upper_bound(address);
  if (it != state().blocks.begin()) --it;
  const bool known =
      it != state().blocks.end() && address >= it->first && address < it->first + it->second.bytes;
  for (unsigned i = 0; i < attributes; ++i) {
    if (which[i] == cuda::kPointerMemoryType) *static_cast<std::uint32_t*>(values[i]) = known ? 2 : 0;
    if (which[i] == cuda::kPointerIsManaged) *static_cast<std::uint32_t*>(values[i]) = 0;
    if (which[i] == cuda::kPointerOrdinal) *static_cast<int*>(values[i]) = known ? it->second.ordinal : -2;
    if (which[i] == cuda::kPointerRangeStart) *static_cast<Address*>(values[i]) = known ? it->first : 0;
    if (which[i] == cuda::kPointerRangeBytes)
      *static_cast<std::size_t*>(values[i]) = known ? it->second.bytes : 0;
  }
  return kOk;
}

Status cuStreamCreate(cuda::Stream* stream, unsigned) {
  *stream = new cuda::StreamOpaque;
  return kOk;
}
Status cuStreamDestroy_v2(cuda::Stream stream) {
  delete stream;
  return kOk;
}
Status cuStreamSynchronize(cuda::Stream) {
  while (setting("hanging") != 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  return pending();
}
Status cuStreamIsCapturing(cuda::Stream stream, int* capturing) {
  *capturing = stream_of(stream).capture != nullptr ? 1 : 0;
  return kOk;
}
Status cuStreamBeginCapture_v2(cuda::Stream stream, int) {
  if (pending() != kOk) return pending();
  stream_of(stream).capture = new cuda::GraphOpaque;
  ++captures;
  return kOk;
}
Status cuThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(*mode, capture_mode);
  return kOk;
}
Status cuStreamEndCapture(cuda::Stream stream, cuda::Graph* graph) {
  *graph = stream_of(stream).capture;
  if (*graph != nullptr) --captures;
  stream_of(stream).capture = nullptr;
  return *graph != nullptr ? kOk : 401;
}
Status cuGraphInstantiateWithFlags(cuda::GraphExec* exec, cuda::Graph graph, unsigned long long) {
  count("graphs");
  *exec = new cuda::GraphExecOpaque{graph->launches};
  return kOk;
}
Status cuGraphLaunch(cuda::GraphExec exec, cuda::Stream) {
  if (pending() != kOk) return pending();
  count("graph launches");
  for (const cuda::Launched& launched : exec->launches) run(launched);
  return kOk;
}
Status cuGraphDestroy(cuda::Graph graph) {
  delete graph;
  return kOk;
}
Status cuGraphExecDestroy(cuda::GraphExec exec) {
  delete exec;
  return kOk;
}
Status cuEventCreate(cuda::Event* event, unsigned) {
  *event = new cuda::EventOpaque;
  return kOk;
}
Status cuEventDestroy_v2(cuda::Event event) {
  delete event;
  return kOk;
}
Status cuEventRecord(cuda::Event event, cuda::Stream) {
  event->at = std::chrono::steady_clock::now();
  return pending();
}
Status cuEventSynchronize(cuda::Event) { return cuStreamSynchronize(nullptr); }
Status cuEventElapsedTime(float* ms, cuda::Event from, cuda::Event to) {
  *ms = std::chrono::duration<float, std::milli>(to->at - from->at).count();
  return kOk;
}

}  // extern "C"
