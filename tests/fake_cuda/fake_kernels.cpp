#include "tests/fake_cuda/fake_kernels.h"

#include <algorithm>

namespace fake_cuda {
namespace {

float* floats(void** parameters, int i) { return *static_cast<float**>(parameters[i]); }
std::int64_t number(void** parameters, int i) { return *static_cast<std::int64_t*>(parameters[i]); }

/// (x, y, n): y[i] = 2 x[i]; does what its grid covers and no more.
int twice(void** p, const Grid& grid) {
  const std::int64_t covered = static_cast<std::int64_t>(grid.blocks[0]) * grid.block[0];
  for (std::int64_t i = 0; i < std::min(covered, number(p, 2)); ++i)
    floats(p, 1)[i] = floats(p, 0)[i] + floats(p, 0)[i];
  return 0;
}
/// The same whatever the grid: for generated kernels, whose threads do several elements each.
int doubles(void** p, const Grid&) {
  for (std::int64_t i = 0; i < number(p, 2); ++i) floats(p, 1)[i] = floats(p, 0)[i] + floats(p, 0)[i];
  return 0;
}
int triples(void** p, const Grid&) {
  for (std::int64_t i = 0; i < number(p, 2); ++i) floats(p, 1)[i] = 3 * floats(p, 0)[i];
  return 0;
}
/// One tile of 32 elements is not doubled.
int wrong_tile(void** p, const Grid& grid) {
  twice(p, grid);
  for (std::int64_t i = 32; i < std::min<std::int64_t>(64, number(p, 2)); ++i)
    floats(p, 1)[i] = floats(p, 0)[i];
  return 0;
}
int writes_behind(void** p, const Grid& grid) {
  twice(p, grid);
  floats(p, 1)[number(p, 2)] = 1;
  return 0;
}
int changes_input(void** p, const Grid& grid) {
  twice(p, grid);
  floats(p, 0)[0] = 0;
  return 0;
}
int never_ends(void**, const Grid&) { return -1; }
int illegal_address(void**, const Grid&) { return 700; }
/// (x, y, counter, n): y = 2 x only while the counter is zero; leaves it zero.
int twice_counting(void** p, const Grid&) {
  auto* counter = *static_cast<std::uint32_t**>(p[2]);
  for (std::int64_t i = 0; i < number(p, 3); ++i)
    floats(p, 1)[i] = 2 * floats(p, 0)[i] + static_cast<float>(*counter);
  return 0;
}
/// The same, and leaves the counter at one.
int forgets_counter(void** p, const Grid& grid) {
  twice_counting(p, grid);
  **static_cast<std::uint32_t**>(p[2]) = 1;
  return 0;
}
/// (x, y, n, overlap): y[i] = x[i] + overlap.
int adds_overlap(void** p, const Grid&) {
  for (std::int64_t i = 0; i < number(p, 2); ++i) floats(p, 1)[i] = floats(p, 0)[i] + static_cast<float>(number(p, 3));
  return 0;
}
/// (x, y, n): y[i] += x[i].
int accumulates(void** p, const Grid&) {
  for (std::int64_t i = 0; i < number(p, 2); ++i) floats(p, 1)[i] += floats(p, 0)[i];
  return 0;
}
/// (x, y, n, map of x): y[i] = 2 x[i], by the address that the map has.
int twice_by_map(void** p, const Grid&) {
  for (std::int64_t i = 0; i < number(p, 2); ++i) floats(p, 1)[i] = 2 * floats(p, 3)[i];
  return 0;
}

constexpr FakeKernel kKernels[] = {
    {"twice", 3, twice},
    {"doubles", 3, doubles},
    {"triples", 3, triples},
    {"wrong_tile", 3, wrong_tile},
    {"writes_behind", 3, writes_behind},
    {"changes_input", 3, changes_input},
    {"never_ends", 3, never_ends},
    {"illegal_address", 3, illegal_address},
    {"twice_counting", 4, twice_counting},
    {"forgets_counter", 4, forgets_counter},
    {"adds_overlap", 4, adds_overlap},
    {"accumulates", 3, accumulates},
    {"twice_by_map", 4, twice_by_map},
};

}  // namespace

const FakeKernel* find_kernel(std::string_view name) {
  for (const FakeKernel& kernel : kKernels)
    if (kernel.name == name) return &kernel;
  return nullptr;
}

}  // namespace fake_cuda
