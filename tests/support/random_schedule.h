// Random steps for differential tests: legal and illegal ones.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "src/schedule/trace.h"

namespace loopwright::test {

/// A step that names loops and buffers of the kernel; about half of them are rejected.
schedule::Step random_step(const ir::Kernel& k, std::mt19937_64& random);

struct RandomSchedule {
  std::vector<schedule::TracedStep> steps;  ///< those that were accepted
  ir::Kernel kernel;
  int rejected = 0;
  std::string
      wrong;  ///< a rejection without its parts, or a kernel that does not verify; empty when all is well
};
/// Applies up to `attempts` random steps.
RandomSchedule random_schedule(const ir::Kernel& naive, std::uint64_t seed, int attempts);

/// The steps that still apply when others are left out, and the kernel that they make.
RandomSchedule apply_what_applies(const ir::Kernel& naive, const std::vector<schedule::TracedStep>& steps);

}  // namespace loopwright::test
