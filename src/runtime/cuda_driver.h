// The CUDA driver, opened when first needed: its entry points as a table, and the few types they take.
//
// Declared here and not taken from cuda.h, so that the library builds without a CUDA toolkit. Layouts and numbers are
// those of the driver interface, which does not change them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "loopwright/base.h"

namespace loopwright::runtime {
namespace cuda {

using Status = int;  ///< CUresult; 0 is success
using Ordinal = int;
using Address = std::uint64_t;
using Context = struct ContextOpaque*;
using Library = struct LibraryOpaque*;
using Kernel = struct KernelOpaque*;
using Function = struct FunctionOpaque*;
using Stream = struct StreamOpaque*;
using Event = struct EventOpaque*;
using Graph = struct GraphOpaque*;
using GraphExec = struct GraphExecOpaque*;
using GraphNode = struct GraphNodeOpaque*;

inline constexpr Status kSuccess = 0;
inline constexpr Status kInvalidValue = 1;
inline constexpr Status kOutOfMemory = 2;
inline constexpr Status kDeinitialized = 4;
inline constexpr Status kNoDevice = 100;
inline constexpr Status kInvalidContext = 201;
inline constexpr Status kInvalidHandle = 400;
inline constexpr Status kNotFound = 500;
inline constexpr Status kIllegalAddress = 700;

/// CUstreamCaptureMode, CUstream_flags
inline constexpr int kCaptureRelaxed = 2;
inline constexpr unsigned kStreamNonBlocking = 1;

/// CUdevice_attribute
inline constexpr int kMaxThreadsPerBlock = 1;
inline constexpr int kClockRateKhz = 13;
inline constexpr int kMultiprocessors = 16;
inline constexpr int kL2Bytes = 38;
inline constexpr int kMaxThreadsPerMultiprocessor = 39;
inline constexpr int kCapabilityMajor = 75;
inline constexpr int kCapabilityMinor = 76;
inline constexpr int kSharedBytesPerMultiprocessor = 81;
inline constexpr int kSharedBytesPerBlockOptIn = 97;

/// CUfunction_attribute
inline constexpr int kFunctionMaxThreads = 0;
inline constexpr int kFunctionSharedBytes = 1;
inline constexpr int kFunctionMaxDynamicSharedBytes = 8;
inline constexpr int kFunctionNonPortableCluster = 14;

/// CUpointer_attribute
inline constexpr int kPointerMemoryType = 2;
inline constexpr int kPointerIsManaged = 8;
inline constexpr int kPointerOrdinal = 9;
inline constexpr int kPointerRangeStart = 11;
inline constexpr int kPointerRangeBytes = 12;
inline constexpr std::uint32_t kMemoryTypeHost = 1;

struct LaunchAttribute {  ///< CUlaunchAttribute
  enum Id : std::uint32_t { cluster_dimension = 4, programmatic_serialization = 6 };
  std::uint32_t id;
  std::uint32_t padding;
  union {
    std::uint32_t cluster[3];
    int programmatic;
    char bytes[64];
  };
};
struct LaunchConfig {  ///< CUlaunchConfig
  std::uint32_t grid[3];
  std::uint32_t block[3];
  std::uint32_t shared_bytes;
  Stream stream;
  LaunchAttribute* attributes;
  std::uint32_t attribute_count;
};
struct KernelNode {  ///< CUDA_KERNEL_NODE_PARAMS of version 2
  Function function;
  std::uint32_t grid[3];
  std::uint32_t block[3];
  std::uint32_t shared_bytes;
  void** parameters;
  void** extra;
  Kernel kernel;    ///< looked at where there is no function
  Context context;  ///< the same
};
struct GraphEdge {  ///< CUgraphEdgeData
  enum Kind : unsigned char { full = 0, programmatic = 1 };
  /// Of the node in front: when it is over, or when all of its blocks have let the next one begin.
  unsigned char from_port, to_port;
  unsigned char kind;
  unsigned char reserved[5];
};
struct Uuid {
  unsigned char bytes[16];
};

}  // namespace cuda

/// The table. Nothing in it changes once it is made; entry points marked optional may be null.
struct CudaDriver {
  using Status = cuda::Status;
  Status (*init)(unsigned);
  Status (*driver_version)(int*);
  Status (*error_name)(Status, const char**);
  Status (*error_text)(Status, const char**);
  Status (*device_count)(int*);
  Status (*device_get)(cuda::Ordinal*, int);
  Status (*device_name)(char*, int, cuda::Ordinal);
  Status (*device_uuid)(cuda::Uuid*, cuda::Ordinal);
  Status (*device_memory)(std::size_t*, cuda::Ordinal);
  Status (*device_attribute)(int*, int, cuda::Ordinal);
  Status (*retain_context)(cuda::Context*, cuda::Ordinal);
  Status (*release_context)(cuda::Ordinal);
  Status (*push_context)(cuda::Context);
  Status (*pop_context)(cuda::Context*);
  Status (*load_library)(cuda::Library*, const void*, void*, void*, unsigned, void*, void*, unsigned);
  Status (*unload_library)(cuda::Library);
  Status (*get_kernel)(cuda::Kernel*, cuda::Library, const char*);
  Status (*get_function)(cuda::Function*, cuda::Kernel);
  Status (*kernel_attribute)(int*, int, cuda::Kernel, cuda::Ordinal);
  Status (*set_kernel_attribute)(int, int, cuda::Kernel, cuda::Ordinal);
  Status (*launch)(const cuda::LaunchConfig*, cuda::Function, void**, void**);
  Status (*memory_info)(std::size_t* free_bytes, std::size_t* total_bytes);
  Status (*allocate)(cuda::Address*, std::size_t);
  Status (*free)(cuda::Address);
  Status (*allocate_host)(void**, std::size_t, unsigned flags);
  Status (*copy_to_device)(cuda::Address, const void*, std::size_t, cuda::Stream);
  Status (*copy_to_host)(void*, cuda::Address, std::size_t, cuda::Stream);
  Status (*copy_on_device)(cuda::Address, cuda::Address, std::size_t, cuda::Stream);
  Status (*fill)(cuda::Address, unsigned char, std::size_t, cuda::Stream);
  Status (*pointer_attributes)(unsigned, const int*, void**, cuda::Address);
  Status (*create_stream)(cuda::Stream*, unsigned);
  Status (*destroy_stream)(cuda::Stream);
  Status (*wait_stream)(cuda::Stream);
  Status (*is_capturing)(cuda::Stream, int*);
  Status (*begin_capture)(cuda::Stream, int mode);
  Status (*exchange_capture_mode)(int* mode);  ///< of the calling thread
  Status (*end_capture)(cuda::Stream, cuda::Graph*);
  Status (*instantiate)(cuda::GraphExec*, cuda::Graph, unsigned long long);
  Status (*launch_graph)(cuda::GraphExec, cuda::Stream);
  Status (*destroy_graph)(cuda::Graph);
  Status (*destroy_graph_exec)(cuda::GraphExec);
  Status (*create_event)(cuda::Event*, unsigned);
  Status (*destroy_event)(cuda::Event);
  Status (*record_event)(cuda::Event, cuda::Stream);
  Status (*wait_event)(cuda::Event);
  Status (*elapsed_ms)(float*, cuda::Event, cuda::Event);
  /// Optional: a tensor map of 128 bytes, from data type, rank, address, shape, strides in bytes, box, element strides,
  /// interleave, swizzle, L2 promotion and fill.
  Status (*encode_tensor_map)(void*, int, std::uint32_t, void*, const std::uint64_t*, const std::uint64_t*,
                              const std::uint32_t*, const std::uint32_t*, int, int, int, int);
  /// Optional: drivers before 12.4 lack it.
  Status (*parameter_info)(cuda::Kernel, std::size_t, std::size_t* offset, std::size_t* bytes);
  /// Optional: blocks that a multiprocessor holds at once.
  Status (*occupancy)(int* blocks, cuda::Function, int threads, std::size_t shared_bytes);

  // Optional, all or none (`makes_graphs`): graphs from nodes of our own. Drivers before 12.3 lack the edges.
  Status (*create_graph)(cuda::Graph*, unsigned flags);
  Status (*add_kernel_node)(cuda::GraphNode*, cuda::Graph, const cuda::GraphNode* after, std::size_t, const cuda::KernelNode*);
  Status (*set_node_attribute)(cuda::GraphNode, int which, const void* value);
  Status (*add_edges)(cuda::Graph, const cuda::GraphNode* from, const cuda::GraphNode* to, const cuda::GraphEdge*, std::size_t);
  /// Of a node in what was instantiated: for later launches, not for those that are queued.
  Status (*set_exec_node)(cuda::GraphExec, cuda::GraphNode, const cuda::KernelNode*);
  bool makes_graphs() const {
    return create_graph != nullptr && add_kernel_node != nullptr && set_node_attribute != nullptr && add_edges != nullptr &&
           set_exec_node != nullptr;
  }

  int version = 0;  ///< 1000 * major + 10 * minor of the newest CUDA it can run
  std::string path;

  /// Opened and initialised at the first call. not_found when there is no libcuda (says where it was looked for),
  /// unsupported for a driver older than 12.0 or without devices. LOOPWRIGHT_LIBCUDA names a file to be used instead.
  static Result<const CudaDriver*> shared();
  /// A table of its own, for tests.
  static Result<CudaDriver> open(const std::vector<std::string>& candidates);

  std::string version_text() const;  ///< `13.0`
  /// `CUDA error 700 (CUDA_ERROR_ILLEGAL_ADDRESS): an illegal memory access was encountered`.
  std::string describe(cuda::Status status) const;
};

/// Whether the context that gave `status` can do nothing more: its device memory is lost and the process has to be
/// started again.
bool is_context_lost(cuda::Status status);

}  // namespace loopwright::runtime
