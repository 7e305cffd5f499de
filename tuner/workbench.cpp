// The real workbench: the compiler of this library, and this machine's CPU behind a worker process.
#if __has_include(<llvm/Config/llvm-config.h>)
#include <llvm/Config/llvm-config.h>
#endif

#include "src/runtime/device.h"
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
  subject.setup = {.workload = workload.digest, .graph = &kept->workload.graph, .naive = &kept->job.naive,
                   .reference = std::make_shared<Artifact>(std::move(reference)), .seed = options.seed};
  subject.work = [kept](const Bindings& probe) { return count_float_ops(kept->job.naive, probe); };
  subject.keep = kept;
  return subject;
}

Result<std::unique_ptr<Device>> make_device(const TuneOptions& options) {
  const bool has_faults = options.device.starts_with("cpu+faults");
  if (options.device != "cpu" && !has_faults) {
    return Error{.code = ErrorCode::unsupported, .asked = "tune on device `" + options.device + "`", .found = "there is no such device", .works = "cpu"};
  }
  std::vector<std::string> kinds;
  if (has_faults) {
    LW_TRY(kinds, parse_fault_kinds(options.device));
  }
  LW_TRY(auto worker, WorkerDevice::start(options.worker_path, options.target, {}));
  if (!has_faults) return std::unique_ptr<Device>(std::move(worker));
  return std::unique_ptr<Device>(std::make_unique<FaultDevice>(std::move(worker), kinds));
}

}  // namespace

Workbench make_workbench() {
  return {.make_device = make_device,
          .make_subject = make_subject,
          .fingerprint = [](const Target&) { return runtime::shared_cpu_device()->fingerprint(); },
          .toolchain = [] { return runtime::current_toolchain(name_compiler()); }};
}

}  // namespace loopwright::tuner
