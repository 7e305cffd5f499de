#include "src/runtime/device.h"

#include <algorithm>

#include "loopwright/runtime.h"
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

namespace runtime {

db::ToolchainRow current_toolchain(std::string compiler) {
  db::ToolchainRow row;
  row.generator = kGeneratorVersion;
  row.compiler = std::move(compiler);
  return row;
}

Status check_runs_on(const Target& device, const std::string& code) {
  const auto refuse = [&](std::string found) {
    return Error{ErrorCode::unsupported_target, "run code compiled for " + code, std::move(found),
                 "this device is " + device.text(), "an artifact built for this device"};
  };
  auto parsed = Target::parse(code);
  if (!parsed.ok()) return refuse("a target that cannot be read: " + parsed.error().found);
  if (parsed->kind != device.kind) return refuse("another kind of device");
  if (parsed->arch != device.arch) {
    const int needed = device.kind == TargetKind::cpu ? generic_level(parsed->arch) : 0;
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
