// GPU: matrix products in plain arithmetic, for any types and sizes: tiles of the result in the registers of a block, operands
// through shared memory, loads of the next summands under way meanwhile. Where tiles are few, blocks share out the sum and
// the last of a tile adds up what they leave. One thin side, or a short sum, is a tile of that shape.
#include <algorithm>
#include <cmath>

#include "schedules/gpu_nests.h"
#include "schedules/gpu_products.h"
#include "schedules/nests.h"

namespace loopwright::schedules {
namespace {

constexpr std::int64_t kPlainWidth = 4;  ///< most neighbours in one access
constexpr std::int64_t kMostOfTile = 256;  ///< threads

struct PlainTile {
  std::int64_t rows = 128, columns = 128, summands = 16;
  std::int64_t shares = 1;            ///< blocks that share out the sum of a tile
  std::int64_t down = 16, across = 16;  ///< threads along rows and columns
  bool ahead = true;                  ///< loads run one step ahead
  std::int64_t abreast = 2;           ///< vectors of a row that neighbouring threads load: whole sectors, but conflicts at banks
  std::int64_t threads() const { return down * across; }
  std::int64_t row_width() const { return std::min(kPlainWidth, rows / down); }
  std::int64_t column_width() const { return std::min(kPlainWidth, columns / across); }
};

/// Threads so that each has about four rows and columns, no fewer than four warps where the tile gives them.
void choose_threads(PlainTile& t) {
  constexpr std::int64_t kMostAlong = 16, kFewest = 128;
  t.across = std::clamp<std::int64_t>(t.columns / kPlainWidth, 1, kMostAlong);
  t.down = std::clamp<std::int64_t>(t.rows / kPlainWidth, 1, kMostAlong);
  while (t.threads() < kFewest && t.down < t.rows) t.down *= 2;
  while (t.threads() < kFewest && t.across < t.columns) t.across *= 2;
}

/// Rows and columns of a tile as the threads hold it: every thread `width` neighbours in each down * width (across * width).
void share_plain(Schedule& s, std::vector<LoopId> loops, const PlainTile& t) {
  if (!s.ok() || loops.size() < 2) return s.reject("a tile of fewer than two dimensions");
  loops.erase(loops.begin(), loops.end() - 2);
  const std::vector<LoopId> r = s.split(loops[0], {t.down, t.row_width()}), c = s.split(loops[1], {t.across, t.column_width()});
  if (!s.ok()) return;
  s.reorder({r[1], c[1], r[0], r[2], c[0], c[2]});
  s.bind(r[1], Axis::thread_y);
  s.bind(c[1], Axis::thread_x);
  unroll_each(s, {r[0], r[2], c[0]});
  if (s.ok()) s.vectorize(c[2]);
}

/// A tile of summands by rows (or columns) to shared memory. Returns the copy's loops over summands and over rows.
std::vector<LoopId> stage_operand(Schedule& s, const MatrixProduct& p, const std::string& operand, const LoopId& along, const LoopId& loop) {
  if (!s.ok()) return {};
  const int mine = dimension_of(p.nest, operand, along), sum = dimension_of(p.nest, operand, p.reduction);
  std::vector<int> order;
  for (int d = 0; d < static_cast<int>(s.buffer(operand).shape.size()); ++d)
    if (d != mine && d != sum) order.push_back(d);
  order.insert(order.end(), {sum, mine});
  const std::vector<LoopId> copy = s.stage(operand, loop, Place::shared, order, {}, is_narrow_operand(s, operand, p.nest));
  return s.ok() ? std::vector<LoopId>{copy.end() - 2, copy.end()} : std::vector<LoopId>{};
}

/// The copy's loops as threads do them: vectors along the operand's memory, which runs along the sum or across it.
void share_operand(Schedule& s, const std::vector<LoopId>& copy, bool is_along_sum, std::int64_t side, const PlainTile& t) {
  if (!s.ok()) return;
  const LoopId sums = copy[0], mines = copy[1];
  std::vector<LoopId> parts;
  LoopId vectors;
  if (is_along_sum) {
    parts = s.split(sums, {t.abreast, kPlainWidth});
    if (!s.ok()) return;
    s.reorder({parts[0], mines, parts[1], parts[2]});
    vectors = fuse_all(s, {parts[0], mines, parts[1]});
  } else {
    parts = s.split(mines, {std::min(kPlainWidth, side)});
    if (!s.ok()) return;
    vectors = s.fuse(sums, parts[0]);
  }
  const std::vector<LoopId> threads = s.split(vectors, {t.down, t.across});
  if (!s.ok()) return;
  s.reorder({threads[1], threads[2], threads[0], parts.back()});
  s.bind(threads[1], Axis::thread_y);
  s.bind(threads[2], Axis::thread_x);
  unroll_each(s, {threads[0]});
  s.attempt([&](Schedule& u) { u.vectorize(parts.back()); });
}

/// The loops of one tile's sums below the loop over steps, and those over tiles.
struct TileLoops {
  std::vector<LoopId> outer;   ///< batch, rows and columns of tiles
  std::vector<LoopId> i, j, r;
  std::vector<LoopId> inner() const { return {i[2], j[2], r[1], i[1], i[3], j[1], j[3]}; }
};

/// Inside a block: operands to shared memory at `step`, products from there.
void sum_tile(Schedule& s, const MatrixProduct& p, const TileLoops& l, const LoopId& step, const PlainTile& t) {
  // Both before their loops change: what is known to be filled needs no conditions around the products.
  const auto runs_along_sum = [&](const std::string& operand, const LoopId& along) { return dimension_of(p.nest, operand, p.reduction) > dimension_of(p.nest, operand, along); };
  const std::vector<LoopId> right = stage_operand(s, p, p.right, p.column, step), left = stage_operand(s, p, p.left, p.row, step);
  inline_operand(s, p.right);
  inline_operand(s, p.left);
  share_operand(s, right, runs_along_sum(p.right, p.column), t.columns, t);
  share_operand(s, left, runs_along_sum(p.left, p.row), t.rows, t);
  if (t.ahead) s.attempt([&](Schedule& u) { u.load_ahead(step); });
  if (!s.ok()) return;
  s.bind(l.i[2], Axis::thread_y);
  s.bind(l.j[2], Axis::thread_x);
  unroll_each(s, {l.i[1], l.i[3], l.j[1]});
  if (t.summands <= 16) {
    unroll_each(s, {l.r[1]});
  } else {
    const std::vector<LoopId> k = s.split(l.r[1], {8});
    if (s.ok()) unroll_each(s, {k[1]});
  }
  if (s.ok()) s.vectorize(l.j[3]);
}

void share_plain_results(Schedule& s, const std::vector<TileResult>& results, const PlainTile& t) {
  for (const TileResult& result : results)
    if (s.ok()) share_plain(s, result.loops, t);
  if (const std::vector<LoopId> zero = find_zeroing(s); s.ok() && !zero.empty()) share_plain(s, zero, t);
}

/// The shares of a sum meet in the block that is the last of its tile: `share` is the loop over them of the nest that adds
/// them up.
void combine_plain_shares(Schedule& s, const MatrixProduct& p, const TileLoops& l, const LoopId& share, const PlainTile& t) {
  const std::vector<LoopId> loops = nest_with(s, share).loops;
  const auto copy_of = [&](const LoopId& loop) {
    const auto found = std::find_if(loops.begin(), loops.end(), [&](const LoopId& c) { return c.name == loop.name + "_c"; });
    return found == loops.end() ? LoopId{} : *found;
  };
  std::vector<LoopId> tiles;
  for (const LoopId& loop : l.outer) tiles.push_back(copy_of(loop));
  const LoopId down = copy_of(l.i[2]), across = copy_of(l.j[2]), lanes = copy_of(l.j[3]);
  std::vector<LoopId> order = tiles;
  const std::vector<LoopId> each = {copy_of(l.i[1]), copy_of(l.i[3]), copy_of(l.j[1])};
  order.insert(order.end(), {down, across});
  order.insert(order.end(), each.begin(), each.end());
  order.insert(order.end(), {share, lanes});
  s.reorder(order);
  if (!s.ok()) return;
  const std::vector<TileResult> results = finish_result(s, p, tiles.back(), Place::registers);
  const LoopId tile = fuse_all(s, tiles);
  if (!s.ok()) return;
  s.bind(down, Axis::thread_y);
  s.bind(across, Axis::thread_x);
  unroll_each(s, each);
  unroll_each(s, {share});
  if (s.ok()) s.vectorize(lanes);
  share_plain_results(s, results, t);
  s.bind(tile, Axis::last_block);
}

void schedule_plain_tile(Schedule& s, const PlainTile& t) {
  inline_intermediates(s, find_computed_operands(s));
  const std::vector<MatrixProduct> products = find_matrix_products(s);
  if (!s.ok() || products.size() != 1) return s.reject("not one product of two tensors");
  const MatrixProduct& p = products[0];
  TileLoops l;
  l.i = s.split(p.row, {t.rows / t.down / t.row_width(), t.down, t.row_width()});
  l.j = s.split(p.column, {t.columns / t.across / t.column_width(), t.across, t.column_width()});
  l.r = s.split(p.reduction, {t.summands});
  if (!s.ok()) return;
  l.outer = p.batch;
  l.outer.insert(l.outer.end(), {l.i[0], l.j[0]});
  const std::vector<LoopId> inner = l.inner();
  std::vector<LoopId> order;
  if (t.shares == 1) {
    order = l.outer;
    order.push_back(l.r[0]);
    order.insert(order.end(), inner.begin(), inner.end());
    s.reorder(order);
    const std::vector<TileResult> results = finish_result(s, p, l.j[0], Place::registers);
    bind_tiles(s, p, {l.i[0], l.j[0]});
    sum_tile(s, p, l, l.r[0], t);
    return share_plain_results(s, results, t);
  }
  order = {l.r[0]};
  order.insert(order.end(), l.outer.begin(), l.outer.end());
  order.insert(order.end(), inner.begin(), inner.end());
  s.reorder(order);
  const std::vector<LoopId> r = s.reduce_across(l.r[0], t.shares, true, Place::global);
  if (!s.ok()) return;
  const std::string partial = buffer_at(s, r[0]);
  order = l.outer;
  order.insert(order.end(), {r[0], r[1]});
  order.insert(order.end(), inner.begin(), inner.end());
  s.reorder(order);
  const std::vector<LoopId> back = s.hold(partial, r[0], Place::registers);
  if (!s.ok()) return;
  const std::string held = buffer_at(s, r[1]);
  const LoopId tile = fuse_all(s, l.outer);
  s.bind(tile, Axis::grid_x);
  s.bind(r[0], Axis::grid_y);
  sum_tile(s, p, l, r[1], t);
  if (!s.ok()) return;
  share_plain(s, init_of(s, held).loops, t);
  share_plain(s, back, t);
  combine_plain_shares(s, p, l, r[2], t);
}

/// Clock cycles of a product, roughly: it decides between tiles, it predicts no times.
double estimate_plain(const Schedule& s, const PlainTile& t, const ProductSize& size) {
  constexpr double kStart = 2500, kLatency = 900, kMeet = 2200, kRead = 700, kBytesOfCycle = 48;
  constexpr std::int64_t kRegisters = 65536, kOtherRegisters = 32, kMostResident = 2048;
  const std::int64_t tiles = divide_up(size.rows, t.rows) * divide_up(size.columns, t.columns) * size.batch;
  const std::int64_t blocks = tiles * t.shares;
  const std::int64_t each_rows = t.rows / t.down, each_columns = t.columns / t.across;
  const std::int64_t registers = std::min<std::int64_t>(255, each_rows * each_columns + 2 * (each_rows + each_columns) + kOtherRegisters);
  const std::int64_t fits = std::max<std::int64_t>(1, std::min(kRegisters / (registers * t.threads()), kMostResident / t.threads()));
  const std::int64_t resident = std::min(fits, divide_up(blocks, s.target().workers));
  // One warp and one summand: products at a quarter of a cycle each, and what it takes from shared memory, 128 bytes a cycle.
  const double warp_rows = std::max(1.0, 32.0 / static_cast<double>(t.across));
  const double from_rows = std::max(std::ceil(static_cast<double>(each_rows) / 4.0), warp_rows * static_cast<double>(each_rows) / 32.0);
  const double from_columns = std::max(std::ceil(static_cast<double>(each_columns) / 4.0), std::min(32.0, static_cast<double>(t.across)) * static_cast<double>(each_columns) / 32.0);
  const double of_warp = std::max(static_cast<double>(each_rows * each_columns) / 4.0 * 1.05 + static_cast<double>(each_rows + each_columns) / 16.0, from_rows + from_columns) + 0.25;
  const double compute = of_warp * static_cast<double>(t.summands * t.threads() / 32);
  const double bytes = static_cast<double>((t.rows + t.columns) * t.summands * 4);
  const double step = std::max(compute, bytes / kBytesOfCycle) + (!t.ahead ? 400 : resident == 1 ? 250 : 60);
  const double steps = static_cast<double>(divide_up(divide_up(size.summands, t.summands), t.shares));
  const double rounds = std::ceil(static_cast<double>(blocks) / static_cast<double>(resident * s.target().workers));
  const double scattered = t.columns < size.columns ? std::max(1.0, 64.0 / static_cast<double>(t.columns)) : 1;  // short runs of a row
  const double leave = static_cast<double>(t.rows * t.columns * 4) / 32.0 * scattered + 500;
  double cycles = kStart + rounds * (kLatency + steps * std::max(step * static_cast<double>(resident), kLatency) + leave);
  if (t.shares > 1) {
    const double tile_rounds = std::ceil(static_cast<double>(tiles) / static_cast<double>(s.target().workers));
    cycles += kMeet + tile_rounds * static_cast<double>(t.shares) * (static_cast<double>(t.rows * t.columns * 4) / kBytesOfCycle + kRead / 8);
  }
  return cycles;
}

/// Sides of tiles for an extent, none that is half empty.
std::vector<std::int64_t> plain_sides(std::int64_t extent) {
  std::vector<std::int64_t> out;
  for (const std::int64_t tile : {128, 64, 32, 16, 8})
    if (tile < 2 * extent || tile == 8) out.push_back(tile);
  return out;
}

/// Summands of a step: more where a tile is small and a thread's loads are few.
std::int64_t choose_summands(const PlainTile& t, const ProductSize& size) {
  constexpr std::int64_t kMostLoads = 40, kMostWords = 72;  // elements of a thread on their way, and with its sums
  const std::int64_t loads = std::min(kMostLoads, kMostWords - t.rows * t.columns / t.threads());
  std::int64_t summands = 16;
  while (summands < 64 && (t.rows + t.columns) * summands * 2 <= loads * t.threads()) summands *= 2;
  while (summands > 8 && summands / 2 >= size.summands) summands /= 2;
  return summands;
}

constexpr std::int64_t kPlainShares[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32};

PlainTile guess_plain(const Schedule& s, const std::vector<ProductSize>& sizes) {
  PlainTile best;
  double least = 0;
  for (const std::int64_t rows : plain_sides(sizes[0].rows))
    for (const std::int64_t columns : plain_sides(sizes[0].columns))
      for (const std::int64_t shares : kPlainShares) {
        PlainTile t;
        t.rows = rows, t.columns = columns, t.shares = shares;
        choose_threads(t);
        t.summands = choose_summands(t, sizes[0]);
        if (shares > 1 && shares > divide_up(sizes[0].summands, t.summands)) continue;
        double cycles = 0;
        for (const ProductSize& size : sizes) cycles += std::log(estimate_plain(s, t, size));
        if (least > 0 && cycles >= least) continue;
        least = cycles;
        best = t;
      }
  return best;
}

}  // namespace

void schedule_plain_product(Schedule& s, Space& k) {
  const MatrixProduct p = find_matrix_products(s)[0];
  const std::vector<ProductSize> sizes = sample_sizes(s, p);
  PlainTile t = guess_plain(s, sizes);
  t.rows = k.pick("rows", put_first(t.rows, plain_sides(sizes[0].rows)));
  t.columns = k.pick("columns", put_first(t.columns, plain_sides(sizes[0].columns)));
  choose_threads(t);
  if (t.threads() > kMostOfTile) return s.reject("more threads than a tile is worth");
  t.summands = k.pick("summands", put_first(choose_summands(t, sizes[0]), {16, 8, 32, 64}));
  std::vector<std::int64_t> shares;
  for (const std::int64_t n : kPlainShares)
    if (n == 1 || n <= divide_up(sizes[0].summands, t.summands)) shares.push_back(n);
  t.shares = k.pick("shares", put_first(t.shares, shares));
  t.ahead = divide_up(sizes[0].summands, t.summands * t.shares) > 1 && k.pick_flag("ahead", true);
  t.abreast = std::min(k.pick("abreast", {2, 1, 4}), t.summands / kPlainWidth);
  if (k.pick_flag("aligned", true)) s.assume_alignment(16);
  schedule_plain_tile(s, t);
}

}  // namespace loopwright::schedules
