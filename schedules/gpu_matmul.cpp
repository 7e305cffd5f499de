// GPU: matrix products. On Hopper's tensor cores where the operands are 16-bit parameters that the copy engine can take: a
// ring of staged tiles, warpgroups that multiply, accumulators in fragments. Otherwise, and always in plain f32: a tile of
// the result a block, held in registers, operands through shared memory.
#include <algorithm>

#include "schedules/families.h"
#include "schedules/gpu_nests.h"
#include "schedules/nests.h"
#include "schedules/products.h"

namespace loopwright::schedules {
namespace {

/// A buffer that is written tile by tile, and the loops over the tile.
struct TileResult {
  std::string buffer;
  std::vector<LoopId> loops;
};

/// What follows a tile: the epilogues, applied to it, or the copy to the result.
std::vector<TileResult> finish_result(Schedule& s, const MatrixProduct& p, const LoopId& tile, Place place) {
  std::vector<TileResult> out;
  const auto keep = [&](const std::string& buffer, std::vector<LoopId> loops) {
    if (loops.size() < 2) return s.reject("a result of fewer than two dimensions");
    out.push_back({buffer, {loops.end() - 2, loops.end()}});
  };
  for (const NestInfo& n : outputs(s)) {
    if (n.buffer == p.nest.buffer) continue;
    keep(n.buffer, s.fuse_epilogue(n.buffer, tile, place));
    if (!s.ok()) return {};
  }
  if (p.nest.writes_output) keep(p.nest.buffer, s.hold(p.nest.buffer, tile, place));
  return out;
}

/// The loops of the nest that begins the sums, the last two of them.
std::vector<LoopId> find_zeroing(const Schedule& s) {
  const std::vector<LoopId> loops = init_of(s, updated_buffer(s)).loops;
  return loops.size() < 2 ? std::vector<LoopId>{} : std::vector<LoopId>{loops.end() - 2, loops.end()};
}

// ---------------------------------------------------------------- tensor cores

/// How a tile of the result leaves the fragments.
enum Exit : std::int64_t {
  direct = 0,  ///< each thread writes what it holds
  staged = 1,  ///< through shared memory, so that threads write rows in full
  // Otherwise the columns that the copy engine takes at a time, from shared memory.
};

struct TensorTile {
  std::int64_t groups = 2;   ///< warpgroups, one above the other
  std::int64_t tiles = 1;    ///< of 64 rows in each
  std::int64_t columns = 128;
  std::int64_t summands = 64;
  std::int64_t depth = 4;
  std::int64_t exit = direct;
  bool swapped = false;      ///< columns of the result are the tensor cores' rows: for results of few rows
  std::int64_t raster = 1;   ///< rows of tiles whose operands meet in the L2
  bool persistent = false;   ///< a block for each multiprocessor, which does one tile after the other
  std::int64_t turns = 1;    ///< warpgroups with tiles of their own: one multiplies while another finishes its tile
  std::int64_t rows() const { return groups * tiles * 64; }
};

/// The rows and columns that a warpgroup holds, as its threads hold them; `group` is around.
void share_rows(Schedule& s, const LoopId& group, const LoopId& row, const LoopId& column, const TensorTile& t) {
  const std::vector<LoopId> r = s.split(row, {4, 2, 8});  // tile, warp, half, row
  const std::vector<LoopId> c = s.split(column, {4, 2});  // 8 columns, pair, lane
  if (!s.ok()) return;
  s.reorder({r[1], r[3], c[1], r[0], r[2], c[0], c[2]});
  const LoopId thread = fuse_all(s, {r[1], r[3], c[1]});
  if (!s.ok()) return;
  if (t.turns == 1) s.bind(group, Axis::thread_y);
  s.bind(thread, Axis::thread_x);
  s.unroll(r[0]);
  s.unroll(r[2]);
  s.unroll(c[0]);
  if (s.ok()) s.vectorize(c[2]);
}

/// Loops over a tile as the threads hold it.
void share_fragment(Schedule& s, const std::vector<LoopId>& loops, const TensorTile& t) {
  const LoopId column = loops[t.swapped ? 0 : 1];
  const std::vector<LoopId> rows = s.split(loops[t.swapped ? 1 : 0], {t.tiles * 64});
  if (t.swapped) s.reorder({rows[0], rows[1], column});
  if (s.ok()) share_rows(s, rows[0], rows[1], column, t);
}

/// Loops that copy a result's tile from shared memory: rows in wide accesses.
void share_copy(Schedule& s, const std::vector<LoopId>& back, std::int64_t width, const TensorTile& t) {
  if (!s.ok() || back.size() < 2) return s.reject("no tile of two dimensions");
  const std::vector<LoopId> vectors = s.split(back.back(), {width});
  if (!s.ok()) return;
  const LoopId all = s.fuse(back[back.size() - 2], vectors[0]);
  const std::vector<LoopId> parts = s.split(all, {t.groups, 128});
  if (!s.ok()) return;
  s.reorder({parts[1], parts[2], parts[0], vectors[1]});
  if (t.turns == 1) s.bind(parts[1], Axis::thread_y);
  s.bind(parts[2], Axis::thread_x);
  s.vectorize(vectors[1]);
  if (s.ok()) unroll_each(s, {parts[0]});
}

/// Some columns of a warpgroup's tile at a time to shared memory, from where the engine takes them.
void send_result(Schedule& s, const std::string& buffer, const std::vector<LoopId>& loops, const TensorTile& t) {
  const std::vector<LoopId> rows = s.split(loops[0], {t.tiles * 64}), columns = s.split(loops[1], {t.exit}, Tail::exact);
  if (!s.ok()) return;
  s.reorder({rows[0], columns[0], rows[1], columns[1]});
  const std::vector<LoopId> back = s.hold(buffer, columns[0], Place::shared);
  if (!s.ok()) return;
  s.bulk(back[0]);
  share_rows(s, rows[0], rows[1], columns[1], t);
  s.unroll(columns[0]);
}

void bind_tiles(Schedule& s, const MatrixProduct& p, const std::vector<LoopId>& tiles, const TensorTile& t) {
  if (!p.batch.empty()) s.bind(fuse_all(s, p.batch), Axis::grid_y);
  if (!s.ok()) return;
  const LoopId all = fuse_all(s, tiles);
  s.bind(all, Axis::grid_x);
  if (t.persistent) s.persist(all, s.target().workers, t.turns);
}

void schedule_tensor_cores(Schedule& s, const TensorTile& t) {
  s.assume_alignment(16);
  inline_intermediates(s);
  const std::vector<MatrixProduct> products = find_matrix_products(s);
  if (!s.ok() || products.size() != 1) return s.reject("not one product of two tensors");
  MatrixProduct p = products[0];
  if (t.swapped) {
    std::swap(p.row, p.column);
    std::swap(p.left, p.right);
  }
  const std::vector<LoopId> i = s.split(p.row, {t.groups, t.tiles, 64});
  const std::vector<LoopId> j = s.split(p.column, {t.columns});
  const std::vector<LoopId> r = s.split(p.reduction, {t.summands});
  if (!s.ok()) return;
  // Tiles that run at the same time share operands in the L2: some rows of tiles at a time, column by column.
  std::vector<LoopId> tiles = {i[0], j[0]};
  if (t.raster > 1)
    s.attempt([&](Schedule& u) {
      const std::vector<LoopId> rows = u.split(i[0], {t.raster}, Tail::exact);
      if (u.ok()) tiles = {rows[0], j[0], rows[1]};
    });
  std::vector<LoopId> order = p.batch;
  order.insert(order.end(), tiles.begin(), tiles.end());
  order.insert(order.end(), {r[0], i[1], i[2], i[3], j[1], r[1]});
  s.reorder(order);
  const std::vector<TileResult> results = finish_result(s, p, tiles.back(), Place::fragment);
  s.stage(p.right, r[0], Place::shared);
  s.stage(p.left, r[0], Place::shared);
  s.tensorize(i[3], j[1], r[1]);
  std::vector<std::pair<std::vector<LoopId>, std::int64_t>> copies;
  if (t.exit == staged)
    for (const NestInfo& n : outputs(s)) {
      if (!s.ok()) return;
      const std::vector<LoopId> back = s.hold(n.buffer, tiles.back(), Place::shared);
      copies.emplace_back(back, 16 / std::max(1, size_bytes(s.buffer(n.buffer).dtype)));
    }
  s.ring(r[0], t.depth);
  if (t.turns == 1) s.bind(i[1], Axis::thread_y);
  s.unroll(i[2]);
  for (const TileResult& result : results) {
    if (!s.ok()) return;
    const bool sent = t.exit > staged && s.attempt([&](Schedule& u) { send_result(u, result.buffer, result.loops, t); });
    if (!sent) share_fragment(s, result.loops, t);
  }
  if (const std::vector<LoopId> zero = find_zeroing(s); s.ok() && !zero.empty()) share_fragment(s, zero, t);
  for (const auto& [loops, width] : copies) share_copy(s, loops, width, t);
  bind_tiles(s, p, tiles, t);
}

/// What the copy engine and the tensor cores ask of operands, as far as that can be said before any step.
bool suits_tensor_cores(const Schedule& s) {
  if (s.target().arch != "sm_90a") return false;
  const MatrixProduct p = find_matrix_products(s)[0];
  for (const std::string& operand : {p.left, p.right}) {
    const BufferShape b = s.buffer(operand);
    if (!b.is_param || !b.is_dense || (b.dtype != DType::bf16 && b.dtype != DType::f16)) return false;
    // Rows have to begin at multiples of 16 bytes.
    const auto columns = b.shape.back().constant();
    if (!columns || *columns % 8 != 0) return false;
  }
  return s.buffer(p.left).dtype == s.buffer(p.right).dtype && s.buffer(p.nest.buffer).dtype == DType::f32;
}

std::vector<std::int64_t> first_of(std::int64_t value, std::vector<std::int64_t> domain) {
  std::erase(domain, value);
  domain.insert(domain.begin(), value);
  return domain;
}

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Rows, columns and summands of a product, at their largest.
struct ProductSize {
  std::int64_t rows = 0, columns = 0, summands = 0;
  std::int64_t count_tiles(const TensorTile& t) const { return divide_up(rows, t.rows()) * divide_up(columns, t.columns); }
};

/// Slots of a ring that fit beside the tile on its way out, no more than there are iterations.
std::int64_t find_depth(const Schedule& s, const TensorTile& t, const ProductSize& size) {
  constexpr std::int64_t kMostSlots = 12, kBarrierBytes = 1024, kElementBytes = 2;
  const std::int64_t slot = (t.rows() + t.columns) * t.summands * kElementBytes;
  const std::int64_t out = t.exit > staged ? t.rows() * t.turns * t.exit * kElementBytes : t.exit == staged ? t.rows() * t.turns * t.columns * kElementBytes : 0;
  const std::int64_t fits = (s.target().l1_bytes - kBarrierBytes - out) / slot;
  const std::int64_t useful = t.persistent ? kMostSlots : std::max<std::int64_t>(2, divide_up(size.summands, t.summands));
  return std::clamp<std::int64_t>(std::min(fits, useful), 2, kMostSlots);
}

/// Clock cycles of a multiprocessor for all of its tiles, roughly: products, or their operands from the L2, and what does
/// not overlap them. From measurements on an H200; it decides between tiles, it predicts no times.
double estimate_cycles(const Schedule& s, const TensorTile& t, const ProductSize& size) {
  constexpr double kProductsOfCycle = 2048, kBytesOfCycle = 64, kStartCycles = 1800, kStepCycles = 24;
  constexpr double kOutBytesOfCycle = 24, kOutCycles = 700;
  const double steps = static_cast<double>(divide_up(size.summands, t.summands));
  const double products = static_cast<double>(t.rows() * t.columns * t.summands) / kProductsOfCycle;
  const double bytes = static_cast<double>((t.rows() + t.columns) * t.summands * 2) / kBytesOfCycle;
  // One warpgroup alone waits between its steps.
  const double waits = t.groups * t.turns == 1 ? kStepCycles * 4 : kStepCycles;
  const double multiply = steps * (std::max(products, bytes) + waits);
  const double leave = static_cast<double>(t.rows() * t.columns * 2) / kOutBytesOfCycle + kOutCycles;
  const double rounds = static_cast<double>(divide_up(size.count_tiles(t), s.target().workers));
  if (t.turns > 1) return kStartCycles + rounds * std::max(multiply, leave / 2) + leave;
  return kStartCycles + rounds * (multiply + leave);
}

/// The tile that the estimate likes best.
TensorTile guess_tile(const Schedule& s, const ProductSize& size) {
  struct Shape { std::int64_t turns, groups, tiles, columns; };
  // With turns a warpgroup holds a tile alone, in at most 208 registers a thread.
  constexpr Shape kShapes[] = {{2, 1, 2, 192}, {2, 1, 2, 128}, {2, 1, 1, 256}, {2, 1, 2, 160}, {1, 2, 1, 256}, {1, 2, 2, 128},
                               {1, 2, 1, 128}, {1, 1, 1, 256}, {1, 1, 1, 128}, {1, 1, 2, 64},  {1, 1, 1, 64}};
  TensorTile best;
  double least = 0;
  for (const Shape& shape : kShapes) {
    TensorTile t;
    t.turns = shape.turns, t.groups = shape.groups, t.tiles = shape.tiles, t.columns = shape.columns;
    t.exit = 64;
    if (t.turns > 1 && size.count_tiles(t) <= s.target().workers) continue;  // nothing to take turns at
    const double cycles = estimate_cycles(s, t, size);
    if (least > 0 && cycles >= least) continue;
    least = cycles;
    best = t;
  }
  best.persistent = size.count_tiles(best) > s.target().workers;
  return best;
}

/// Columns that leave at a time: the widest part of a row that one box takes.
std::vector<std::int64_t> find_exits(const TensorTile& t) {
  std::vector<std::int64_t> out;
  for (const std::int64_t width : {64, 128, 32, 16})
    if (t.columns % width == 0) out.push_back(width);
  out.insert(out.end(), {t.columns % 64 == 0 ? t.columns : direct, staged, direct});
  return out;
}

TensorTile pick_tile(Schedule& s, Space& k, const ProductSize& size) {
  TensorTile t = guess_tile(s, size);
  t.turns = k.pick("turns", first_of(t.turns, {1, 2}));
  t.groups = t.turns > 1 ? 1 : k.pick("groups", first_of(t.groups, {2, 1, 3}));
  // A box of the copy engine has at most 256 rows.
  t.tiles = k.pick("tiles", t.groups == 3 ? std::vector<std::int64_t>{1} : first_of(t.tiles, {1, 2}));
  std::vector<std::int64_t> widths = first_of(t.columns, {128, 256, 64, 192, 160, 176, 32, 16});
  // Four warpgroups are compiled for 128 registers a thread; a product 256 wide needs 154. Three have 168.
  if (t.groups == 3 || t.tiles == 2) std::erase_if(widths, [](std::int64_t w) { return w > 192; });
  t.columns = k.pick("columns", widths);
  t.exit = k.pick("exit", find_exits(t));
  t.persistent = t.turns > 1 || k.pick_flag("persist", t.persistent);
  t.summands = k.pick("summands", {64, 128});
  t.depth = k.pick("depth", first_of(find_depth(s, t, size), {4, 3, 5, 6, 8, 10, 12, 2}));
  t.raster = k.pick("raster", {8, 1, 16, 4});
  return t;
}

constexpr std::int64_t kFew = 64;

/// Few rows or columns, which are the tensor cores' columns or, where the others are many, one tile of their rows. The
/// other operand is streamed, with many bytes in flight and small tiles, so that every multiprocessor has some.
TensorTile pick_stream(const Schedule& s, Space& k, const ProductSize& size) {
  TensorTile t;
  t.swapped = true;
  const bool few_rows = size.rows <= kFew;
  t.groups = few_rows ? k.pick("groups", {1, 2}) : 1;
  const std::int64_t share = divide_up(few_rows ? size.rows : divide_up(size.rows, s.target().workers), 8) * 8;
  t.columns = few_rows ? k.pick("columns", {share}) : k.pick("columns", first_of(std::min<std::int64_t>(share, 64), {32, 16, 64}));
  t.summands = k.pick("summands", {128, 64, 256});
  t.depth = k.pick("depth", few_rows ? std::vector<std::int64_t>{5, 4, 8, 3, 10} : first_of(find_depth(s, t, size), {8, 4, 6, 10}));
  return t;
}

// ---------------------------------------------------------------- plain arithmetic

constexpr std::int64_t kSide = 16;  ///< threads of a block along rows and columns

struct PlainTile {
  std::int64_t rows = 128, columns = 128, summands = 16;
  static constexpr std::int64_t kWidth = 4;
  /// Neighbouring rows or columns of a thread.
  static std::int64_t width(std::int64_t extent) { return std::min(kWidth, extent / kSide); }
};

/// Rows and columns of a tile as the threads hold it: every thread `width` neighbours in each 16 * width.
void share_plain(Schedule& s, const std::vector<LoopId>& loops, const PlainTile& t) {
  const std::vector<LoopId> r = s.split(loops[0], {kSide, PlainTile::width(t.rows)}), c = s.split(loops[1], {kSide, PlainTile::width(t.columns)});
  if (!s.ok()) return;
  s.reorder({r[1], c[1], r[0], r[2], c[0], c[2]});
  s.bind(r[1], Axis::thread_y);
  s.bind(c[1], Axis::thread_x);
  unroll_each(s, {r[0], r[2], c[0]});
  if (s.ok()) s.vectorize(c[2]);
}

/// The copy of a tile of summands by rows (or columns), read along the operand's memory.
void stage_plain(Schedule& s, const MatrixProduct& p, const std::string& operand, const LoopId& along, const LoopId& loop, const PlainTile& t) {
  if (!s.ok()) return;
  const int mine = dimension_of(p.nest, operand, along), sum = dimension_of(p.nest, operand, p.reduction);
  std::vector<int> order;
  for (int d = 0; d < static_cast<int>(s.buffer(operand).shape.size()); ++d)
    if (d != mine && d != sum) order.push_back(d);
  order.insert(order.end(), {sum, mine});
  const std::vector<LoopId> copy = s.stage(operand, loop, Place::shared, order, {}, is_narrow_operand(s, operand, p.nest));
  inline_operand(s, operand);
  if (!s.ok()) return;
  const LoopId sums = copy[copy.size() - 2], mines = copy.back();
  const bool across = sum > mine;  // the operand's memory runs along the sum
  const std::vector<LoopId> parts = s.split(across ? sums : mines, {PlainTile::width(operand == p.left ? t.rows : t.columns)});
  if (!s.ok()) return;
  s.reorder(across ? std::vector<LoopId>{parts[0], mines, parts[1]} : std::vector<LoopId>{sums, parts[0], parts[1]});
  const LoopId vectors = across ? s.fuse(parts[0], mines) : s.fuse(sums, parts[0]);
  const std::vector<LoopId> threads = s.split(vectors, {kSide, kSide});
  if (!s.ok()) return;
  s.reorder({threads[1], threads[2], threads[0], parts[1]});
  s.bind(threads[1], Axis::thread_y);
  s.bind(threads[2], Axis::thread_x);
  unroll_each(s, {threads[0]});
  s.attempt([&](Schedule& u) { u.vectorize(parts[1]); });
}

void schedule_plain(Schedule& s, const PlainTile& t, bool aligned) {
  if (aligned) s.assume_alignment(16);
  inline_intermediates(s, find_computed_operands(s));
  const std::vector<MatrixProduct> products = find_matrix_products(s);
  if (!s.ok() || products.size() != 1) return s.reject("not one product of two tensors");
  const MatrixProduct& p = products[0];
  const std::int64_t down = PlainTile::width(t.rows), along = PlainTile::width(t.columns);
  const std::vector<LoopId> i = s.split(p.row, {t.rows / kSide / down, kSide, down});
  const std::vector<LoopId> j = s.split(p.column, {t.columns / kSide / along, kSide, along});
  const std::vector<LoopId> r = s.split(p.reduction, {t.summands});
  if (!s.ok()) return;
  std::vector<LoopId> order = p.batch;
  order.insert(order.end(), {i[0], j[0], r[0], i[2], j[2], r[1], i[1], i[3], j[1], j[3]});
  s.reorder(order);
  const std::vector<TileResult> results = finish_result(s, p, j[0], Place::registers);
  stage_plain(s, p, p.right, p.column, r[0], t);
  stage_plain(s, p, p.left, p.row, r[0], t);
  if (!s.ok()) return;
  s.bind(i[2], Axis::thread_y);
  s.bind(j[2], Axis::thread_x);
  unroll_each(s, {i[1], i[3], j[1], r[1]});
  s.vectorize(j[3]);
  for (const TileResult& result : results)
    if (s.ok()) share_plain(s, result.loops, t);
  if (const std::vector<LoopId> zero = find_zeroing(s); s.ok() && !zero.empty()) share_plain(s, zero, t);
  bind_tiles(s, p, {i[0], j[0]}, {});
}

/// Tiles that are no larger than a side whose extent is known, the largest first.
std::vector<std::int64_t> plain_sides(const Schedule& s, const LoopId& side) {
  std::vector<std::int64_t> out;
  const std::int64_t extent = s.constant_extent(side).value_or(INT64_MAX);
  for (const std::int64_t tile : {128, 64, 32, 16})
    if (tile <= extent) out.push_back(tile);
  return out;
}

}  // namespace

bool is_gpu_matmul(const Schedule& s) {
  if (updates(s).size() != 1) return false;
  const std::vector<MatrixProduct> products = find_matrix_products(s);
  if (products.size() != 1 || s.max_extent(products[0].reduction) <= 0) return false;
  const MatrixProduct& p = products[0];
  const auto runs_along_sum = [&](const std::string& operand) { return dimension_of(p.nest, operand, p.reduction) + 1 == static_cast<int>(s.buffer(operand).shape.size()); };
  // One row against rows of weights: every weight is read once, along its memory, which rows of sums do best.
  if ((s.max_extent(p.row) == 1 || s.max_extent(p.column) == 1) && runs_along_sum(p.left) && runs_along_sum(p.right)) return false;
  return suits_tensor_cores(s) || (!plain_sides(s, p.row).empty() && !plain_sides(s, p.column).empty());
}

void schedule_gpu_matmul(Schedule& s, Space& k) {
  if (!is_gpu_matmul(s)) return s.reject("not one product of two tensors");
  const MatrixProduct p = find_matrix_products(s)[0];
  if (suits_tensor_cores(s) && k.pick_flag("tensor", true)) {
    const ProductSize size{s.max_extent(p.row), s.max_extent(p.column), s.max_extent(p.reduction)};
    const bool swapped = std::min(size.rows, size.columns) <= kFew && k.pick_flag("swap", true);
    return schedule_tensor_cores(s, swapped ? pick_stream(s, k, size) : pick_tile(s, k, size));
  }
  const std::vector<std::int64_t> rows = plain_sides(s, p.row), columns = plain_sides(s, p.column);
  if (rows.empty() || columns.empty()) return s.reject("fewer than 16 rows or columns");
  PlainTile t;
  t.rows = k.pick("rows", rows);
  t.columns = k.pick("columns", columns);
  t.summands = k.pick("summands", {16, 8, 32});
  schedule_plain(s, t, k.pick_flag("aligned", true));
}

}  // namespace loopwright::schedules
