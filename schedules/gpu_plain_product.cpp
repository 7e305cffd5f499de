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
  std::int64_t products = 1;          ///< that the tile holds, of one left operand
  std::int64_t down = 16, across = 16;  ///< threads along rows and columns
  bool ahead = true;                  ///< loads run one step ahead
  std::int64_t slots = 0;             ///< of a ring that the threads copy to without waiting, steps ahead; 0 for none
  std::int64_t abreast = 2;   ///< vectors of a row that neighbouring threads load: whole sectors, but conflicts at banks
  std::int64_t threads() const { return down * across; }
  std::int64_t row_width() const { return std::min(kPlainWidth, rows / down); }
  std::int64_t column_width() const { return std::min(kPlainWidth, columns / across); }
  /// Rows and columns of operands that a step takes in.
  std::int64_t staged() const { return rows + columns * products; }
};

/// Threads that hold `sums` sums each, in as square a tile as there can be: what a product takes from shared memory is its
/// tile's rows and columns.
void choose_threads(PlainTile& t, std::int64_t sums) {
  std::int64_t rows = 1, columns = 1;  // of a thread
  while (rows * columns < sums && (rows < t.rows || columns < t.columns)) {
    const bool widen = rows >= t.rows || (columns < t.columns && columns < rows);
    (widen ? columns : rows) *= 2;
  }
  t.down = t.rows / rows;
  t.across = t.columns / columns;
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
  MatrixProduct product;
  std::vector<LoopId> outer;   ///< batch, rows and columns of tiles
  std::vector<LoopId> i, j, r;
  std::vector<LoopId> inner() const { return {i[2], j[2], r[1], i[1], i[3], j[1], j[3]}; }
};

/// Inside a block: operands to shared memory at `step`, products from there.
void sum_tile(Schedule& s, const std::vector<TileLoops>& products, const LoopId& step, const PlainTile& t) {
  // All before their loops change: what is known to be filled needs no conditions around the products.
  struct Staged { std::string operand; std::vector<LoopId> copy; bool runs_along_sum; std::int64_t side; };
  std::vector<Staged> staged;
  const auto stage = [&](const MatrixProduct& p, const std::string& operand, const LoopId& along, std::int64_t side) {
    const bool runs_along_sum = dimension_of(p.nest, operand, p.reduction) > dimension_of(p.nest, operand, along);
    staged.push_back({operand, stage_operand(s, p, operand, along, step), runs_along_sum, side});
  };
  for (const TileLoops& l : products) stage(l.product, l.product.right, l.product.column, t.columns);
  stage(products[0].product, products[0].product.left, products[0].product.row, t.rows);
  for (const Staged& o : staged) inline_operand(s, o.operand);
  for (const Staged& o : staged) share_operand(s, o.copy, o.runs_along_sum, o.side, t);
  if (t.ahead) s.attempt([&](Schedule& u) { u.load_ahead(step); });
  for (const TileLoops& l : products) {
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
  if (s.ok() && t.slots > 0) s.ring(step, t.slots, true);
}

void share_plain_results(Schedule& s, const std::vector<TileResult>& results, const std::vector<std::string>& sums, const PlainTile& t) {
  for (const TileResult& result : results)
    if (s.ok()) share_plain(s, result.loops, t);
  for (const std::string& sum : sums)
    if (const std::vector<LoopId> zero = find_zeroing(s, sum); s.ok() && !zero.empty()) share_plain(s, zero, t);
}

/// The shares of a sum meet in the block that is the last of its tile: `share` is the loop over them of the nest that adds
/// them up.
void combine_plain_shares(Schedule& s, const TileLoops& l, const LoopId& share, const PlainTile& t) {
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
  const std::vector<TileResult> results = finish_result(s, l.product, tiles.back(), Place::registers);
  const LoopId tile = fuse_all(s, tiles);
  if (!s.ok()) return;
  s.bind(down, Axis::thread_y);
  s.bind(across, Axis::thread_x);
  unroll_each(s, each);
  unroll_each(s, {share});
  if (s.ok()) s.vectorize(lanes);
  share_plain_results(s, results, {updated_buffer(s)}, t);
  s.bind(tile, Axis::last_block);
}

/// Tiles of groups of rows: split further when they have their place.
void schedule_grouped_tile(Schedule& s, TileLoops l, const PlainTile& t) {
  const MatrixProduct p = l.product;
  s.reorder({l.i[0], l.j[0], l.r[0], l.i[1], l.j[2], l.r[1], l.j[1], l.j[3]});
  const std::vector<TileResult> results = finish_result(s, p, l.j[0], Place::registers);
  bind_tiles(s, p, {l.i[0], l.j[0]}, t.rows);
  const std::vector<LoopId> rows = s.split(l.i[1], {t.down, t.row_width()});
  if (!s.ok()) return;
  l.i = {l.i[0], rows[0], rows[1], rows[2]};
  s.reorder(l.inner());
  sum_tile(s, {l}, l.r[0], t);
  share_plain_results(s, results, list_sums(s, {p}), t);
}

void schedule_plain_tile(Schedule& s, const PlainTile& t) {
  inline_thin_sums(s);
  inline_intermediates(s, find_computed_operands(s));
  const std::vector<MatrixProduct> found = find_matrix_products(s);
  if (!s.ok() || std::ssize(found) != t.products) return s.reject("other products than before");
  std::vector<TileLoops> products;
  for (const MatrixProduct& p : found) {
    TileLoops& l = products.emplace_back();
    l.product = p;
    // Tiles that begin where groups do keep their rows together until then.
    l.i = p.group.empty() ? s.split(p.row, {t.rows / t.down / t.row_width(), t.down, t.row_width()}) : s.split(p.row, {t.rows});
    l.j = s.split(p.column, {t.columns / t.across / t.column_width(), t.across, t.column_width()});
    l.r = s.split(p.reduction, {t.summands});
    if (!s.ok()) return;
    l.outer = p.batch;
    l.outer.insert(l.outer.end(), {l.i[0], l.j[0]});
  }
  if (!found.back().group.empty()) return products.size() == 1 ? schedule_grouped_tile(s, products[0], t) : s.reject("several sums of groups");
  const TileLoops& l = products.back();
  std::vector<LoopId> order;
  const std::vector<LoopId> inner = l.inner();
  if (t.shares == 1) {
    for (std::size_t i = 0; i < products.size(); ++i) {
      order = products[i].outer;
      order.push_back(products[i].r[0]);
      const std::vector<LoopId> rest = products[i].inner();
      s.reorder([&] { std::vector<LoopId> all = order; all.insert(all.end(), rest.begin(), rest.end()); return all; }());
      if (i == 0) continue;
      std::vector<LoopId> before = products[i - 1].outer;
      before.push_back(products[i - 1].r[0]);
      for (std::size_t loop = 0; loop < order.size(); ++loop) s.merge(before[loop], order[loop]);
    }
    const std::vector<TileResult> results = finish_result(s, l.product, l.j[0], Place::registers);
    bind_tiles(s, l.product, {l.i[0], l.j[0]}, t.rows);
    sum_tile(s, products, l.r[0], t);
    return share_plain_results(s, results, list_sums(s, found), t);
  }
  if (products.size() > 1) return s.reject("shares of several sums");
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
  sum_tile(s, products, r[1], t);
  if (!s.ok()) return;
  share_plain(s, init_of(s, held).loops, t);
  share_plain(s, back, t);
  combine_plain_shares(s, l, r[2], t);
}

/// Clock cycles of a product, roughly, from measurements on an H200: it decides between tiles, it predicts no times. What
/// bounds most tiles is shared memory, which gives 128 bytes a cycle to registers, one value for many threads counting once
/// for each.
double estimate_plain(const Schedule& s, const PlainTile& t, const ProductSize& size) {
  constexpr double kStart = 2500, kLatency = 1100, kMeet = 2200, kRead = 90, kBytesOfCycle = 48;
  constexpr std::int64_t kRegisters = 65536, kOtherRegisters = 30, kMostOfThread = 255, kMostResident = 2048, kBarrierCycles = 40;
  const std::int64_t tiles = count_row_tiles(size, t.rows) * divide_up(size.columns, t.columns);
  const std::int64_t blocks = tiles * t.shares;
  const std::int64_t each_rows = t.rows / t.down, each_columns = t.columns / t.across;
  const std::int64_t loads = divide_up(t.staged() * t.summands, t.threads()), sums = each_rows * each_columns * t.products;
  const std::int64_t registers = sums + each_rows + each_columns + (t.ahead ? loads : 0) + kOtherRegisters;
  const std::int64_t fits = std::min({kRegisters / (std::min(registers, kMostOfThread) * t.threads()), kMostResident / t.threads(), std::int64_t{32}});
  const std::int64_t resident = std::clamp<std::int64_t>(divide_up(blocks, s.target().workers), 1, std::max<std::int64_t>(1, fits));
  // Of a step: products at four warps a cycle, and the way to and from shared memory, where stores meet at banks.
  const double warps = static_cast<double>(std::max<std::int64_t>(t.threads(), 32)) / 32.0;
  const double products = static_cast<double>(sums * t.summands) / 4.0 * 1.05;
  const double traffic = static_cast<double>((each_rows + each_columns) * t.products * t.summands + 4 * loads);
  // Warps that are wide rather than square take more, and with 128 sums a thread few of them run. Few keep neither busy.
  const double slower = (t.across > 8 ? 1.08 : 1.0) * (sums > 64 ? 1.1 : 1.0);
  const double busy = std::min(1.0, 0.45 + 0.05 * warps * static_cast<double>(resident));
  const double step = warps * std::max(products, traffic) * slower / busy + (t.ahead ? kBarrierCycles : kLatency);
  const double steps = static_cast<double>(divide_up(divide_up(size.summands, t.summands), t.shares));
  const double rounds = std::ceil(static_cast<double>(blocks) / static_cast<double>(resident * s.target().workers));
  const double scattered = t.columns < size.columns ? std::max(1.0, 64.0 / static_cast<double>(t.columns)) : 1;  // short runs of a row
  const double leave = static_cast<double>(t.rows * t.columns * 4) / 32.0 * scattered + 500;
  double cycles = kStart + rounds * (kLatency + steps * std::max(step * static_cast<double>(resident), kLatency) + leave);
  if (t.shares > 1) {
    const double tile_rounds = std::ceil(static_cast<double>(tiles) / static_cast<double>(s.target().workers));
    cycles += kMeet + tile_rounds * static_cast<double>(t.shares) * (static_cast<double>(t.rows * t.columns * 4) / kBytesOfCycle + kRead);
  }
  if (registers > kMostOfThread) cycles *= 2;  // spills
  return cycles;
}

/// Sides of tiles for an extent, none larger, so that threads hold a regular share of any tile.
std::vector<std::int64_t> plain_sides(std::int64_t extent) {
  std::vector<std::int64_t> out;
  for (const std::int64_t tile : {256, 128, 64, 32, 16, 8, 4, 2, 1})
    if (tile <= extent && (tile >= 8 || out.empty())) out.push_back(tile);
  return out;
}

/// Sums of a thread that leave a tile at least two warps, and no more than eight.
std::vector<std::int64_t> sums_choices(const PlainTile& t) {
  std::vector<std::int64_t> out;
  for (const std::int64_t sums : {64, 128, 32, 16, 8, 4, 2, 1}) {
    const std::int64_t threads = t.rows * t.columns / sums;
    if (threads >= 64 && threads <= kMostOfTile) out.push_back(sums);
  }
  if (out.empty()) out.push_back(1);
  return out;
}

/// Summands of a step, most first: more than 16 where a thread's loads are few.
std::vector<std::int64_t> summands_choices(const PlainTile& t, const ProductSize& size) {
  constexpr std::int64_t kMostLoads = 40;  // elements of a thread on their way
  std::vector<std::int64_t> out;
  for (const std::int64_t summands : {64, 32, 16, 8}) {
    if (summands == 8 ? size.summands > 8 : summands / 2 >= size.summands) continue;
    if (summands <= 16 || t.staged() * summands <= kMostLoads * t.threads()) out.push_back(summands);
  }
  return out;
}

/// Blocks that may share out a sum: each the same number of steps, so that none has to ask.
std::vector<std::int64_t> shares_choices(const PlainTile& t, const ProductSize& size) {
  constexpr std::int64_t kMostShares = 16;
  const std::int64_t steps = divide_up(size.summands, t.summands), most = t.products > 1 ? 1 : std::min(kMostShares, steps);
  std::vector<std::int64_t> out;
  for (std::int64_t n = 1; n <= most; ++n)
    if (steps % n == 0) out.push_back(n);
  return out;
}

PlainTile guess_plain(const Schedule& s, const std::vector<ProductSize>& sizes) {
  const std::int64_t products = std::ssize(find_matrix_products(s));
  PlainTile best;
  double least = 0;
  const auto judge = [&](const PlainTile& t) {
    double cycles = 0;
    for (const ProductSize& size : sizes) cycles += std::log(estimate_plain(s, t, size));
    if (least > 0 && cycles >= least) return;
    least = cycles;
    best = t;
  };
  for (const std::int64_t rows : plain_sides(sizes[0].rows))
    for (const std::int64_t columns : plain_sides(sizes[0].columns))
      for (PlainTile t{.rows = rows, .columns = columns, .products = products}; const std::int64_t sums : sums_choices(t)) {
        choose_threads(t, sums);
        for (const std::int64_t summands : summands_choices(t, sizes[0])) {
          t.summands = summands;
          for (const std::int64_t shares : sizes[0].is_ragged ? std::vector<std::int64_t>{1} : shares_choices(t, sizes[0])) {
            t.shares = shares;
            t.ahead = divide_up(sizes[0].summands, t.summands * t.shares) > 1;
            judge(t);
          }
        }
      }
  return best;
}

}  // namespace

double estimate_plain_product(const Schedule& s, const std::vector<ProductSize>& sizes) {
  const PlainTile t = guess_plain(s, sizes);
  double cycles = 0;
  for (const ProductSize& size : sizes) cycles += std::log(estimate_plain(s, t, size));
  return std::exp(cycles / static_cast<double>(sizes.size()));
}

void schedule_plain_product(Schedule& s, Space& k) {
  const MatrixProduct p = find_matrix_products(s)[0];
  const std::vector<ProductSize> sizes = sample_sizes(s, p);
  PlainTile t = guess_plain(s, sizes);
  const std::int64_t sums = t.rows * t.columns / t.threads();
  t.rows = k.pick("rows", put_first(t.rows, plain_sides(sizes[0].rows)));
  t.columns = k.pick("columns", put_first(t.columns, plain_sides(sizes[0].columns)));
  const std::vector<std::int64_t> counts = sums_choices(t);
  const bool fits = std::find(counts.begin(), counts.end(), sums) != counts.end();
  choose_threads(t, k.pick("sums", fits ? put_first(sums, counts) : counts));
  if (t.threads() > kMostOfTile) return s.reject("more threads than a block has");
  const std::vector<std::int64_t> steps = summands_choices(t, sizes[0]);
  t.summands = k.pick("summands", std::find(steps.begin(), steps.end(), t.summands) != steps.end() ? put_first(t.summands, steps) : steps);
  const std::vector<std::int64_t> shares = p.group.empty() ? shares_choices(t, sizes[0]) : std::vector<std::int64_t>{1};
  t.shares = k.pick("shares", std::find(shares.begin(), shares.end(), t.shares) != shares.end() ? put_first(t.shares, shares) : shares);
  t.ahead = divide_up(sizes[0].summands, t.summands * t.shares) > 1 && k.pick_flag("ahead", true);
  t.abreast = std::min(k.pick("abreast", {2, 1, 4}), t.summands / kPlainWidth);
  if (k.pick_flag("aligned", true)) s.assume_alignment(16);
  if (s.target().capability >= 80 && divide_up(sizes[0].summands, t.summands * t.shares) > 1) t.slots = k.pick("slots", {0, 3, 2, 4});
  if (t.slots > 0) t.ahead = false;
  schedule_plain_tile(s, t);
}

}  // namespace loopwright::schedules
