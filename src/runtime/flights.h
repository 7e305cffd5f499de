// Kernels of a plan that touch nothing of each other's and follow on each other: a flight. On a GPU they may run at the
// same time, on the CPU a flight means nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace loopwright::runtime {

/// More kernels at once fill no GPU better, and all that they hold memory for lives as long as the flight.
inline constexpr int kMostInFlight = 8;

/// Tensors of a plan that one kernel touches.
struct Touched {
  std::vector<std::int32_t> read;
  std::vector<std::int32_t> written;  ///< also where they are read
};

/// For each kernel the number of its flight. Each flight ends before the next one begins to touch memory.
std::vector<int> find_flights(const std::vector<Touched>& kernels);

/// An order with longer flights: positions in `kernels`. Those that touch the same tensor, one of them writing, stay in
/// the order they are in.
std::vector<std::size_t> gather_flights(const std::vector<Touched>& kernels);

}  // namespace loopwright::runtime
