// GPU: rows. Some threads hold a row in registers as it was loaded; what is reduced over it they combine by exchanges
// between lanes and one slot a warp; the result is computed from the registers. Long rows are shared by the blocks of a
// cluster.
#include <algorithm>

#include "schedules/families.h"
#include "schedules/gpu_nests.h"
#include "schedules/nests.h"

namespace loopwright::schedules {
namespace {

constexpr std::int64_t kMostHeld = 16384;     ///< elements of a row in a block's registers
constexpr std::int64_t kMostTried = 65536;    ///< such elements that a candidate may hold, in 64 registers of 1024 threads
constexpr std::int64_t kMostOfCluster = 8;    ///< blocks; an exchange among 16 costs more than they gain
constexpr std::int64_t kFewestOfBlock = 4096; ///< elements of a row for each block of a cluster
constexpr std::int64_t kMostThreads = 512;

bool has_place(const NestInfo& n) { return n.monoid == "argmin" || n.monoid == "argmax"; }

/// Inputs that several nests read along the row, or one and then the search for its place: worth holding.
std::vector<std::string> find_row_inputs(const Schedule& s, int rows, bool value_first) {
  std::vector<std::string> out;
  for (const NestInfo& n : s.nests())
    for (const ReadInfo& r : n.reads) {
      const bool is_row = s.buffer(r.buffer).is_param && static_cast<int>(r.dims.size()) > rows;
      if (!is_row || std::find(out.begin(), out.end(), r.buffer) != out.end()) continue;
      if (reader_count(s, r.buffer) > 1 || (value_first && has_place(n))) out.push_back(r.buffer);
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

/// Rows that a block of small rows may take, the best guess first.
std::vector<std::int64_t> row_choices(std::int64_t threads) {
  std::vector<std::int64_t> out;
  for (const std::int64_t rows : {128 / threads, std::int64_t{1}, 64 / threads, 256 / threads})
    if (rows >= 1 && std::find(out.begin(), out.end(), rows) == out.end()) out.push_back(rows);
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

/// Shares out the columns of every nest below the row. Where nothing holds the row, nests that need not wait for each
/// other walk over it together.
void share_rows(Schedule& s, const LoopId& row, const RowShares& shares,
                const std::vector<LoopId>& copies = {}) {
  std::vector<LoopId> before;
  for (const NestInfo& n : s.nests()) {
    if (!s.ok()) return;
    if (!n.loops.empty() && std::find(copies.begin(), copies.end(), n.loops.back()) != copies.end())
      continue;  // the engine's
    std::vector<LoopId> columns = columns_of(n, row);
    std::erase_if(columns, [&](const LoopId& l) { return s.constant_extent(l) == 1; });
    if (columns.empty() || n.is_init) continue;
    const LoopId column = fuse_all(s, columns);
    if (!s.ok()) return;
    if (has_place(n) && shares.value_first && s.attempt([&](Schedule& t) { reduce_places(t, column, shares); })) continue;
    std::vector<LoopId> made = n.is_update ? reduce_columns(s, column, shares) : share_columns(s, column, shares);
    if (shares.unrolled > 0 && !before.empty() && !made.empty()) s.attempt([&](Schedule& t) { merge_loops(t, before, made); });
    before = std::move(made);
  }
}

/// Whether a nest looks for the place of a least or largest value.
bool looks_for_places(const Schedule& s) {
  const std::vector<NestInfo> reductions = updates(s);
  return std::any_of(reductions.begin(), reductions.end(), has_place);
}

/// Blocks that may share a row, the best guess first: clusters where a block cannot hold the row, or where the rows alone
/// leave most of the GPU without work. For places the fewest that give every multiprocessor a block.
std::vector<std::int64_t> cluster_choices(const Schedule& s, std::int64_t columns, int row_count) {
  std::vector<std::int64_t> out{1};
  if (s.target().capability < 90 || s.nests().empty()) return out;
  const std::vector<NestInfo> written = outputs(s);
  double rows = 1;
  for (int i = 0; i < row_count; ++i) rows *= static_cast<double>(s.max_extent(written.back().loops[static_cast<std::size_t>(i)]));
  for (std::int64_t blocks = 2; blocks <= kMostOfCluster && columns >= blocks * kFewestOfBlock; blocks *= 2) out.push_back(blocks);
  const bool pays = columns > kMostHeld || rows * kMostOfCluster <= s.target().workers;
  if (!pays) return out;
  std::reverse(out.begin(), out.end());
  if (looks_for_places(s)) {
    const auto is_enough = [&](std::int64_t blocks) { return columns <= kMostTried * blocks && rows * static_cast<double>(blocks) >= 0.9 * s.target().workers; };
    const auto fewest = std::find_if(out.rbegin(), out.rend(), is_enough);
    if (fewest != out.rend()) std::rotate(out.begin(), std::prev(fewest.base()), fewest.base());
  }
  return out;
}

/// The loop over the rows of an output: a block each, or `rows_per_block` of them above each other.
std::vector<LoopId> bind_rows(Schedule& s, const NestInfo& output, int row_count, std::int64_t rows_per_block) {
  const LoopId row = fuse_all(s, {output.loops.begin(), output.loops.begin() + row_count});
  if (rows_per_block == 1) {
    s.bind(row, Axis::grid_x);
    return {row};
  }
  std::vector<LoopId> parts = s.split(row, {rows_per_block});
  if (!s.ok()) return {};
  s.bind(parts[0], Axis::grid_x);
  s.bind(parts[1], Axis::thread_y);
  return parts;
}

/// One loop over rows, which computes all outputs and whatever they need. Returns the innermost loop over rows.
LoopId gather_rows(Schedule& s, int row_count, std::int64_t rows_per_block) {
  const std::vector<NestInfo> written = outputs(s);
  for (const NestInfo& n : written)
    if (static_cast<int>(n.loops.size()) < row_count) s.reject("an output without the rows");
  if (!s.ok()) return {};
  std::vector<LoopId> last = bind_rows(s, written.back(), row_count, rows_per_block);
  std::vector<std::vector<LoopId>> others;
  for (std::size_t i = 0; i + 1 < written.size(); ++i) others.push_back(bind_rows(s, written[i], row_count, rows_per_block));
  if (!s.ok()) return {};
  // What an output needs can move to it, or the output to the others, once nothing else stands between.
  const std::size_t rounds = others.size() + 2;
  for (std::size_t round = 0; round < rounds; ++round) {
    for (const std::string& buffer : intermediates_backwards(s)) {
      // The components of a tuple move together: all but one of them have moved already.
      s.attempt([&](Schedule& t) { t.compute_at(buffer, last.back(), Place::registers); });
    }
    for (auto output = others.rbegin(); output != others.rend(); ++output) {
      const bool is_merged = s.attempt([&](Schedule& t) {
        for (std::size_t i = 0; i < last.size(); ++i) t.merge((*output)[i], last[i]);
      });
      if (is_merged) output->clear();
    }
    std::erase_if(others, [](const auto& loops) { return loops.empty(); });
  }
  if (!others.empty()) s.reject("outputs that cannot be computed row by row together");
  for (const NestInfo& n : written)
    if (s.ok() && n.is_update) s.hold(n.buffer, last.back(), Place::registers);
  return last.back();
}

/// Inputs that all rows read alike, column by column.
std::vector<std::string> find_weights(const Schedule& s, int rows) {
  std::vector<std::string> out;
  for (const NestInfo& n : s.nests())
    for (const ReadInfo& r : n.reads) {
      if (!s.buffer(r.buffer).is_param || r.dims.empty() || r.dims.back() != n.loops.back().name ||
          static_cast<int>(n.loops.size()) <= rows)
        continue;
      const auto reads_row = std::any_of(n.loops.begin(), n.loops.begin() + rows, [&](const LoopId& l) {
        return std::find(r.dims.begin(), r.dims.end(), l.name) != r.dims.end();
      });
      if (!reads_row && std::find(out.begin(), out.end(), r.buffer) == out.end()) out.push_back(r.buffer);
    }
  return out;
}

/// Rows that the copy engine brings to shared memory while the rows before them are reduced.
struct RowRing {
  std::int64_t depth = 0;      ///< rows of a block that are there or on their way; 0 for none
  std::int64_t resident = 1;   ///< blocks of a multiprocessor
  bool holds_weights = false;  ///< in registers, for all rows of a block
};

/// Where the engine can take whole rows and a block has several of them. Off by default.
RowRing pick_ring(const Schedule& s, Space& k, const RowShares& shares, std::int64_t rows_per_block) {
  RowRing out;
  if (s.target().capability < 90 || shares.blocks > 1 || rows_per_block > 1 || shares.threads % 32 != 0)
    return out;
  out.depth = k.pick("ring", {0, 4, 2, 3, 6});
  if (out.depth == 0) return out;
  out.resident = k.pick("resident", {4, 3, 2, 6, 8, 1});
  out.holds_weights = k.pick_flag("hold_weights", true);
  return out;
}

/// A block's rows one after the other: the engine copies what it holds of them to shared memory, some rows ahead.
void fill_ring(Schedule& s, const LoopId& row, const std::vector<std::string>& inputs,
               const std::vector<std::string>& weights, const RowRing& ring, const RowShares& shares) {
  if (inputs.empty()) return s.reject("a ring of rows that no thread holds");
  std::vector<LoopId> copies;  // innermost loops
  for (const std::string& input : inputs) {
    const std::vector<LoopId> copy = s.stage(input, row, Place::shared);
    if (!s.ok()) return;
    copies.push_back(copy.back());
  }
  const std::vector<LoopId> rounds = s.persist(row, s.target().workers * ring.resident);
  if (!s.ok()) return;
  std::vector<std::vector<LoopId>> held;
  for (const std::string& weight : weights)
    s.attempt([&](Schedule& t) {
      std::vector<LoopId> loops = t.stage(weight, rounds[0], Place::registers);
      if (!t.ok()) return;
      copies.push_back(loops.back());
      held.push_back(std::move(loops));
    });
  share_rows(s, rounds[1], shares, copies);
  for (std::vector<LoopId>& loops : held) {
    std::erase_if(loops, [&](const LoopId& l) { return s.constant_extent(l) == 1; });
    if (!s.ok() || loops.empty()) return;
    share_columns(s, fuse_all(s, loops), shares);
  }
  if (s.ok()) s.ring(rounds[1], ring.depth);
}

}  // namespace

void schedule_gpu_row(Schedule& s, Space& k) {
  inline_thin_sums(s);
  const std::vector<std::string> costly = find_costly_rows(s);
  RowShares shares;
  const int rows_before = std::max(0, count_row_loops(s));
  const Row before = measure_rows(s, rows_before);
  const std::vector<std::int64_t> clusters = cluster_choices(s, before.columns, rows_before);
  if (clusters.size() > 1) shares.blocks = k.pick("cluster", clusters);
  const bool fits = before.columns <= kMostHeld * shares.blocks;
  const bool keeps = fits && before.constant && !costly.empty() && k.pick_flag("keep_row", true);
  const bool aligned = k.pick_flag("aligned", true);
  if (aligned) s.assume_alignment(16);
  inline_intermediates(s, keeps ? costly : std::vector<std::string>{});
  const int row_count = count_row_loops(s);
  if (!s.ok() || row_count < 1) return s.reject("reductions over different rows");

  const Row shape = measure_rows(s, row_count);
  shares.width = shape.width;
  const std::int64_t each = shape.width * shares.blocks;
  const std::int64_t vectors = (shape.columns + each - 1) / each;  // of a block
  shares.threads = k.pick("threads", thread_choices(std::max<std::int64_t>(vectors, 1)));
  const bool searches = looks_for_places(s);
  const bool holds = shape.constant && shape.columns <= kMostTried * shares.blocks && (keeps || k.pick_flag("hold", fits || searches));
  if (!holds) shares.unrolled = k.pick("vectors", {4, 2, 8, 1});
  if (searches) {
    // 2: one condition for all lanes of a thread; 1: one for each; 0: the place is carried along.
    const std::int64_t search = k.pick("value_first", {1, 2, 0});
    shares.value_first = search > 0;
    shares.one_search = search == 2;
  }
  const std::int64_t rows_per_block = shares.blocks > 1 ? 1 : k.pick("rows", row_choices(shares.threads));

  const RowRing ring =
      holds && aligned && shape.constant ? pick_ring(s, k, shares, rows_per_block) : RowRing{};

  const std::vector<std::string> weights =
      ring.holds_weights ? find_weights(s, row_count) : std::vector<std::string>{};
  const LoopId row = gather_rows(s, row_count, rows_per_block);
  if (!s.ok()) return;
  std::vector<std::string> held;
  if (holds)
    for (const std::string& input : find_row_inputs(s, row_count, shares.value_first))
      if (s.attempt([&](Schedule& t) { t.stage(input, row, Place::registers); })) held.push_back(input);
  if (ring.depth == 0) {
    share_rows(s, row, shares);
  } else {
    fill_ring(s, row, held, weights, ring, shares);
  }
  pick_loads(s, k);
  pick_stream(s, k);
}

}  // namespace loopwright::schedules
