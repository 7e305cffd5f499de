// devices: what this machine can tune for and run on.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "loopwright/runtime.h"
#include "src/cli/command.h"
#include "src/cli/output.h"
#include "src/runtime/cuda_info.h"

namespace loopwright::cli {
namespace {

nlohmann::json describe_cpu(const Target& t) {
  return {{"device", "cpu"},        {"target", t.text()},     {"arch", t.arch},
          {"features", t.features}, {"workers", t.workers},   {"vector_bytes", t.vector_bytes},
          {"l1_bytes", t.l1_bytes}, {"l2_bytes", t.l2_bytes}, {"l3_bytes", t.l3_bytes}};
}

nlohmann::json describe_gpu(const runtime::CudaInfo& gpu) {
  nlohmann::json row = {{"device", fmt::format("cuda:{}", gpu.ordinal)},
                        {"name", gpu.name},
                        {"uuid", gpu.uuid},
                        {"capability", gpu.capability},
                        {"memory_bytes", gpu.memory_bytes}};
  if (!gpu.target.ok()) {
    row["unusable"] = gpu.target.error().message();
    return row;
  }
  row["target"] = gpu.target->text();
  row["workers"] = gpu.target->workers;
  row["l1_bytes"] = gpu.target->l1_bytes;
  row["l2_bytes"] = gpu.target->l2_bytes;
  return row;
}

void print_gpus(const Result<std::vector<runtime::CudaInfo>>& gpus) {
  if (!gpus.ok()) {
    fmt::print("\nno GPU: {}\n", gpus.error().message());
    return;
  }
  Table table({"device", "name", "arch", "SMs", "memory", "shared memory", "L2"});
  for (const runtime::CudaInfo& gpu : *gpus) {
    const bool usable = gpu.target.ok();
    table.add({fmt::format("cuda:{}", gpu.ordinal), gpu.name,
               usable ? gpu.target->arch : fmt::format("{} (no code for it)", gpu.capability),
               usable ? std::to_string(gpu.target->workers) : "", format_bytes(gpu.memory_bytes),
               usable ? format_bytes(gpu.target->l1_bytes) : "",
               usable ? format_bytes(gpu.target->l2_bytes) : ""});
  }
  fmt::print("\n{}", table.text());
  if (const auto driver = runtime::CudaDriver::shared(); driver.ok())
    fmt::print("driver for CUDA {}: {}\n", (*driver)->version_text(), (*driver)->path);
}

}  // namespace

void add_devices(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("devices", "list the devices of this machine");
  set_body(command, context, [&context]() -> Result<Exit> {
    const Target t = host_target();
    const auto gpus = runtime::list_cuda_devices();
    if (context.json) {
      nlohmann::json rows = nlohmann::json::array({describe_cpu(t)});
      if (gpus.ok())
        for (const runtime::CudaInfo& gpu : *gpus) rows.push_back(describe_gpu(gpu));
      else rows.push_back({{"device", "cuda"}, {"unusable", gpus.error().message()}});
      print_json(rows);
      return kOk;
    }
    Table table({"device", "arch", "workers", "vector", "L1", "L2", "L3"});
    table.add({"cpu", t.arch, std::to_string(t.workers), fmt::format("{} bit", t.vector_bytes * 8),
               format_bytes(t.l1_bytes), format_bytes(t.l2_bytes), format_bytes(t.l3_bytes)});
    fmt::print("{}target: {}\n", table.text(), t.text());
    print_gpus(gpus);
    return kOk;
  });
}

}  // namespace loopwright::cli
