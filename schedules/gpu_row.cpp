// GPU: rows. Some threads hold a row in registers as it was loaded; what is reduced over it they combine by exchanges
// between lanes and one slot a warp; the result is computed from the registers.
#include <algorithm>

#include "schedules/families.h"
#include "schedules/gpu_nests.h"
#include "schedules/nests.h"

namespace loopwright::schedules {
namespace {

constexpr std::int64_t kMostHeld = 16384;     ///< elements of a row in registers
constexpr std::int64_t kMostThreads = 512;

/// Inputs that several nests read along the row: worth holding.
std::vector<std::string> find_row_inputs(const Schedule& s, int rows) {
  std::vector<std::string> out;
  for (const NestInfo& n : s.nests())
    for (const ReadInfo& r : n.reads) {
      const bool is_row = s.buffer(r.buffer).is_param && static_cast<int>(r.dims.size()) > rows;
      if (!is_row || std::find(out.begin(), out.end(), r.buffer) != out.end()) continue;
      if (reader_count(s, r.buffer) > 1) out.push_back(r.buffer);
    }
  return out;
}

/// Whether what the nest computes depends on something that was reduced, itself or through other pointwise nests.
bool follows_reduction(const Schedule& s, const NestInfo& n) {
  return std::any_of(n.reads.begin(), n.reads.end(), [&](const ReadInfo& r) {
    if (s.buffer(r.buffer).is_param || r.buffer == n.buffer) return false;
    const NestInfo writer = nest_of(s, r.buffer);
    return writer.is_update || follows_reduction(s, writer);
  });
}

/// Rows that are computed from what was reduced and that several nests read, when computing them again costs.
std::vector<std::string> find_costly_rows(const Schedule& s) {
  std::vector<std::string> out;
  for (const std::string& buffer : find_shared_rows(s)) {
    const NestInfo n = nest_of(s, buffer);
    if (n.is_costly && follows_reduction(s, n)) out.push_back(buffer);
  }
  return out;
}

/// Threads that a row of so many vectors may have, the best guess first: 2 to 4 vectors a thread.
std::vector<std::int64_t> thread_choices(std::int64_t vectors) {
  std::vector<std::int64_t> out;
  std::int64_t guess = 1;
  if (vectors <= 64) {
    while (guess < 32 && guess * 2 <= vectors) guess *= 2;
  } else {
    const std::int64_t each = vectors <= 512 ? 2 : vectors <= 2048 ? 4 : 8;
    guess = std::min<std::int64_t>((vectors + each * 32 - 1) / (each * 32) * 32, vectors > 4096 ? kMostThreads : 256);
  }
  out.push_back(guess);
  for (const std::int64_t t : {128, 256, 64, 192, 96, 32, 512, 384, 1024, 16, 8, 4, 2, 1}) {
    const bool fits = t <= vectors && vectors <= t * 32;
    if (fits && t != guess) out.push_back(t);
  }
  return out;
}

/// The longest nest below the rows.
struct Row {
  std::int64_t columns = 1;
  std::int64_t width = 16;  ///< elements of a vector, which every nest's columns are a multiple of
  bool constant = true;
};

Row measure_rows(const Schedule& s, int rows) {
  Row out;
  int bytes = 8;
  for (const NestInfo& n : s.nests()) {
    if (n.is_init || static_cast<int>(n.loops.size()) <= rows) continue;
    std::int64_t extent = 1;
    for (std::size_t i = static_cast<std::size_t>(rows); i < n.loops.size(); ++i) {
      extent *= s.max_extent(n.loops[i]);
      out.constant = out.constant && s.constant_extent(n.loops[i]).has_value();
    }
    out.columns = std::max(out.columns, extent);
    const auto inner = s.constant_extent(n.loops.back());
    while (out.width > 1 && (!inner || (*inner > 1 && *inner % out.width != 0))) out.width /= 2;
    if (n.writes_output && !n.is_update) bytes = std::min(bytes, size_bytes(s.buffer(n.buffer).dtype));
    for (const ReadInfo& r : n.reads)
      if (s.buffer(r.buffer).is_param && !r.dims.empty() && r.dims.back() == n.loops.back().name)
        bytes = std::min(bytes, size_bytes(s.buffer(r.buffer).dtype));
  }
  out.width = std::min<std::int64_t>(out.width, 16 / bytes);
  return out;
}

/// Loops of the nest below the row.
std::vector<LoopId> columns_of(const NestInfo& n, const LoopId& row) {
  const auto at = std::find(n.loops.begin(), n.loops.end(), row);
  return at == n.loops.end() ? n.loops : std::vector<LoopId>(at + 1, n.loops.end());
}

/// Shares out the columns of every nest below the row.
void share_rows(Schedule& s, const LoopId& row, const RowShares& shares) {
  for (const NestInfo& n : s.nests()) {
    if (!s.ok()) return;
    std::vector<LoopId> columns = columns_of(n, row);
    std::erase_if(columns, [&](const LoopId& l) { return s.constant_extent(l) == 1; });
    if (columns.empty() || n.is_init) continue;
    const LoopId column = fuse_all(s, columns);
    if (!s.ok()) return;
    if (n.is_update) reduce_columns(s, column, shares);
    else share_columns(s, column, shares);
  }
}

void schedule_rows(Schedule& s, Space& k) {
  const std::vector<std::string> costly = find_costly_rows(s);
  const bool fits = measure_rows(s, std::max(0, count_row_loops(s))).columns <= kMostHeld;
  const bool keeps = fits && !costly.empty() && k.pick_flag("keep_row", true);
  if (k.pick_flag("aligned", true)) s.assume_alignment(16);
  inline_intermediates(s, keeps ? costly : std::vector<std::string>{});
  const int row_count = count_row_loops(s);
  if (!s.ok() || row_count < 1) return s.reject("reductions over different rows");

  const Row shape = measure_rows(s, row_count);
  RowShares shares;
  shares.width = shape.width;
  const std::int64_t vectors = (shape.columns + shape.width - 1) / shape.width;
  shares.threads = k.pick("threads", thread_choices(std::max<std::int64_t>(vectors, 1)));
  const bool holds = shape.constant && shape.columns <= kMostHeld && (keeps || k.pick_flag("hold", true));
  if (!holds) shares.unrolled = k.pick("vectors", {4, 2, 8, 1});
  std::vector<std::int64_t> row_choices;
  for (const std::int64_t rows : {128 / shares.threads, std::int64_t{1}, 64 / shares.threads, 256 / shares.threads})
    if (rows >= 1 && std::find(row_choices.begin(), row_choices.end(), rows) == row_choices.end()) row_choices.push_back(rows);
  const std::int64_t rows_per_block = k.pick("rows", row_choices);

  const NestInfo last = outputs(s).back();
  LoopId row = fuse_all(s, {last.loops.begin(), last.loops.begin() + row_count});
  if (rows_per_block > 1) {
    const std::vector<LoopId> parts = s.split(row, {rows_per_block});
    if (!s.ok()) return;
    s.bind(parts[0], Axis::grid_x);
    s.bind(parts[1], Axis::thread_y);
    row = parts[1];
  } else {
    s.bind(row, Axis::grid_x);
  }
  for (const std::string& buffer : intermediates_backwards(s)) {
    // The components of a tuple move together: all but one of them have moved already.
    s.attempt([&](Schedule& t) { t.compute_at(buffer, row, Place::registers); });
  }
  if (outputs(s).back().is_update) s.hold(outputs(s).back().buffer, row, Place::registers);
  if (holds)
    for (const std::string& input : find_row_inputs(s, row_count)) s.attempt([&](Schedule& t) { t.stage(input, row, Place::registers); });
  share_rows(s, row, shares);
}

}  // namespace

void schedule_gpu_row(Schedule& s, Space& k) {
  if (!s.attempt([&](Schedule& t) { schedule_rows(t, k); })) schedule_gpu_general(s, k);
}

}  // namespace loopwright::schedules
