// GPU: matrix products on Hopper's tensor cores. A ring of staged tiles, warpgroups that multiply, accumulators in
// fragments; tiles of the result leave through shared memory by the copy engine. Products of f32 operands are made of the
// operands' bf16 parts, which kernels in front write to workspace, or, where the kernel allows tf32, of the operands as the copy
// engine rounds them.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "schedules/gpu_nests.h"
#include "schedules/gpu_products.h"
#include "schedules/nests.h"

namespace loopwright::schedules {
namespace {

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
  bool ahead = false;        ///< another launch in front looks for the tiles of groups
  std::int64_t turns = 1;    ///< warpgroups with tiles of their own: one multiplies while another finishes its tile
  std::int64_t gathered = 0; ///< summands of f32 operands whose parts' products are summed on tensor cores; 0: no parts
  std::int64_t sums = 1;     ///< products that the tile holds, of one operand and one other each
  std::vector<std::string> thin;  ///< sums of few terms that the epilogue reads
  /// Columns whose thin sums a thread has registers for beside its tile.
  std::int64_t most_thin_columns() const { return 64 / (tiles * std::max<std::int64_t>(1, std::ssize(thin))) / 8 * 8; }
  std::int64_t bytes = 2;    ///< of an operand's element; 4: rounded to tf32
  std::int64_t result_bytes = 2;  ///< of the widest result's
  std::int64_t element_bytes() const { return gathered > 0 ? 6 : bytes; }
  std::int64_t block_columns() const { return 128 / bytes; }  ///< that the copy engine takes in at a time
  std::int64_t rows() const { return groups * tiles * 64; }
  /// Of a step: what all its products read.
  std::int64_t staged_rows() const { return swapped ? rows() * sums + columns : rows() + columns * sums; }
};

/// The rows and columns that a warpgroup holds, as its threads hold them; `group` is around, `sum` inside each thread.
void share_group_rows(Schedule& s, const LoopId& row, const LoopId& column, const std::optional<LoopId>& sum = {}) {
  const std::vector<LoopId> r = s.split(row, {4, 2, 8});  // tile, warp, half, row
  const std::vector<LoopId> c = s.split(column, {4, 2});  // 8 columns, pair, lane
  if (!s.ok()) return;
  std::vector<LoopId> order = {r[1], r[3], c[1]};
  if (sum) order.push_back(*sum);
  order.insert(order.end(), {r[0], r[2], c[0], c[2]});
  s.reorder(order);
  const LoopId thread = fuse_all(s, {r[1], r[3], c[1]});
  if (!s.ok()) return;
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
  if (s.ok() && t.turns == 1) s.bind(rows[0], Axis::thread_y);
  if (s.ok()) share_group_rows(s, rows[1], column);
}

/// A thin sum of products by the warpgroup's tensor cores: lanes load what they multiply.
void multiply_thin(Schedule& s, const std::string& buffer, const LoopId& chunk) {
  const NestInfo n = nest_of(s, buffer);
  if (n.spatial.size() < 2 || n.reduction.size() != 1 || n.reads.size() != 2 || !n.is_product) return s.reject("no product of two tensors");
  for (const ReadInfo& r : n.reads) s.stage(r.buffer, chunk, Place::fragment);
  s.tensorize(n.spatial[n.spatial.size() - 2], n.spatial.back(), n.reduction[0]);
}

/// Thin sums that the epilogue in `chunk` reads, as the warpgroup's threads hold the result.
void share_thin_sums(Schedule& s, const LoopId& chunk, const TensorTile& t) {
  for (const std::string& buffer : t.thin) {
    if (!s.ok()) return;
    s.compute_at(buffer, chunk, Place::fragment);
    if (!s.ok() || s.attempt([&](Schedule& u) { multiply_thin(u, buffer, chunk); })) continue;
    for (const NestInfo& n : {init_of(s, buffer), nest_of(s, buffer)}) {
      if (!s.ok()) return;
      if (n.spatial.size() < 2 || n.is_init != n.reduction.empty()) return s.reject("a thin sum without a tile");
      share_group_rows(s, n.spatial[n.spatial.size() - 2], n.spatial.back(), n.is_init ? std::nullopt : std::optional(n.reduction[0]));
    }
  }
}

/// The result's tile, with its thin sums for some columns at a time.
void share_result(Schedule& s, const std::vector<LoopId>& loops, const TensorTile& t) {
  if (t.thin.empty()) return share_fragment(s, loops, t);
  const std::vector<LoopId> rows = s.split(loops[0], {t.tiles * 64});
  const std::vector<LoopId> columns = s.split(loops[1], {std::gcd(t.columns, t.most_thin_columns())}, Tail::exact);
  if (!s.ok()) return;
  s.reorder({rows[0], columns[0], rows[1], columns[1]});
  share_thin_sums(s, columns[0], t);
  if (s.ok() && t.turns == 1) s.bind(rows[0], Axis::thread_y);
  if (s.ok()) share_group_rows(s, rows[1], columns[1]);
  if (s.ok()) s.unroll(columns[0]);
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
  share_thin_sums(s, columns[0], t);
  if (!s.ok()) return;
  if (t.turns == 1) s.bind(rows[0], Axis::thread_y);
  share_group_rows(s, rows[1], columns[1]);
  s.unroll(columns[0]);
}

/// The loops of a product that tensor cores do, and the one over pairs of parts around it, if any.
struct TensorNest {
  std::optional<LoopId> pairs;
  LoopId group, tile, row, column, summand;
};

/// A product in tiles; `product` names rows and columns as the tensor cores have them.
struct TiledProduct {
  MatrixProduct product;
  std::vector<LoopId> tiles;  ///< loops over them, inside those over batches
  std::vector<LoopId> steps;  ///< loops over the sum
  TensorNest nest;
};

TiledProduct split_product(Schedule& s, const MatrixProduct& p, const TensorTile& t) {
  TiledProduct out{p, {}, {}, {}};
  if (t.swapped) {
    std::swap(out.product.row, out.product.column);
    std::swap(out.product.left, out.product.right);
  }
  // Tiles that begin where groups do keep their rows together until then.
  const bool in_groups = !p.group.empty(), late = in_groups && !t.swapped;
  const std::vector<LoopId> i = late ? s.split(out.product.row, {t.rows()}) : s.split(out.product.row, {t.groups, t.tiles, 64});
  const std::vector<LoopId> j = s.split(out.product.column, {t.columns});
  const std::vector<LoopId> r = t.gathered > 0 ? s.split(p.reduction, {t.summands / t.gathered, t.gathered}) : s.split(p.reduction, {t.summands});
  if (!s.ok()) return out;
  out.steps = {r.begin(), r.end() - 1};
  out.nest = {std::nullopt, i[1], late ? LoopId{} : i[2], late ? LoopId{} : i[3], j[1], r.back()};
  // Tiles that run at the same time share operands in the L2: some rows of tiles at a time, column by column.
  out.tiles = {i[0], j[0]};
  const bool is_column_first = in_groups ? t.swapped : s.constant_extent(i[0]).value_or(INT64_MAX) <= t.raster;
  if (is_column_first) out.tiles = {j[0], i[0]};
  else if (t.raster > 1 && !in_groups)
    s.attempt([&](Schedule& u) {
      const std::vector<LoopId> rows = u.split(i[0], {t.raster}, Tail::exact);
      if (u.ok()) out.tiles = {rows[0], j[0], rows[1]};
    });
  std::vector<LoopId> order = p.batch;
  order.insert(order.end(), out.tiles.begin(), out.tiles.end());
  order.insert(order.end(), out.steps.begin(), out.steps.end());
  order.insert(order.end(), i.begin() + 1, i.end());
  order.insert(order.end(), {j[1], r.back()});
  s.reorder(order);
  return out;
}

/// One tile and one step of the sum for all of the products: the loops are those of the last one from here on.
void join_products(Schedule& s, const std::vector<TiledProduct>& products) {
  for (std::size_t i = 1; i < products.size() && s.ok(); ++i)
    for (const auto loops : {&TiledProduct::tiles, &TiledProduct::steps}) {
      const std::vector<LoopId> &batch = products[i - 1].product.batch, &last_batch = products[i].product.batch;
      for (std::size_t b = 0; loops == &TiledProduct::tiles && b < batch.size(); ++b) s.merge(batch[b], last_batch[b]);
      for (std::size_t l = 0; l < (products[i].*loops).size(); ++l) s.merge((products[i - 1].*loops)[l], (products[i].*loops)[l]);
    }
}

/// The operands of the products, each once.
std::vector<std::string> list_operands(const std::vector<TiledProduct>& products) {
  std::vector<std::string> out;
  for (const auto side : {&MatrixProduct::right, &MatrixProduct::left})
    for (const TiledProduct& p : products)
      if (std::find(out.begin(), out.end(), p.product.*side) == out.end()) out.push_back(p.product.*side);
  return out;
}

/// The nest that makes the parts of an operand: vectors along its memory.
void share_parts(Schedule& s, const NestInfo& n) {
  constexpr std::int64_t kVector = 8, kThreads = 256;  // 16 bytes of each part
  std::vector<LoopId> loops(n.loops.begin(), n.loops.end() - 1);
  s.unroll(n.loops.back());
  const std::vector<LoopId> vectors = s.split(loops.back(), {kVector}, Tail::exact);
  if (!s.ok()) return;
  s.vectorize(vectors[1]);
  loops.back() = vectors[0];
  bind_flat(s, fuse_all(s, loops), kThreads, 1);
}

/// Operands become parts, of which `p` names the buffers from here on. Returns the products of the parts.
std::vector<TensorNest> separate_operands(Schedule& s, MatrixProduct& p, const LoopId& loop) {
  s.separate(loop);
  for (std::string* operand : {&p.left, &p.right}) *operand += "_parts";
  std::vector<TensorNest> out;
  for (const NestInfo& n : updates(s))
    if (n.loops.size() == 6) out.push_back({n.loops[0], n.loops[1], n.loops[2], n.loops[3], n.loops[4], n.loops[5]});
  return out;
}

/// What happens to the parts and to the products of parts: made, scaled, and added to the sums of the tile.
void share_parts_and_sums(Schedule& s, const MatrixProduct& p, const std::string& partial, const TensorTile& t) {
  for (const NestInfo& n : s.nests()) {
    if (!s.ok()) return;
    if (n.buffer == p.left || n.buffer == p.right) share_parts(s, n);
    const bool reads = n.reads.size() == 1 && n.reads[0].buffer == partial;
    if (reads && n.loops.size() >= 2) share_fragment(s, {n.loops.end() - 2, n.loops.end()}, t);
  }
}

/// Every result leaves the fragments in its way.
void leave_results(Schedule& s, const std::vector<TileResult>& results, const TensorTile& t) {
  for (const TileResult& result : results) {
    if (!s.ok()) return;
    const bool sent = t.exit > staged && s.attempt([&](Schedule& u) { send_result(u, result.buffer, result.loops, t); });
    if (!sent) share_result(s, result.loops, t);
  }
}

void schedule_tensor_cores(Schedule& s, TensorTile t) {
  s.assume_alignment(16);
  // Few rows leave each thread few elements, which may as well have their sums written out.
  if (t.swapped) inline_thin_sums(s);
  inline_intermediates(s);
  t.thin = find_thin_sums(s);
  const std::vector<MatrixProduct> found = find_matrix_products(s);
  if (!s.ok() || std::ssize(found) != t.sums) return s.reject("other products than before");
  std::vector<TiledProduct> products;
  for (const MatrixProduct& p : found) products.push_back(split_product(s, p, t));
  if (!s.ok()) return;
  join_products(s, products);
  MatrixProduct& p = products.back().product;
  const std::vector<LoopId>& tiles = products.back().tiles;
  const LoopId step = products.back().steps[0];
  const std::vector<TileResult> results = finish_result(s, p, tiles.back(), Place::fragment);
  LoopId all = tiles.back();
  const bool in_groups = !p.group.empty();
  if (in_groups) all = bind_tiles(s, p, tiles, t.swapped ? t.columns : t.rows(), t.ahead);
  if (!s.ok()) return;
  std::vector<TensorNest> nests;
  for (const TiledProduct& each : products) nests.push_back(each.nest);
  if (in_groups && !t.swapped) {
    const std::vector<LoopId> rows = s.split(nests[0].group, {t.tiles, 64});
    if (!s.ok()) return;
    nests[0].group = rows[0], nests[0].tile = rows[1], nests[0].row = rows[2];
  }
  if (t.gathered > 0) nests = separate_operands(s, p, products.back().steps[1]);
  if (!s.ok() || nests.empty()) return s.reject("operands without parts");
  const std::string partial = t.gathered > 0 ? buffer_at(s, nests[0].row) : "";
  const bool rounded = t.bytes == 4;
  if (rounded) s.round_factors(step);
  for (const std::string& operand : list_operands(products)) s.stage(operand, step, Place::shared, {}, {}, rounded);
  for (const TensorNest& n : nests) s.tensorize(n.row, n.column, n.summand);
  std::vector<std::pair<std::vector<LoopId>, std::int64_t>> copies;
  if (t.exit == staged)
    for (const NestInfo& n : outputs(s)) {
      if (!s.ok()) return;
      const std::vector<LoopId> back = s.hold(n.buffer, all, Place::shared);
      copies.emplace_back(back, 16 / std::max(1, size_bytes(s.buffer(n.buffer).dtype)));
    }
  s.ring(step, t.depth);
  for (const TensorNest& n : nests) {
    if (t.turns == 1) s.bind(n.group, Axis::thread_y);
    s.unroll(n.tile);
    if (n.pairs) s.unroll(*n.pairs);
  }
  if (t.gathered > 0) {
    share_parts_and_sums(s, p, partial, t);
    s.unroll(products.back().steps[1]);
  }
  // As long as it is plain that the sums are written in full, no row of a tile on its way out needs a condition. (Dense products leave
  // in the other order, in which they were timed.)
  if (in_groups) leave_results(s, results, t);
  for (const std::string& sum : list_sums(s, found))
    if (const std::vector<LoopId> zero = find_zeroing(s, sum); s.ok() && !zero.empty()) share_fragment(s, zero, t);
  if (!in_groups) leave_results(s, results, t);
  for (const auto& [loops, width] : copies) share_copy(s, loops, width, t);
  if (!in_groups) all = bind_tiles(s, p, tiles, t.rows());
  if (t.persistent) s.persist(all, s.target().workers, t.turns);
}

std::int64_t count_tiles(const TensorTile& t, const ProductSize& size) {
  return count_row_tiles(size, t.rows()) * divide_up(size.columns, t.columns);
}

/// Slots of a ring that fit beside the tile on its way out, no more than there are iterations.
std::int64_t find_depth(const Schedule& s, const TensorTile& t, const ProductSize& size) {
  constexpr std::int64_t kBarrierBytes = 1024;
  const std::int64_t most = t.summands > t.block_columns() ? 8 : 12;  // more than that in flight gains nothing
  const std::int64_t slot = t.staged_rows() * t.summands * t.element_bytes();
  const std::int64_t width = t.exit == staged ? t.columns : t.exit == direct || !t.persistent ? 0 : t.exit;
  const std::int64_t out = t.rows() * t.turns * width * t.result_bytes;
  const std::int64_t fits = (s.target().l1_bytes - kBarrierBytes - out) / slot;
  const std::int64_t useful = t.persistent ? most : std::max<std::int64_t>(2, divide_up(size.summands, t.summands));
  return std::clamp<std::int64_t>(std::min(fits, useful), 2, most);
}

/// Clock cycles in which a tile is looked for among the groups; by the number of instructions, not fitted.
double estimate_search(const ProductSize& size) {
  constexpr double kSearchCycles = 16;
  return size.is_ragged ? kSearchCycles * static_cast<double>(size.batch) : 0;
}

/// Clock cycles of a multiprocessor for all of its tiles, roughly: products, or the bytes of their operands that it can take
/// in, and what does not overlap them. Fitted to measurements on an H200; it decides between tiles, it predicts no times.
double estimate_cycles(const Schedule& s, const TensorTile& t, const ProductSize& size) {
  constexpr double kProductsOfCycle = 2048, kBytesOfCycle = 64, kStartCycles = 1800, kStepCycles = 52, kSlower = 1.09;
  constexpr double kOutBytesOfCycle = 32, kOutCycles = 700;
  const double steps = static_cast<double>(divide_up(size.summands, t.summands));
  const double products = static_cast<double>(t.rows() * t.columns * t.sums * t.summands * t.bytes / 2) / kProductsOfCycle;
  // What the L2 gives to all multiprocessors at once: some 9.4 TB/s on an H200, at which groups in tiles of 64 x 256 stood.
  constexpr double kBytesOfCycleOfAll = 40;
  const double bytes = static_cast<double>(t.staged_rows() * t.summands * t.bytes) / (size.is_ragged ? kBytesOfCycleOfAll : kBytesOfCycle);
  const double multiply = steps * std::max(products * kSlower + kStepCycles, bytes);
  const double leave = static_cast<double>(t.rows() * t.columns * t.result_bytes) / kOutBytesOfCycle + kOutCycles + estimate_search(size);
  const double rounds = static_cast<double>(divide_up(count_tiles(t, size), s.target().workers));
  if (t.turns > 1) return kStartCycles + rounds * std::max(multiply, leave / 2) + leave;
  return kStartCycles + rounds * (multiply + leave);
}

/// The tile that the estimate likes best for elements of these sizes, over all sizes of the product. Columns of a tile are a
/// multiple of `column_step`.
TensorTile guess_tile(const Schedule& s, const TensorTile& elements, const std::vector<ProductSize>& sizes, std::int64_t column_step) {
  const ProductSize& size = sizes[0];
  struct Shape { std::int64_t turns, groups, tiles, columns; };
  // With turns a warpgroup holds a tile alone, in at most 208 registers a thread.
  constexpr Shape kShapes[] = {{2, 1, 2, 192}, {2, 1, 2, 176}, {2, 1, 2, 160}, {2, 1, 2, 128}, {2, 1, 1, 256}, {1, 2, 1, 256}, {1, 2, 2, 128},
                               {1, 2, 1, 128}, {1, 1, 1, 256}, {1, 1, 1, 128}, {1, 1, 2, 64},  {1, 1, 1, 64},  {1, 1, 1, 32},  {1, 1, 1, 16}};
  TensorTile best;
  double least = 0;
  for (const Shape& shape : kShapes) {
    TensorTile t = elements;
    t.turns = shape.turns, t.groups = shape.groups, t.tiles = shape.tiles, t.columns = shape.columns / t.sums;
    if (t.sums > 1 && (t.columns % 16 != 0 || t.tiles > 1)) continue;  // (see pick_tile)
    t.persistent = count_tiles(t, size) > s.target().workers;
    if (t.columns % column_step != 0 || (t.turns > 1 && !t.persistent)) continue;  // or nothing to take turns at
    double cycles = 0;
    for (const ProductSize& each : sizes) cycles += std::log(estimate_cycles(s, t, each));
    if (least > 0 && cycles >= least) continue;
    least = cycles;
    best = t;
  }
  // Fewer, longer steps where a step is short.
  const bool is_short = best.columns * best.sums <= 64 && best.tiles == 1 && size.summands >= 16 * best.block_columns();
  best.summands = best.block_columns() * (is_short ? 2 : 1);
  // In one wave what matters is that neighbours ask for the same part of the larger operand.
  const std::int64_t balanced = divide_up(size.rows, best.rows()) <= 32 ? 16 : 8;
  best.raster = best.persistent ? balanced : size.rows > size.columns ? 1 : 4;
  return best;
}

/// Columns that leave at a time: many where a block has one small tile, whose memory the ring leaves, or little else to do,
/// else as many as one box takes: what leaves first overlaps the rest.
std::vector<std::int64_t> find_exits(const TensorTile& t, const ProductSize& size) {
  std::vector<std::int64_t> out;
  if (t.columns == 128 && (!t.persistent || size.summands <= t.summands * 2)) out.push_back(128);
  const std::int64_t box = 128 / t.result_bytes;
  for (const std::int64_t width : put_first(box, {64, 128, 32, 16}))
    if (t.columns % width == 0 && out != std::vector{width}) out.push_back(width);
  out.push_back(direct);
  // With turns and two tiles or sums ptxas moves the first stores into the products, which then wait for each other (C7514).
  // Where rows are in groups no tile is one of the result's.
  if (!size.is_ragged && (t.turns == 1 || t.tiles * t.sums == 1)) out.push_back(staged);
  return out;
}

TensorTile pick_tile(Schedule& s, Space& k, const TensorTile& elements, const std::vector<ProductSize>& sizes, std::int64_t column_step) {
  const ProductSize& size = sizes[0];
  TensorTile t = guess_tile(s, elements, sizes, column_step);
  t.turns = k.pick("turns", put_first(t.turns, {1, 2}));
  // With several sums ptxas puts waits of its own into products of three groups (C7520), which then wait for each other.
  t.groups = t.turns > 1 ? 1 : k.pick("groups", t.sums > 1 ? put_first(t.groups, {2, 1}) : put_first(t.groups, {2, 1, 3}));
  // A box of the copy engine has at most 256 rows. With several sums in each of two tiles ptxas ignores what registers the roles give up and take
  // (C7508), and products wait for each other where those that are left do not suffice; one group needs no such exchange.
  const bool has_one = t.groups == 3 || (t.sums > 1 && t.groups * t.turns > 1);
  t.tiles = k.pick("tiles", has_one ? std::vector<std::int64_t>{1} : put_first(t.tiles, {1, 2}));
  std::vector<std::int64_t> widths = put_first(t.columns, {128, 256, 64, 192, 160, 176, 32, 16, 8});
  // Four warpgroups are compiled for 128 registers a thread; a product 256 wide needs 154. Three have 168.
  if (t.groups == 3 || t.tiles == 2) std::erase_if(widths, [](std::int64_t w) { return w > 192; });
  if (t.sums > 1 && t.groups * t.turns == 1) widths.insert(widths.end(), {80, 96});
  if (t.sums > 1) std::erase_if(widths, [&](std::int64_t w) { return t.tiles * w * t.sums > (t.tiles > 1 ? 320 : 256); });
  std::erase_if(widths, [&](std::int64_t w) { return w % column_step != 0; });
  t.columns = k.pick("columns", widths);
  t.persistent = t.turns > 1 || k.pick_flag("persist", count_tiles(t, size) > s.target().workers);
  std::vector<std::int64_t> exits = find_exits(t, size);
  if (!t.thin.empty()) std::erase_if(exits, [&](std::int64_t e) { return e > t.most_thin_columns(); });
  t.exit = k.pick("exit", exits);
  t.summands = k.pick("summands", put_first(t.summands, {t.block_columns(), t.block_columns() * 2}));
  t.depth = k.pick("depth", put_first(find_depth(s, t, size), {4, 3, 5, 6, 8, 10, 12, 2}));
  // Rows in groups have an order of their own. A launch in front costs as much as some searches; by instructions, not fitted.
  constexpr double kLaunchCycles = 4000;
  const double rounds = static_cast<double>(divide_up(count_tiles(t, size), s.target().workers));
  if (size.is_ragged) t.ahead = k.pick_flag("ahead", rounds * estimate_search(size) > kLaunchCycles);
  else t.raster = k.pick("raster", put_first(t.raster, {8, 1, 16, 4}));
  return t;
}

/// The same for products of parts, with the kernels that make the parts.
double estimate_parts(const Schedule& s, const TensorTile& t, const ProductSize& size) {
  constexpr double kStartCycles = 3000, kMakeCycles = 1500, kMemoryBytesOfCycle = 3200, kPartBytes = 10;
  constexpr double kProducts = 6, kProductsOfCycle = 2048, kSlower = 1.1, kOutBytesOfCycle = 32, kOutCycles = 900;
  const double elements = static_cast<double>(size.batch) * static_cast<double>(size.rows + size.columns) * static_cast<double>(size.summands);
  const double make = 2 * kMakeCycles + elements * kPartBytes / kMemoryBytesOfCycle;
  // Narrow tiles wait for shared memory, and all of them for partial sums, less where another warpgroup goes on meanwhile.
  const double products = static_cast<double>(t.rows() * t.columns * t.summands) * kProducts / kProductsOfCycle * (t.columns <= 64 ? 1.35 : kSlower);
  const double settle = static_cast<double>(3 * t.summands / t.gathered) * (t.groups > 1 ? 60 : 160);
  const double steps = static_cast<double>(divide_up(size.summands, t.summands));
  const double leave = static_cast<double>(t.rows() * t.columns * 4) / kOutBytesOfCycle + kOutCycles;
  const double rounds = static_cast<double>(divide_up(count_tiles(t, size), s.target().workers));
  return kStartCycles + make + rounds * (steps * (products + settle) + leave);
}

double estimate_parts(const Schedule& s, const TensorTile& t, const std::vector<ProductSize>& sizes) {
  double cycles = 0;
  for (const ProductSize& size : sizes) cycles += std::log(estimate_parts(s, t, size));
  return std::exp(cycles / static_cast<double>(sizes.size()));
}

TensorTile guess_parts(const Schedule& s, const std::vector<ProductSize>& sizes, std::int64_t column_step) {
  const ProductSize& size = sizes[0];
  struct Shape { std::int64_t groups, columns; };
  // Each thread holds the tile's sums and as many partial ones.
  constexpr Shape kShapes[] = {{2, 128}, {2, 64}, {1, 128}, {1, 64}, {1, 32}, {1, 16}};
  TensorTile best;
  double least = 0;
  for (const Shape& shape : kShapes) {
    TensorTile t;
    t.groups = shape.groups, t.columns = shape.columns, t.gathered = 64;
    if (t.columns % column_step != 0) continue;
    const double cycles = estimate_parts(s, t, sizes);
    if (least > 0 && cycles >= least) continue;
    least = cycles;
    best = t;
  }
  best.persistent = count_tiles(best, size) > s.target().workers;
  best.raster = best.persistent ? 16 : size.rows > size.columns ? 1 : 4;
  return best;
}

TensorTile pick_parts(Schedule& s, Space& k, const std::vector<ProductSize>& sizes, std::int64_t column_step) {
  const ProductSize& size = sizes[0];
  TensorTile t = guess_parts(s, sizes, column_step);
  t.groups = k.pick("groups", put_first(t.groups, {2, 1}));
  std::vector<std::int64_t> widths = put_first(t.columns, {128, 64, 32, 16, 8});
  std::erase_if(widths, [&](std::int64_t w) { return w % column_step != 0; });
  t.columns = k.pick("columns", widths);
  t.persistent = k.pick_flag("persist", count_tiles(t, size) > s.target().workers);
  t.result_bytes = 4;
  std::vector<std::int64_t> exits{direct, staged, 32, 64};
  std::erase_if(exits, [&](std::int64_t e) { return e > staged && t.columns % e != 0; });
  t.exit = k.pick("exit", exits);
  t.gathered = k.pick("gathered", put_first(t.gathered, {32, 64}));
  t.depth = k.pick("depth", put_first(find_depth(s, t, size), {2, 3, 4, 6, 8}));
  t.raster = k.pick("raster", put_first(t.raster, {8, 1, 16, 4}));
  return t;
}

constexpr std::int64_t kFew = 64;

/// Few rows, which are the tensor cores' columns: weights are streamed, with many bytes in flight and small tiles, so that
/// every multiprocessor has some.
TensorTile pick_stream(const Schedule& s, Space& k, const TensorTile& elements, const ProductSize& size) {
  TensorTile t = elements;
  t.swapped = true;
  t.groups = k.pick("groups", {1, 2});
  if (size.is_ragged) {
    // Twice the mean, so that the matrix of most groups is read once.
    t.columns = k.pick("columns", put_first(std::min(kFew, divide_up(2 * size.rows, 8) * 8), {8, 16, 32, 64}));
    t.persistent = k.pick_flag("persist", true);
  } else {
    t.columns = k.pick("columns", {divide_up(size.rows, 8) * 8});
  }
  t.summands = k.pick("summands", {t.block_columns() * 2, t.block_columns(), t.block_columns() * 4});
  t.depth = k.pick("depth", put_first(std::min<std::int64_t>(find_depth(s, t, size), 8), {5, 4, 8, 3, 10}));
  return t;
}

}  // namespace

namespace {

/// Operands of these dtypes that the copy engine can take, or, of f32, their parts; its elements have so many bytes.
bool suits_engine(const Schedule& s, std::initializer_list<DType> dtypes, std::int64_t bytes = 2) {
  if (s.target().arch != "sm_90a") return false;
  for (const MatrixProduct& p : find_matrix_products(s)) {
    for (const std::string& operand : {p.left, p.right}) {
      const BufferShape b = s.buffer(operand);
      if (!b.is_param || !b.is_dense || std::find(dtypes.begin(), dtypes.end(), b.dtype) == dtypes.end()) return false;
      // Rows have to begin at multiples of 16 bytes.
      const auto columns = b.shape.back().constant();
      if (!columns || *columns * bytes % 16 != 0) return false;
    }
    if (s.buffer(p.left).dtype != s.buffer(p.right).dtype || s.buffer(p.nest.buffer).dtype != DType::f32) return false;
  }
  return true;
}

/// Whether columns of the product lie side by side in the right operand: tensor cores take 64 of them then.
std::int64_t find_column_step(const Schedule& s, const MatrixProduct& p) {
  return dimension_of(p.nest, p.right, p.column) + 1 == static_cast<int>(s.buffer(p.right).shape.size()) ? 64 : 8;
}

}  // namespace

/// f32 operands as tf32: the instruction has no form for summands that lie apart.
bool suits_tf32(const Schedule& s) {
  const std::vector<MatrixProduct> products = find_matrix_products(s);
  return s.accuracy() == Accuracy::tf32 && suits_engine(s, {DType::f32}, 4) && std::all_of(products.begin(), products.end(), [&](const MatrixProduct& p) {
    const auto lie_together = [&](const std::string& operand) { return dimension_of(p.nest, operand, p.reduction) + 1 == static_cast<int>(s.buffer(operand).shape.size()); };
    return p.left != p.right && lie_together(p.left) && lie_together(p.right);
  });
}

bool suits_tensor_cores(const Schedule& s) { return suits_engine(s, {DType::bf16, DType::f16}) || suits_tf32(s); }

bool suits_parts(const Schedule& s) {
  constexpr std::size_t kMostDims = 4;  // and one over the parts
  const std::vector<MatrixProduct> products = find_matrix_products(s);
  const MatrixProduct& p = products[0];
  return products.size() == 1 && suits_engine(s, {DType::f32}) && p.left != p.right && std::max(s.buffer(p.left).shape.size(), s.buffer(p.right).shape.size()) <= kMostDims;
}

double estimate_product_of_parts(const Schedule& s, const std::vector<ProductSize>& sizes) {
  const MatrixProduct p = find_matrix_products(s)[0];
  return estimate_parts(s, guess_parts(s, sizes, find_column_step(s, p)), sizes);
}

bool gains_by_parts(const Schedule& s) {
  const MatrixProduct p = find_matrix_products(s)[0];
  const std::vector<ProductSize> sizes = sample_sizes(s, p);
  constexpr double kSurely = 1.1;  // small products were not measured; parts take six bytes an element
  return estimate_product_of_parts(s, sizes) * kSurely < estimate_plain_product(s, sizes);
}

void schedule_product_of_parts(Schedule& s, Space& k) {
  const MatrixProduct p = find_matrix_products(s)[0];
  schedule_tensor_cores(s, pick_parts(s, k, sample_sizes(s, p), find_column_step(s, p)));
}

void schedule_tensor_product(Schedule& s, Space& k) {
  const MatrixProduct p = find_matrix_products(s)[0];
  const std::vector<ProductSize> sizes = sample_sizes(s, p);
  const ProductSize& size = sizes[0];
  // One tile of columns of the tensor cores takes all rows; where the other side's tiles of 64 are few, the sides stay.
  const bool few = size.rows <= kFew, many = divide_up(size.columns, kFew) * 4 >= s.target().workers;
  const bool swapped = few && k.pick_flag("swap", many && !size.is_ragged);
  TensorTile elements;
  elements.sums = std::ssize(find_matrix_products(s));
  elements.thin = find_thin_sums(s);
  elements.bytes = size_bytes(s.buffer(p.left).dtype);
  for (const NestInfo& n : outputs(s)) elements.result_bytes = std::max<std::int64_t>(elements.result_bytes, size_bytes(s.buffer(n.buffer).dtype));
  elements.summands = elements.block_columns();
  schedule_tensor_cores(s, swapped ? pick_stream(s, k, elements, size) : pick_tile(s, k, elements, sizes, find_column_step(s, p)));
}

}  // namespace loopwright::schedules
