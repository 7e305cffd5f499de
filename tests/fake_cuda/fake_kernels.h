// Kernels of the fake driver: host functions over the parameters of a launch.
#pragma once

#include <cstdint>
#include <string_view>

namespace fake_cuda {

struct Grid {
  std::uint32_t blocks[3];
  std::uint32_t block[3];
};

struct FakeKernel {
  std::string_view name;
  int parameters;
  /// 0, -1 for a kernel that never ends, or the status that every later call gets.
  int (*run)(void** parameters, const Grid& grid);
};
/// Null when there is none of that name.
const FakeKernel* find_kernel(std::string_view name);

}  // namespace fake_cuda
