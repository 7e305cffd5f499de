// GPU: matrix products. On Hopper's tensor cores where the operands are 16-bit parameters that the copy engine can take
// (gpu_tensor_product.cpp). Otherwise, and always in plain f32: a tile of the result a block, held in registers, operands
// through shared memory.
#include <algorithm>

#include "schedules/families.h"
#include "schedules/gpu_nests.h"
#include "schedules/gpu_products.h"
#include "schedules/nests.h"

namespace loopwright::schedules {
namespace {

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
  bind_tiles(s, p, {i[0], j[0]});
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
  if (suits_tensor_cores(s) && k.pick_flag("tensor", true)) return schedule_tensor_product(s, k);
  const MatrixProduct p = find_matrix_products(s)[0];
  const std::vector<std::int64_t> rows = plain_sides(s, p.row), columns = plain_sides(s, p.column);
  if (rows.empty() || columns.empty()) return s.reject("fewer than 16 rows or columns");
  PlainTile t;
  t.rows = k.pick("rows", rows);
  t.columns = k.pick("columns", columns);
  t.summands = k.pick("summands", {16, 8, 32});
  schedule_plain(s, t, k.pick_flag("aligned", true));
}

}  // namespace loopwright::schedules
