// A device as data: what a schedule, a lowering pass or a code generator may ask of the machine it works for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loopwright/base.h"

namespace loopwright {

enum class TargetKind : std::uint8_t { cpu, cuda };

struct Target {
  TargetKind kind = TargetKind::cpu;
  std::string arch;                   ///< `znver3`, `x86-64-v3`; `sm_90a`
  std::vector<std::string> features;  ///< sorted; LLVM's names on a CPU (`avx2`, `fma`, `avx512f`)
  std::int32_t vector_bytes = 16;     ///< widest vector register, or widest memory access of a GPU lane
  std::int32_t vector_registers = 16;
  std::int32_t workers = 1;           ///< CPU workers, or SMs
  std::int64_t l1_bytes = 32 << 10;   ///< private data cache of a core, or most shared memory of a block
  std::int64_t l2_bytes = 512 << 10;
  std::int64_t l3_bytes = 0;          ///< last cache, shared
  std::int32_t max_threads_per_block = 1;
  std::int32_t capability = 0;        ///< of a GPU: 90 for sm_90a
  std::int32_t max_threads_per_sm = 0;
  std::int64_t shared_bytes_per_sm = 0;

  /// Lanes of the widest vector for an element type.
  std::int32_t lanes(DType dtype) const { return vector_bytes / size_bytes(dtype); }
  bool has(std::string_view feature) const;
  /// One line that names what code generation depends on, e.g. `cpu:znver3:+avx2,+fma`; equal text, equal code.
  std::string text() const;
  /// The inverse of `text`, with limits of the architecture's defaults.
  static Result<Target> parse(std::string_view text);
};

}  // namespace loopwright
