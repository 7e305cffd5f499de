// Matrix products with any pointwise prologue and epilogue: cache tiles, packed operands, a register tile that runs over
// the reduction without guards.
#include <algorithm>

#include "schedules/families.h"
#include "schedules/nests.h"
#include "schedules/products.h"

namespace loopwright::schedules {
namespace {

/// Tiles for `stage`: panels of `width` along dimension `d`.
std::vector<std::int64_t> panel_tiles(const Schedule& s, const std::string& buffer, int d,
                                      std::int64_t width) {
  std::vector<std::int64_t> tiles(s.buffer(buffer).shape.size(), 1);
  tiles[static_cast<std::size_t>(d)] = width;
  return tiles;
}

/// Order for `stage`: panels outermost, then the reduction, the rest in front.
std::vector<int> panel_order(const Schedule& s, const std::string& buffer, int panel, int reduction) {
  std::vector<int> order;
  for (int d = 0; d < static_cast<int>(s.buffer(buffer).shape.size()); ++d)
    if (d != panel && d != reduction) order.push_back(d);
  order.insert(order.end(), {panel, reduction});
  return order;
}

bool has_narrow_operand(const Schedule& s) {
  const MatrixProduct p = find_matrix_products(s)[0];
  return is_narrow_operand(s, p.left, p.nest) || is_narrow_operand(s, p.right, p.nest);
}

/// Vectors in a register tile that leave no partial tile, where that can be known; all of them where none does.
std::vector<std::int64_t> dividing_widths(const Schedule& s, const LoopId& column, std::int64_t lanes) {
  const std::vector<std::int64_t> all = {2, 1, 3, 4};
  const auto extent = s.constant_extent(column);
  std::vector<std::int64_t> dividing;
  for (const std::int64_t v : all)
    if (extent && *extent % (v * lanes) == 0) dividing.push_back(v);
  return dividing.empty() ? all : dividing;
}

/// When an operand is copied into panels that the register tile reads from front to back.
enum class Packing : std::int64_t { never, each_tile, once };

struct PanelLayout {
  int panel, reduction;  ///< dimensions of the operand
  std::int64_t width;    ///< of a panel
  bool converts;         ///< the panels hold the elements in the accumulator's dtype
  bool is_vector;        ///< a panel's width is copied as vectors; otherwise by unrolled scalars
  bool is_parallel;
};

void pack(Schedule& s, const std::string& operand, Packing when, const LoopId& tile_loop, const PanelLayout& layout) {
  if (when == Packing::never || !s.ok()) return inline_operand(s, operand);
  const bool once = when == Packing::once;
  const std::vector<LoopId> copy =
      s.stage(operand, once ? LoopId{} : tile_loop, once ? Place::global : Place::shared,
              panel_order(s, operand, layout.panel, layout.reduction),
              panel_tiles(s, operand, layout.panel, layout.width), layout.converts);
  inline_operand(s, operand);
  if (!s.ok()) return;
  if (layout.width > 1) {
    s.attempt([&](Schedule& t) { layout.is_vector ? t.vectorize(copy.back()) : t.unroll(copy.back()); });
  }
  if (once && layout.is_parallel) {
    // All dimensions in front of the reduction: batches and panels.
    s.attempt([&](Schedule& t) { t.parallel(fuse_all(t, {copy.begin(), copy.end() - 2})); });
  }
}

/// What follows when a cache tile of the accumulator is complete: the epilogues, or the copy to the result. The
/// accumulator shrinks to the tile.
void finish_tiles(Schedule& s, const MatrixProduct& p, const LoopId& tile_loop, std::int64_t width) {
  bool shrinks = !p.nest.writes_output;
  std::vector<std::pair<NestInfo, LoopId>> epilogues;  // with the innermost loop over the tile
  for (const NestInfo& n : outputs(s)) {
    if (n.buffer == p.nest.buffer) continue;
    std::vector<LoopId> loops;
    if (s.attempt([&](Schedule& t) { loops = t.fuse_epilogue(n.buffer, tile_loop, Place::shared); })) {
      epilogues.emplace_back(n, loops.back());
      continue;
    }
    shrinks = shrinks && std::none_of(n.reads.begin(), n.reads.end(),
                                      [&](const ReadInfo& r) { return r.buffer == p.nest.buffer; });
    s.attempt([&](Schedule& t) {  // a nest of its own behind the product
      const LoopId vectors = vectorize_inner(t, n.loops.back(), 2 * natural_lanes(t, n));
      t.parallel(n.loops.size() > 1 ? n.loops.front() : vectors);
    });
  }
  for (const auto& [n, loop] : epilogues)
    s.attempt([&](Schedule& t) { vectorize_inner(t, loop, 2 * natural_lanes(t, n)); });
  if (shrinks && !epilogues.empty()) return;
  const std::vector<LoopId> back = s.hold(p.nest.buffer, tile_loop, Place::shared);
  if (s.ok()) s.attempt([&](Schedule& t) { vectorize_inner(t, back.back(), width); });
}

/// The last two loops walk over a register tile: constant indices for the rows, vectors for the columns.
void unroll_register_tile(Schedule& s, const std::vector<LoopId>& loops) {
  if (loops.size() < 2) return;
  s.attempt([&](Schedule& t) {
    t.unroll(loops[loops.size() - 2]);
    t.vectorize(loops.back());
  });
}

}  // namespace

bool is_matmul(const Schedule& s) { return updates(s).size() == 1 && find_matrix_products(s).size() == 1; }

void schedule_matmul(Schedule& s, Space& k) {
  if (!is_matmul(s)) return s.reject("not one product of two tensors");
  const std::int64_t lanes = natural_lanes(s, updates(s)[0]);
  const std::vector<std::string> computed = find_computed_operands(s);
  // Conversions while packing rather than at every use, and prologues likewise. Where there are none there is no choice.
  const bool converts = !(has_narrow_operand(s) || !computed.empty()) || k.pick_flag("convert", true);
  inline_intermediates(s, converts ? computed : std::vector<std::string>{});
  const std::vector<MatrixProduct> products = find_matrix_products(s);
  if (!s.ok() || products.size() != 1) return s.reject("not one product of two tensors");
  const MatrixProduct p = products[0];
  const std::int64_t rows = k.pick("rows", {6, 4, 8, 2, 1});  // register tile: rows ...
  const std::int64_t columns =
      k.pick("columns", dividing_widths(s, p.column, lanes)) * lanes;  // ... by vectors of columns
  const std::int64_t row_panels =
      k.pick("row_panels", {16, 8, 32, 4, 1, 64});  // cache tile in register tiles
  const std::int64_t column_panels = k.pick("column_panels", {16, 8, 32, 4, 1, 64});
  const std::int64_t depth = k.pick("depth", {256, 512, 128, 1024, 0});  // of the reduction; 0 = all of it
  const auto left_packing = static_cast<Packing>(k.pick("pack_left", {2, 1, 0}));
  const auto right_packing = static_cast<Packing>(k.pick("pack_right", {2, 1, 0}));
  const bool is_parallel = k.pick_flag("parallel", true);

  const std::vector<LoopId> i = s.split(p.row, {row_panels, rows});
  const std::vector<LoopId> j = s.split(p.column, {column_panels, columns});
  if (!s.ok()) return;
  const bool is_deep = depth > 0 && s.max_extent(p.reduction) > depth;
  const std::vector<LoopId> r =
      is_deep ? s.split(p.reduction, {depth}) : std::vector<LoopId>{{}, p.reduction};
  if (!s.ok()) return;
  std::vector<LoopId> order = p.batch;
  order.insert(order.end(), {i[0], j[0]});
  if (is_deep) order.push_back(r[0]);
  order.insert(order.end(), {j[1], i[1], r[1], i[2], j[2]});
  s.reorder(order);

  finish_tiles(s, p, j[0], 2 * lanes);
  if (!s.ok()) return;
  const LoopId tile_loop = is_deep ? r[0] : j[0];
  pack(s, p.right, right_packing, tile_loop,
       {.panel = dimension_of(p.nest, p.right, p.column), .reduction = dimension_of(p.nest, p.right, p.reduction),
        .width = columns, .converts = converts && is_narrow_operand(s, p.right, p.nest), .is_vector = true,
        .is_parallel = is_parallel});
  pack(s, p.left, left_packing, tile_loop,
       {.panel = dimension_of(p.nest, p.left, p.row), .reduction = dimension_of(p.nest, p.left, p.reduction),
        .width = rows, .converts = converts && is_narrow_operand(s, p.left, p.nest), .is_vector = false,
        .is_parallel = is_parallel});
  if (!s.ok()) return;
  const std::string tile = updated_buffer(s);
  const std::vector<LoopId> back = s.hold(tile, i[1], Place::registers);
  if (!s.ok()) return;
  s.unroll(i[2]);
  s.vectorize(j[2]);
  unroll_register_tile(s, back);
  const std::string registers = updated_buffer(s);
  for (const NestInfo& n : s.nests())
    if (n.buffer == registers && !n.is_update) unroll_register_tile(s, n.loops);
  for (const NestInfo& n : s.nests())
    if (n.buffer == tile && !n.is_update && !n.loops.empty() && !(n.loops.back() == back.back()))
      s.attempt([&](Schedule& t) { vectorize_inner(t, n.loops.back(), 2 * lanes); });
  if (is_parallel) {
    std::vector<LoopId> outer = p.batch;
    outer.insert(outer.end(), {i[0], j[0]});
    s.parallel(fuse_all(s, outer));
  }
}

}  // namespace loopwright::schedules
