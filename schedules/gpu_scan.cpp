// GPU: running sums. Along memory, the threads of a row hold it in vectors, each vector added up by its thread, the vectors
// of a warp by exchanges between lanes, those of a block through one slot a warp; long rows are shared by the blocks of a
// cluster, or taken in passes with a carry. Along another axis, threads side by side have columns, and threads above each
// other neighbouring chunks of them.
#include <algorithm>

#include "schedules/families.h"
#include "schedules/gpu_nests.h"
#include "schedules/nests.h"

namespace loopwright::schedules {
namespace {

constexpr std::int64_t kMostOfThread = 32;  ///< elements that a thread holds
constexpr std::int64_t kMostScanThreads = 512;
constexpr std::int64_t kMostScanBlocks = 8;    ///< blocks
constexpr std::int64_t kFewestScanned = 4096;  ///< elements of a row for each block of a cluster

/// The nest that computes an element from the one before, with its loop over the axis.
struct Scan {
  NestInfo nest;
  ReadInfo own;  ///< its read of what it writes
  std::size_t axis = 0;
  LoopId loop;
  std::vector<LoopId> others;
  bool along_memory() const { return axis + 1 == own.dims.size(); }
};

std::optional<Scan> find_scan(const Schedule& s) {
  std::optional<Scan> out;
  for (const NestInfo& n : s.nests()) {
    if (!is_pointwise(n)) continue;
    for (const ReadInfo& r : n.reads) {
      if (r.buffer != n.buffer) continue;
      const auto at = std::find(r.dims.begin(), r.dims.end(), "");
      if (out || n.loops.empty() || n.loops.size() != r.dims.size() || at == r.dims.end())
        return std::nullopt;
      out = Scan{n,
                 r,
                 static_cast<std::size_t>(at - r.dims.begin()),
                 n.loops.back(),
                 {n.loops.begin(), n.loops.end() - 1}};
    }
  }
  return out;
}

/// How a pass over a row, or over a tile of columns, is shared out.
struct ScanShares {
  std::int64_t blocks = 1, threads = 1, copies = 1, width = 1;  ///< copies: vectors of a thread
  std::int64_t across = 1;                                      ///< columns side by side
  bool columns = false;
  std::int64_t ways() const { return blocks * copies * threads; }
};

/// The loops over a pass of one nest: [block,] way, element[, column].
void share_pass(Schedule& s, std::vector<LoopId> loops, const ScanShares& shares, bool in_lanes) {
  if (shares.columns) {
    s.reorder({loops[0], loops[2], loops[1]});
    s.bind(loops[0], Axis::thread_y);
    s.bind(loops[2], Axis::thread_x);
    return unroll_each(s, {loops[1]});
  }
  if (shares.blocks > 1) {
    s.bind(loops[0], Axis::cluster_x);
    loops.erase(loops.begin());
  }
  const std::vector<LoopId> parts = s.split(loops[0], {shares.threads});
  if (!s.ok()) return;
  s.reorder({parts[1], parts[0], loops[1]});
  s.bind(parts[1], Axis::thread_x);
  if (!in_lanes || shares.width == 1 || !s.attempt([&](Schedule& t) { t.vectorize(loops[1]); }))
    unroll_each(s, {loops[1]});
  unroll_each(s, {parts[0]});
}

void combine_ways(Schedule& s, const LoopId& way, const ScanShares& shares) {
  if (shares.threads == 1) return unroll_each(s, {way});
  s.bind(way, Axis::across);
}

/// The loops of the nest that converts a pass of the result, in the order of its dimensions.
void share_result(Schedule& s, std::vector<LoopId> loops, const Scan& scan, const ScanShares& shares) {
  const LoopId axis = loops[scan.axis];
  if (shares.columns) {
    const std::vector<LoopId> parts = s.split(axis, {shares.width});
    if (s.ok()) share_pass(s, {parts[0], parts[1], loops.back()}, shares, true);
    return;
  }
  // A row may be shorter than the pass that takes all of it: the blocks are counted all the same.
  std::vector<std::int64_t> factors{shares.width};
  if (shares.blocks > 1) factors = {shares.blocks, shares.copies * shares.threads, shares.width};
  std::vector<LoopId> parts = s.split(axis, factors);
  if (shares.blocks > 1 && s.ok()) parts.erase(parts.begin());  // one pass
  if (s.ok()) share_pass(s, parts, shares, true);
}

/// Takes the loops that the step made, nest by nest.
class Made {
 public:
  explicit Made(std::vector<LoopId> loops) : loops_(std::move(loops)) {}
  std::vector<LoopId> take(std::size_t count) {
    if (at_ + count > loops_.size()) return std::vector<LoopId>(count);
    at_ += count;
    return {loops_.begin() + static_cast<std::ptrdiff_t>(at_ - count),
            loops_.begin() + static_cast<std::ptrdiff_t>(at_)};
  }

 private:
  std::vector<LoopId> loops_;
  std::size_t at_ = 0;
};

/// Splits the scan into its nests and shares each of them out. `outer` are the loops around; returns the one over all of them.
LoopId share_scan(Schedule& s, const Scan& scan, const std::vector<LoopId>& outer, const ScanShares& shares) {
  Made made(s.scan_across(scan.loop, shares.ways(), shares.width, shares.blocks));
  if (!s.ok()) return {};
  const LoopId pass = made.take(1)[0];
  std::vector<LoopId> result;
  if (!scan.nest.writes_output) {
    for (const NestInfo& n : outputs(s))
      if (std::any_of(n.reads.begin(), n.reads.end(),
                      [&](const ReadInfo& r) { return r.buffer == scan.nest.buffer; }))
        result = s.fuse_epilogue(n.buffer, pass, Place::registers);
    if (s.ok() && result.size() != scan.own.dims.size())
      s.reject("what follows is no conversion of the result");
  }
  const LoopId all = fuse_all(s, outer);
  const std::size_t blocks = shares.blocks > 1 ? 1 : 0, kept = shares.columns ? 1 : 0;
  if (!s.ok()) return {};
  share_pass(s, made.take(blocks + 2 + kept), shares, true);
  share_pass(s, made.take(blocks + 2 + kept), shares, false);
  if (blocks > 0) {
    s.bind(made.take(1)[0], Axis::cluster_x);
    const std::vector<LoopId> of_block = made.take(2);
    s.bind(of_block[0], Axis::cluster_x);
    combine_ways(s, of_block[1], shares);
    s.bind(made.take(1)[0], Axis::across);
  } else {
    const std::vector<LoopId> ways = made.take(kept + 1);
    if (kept > 0) s.bind(ways[0], Axis::thread_x);
    combine_ways(s, ways.back(), shares);
  }
  share_pass(s, made.take(blocks + 2 + kept), shares, false);
  share_pass(s, made.take(blocks + 2 + kept), shares, true);
  if (kept > 0) s.bind(made.take(1)[0], Axis::thread_x);
  if (!result.empty()) share_result(s, result, scan, shares);
  return all;
}

/// `first`, then those of the rest that fit.
std::vector<std::int64_t> scan_choices(std::int64_t first, const std::vector<std::int64_t>& rest,
                                       std::int64_t most) {
  std::vector<std::int64_t> out{first};
  for (const std::int64_t x : rest)
    if (x != first && x <= most) out.push_back(x);
  return out;
}

std::int64_t chunks_of(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// The largest power of two up to `n`, which is at least 1.
std::int64_t floor_power(std::int64_t n) {
  std::int64_t out = 1;
  while (out * 2 <= n) out *= 2;
  return out;
}

double count_scans(const Schedule& s, const std::vector<LoopId>& loops) {
  double out = 1;
  for (const LoopId& l : loops) out *= static_cast<double>(std::max<std::int64_t>(1, s.max_extent(l)));
  return out;
}

/// Blocks that share a row: where one cannot hold it, or where the rows alone leave most of the GPU without work.
std::vector<std::int64_t> scan_clusters(const Schedule& s, const Scan& scan, std::int64_t columns) {
  std::vector<std::int64_t> out{1};
  if (s.target().capability < 90 || columns > kMostScanBlocks * kMostScanThreads * kMostOfThread) return out;
  for (std::int64_t blocks = 2; blocks <= kMostScanBlocks && columns >= blocks * kFewestScanned; blocks *= 2)
    out.push_back(blocks);
  const bool pays = columns > kMostScanThreads * kMostOfThread ||
                    count_scans(s, scan.others) * kMostScanBlocks <= s.target().workers;
  if (pays) std::reverse(out.begin(), out.end());
  return out;
}

void scan_rows(Schedule& s, Space& k, const Scan& scan) {
  ScanShares shares;
  const std::int64_t columns = std::max<std::int64_t>(1, s.max_extent(scan.loop));
  if (s.constant_extent(scan.loop)) shares.width = natural_width(s, scan.nest, scan.loop);
  const std::vector<std::int64_t> clusters = scan_clusters(s, scan, columns);
  if (clusters.size() > 1) shares.blocks = k.pick("cluster", clusters);
  const std::int64_t vectors = chunks_of(columns, shares.width * shares.blocks);  // of a block
  const std::int64_t most_copies = std::max<std::int64_t>(1, kMostOfThread / shares.width);
  const std::int64_t each = std::min<std::int64_t>(vectors > kMostScanThreads * 4 ? 8 : 4, most_copies);
  const std::int64_t guess =
      vectors <= 32 ? floor_power(vectors) : std::min(chunks_of(vectors, each * 32) * 32, kMostScanThreads);
  shares.threads = k.pick(
      "threads", scan_choices(guess, {128, 256, 64, 512, 32, 16, 4}, std::max<std::int64_t>(vectors, 1)));
  shares.copies = k.pick("vectors", scan_choices(std::min(chunks_of(vectors, shares.threads), most_copies),
                                                 {4, 2, 1, 8}, most_copies));
  if (shares.blocks > 1 && shares.ways() * shares.width < columns)
    return s.reject("a row that the registers of the cluster do not hold");
  const std::int64_t rows =
      shares.blocks > 1
          ? 1
          : k.pick("rows", scan_choices(std::max<std::int64_t>(1, 128 / shares.threads),
                                        {1, 64 / shares.threads, 256 / shares.threads}, kMostScanThreads));
  if (rows < 1) return s.reject("no row for a block");
  const LoopId row = share_scan(s, scan, scan.others, shares);
  if (!s.ok() || scan.others.empty()) return;
  if (rows == 1) return s.bind(row, Axis::grid_x);
  const std::vector<LoopId> parts = s.split(row, {rows});
  if (!s.ok()) return;
  s.bind(parts[0], Axis::grid_x);
  s.bind(parts[1], Axis::thread_y);
}

void scan_columns(Schedule& s, Space& k, const Scan& scan) {
  ScanShares shares;
  shares.columns = true;
  const LoopId column{scan.own.dims.back()};
  const std::int64_t extent = std::max<std::int64_t>(1, s.max_extent(scan.loop));
  shares.across =
      std::min(k.pick("across", {16, 32, 64, 128}), std::max<std::int64_t>(1, s.max_extent(column)));
  // Where a multiprocessor gets one tile or two, its bytes in flight are theirs.
  const bool few =
      count_scans(s, scan.others) <= 2.0 * static_cast<double>(s.target().workers * shares.across);
  shares.width = k.pick("chunk", scan_choices(std::min<std::int64_t>(few ? 16 : 8, floor_power(extent)),
                                              {8, 16, 4, 1}, kMostOfThread));
  const std::int64_t chunks = floor_power(chunks_of(extent, shares.width));
  const std::int64_t down = few && shares.across <= 32 ? 32 : 8;
  shares.threads = k.pick("down", scan_choices(std::min(down, chunks), {16, 32, 8, 4, 1}, chunks));
  if (shares.across * shares.threads > s.target().max_threads_per_block)
    return s.reject("more threads than a block has");
  const std::vector<LoopId> parts = s.split(column, {shares.across});
  if (!s.ok()) return;
  std::vector<LoopId> outer = scan.others;
  std::replace(outer.begin(), outer.end(), column, parts[0]);
  std::vector<LoopId> order = outer;
  order.insert(order.end(), {scan.loop, parts[1]});
  s.reorder(order);
  if (!s.ok()) return;
  const LoopId tile = share_scan(s, scan, outer, shares);
  if (s.ok()) s.bind(tile, Axis::grid_x);
}

}  // namespace

bool is_gpu_scan(const Schedule& s) { return find_scan(s).has_value(); }

void schedule_gpu_scan(Schedule& s, Space& k) {
  if (k.pick_flag("aligned", true)) s.assume_alignment(16);
  inline_intermediates(s);
  const auto scan = find_scan(s);
  if (!s.ok() || !scan) return s.reject("no running sum");
  if (scan->along_memory()) scan_rows(s, k, *scan);
  else scan_columns(s, k, *scan);
  pick_stream(s, k);
}

}  // namespace loopwright::schedules
