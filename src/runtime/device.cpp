#include "src/runtime/device.h"

#include <algorithm>
#include <charconv>

#include "loopwright/runtime.h"
#include "src/runtime/cuda_info.h"
#include "src/runtime/host_cpu.h"

namespace loopwright {

Target host_target() {
  const runtime::HostCpu& host = runtime::host_cpu();
  Target target;
  target.kind = TargetKind::cpu;
  target.arch = host.arch;
  target.features = host.features;
  target.vector_bytes = target.has("avx512f") ? 64 : target.has("avx") ? 32 : 16;
  target.vector_registers = target.has("avx512f") ? 32 : 16;
  target.workers = runtime::count_workers();
  target.l1_bytes = host.l1_bytes;
  target.l2_bytes = host.l2_bytes;
  target.l3_bytes = host.l3_bytes;
  return target;
}

Result<Target> device_target(const std::string& device) {
  if (device == "cpu") return host_target();
  const auto ordinal = runtime::parse_cuda_name(device);
  if (!ordinal)
    return Error{ErrorCode::bad_argument, "the target of the device " + device, "no device has this name", "",
                 "cpu, cuda or cuda:N with N = 0, 1, 2, ..."};
  LW_TRY(const runtime::CudaDriver* driver, runtime::CudaDriver::shared());
  LW_TRY(const runtime::CudaInfo info, runtime::describe_cuda_device(*driver, *ordinal));
  return info.target;
}

namespace runtime {

db::ToolchainRow current_toolchain(std::string compiler) {
  db::ToolchainRow row;
  row.generator = kGeneratorVersion;
  row.compiler = std::move(compiler);
  return row;
}

namespace {

/// Machine code runs on later GPUs of the same major capability; code that names one GPU (`sm_90a`) on that one alone.
bool cubin_runs_on(const Target& device, const Target& code) {
  if (code.arch == device.arch) return true;
  if (code.arch.ends_with('a')) return false;
  return code.capability / 10 == device.capability / 10 && code.capability <= device.capability;
}

}  // namespace

std::optional<int> parse_cuda_name(std::string_view name) {
  if (name == "cuda") return 0;
  int ordinal = 0;
  if (!name.starts_with("cuda:")) return std::nullopt;
  if (name.size() > 6 && name[5] == '0') return std::nullopt;  // one name for a device: `cuda:01` would be a second
  const auto [end, error] = std::from_chars(name.data() + 5, name.data() + name.size(), ordinal);
  const bool whole = error == std::errc() && end == name.data() + name.size() && ordinal >= 0;
  return whole ? std::optional<int>(ordinal) : std::nullopt;
}

Result<std::shared_ptr<const Device>> open_device(const std::string& name, int workers) {
  if (name == "cpu") return workers == 0 ? shared_cpu_device() : make_cpu_device(workers);
  if (const auto ordinal = parse_cuda_name(name)) return open_cuda_device(*ordinal);
  return Error{ErrorCode::bad_argument, "open the device " + name, "no device has this name", "",
               "cpu, cuda or cuda:N with N = 0, 1, 2, ..."};
}

Result<std::shared_ptr<const Device>> open_device_for(const Target& target) {
  return open_device(target.kind == TargetKind::cuda ? "cuda" : "cpu");
}

Status check_runs_on(const Target& device, const std::string& code) {
  const auto refuse = [&](std::string found) {
    return Error{ErrorCode::unsupported_target, "run code compiled for " + code, std::move(found),
                 "this device is " + device.text(), "an artifact built for this device"};
  };
  auto parsed = Target::parse(code);
  if (!parsed.ok()) return refuse("a target that cannot be read: " + parsed.error().found);
  if (parsed->kind != device.kind) return refuse("another kind of device");
  if (device.kind == TargetKind::cuda && !cubin_runs_on(device, *parsed))
    return refuse("architecture " + parsed->arch + ", not " + device.arch);
  if (device.kind == TargetKind::cpu && parsed->arch != device.arch) {
    const int needed = generic_level(parsed->arch);
    if (needed == 0) return refuse("architecture " + parsed->arch + ", not " + device.arch);
    const int level = feature_level(device.features);
    if (needed > level)
      return refuse("architecture " + parsed->arch + " above this device's level " + std::to_string(level));
  }
  for (const std::string& feature : parsed->features)
    if (!device.has(feature)) return refuse("feature " + feature + ", which this device lacks");
  return Unit{};
}

}  // namespace runtime
}  // namespace loopwright
