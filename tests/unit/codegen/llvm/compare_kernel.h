// Runs a kernel in the interpreter and compiled, on the same random data, and compares every element written.
#pragma once

#include <cstdint>
#include <string>

#include "loopwright/shape.h"
#include "src/codegen/llvm/cpu_target.h"
#include "src/ir/kernel.h"

namespace loopwright::test {

struct CompareOptions {
  Bindings symbols{};
  double ulps = 0;               ///< allowed for floats, in units of the output's dtype
  double absolute = 0;           ///< allowed beside that: for sums whose terms cancel
  std::uint64_t seed = 1;
  bool wild = true;              ///< extremes, infinities and NaN among the inputs; else numbers in [-4, 4]
  std::int64_t chunk = 3;        ///< parallel loops run in chunks of this many iterations
  std::string target{};          ///< the host when empty
};

/// Empty when they agree, else what differs.
std::string compare_kernel(const ir::Kernel& kernel, const CompareOptions& options = {});
/// Compiles both and compares what they write.
std::string compare_compiled(const ir::Kernel& a, const ir::Kernel& b, const CompareOptions& options = {});
std::string compare_text(const std::string& kernel_text, const CompareOptions& options = {});

}  // namespace loopwright::test
