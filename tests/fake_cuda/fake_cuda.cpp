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
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
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
  std::uint32_t shared_bytes = 0;
  std::uint32_t cluster = 1;  ///< blocks
  bool programmatic = false;
  std::vector<std::uint64_t> values;  ///< of each parameter; of a tensor map its first eight bytes, the address
};
struct GraphNodeOpaque {
  Launched launched;
  std::vector<GraphNode> after;
};
struct GraphOpaque {
  std::vector<Launched> launches;  ///< what was captured
  std::vector<std::unique_ptr<GraphNodeOpaque>> nodes;
};
struct GraphExecOpaque {
  std::vector<Launched> launches;
  std::map<GraphNode, std::size_t> places;
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
                                                  {"lost", 0},         {"hanging", 0},
                                                  {"idle", 0},         {"launch_us", 0},
                                                  {"node", 0},         {"node_us", 0},
                                                  {"graph", 0}};
  std::map<std::string, std::int64_t> counts;
  std::uint64_t digest = 0;  ///< of the launches that ran since it was asked for
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

/// What the call takes the host.
void spend(const char* setting_us) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(setting(setting_us));
  while (std::chrono::steady_clock::now() < end) {}
}

/// The first launch since the digest was asked for has nothing in front of it, so that its edge means nothing.
void digest(const cuda::Launched& launched) {
  const std::lock_guard lock(state().mutex);
  std::uint64_t& all = state().digest;
  const auto add = [&](std::uint64_t value) { all = (all ^ value) * 0x9e3779b97f4a7c15 + (all >> 29) + 1; };
  add(all != 0 && launched.programmatic ? 1 : 0);
  add(reinterpret_cast<std::uintptr_t>(launched.kernel));
  for (int d = 0; d < 3; ++d) add(launched.grid.blocks[d]), add(launched.grid.block[d]);
  add(launched.shared_bytes), add(launched.cluster);
  for (const std::uint64_t value : launched.values) add(value);
}

Status run(const cuda::Launched& launched) {
  if (setting("idle") != 0) return kOk;
  digest(launched);
  std::vector<void*> parameters;
  for (const std::uint64_t& value : launched.values) parameters.push_back(const_cast<std::uint64_t*>(&value));
  const Status status = launched.kernel->run(parameters.data(), launched.grid);
  const std::lock_guard lock(state().mutex);
  if (status == kBusyForEver) state().settings["hanging"] = 1;
  else if (status != kOk) state().settings["lost"] = status;
  return kOk;  // asynchronous: the failure shows at the next call
}

/// Fills what a function is launched with; what was there has room for its parameters.
Status describe(cuda::Launched& launched, cuda::Function function, const std::uint32_t* grid,
                const std::uint32_t* block, std::uint32_t shared_bytes, void** parameters) {
  if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0 || shared_bytes > function->kernel->largest_shared)
    return kInvalidValue;
  launched.kernel = function->kernel->kernel;
  std::copy_n(grid, 3, launched.grid.blocks);
  std::copy_n(block, 3, launched.grid.block);
  launched.shared_bytes = shared_bytes;
  launched.values.resize(static_cast<std::size_t>(launched.kernel->parameters));
  for (std::size_t i = 0; i < launched.values.size(); ++i)
    launched.values[i] = *static_cast<const std::uint64_t*>(parameters[i]);
  return kOk;
}

void set_attribute(cuda::Launched& launched, std::uint32_t id, const void* value) {
  cuda::LaunchAttribute attribute{};
  std::memcpy(attribute.bytes, value, sizeof attribute.bytes);
  if (id == cuda::LaunchAttribute::cluster_dimension)
    launched.cluster = attribute.cluster[0] * attribute.cluster[1] * attribute.cluster[2];
  if (id == cuda::LaunchAttribute::programmatic_serialization) launched.programmatic = attribute.programmatic != 0;
}

Status pending() { return static_cast<Status>(setting("lost")); }

}  // namespace

extern "C" {

void fake_cuda_set(const char* name, std::int64_t value) {
  const std::lock_guard lock(state().mutex);
  state().settings[name] = value;
}
std::uint64_t fake_cuda_digest() {
  const std::lock_guard lock(state().mutex);
  return std::exchange(state().digest, 0);
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
  // Entries that stand for the same kernel share this.
  if (which == cuda::kFunctionMaxDynamicSharedBytes) kernel->largest_shared = std::max<long>(kernel->largest_shared, value);
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
  cuda::Launched launched{};
  if (const Status status = describe(launched, function, config->grid, config->block, config->shared_bytes, parameters);
      status != kOk)
    return status;
  spend("launch_us");
  count("launches");
  if (config->attribute_count > 0) count("launches with attributes");
  for (std::uint32_t i = 0; i < config->attribute_count; ++i)
    set_attribute(launched, config->attributes[i].id, config->attributes[i].bytes);
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
Status cuGraphCreate(cuda::Graph* graph, unsigned) {
  *graph = new cuda::GraphOpaque;
  return kOk;
}
Status cuGraphAddKernelNode_v2(cuda::GraphNode* node, cuda::Graph graph, const cuda::GraphNode*, std::size_t,
                               const cuda::KernelNode* wanted) {
  if (const auto refused = static_cast<Status>(setting("node")); refused != kOk) return refused;
  auto made = std::make_unique<cuda::GraphNodeOpaque>();
  const Status status =
      describe(made->launched, wanted->function, wanted->grid, wanted->block, wanted->shared_bytes, wanted->parameters);
  *node = made.get();
  graph->nodes.push_back(std::move(made));
  return status;
}
Status cuGraphKernelNodeSetAttribute(cuda::GraphNode node, int which, const void* value) {
  set_attribute(node->launched, static_cast<std::uint32_t>(which), value);
  return kOk;
}
Status cuGraphAddDependencies_v2(cuda::Graph, const cuda::GraphNode* from, const cuda::GraphNode* to,
                                 const cuda::GraphEdge* edges, std::size_t edge_count) {
  for (std::size_t i = 0; i < edge_count; ++i) {
    if (edges[i].kind != edges[i].from_port || edges[i].to_port != 0) return kInvalidValue;
    to[i]->after.push_back(from[i]);
    if (edges[i].kind != cuda::GraphEdge::programmatic) continue;
    to[i]->launched.programmatic = true;
    count("own edges");
  }
  return kOk;
}
Status cuGraphInstantiateWithFlags(cuda::GraphExec* exec, cuda::Graph graph, unsigned long long) {
  if (captures > 0 && capture_mode != cuda::kCaptureRelaxed) return 900;
  count("graphs");
  auto made = std::make_unique<cuda::GraphExecOpaque>();
  made->launches = graph->launches;
  // Of the nodes that nothing holds back the last one first: an edge that is missing shows.
  while (made->places.size() < graph->nodes.size()) {
    const std::size_t before = made->places.size();
    for (auto node = graph->nodes.rbegin(); node != graph->nodes.rend(); ++node) {
      const auto has_run = [&](cuda::GraphNode n) { return made->places.contains(n); };
      if (has_run(node->get()) || !std::all_of((*node)->after.begin(), (*node)->after.end(), has_run)) continue;
      made->places[node->get()] = made->launches.size();
      made->launches.push_back((*node)->launched);
      break;
    }
    if (made->places.size() == before) return kInvalidValue;
  }
  *exec = made.release();
  const std::lock_guard lock(state().mutex);
  ++state().counts["executables"];
  return kOk;
}
Status cuGraphExecKernelNodeSetParams_v2(cuda::GraphExec exec, cuda::GraphNode node, const cuda::KernelNode* wanted) {
  spend("node_us");
  if (const auto refused = static_cast<Status>(setting("node")); refused != kOk) return refused;
  count("nodes set");
  return describe(exec->launches[exec->places.at(node)], wanted->function, wanted->grid, wanted->block,
                  wanted->shared_bytes, wanted->parameters);
}
Status cuGraphLaunch(cuda::GraphExec exec, cuda::Stream stream) {
  if (pending() != kOk) return pending();
  if (const auto refused = static_cast<Status>(setting("graph")); refused != kOk) return refused;
  if (current_context() == nullptr) return cuda::kInvalidContext;
  if (stream_of(stream).capture != nullptr) return 900;  // no test wants one graph in another
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
  const std::lock_guard lock(state().mutex);
  --state().counts["executables"];
  return kOk;
}
Status cuTensorMapEncodeTiled(void* map, int, std::uint32_t rank, void* address, const std::uint64_t* shape,
                              const std::uint64_t*, const std::uint32_t*, const std::uint32_t*, int, int, int, int) {
  if (address == nullptr || std::find(shape, shape + rank, std::uint64_t{0}) != shape + rank) return kInvalidValue;
  std::memcpy(map, &address, sizeof address);
  std::memcpy(static_cast<char*>(map) + sizeof address, shape, rank * sizeof *shape);
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
