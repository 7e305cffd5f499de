// What this machine's CPU is and how much of it this process may use.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace loopwright::runtime {

struct HostCpu {
  std::string vendor;  ///< `AuthenticAMD`
  std::string model;   ///< brand string without padding
  std::string arch;    ///< LLVM's CPU name, or x86-64-v1 … v4 when the model is not in our table
  std::vector<std::string> features;  ///< LLVM's names, sorted; only those that code generation may ask for
  std::int32_t cores = 1;             ///< physical cores of the machine that this process may run on
  std::int32_t threads = 1;           ///< hardware threads that this process may run on
  std::int64_t l1_bytes = 0, l2_bytes = 0, l3_bytes = 0;
  std::int64_t clock_khz = 0;  ///< nominal maximum; 0 when the machine does not say
};

/// Read once; never changes afterwards.
const HostCpu& host_cpu();

/// Workers for parallel kernels: LOOPWRIGHT_WORKERS, else the physical cores within the affinity mask and the control
/// group's quota; at least 1. Read anew each time.
int count_workers();

/// Level 1 to 4 of a generic architecture (`x86-64-v3` → 3, `x86-64` → 1); 0 for any other name.
int generic_level(const std::string& arch);
/// The highest level whose features are all in `features`.
int feature_level(const std::vector<std::string>& features);

/// CPUs allowed by a quota text of a control group: `max 100000` → 0 (no limit), `150000 100000` → 2.
int parse_cpu_quota(const std::string& text);

}  // namespace loopwright::runtime
