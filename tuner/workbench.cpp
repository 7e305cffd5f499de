// The real workbench: the compiler of this library, and this machine's CPU or a GPU of it behind a worker process.
#if __has_include(<llvm/Config/llvm-config.h>)
#include <llvm/Config/llvm-config.h>
#endif

#include "src/codegen/cuda/nvrtc.h"
#include "src/runtime/cuda_info.h"
#include "src/runtime/device.h"
#include "tuner/device_choice.h"
#include "tuner/doubt.h"
#include "tuner/fault_device.h"
#include "tuner/features.h"
#include "tuner/tuner.h"

namespace loopwright::tuner {
namespace {

/// The code generator's name and version, for the toolchain row.
std::string name_compiler() {
#ifdef LLVM_VERSION_STRING
  return "LLVM " LLVM_VERSION_STRING;
#else
  return {};
#endif
}

struct Kept {
  graph::Workload workload;
  driver::Job job;
};

Result<Subject> make_subject(const graph::Workload& workload, const TuneOptions& options) {
  LW_TRY(driver::Job job, driver::make_job(workload));
  auto kept = std::make_shared<Kept>(Kept{workload, std::move(job)});
  Subject subject;
  subject.symbols = kept->workload.graph.symbols();
  subject.builder = make_driver_builder(kept->job, options.target);
  LW_TRY(Artifact reference, driver::build_reference(kept->job, options.target));
  LW_TRY(auto doubt, build_doubt(workload.graph, options.target));
  subject.setup = {.workload = workload.digest,
                   .graph = &kept->workload.graph,
                   .naive = &kept->job.naive,
                   .reference = std::make_shared<Artifact>(std::move(reference)),
                   .doubt = std::move(doubt),
                   .seed = options.seed};
  subject.work = [kept](const Bindings& probe) { return count_float_ops(kept->job.naive, probe); };
  subject.keep = kept;
  return subject;
}

Result<runtime::CudaInfo> find_gpu(const std::string& base) {
  LW_TRY(const runtime::CudaDriver* driver, runtime::CudaDriver::shared());
  return runtime::describe_cuda_device(*driver, *runtime::parse_cuda_name(base));
}

Result<std::unique_ptr<Device>> make_device(const TuneOptions& options) {
  LW_TRY(const DeviceChoice choice, parse_device(options.device));
  MeasureSettings settings;
  Target target = options.target;
  if (choice.base != "cpu") {
    settings = gpu_settings(choice.base, choice.reused);
    LW_TRY(const runtime::CudaInfo gpu, find_gpu(choice.base));
    LW_TRY(target, gpu.target);
    LW_CHECK(runtime::check_runs_on(target, options.target.text()));
  }
  LW_TRY(auto worker, WorkerDevice::start(options.worker_path, target, std::move(settings)));
  if (!choice.has_faults) return std::unique_ptr<Device>(std::move(worker));
  return std::unique_ptr<Device>(std::make_unique<FaultDevice>(std::move(worker), choice.faults));
}

Result<db::DeviceRow> describe_device(const TuneOptions& options) {
  LW_TRY(const DeviceChoice choice, parse_device(options.device));
  if (choice.base == "cpu") return runtime::shared_cpu_device()->fingerprint();
  LW_TRY(const runtime::CudaInfo gpu, find_gpu(choice.base));
  return runtime::fingerprint_of(gpu);
}

db::ToolchainRow describe_toolchain(const TuneOptions& options) {
  if (options.target.kind != TargetKind::cuda) return runtime::current_toolchain(name_compiler());
  const auto nvrtc = codegen::Nvrtc::shared();
  db::ToolchainRow row = runtime::current_toolchain(nvrtc.ok() ? "NVRTC " + (*nvrtc)->version_text() : "");
  if (const auto driver = runtime::CudaDriver::shared(); driver.ok())
    row.driver = "CUDA " + (*driver)->version_text();
  return row;
}

}  // namespace

std::string describe_older_driver(const Target& target) {
  if (target.kind != TargetKind::cuda) return {};
  const auto nvrtc = codegen::Nvrtc::shared();
  const auto driver = runtime::CudaDriver::shared();
  if (!nvrtc.ok() || !driver.ok() || (*driver)->version / 1000 >= (*nvrtc)->version() / 1000) return {};
  return "the driver is for CUDA " + (*driver)->version_text() + " and the compiler is NVRTC " + (*nvrtc)->version_text() + " (" + (*nvrtc)->path() +
         "): the driver may refuse its code; LOOPWRIGHT_LIBNVRTC can name one that is not newer than the driver";
}

Workbench make_workbench() {
  return {.make_device = make_device,
          .make_subject = make_subject,
          .fingerprint = describe_device,
          .toolchain = describe_toolchain};
}

}  // namespace loopwright::tuner
