#include "src/runtime/cuda_driver.h"

#include <utility>

#include "src/support/shared_library.h"

namespace loopwright::runtime {
namespace {

/// cuLaunchKernelEx and libraries that belong to no context are there from here on.
constexpr int kOldestVersion = 12000;

/// Null, or the name of the first entry point that is missing.
const char* fill_table(const SharedLibrary& library, CudaDriver& d) {
  const char* missing = nullptr;
  const auto take = [&](const char* name, auto** function) {
    if (missing == nullptr && !library.find(name, function)) missing = name;
  };
  take("cuInit", &d.init);
  take("cuDriverGetVersion", &d.driver_version);
  take("cuGetErrorName", &d.error_name);
  take("cuGetErrorString", &d.error_text);
  take("cuDeviceGetCount", &d.device_count);
  take("cuDeviceGet", &d.device_get);
  take("cuDeviceGetName", &d.device_name);
  take("cuDeviceGetUuid_v2", &d.device_uuid);
  take("cuDeviceTotalMem_v2", &d.device_memory);
  take("cuDeviceGetAttribute", &d.device_attribute);
  take("cuDevicePrimaryCtxRetain", &d.retain_context);
  take("cuDevicePrimaryCtxRelease_v2", &d.release_context);
  take("cuCtxPushCurrent_v2", &d.push_context);
  take("cuCtxPopCurrent_v2", &d.pop_context);
  take("cuLibraryLoadData", &d.load_library);
  take("cuLibraryUnload", &d.unload_library);
  take("cuLibraryGetKernel", &d.get_kernel);
  take("cuKernelGetFunction", &d.get_function);
  take("cuKernelGetAttribute", &d.kernel_attribute);
  take("cuKernelSetAttribute", &d.set_kernel_attribute);
  take("cuLaunchKernelEx", &d.launch);
  take("cuMemGetInfo_v2", &d.memory_info);
  take("cuMemAlloc_v2", &d.allocate);
  take("cuMemFree_v2", &d.free);
  take("cuMemHostAlloc", &d.allocate_host);
  take("cuMemcpyHtoDAsync_v2", &d.copy_to_device);
  take("cuMemcpyDtoHAsync_v2", &d.copy_to_host);
  take("cuMemcpyDtoDAsync_v2", &d.copy_on_device);
  take("cuMemsetD8Async", &d.fill);
  take("cuPointerGetAttributes", &d.pointer_attributes);
  take("cuStreamCreate", &d.create_stream);
  take("cuStreamDestroy_v2", &d.destroy_stream);
  take("cuStreamSynchronize", &d.wait_stream);
  take("cuStreamIsCapturing", &d.is_capturing);
  take("cuStreamBeginCapture_v2", &d.begin_capture);
  take("cuThreadExchangeStreamCaptureMode", &d.exchange_capture_mode);
  take("cuStreamEndCapture", &d.end_capture);
  take("cuGraphInstantiateWithFlags", &d.instantiate);
  take("cuGraphLaunch", &d.launch_graph);
  take("cuGraphDestroy", &d.destroy_graph);
  take("cuGraphExecDestroy", &d.destroy_graph_exec);
  take("cuEventCreate", &d.create_event);
  take("cuEventDestroy_v2", &d.destroy_event);
  take("cuEventRecord", &d.record_event);
  take("cuEventSynchronize", &d.wait_event);
  take("cuEventElapsedTime", &d.elapsed_ms);
  library.find("cuTensorMapEncodeTiled", &d.encode_tensor_map);
  library.find("cuKernelGetParamInfo", &d.parameter_info);
  library.find("cuOccupancyMaxActiveBlocksPerMultiprocessor", &d.occupancy);
  library.find("cuGraphCreate", &d.create_graph);
  library.find("cuGraphAddKernelNode_v2", &d.add_kernel_node);
  library.find("cuGraphKernelNodeSetAttribute", &d.set_node_attribute);
  library.find("cuGraphAddDependencies_v2", &d.add_edges);
  library.find("cuGraphExecKernelNodeSetParams_v2", &d.set_exec_node);
  return missing;
}

}  // namespace

Result<CudaDriver> CudaDriver::open(const std::vector<std::string>& candidates) {
  LW_TRY(const SharedLibrary library,
         SharedLibrary::open("the CUDA driver", "LOOPWRIGHT_LIBCUDA", candidates));
  CudaDriver driver{};
  driver.path = library.path();
  const auto refuse = [&](std::string found, std::string works) {
    return Error{ErrorCode::unsupported, "use the CUDA driver", std::move(found), driver.path,
                 std::move(works)};
  };
  // The version first: an old driver lacks entry points, and its age is the better news.
  const bool tells = library.find("cuDriverGetVersion", &driver.driver_version) &&
                     driver.driver_version(&driver.version) == cuda::kSuccess;
  if (tells && driver.version < kOldestVersion)
    return refuse("a driver for CUDA " + driver.version_text(),
                  "a driver for CUDA 12.0 or newer (525 or later)");
  if (const char* missing = fill_table(library, driver); missing != nullptr)
    return refuse(std::string("a library without ") + missing,
                  "a driver for CUDA 12.0 or newer (525 or later)");
  if (const cuda::Status status = driver.init(0); status != cuda::kSuccess)
    return refuse(driver.describe(status), status == cuda::kNoDevice
                                               ? "a machine with an NVIDIA GPU that this process may use"
                                               : "a driver that starts; nvidia-smi may say more");
  return driver;
}

Result<const CudaDriver*> CudaDriver::shared() {
  static const Result<CudaDriver> driver = open({"libcuda.so.1", "libcuda.so"});
  if (!driver.ok()) return driver.error();
  return &driver.value();
}

std::string CudaDriver::version_text() const {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string CudaDriver::describe(cuda::Status status) const {
  const char* word = nullptr;
  const char* text = nullptr;
  if (error_name(status, &word) != cuda::kSuccess || word == nullptr) word = "unknown";
  if (error_text(status, &text) != cuda::kSuccess || text == nullptr) text = "no description";
  return "CUDA error " + std::to_string(status) + " (" + word + "): " + text;
}

bool is_context_lost(cuda::Status status) {
  switch (status) {
    case 214:  // ECC error
    case 220:  // NVLink error
    case 226:  // contained memory error
    case cuda::kIllegalAddress:
    case 702:  // launch timeout
    case 709:  // context destroyed
    case 710:  // device assert
    case 714:  // hardware stack error
    case 715:  // illegal instruction
    case 716:  // misaligned address
    case 717:  // invalid address space
    case 718:  // invalid program counter
    case 719:  // launch failed
    case 999: return true;
    default: return false;
  }
}

}  // namespace loopwright::runtime
