// Random well-formed naive kernels: for round trips, simplification and schedules.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "src/ir/interpret.h"
#include "src/ir/kernel.h"

namespace loopwright::testing {

/// The same text for the same seed: symbols, several nests that feed each other, reductions, argmax, scans, ragged and
/// reversed accesses, guarded stores, strided inputs, most dtypes. Verified at Level::naive; runs without a fault.
ir::Kernel random_kernel(std::uint64_t seed);
/// Values within the symbols' ranges and the guard.
Bindings random_bindings(const ir::Kernel& k, std::uint64_t seed);
/// An array for each parameter: small halves and integers, so that most sums are exact in any order. Outputs hold junk.
std::map<std::string, ir::Array> random_arguments(const ir::Kernel& k, const Bindings& bindings,
                                                  std::uint64_t seed);
/// The value of an expression over symbols.
std::int64_t size_of(const ir::Expr& e, const ir::Kernel& k, const Bindings& bindings);

}  // namespace loopwright::testing
