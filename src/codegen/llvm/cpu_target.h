// What CPU code is compiled for, as data: a baseline or the features of one machine.
#pragma once

#include <string>
#include <string_view>

#include "loopwright/base.h"

namespace loopwright::codegen {

/// LLVM's name of the platform that all CPU code is for.
inline constexpr const char* kTriple = "x86_64-unknown-linux-gnu";

/// `cpu:x86-64-v3` (a named level), or `cpu:<tuned for>:+<feature>,+<feature>,...` (exactly these features).
/// Code for a target runs on every machine that has all of its features, whatever the name it is tuned for.
struct CpuTarget {
  std::string text;      ///< canonical, stored as Artifact::target
  std::string base;      ///< LLVM's name of the baseline
  std::string tune;      ///< LLVM's name of the processor whose timings are assumed
  std::string features;  ///< beyond the baseline, LLVM's spelling `+avx2,+fma`
  bool fma = false;
  bool f16c = false;     ///< conversions between f16 and f32 in hardware
  int vector_bytes = 16; ///< of the widest registers used
  int vector_registers = 16;
};

/// The machine this process runs on. unsupported_target when it is not an x86-64 with SSE4.2.
Result<CpuTarget> host_cpu_target();
/// The inverse of CpuTarget::text. unsupported_target for an unknown level or feature, or one below SSE4.2.
Result<CpuTarget> parse_cpu_target(std::string_view text);

}  // namespace loopwright::codegen
