// Values that a kernel is tried on.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "loopwright/base.h"
#include "src/ir/kernel.h"

namespace loopwright::tuner {

/// Integers of an input lie in [lo, hi). `ends`: they are where groups of hi - 1 rows end, in order, the last at the last row;
/// groups have no rows to twice the mean.
struct IntegerRange {
  std::int64_t lo = 0, hi = 1;
  bool ends = false;
};

/// For each integer parameter whose values reach the index of another buffer (gather, embedding, scatter): the range
/// that keeps every such index inside. Found by following loads through intermediates of the naive kernel. And offsets of groups
/// of rows (group_of).
std::map<std::string, IntegerRange> find_index_ranges(const ir::Kernel& naive, const Bindings& probe);

/// How floats are drawn: normal with mean 0.25 and deviation 1, which has both signs and does not cancel in sums; or
/// uniform in [0.125, 1), for which every op of the table is defined.
enum class Draw : std::uint8_t { normal, positive };

/// Fills `count` elements at `data`. Integers without a range: -9..9, or 0..9 when unsigned; bool: 0 or 1.
void fill_random(DType dtype, void* data, std::int64_t count, Draw draw, std::uint64_t seed,
                 const IntegerRange* range = nullptr);

/// What an output holds before a run: NaN for floats, 0xAA.. otherwise, or the other way round with `second`, so that
/// an element that is not written differs from the first run.
void fill_poison(DType dtype, void* data, std::int64_t bytes, bool second);

/// One element as a double.
double read_element(DType dtype, const void* data, std::int64_t position);
void write_element(DType dtype, void* data, std::int64_t position, double value);

}  // namespace loopwright::tuner
