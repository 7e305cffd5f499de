// devices: what this machine can tune for and run on.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "loopwright/runtime.h"
#include "src/cli/command.h"
#include "src/cli/output.h"

namespace loopwright::cli {

void add_devices(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("devices", "list the devices of this machine");
  set_body(command, context, [&context]() -> Result<Exit> {
    const Target t = host_target();
    if (context.json) {
      print_json({{{"device", "cpu"},
                   {"target", t.text()},
                   {"arch", t.arch},
                   {"features", t.features},
                   {"workers", t.workers},
                   {"vector_bytes", t.vector_bytes},
                   {"l1_bytes", t.l1_bytes},
                   {"l2_bytes", t.l2_bytes},
                   {"l3_bytes", t.l3_bytes}}});
      return kOk;
    }
    Table table({"device", "arch", "workers", "vector", "L1", "L2", "L3"});
    table.add({"cpu", t.arch, std::to_string(t.workers), fmt::format("{} bit", t.vector_bytes * 8),
               format_bytes(t.l1_bytes), format_bytes(t.l2_bytes), format_bytes(t.l3_bytes)});
    fmt::print("{}target: {}\n", table.text(), t.text());
    return kOk;
  });
}

}  // namespace loopwright::cli
