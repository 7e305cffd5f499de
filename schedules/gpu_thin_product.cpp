// GPU: products with one thin side on the tensor cores of single warps. Operands go from memory straight to the registers of
// the lanes that multiply them, many loads of a thread under way before the first use; the warps of a block share out the
// sum and meet in shared memory. f32 operands, also beside bf16 ones, are made of bf16 parts in registers.
#include <algorithm>
#include <cmath>

#include "schedules/gpu_nests.h"
#include "schedules/gpu_products.h"
#include "schedules/nests.h"

namespace loopwright::schedules {
namespace {

constexpr std::int64_t kThin = 64, kMostOfThinSide = 2 * kThin;  ///< a symbol's sizes up to the most have a half that is thin
constexpr std::int64_t kFewestSummands = 128;    ///< less is no stream
constexpr std::int64_t kSlab = 32;               ///< summands of a product: eight neighbours in a lane, 16 bytes of bf16
constexpr std::int64_t kTileRows = 16, kTileColumns = 8; ///< of an instruction
constexpr std::int64_t kWarp = 32;

struct ThinTile {
  bool swapped = false;    ///< columns of the result are the instruction's rows
  std::int64_t tall = 1;   ///< instructions of a warp one above the other
  std::int64_t wide = 1;   ///< side by side
  std::int64_t warps = 16; ///< that share out the sum
  std::int64_t loads = 4;  ///< slabs of summands loaded at once
  std::int64_t rows() const { return tall * kTileRows; }
  std::int64_t columns() const { return wide * kTileColumns; }
};

/// The product once what only converts its operands is part of it, and its operands; nothing where warps cannot do it.
struct ThinOperands {
  MatrixProduct product;
  DType left = DType::f32, right = DType::f32;
  bool is_separated() const { return left == DType::f32 || right == DType::f32; }
};

std::optional<ThinOperands> find_thin(const Schedule& s) {
  Schedule t = s.copy();
  inline_thin_sums(t);
  inline_intermediates(t);
  const std::vector<MatrixProduct> products = find_matrix_products(t);
  if (!t.ok() || products.size() != 1 || sums(t).size() != 1 || outputs(t).size() != 1) return std::nullopt;
  ThinOperands out{products[0], {}, {}};
  const MatrixProduct& p = out.product;
  if (!p.nest.is_product || p.left == p.right || t.buffer(p.nest.buffer).dtype != DType::f32) return std::nullopt;
  for (const auto& [operand, dtype] : {std::pair{p.left, &out.left}, std::pair{p.right, &out.right}}) {
    const BufferShape b = t.buffer(operand);
    *dtype = b.dtype;
    // Lanes load along the sum.
    if (!b.is_param || dimension_of(p.nest, operand, p.reduction) + 1 != static_cast<int>(b.shape.size())) return std::nullopt;
  }
  const auto is_part = [](DType d) { return d == DType::f32 || d == DType::bf16; };
  if (!(is_part(out.left) && is_part(out.right)) && !(out.left == DType::f16 && out.right == DType::f16)) return std::nullopt;
  if (!s.constant_extent(p.reduction) || s.max_extent(p.reduction) < kFewestSummands) return std::nullopt;
  const std::int64_t rows = p.group.empty() ? s.max_extent(p.row) : divide_up(s.max_extent(p.row), p.groups);
  if (std::min(rows, s.max_extent(p.column)) > kMostOfThinSide) return std::nullopt;
  return out;
}

bool is_f32(DType d) { return d == DType::f32; }

/// The 8 rows and 4 quarters (pairs) of what lanes hold.
void bind_warp_lanes(Schedule& s, const LoopId& row, const LoopId& quarter) {
  const LoopId lane = s.fuse(row, quarter);
  if (s.ok()) s.bind(lane, Axis::thread_x);
}

/// Loops over sums as the lanes hold them. Pairs are neighbours in memory where columns are.
void share_sums(Schedule& s, std::vector<LoopId> loops, const ThinTile& t) {
  if (!s.ok() || loops.size() < 2) return s.reject("sums of fewer than two dimensions");
  loops.erase(loops.begin(), loops.end() - 2);
  if (t.swapped) std::swap(loops[0], loops[1]);
  const std::vector<LoopId> r = s.split(loops[0], {2, 8}), c = s.split(loops[1], {4, 2});
  if (!s.ok()) return;
  s.reorder({r[2], c[1], r[0], r[1], c[0], c[2]});
  bind_warp_lanes(s, r[2], c[1]);
  unroll_each(s, {r[0], r[1], c[0]});
  s.attempt([&](Schedule& u) { t.swapped ? u.unroll(c[2]) : u.vectorize(c[2]); });
}

/// Loops that load an operand: lanes take eight summands of a row.
void share_lanes_operand(Schedule& s, std::vector<LoopId> loops) {
  if (!s.ok() || loops.size() < 2) return s.reject("an operand of fewer than two dimensions");
  const LoopId row = loops[loops.size() - 2], sum = loops.back();
  const std::vector<LoopId> outer(loops.begin(), loops.end() - 2);
  const std::vector<LoopId> r = s.split(row, {8}), k = s.split(sum, {4, kSlab / 4});
  if (!s.ok()) return;
  std::vector<LoopId> order{r[1], k[1], r[0], k[0]};
  order.insert(order.end(), outer.begin(), outer.end());
  order.push_back(k[2]);
  s.reorder(order);
  bind_warp_lanes(s, r[1], k[1]);
  unroll_each(s, {r[0], k[0]});
  unroll_each(s, outer);
  s.attempt([&](Schedule& u) { u.vectorize(k[2]); });
}

/// Elements of the block's tile, one after the other over all of its threads.
void share_block(Schedule& s, const std::vector<LoopId>& loops, std::int64_t elements, const ThinTile& t) {
  const LoopId all = fuse_all(s, loops);
  if (!s.ok()) return;
  const std::vector<LoopId> parts = s.split(all, {std::clamp<std::int64_t>(elements / kWarp, 1, t.warps), kWarp});
  if (!s.ok()) return;
  s.bind(parts[1], Axis::thread_y);
  s.bind(parts[2], Axis::thread_x);
  unroll_each(s, {parts[0]});
}

/// Loops of one product: tiles, and the three of the instruction.
struct WarpNest {
  std::vector<LoopId> outer;  ///< unrolled
  LoopId row, column, summand;
};

std::vector<WarpNest> find_nests(const Schedule& s, const std::string& buffer) {
  std::vector<WarpNest> out;
  for (const NestInfo& n : updates(s)) {
    if (n.buffer != buffer || n.loops.size() < 5) continue;
    out.push_back({{n.loops.end() - 5, n.loops.end() - 3}, n.loops[n.loops.size() - 3], n.loops[n.loops.size() - 2], n.loops.back()});
    // Pairs of parts are around.
    if (n.loops.size() == 6) out.back().outer.insert(out.back().outer.begin(), n.loops[0]);
  }
  return out;
}

/// An operand on its way to registers, or to parts there.
struct Loaded {
  std::string parts;  ///< what is inlined into the copy; empty for none
  std::vector<LoopId> copy;
};

/// Operands to registers. What takes more work than a copy comes behind the loads of the other.
std::vector<Loaded> load_operands(Schedule& s, const MatrixProduct& p, DType left, DType right, const LoopId& loop) {
  std::vector<std::pair<std::string, DType>> operands{{p.right, right}, {p.left, left}};
  if (is_f32(left)) std::swap(operands[0], operands[1]);
  const bool separated = is_f32(left) || is_f32(right);
  std::vector<Loaded> out;
  for (const auto& [name, dtype] : operands) {
    const std::string parts = separated && is_f32(dtype) ? name + "_parts" : "";
    out.push_back({parts, s.stage(parts.empty() ? name : parts, loop, Place::fragment)});
  }
  return out;
}

/// Sums that come out as no numbers, again: lanes do what they hold. `tiles` and the loops of an instruction are those that
/// the nest's are copies of.
void share_recheck(Schedule& s, const std::string& plain, const std::vector<LoopId>& tiles, const LoopId& row, const LoopId& column) {
  for (const NestInfo& n : s.nests()) {
    if (!s.ok() || !n.is_update || n.buffer != plain) continue;
    const auto copy_of = [&](const LoopId& loop) {
      const auto found = std::find_if(n.loops.begin(), n.loops.end(), [&](const LoopId& c) { return c.name.starts_with(loop.name + "_"); });
      return found == n.loops.end() ? LoopId{} : *found;
    };
    const std::vector<LoopId> r = s.split(copy_of(row), {8}), c = s.split(copy_of(column), {2});
    if (!s.ok()) return;
    std::vector<LoopId> order{r[1], c[0]}, each;
    for (const LoopId& tile : tiles) each.push_back(copy_of(tile));
    each.insert(each.end(), {r[0], c[1]});
    order.insert(order.end(), each.begin(), each.end());
    s.reorder(order);
    bind_warp_lanes(s, r[1], c[0]);
    unroll_each(s, each);
  }
}

/// The warps' sums meet: each thread adds up some elements of the tile, which the copies of `outer` and `inner` walk through.
void combine_warps(Schedule& s, const LoopId& outer, const LoopId& inner, const LoopId& warp, std::int64_t elements, const ThinTile& t) {
  std::vector<LoopId> tile;
  for (const LoopId& loop : {outer, inner})
    for (const LoopId& c : nest_with(s, warp).loops)
      if (c.name == loop.name + "_c") tile.push_back(c);
  if (tile.empty()) return s.reject("a combination without a tile");
  std::vector<LoopId> order = tile;
  order.push_back(warp);
  s.reorder(order);
  s.unroll(warp);
  share_block(s, tile, elements, t);
}

void schedule_thin(Schedule& s, const ThinTile& t, const ThinOperands& found) {
  inline_thin_sums(s);
  inline_intermediates(s);
  const std::vector<MatrixProduct> products = find_matrix_products(s);
  if (!s.ok() || products.size() != 1) return s.reject("not one product of two tensors");
  MatrixProduct p = products[0];
  DType left = found.left, right = found.right;
  if (t.swapped) {
    std::swap(p.row, p.column);
    std::swap(p.left, p.right);
    std::swap(left, right);
  }
  const auto last = s.constant_extent(t.swapped ? p.row : p.column);
  const bool whole = last && *last % (t.swapped ? t.rows() : t.columns()) == 0;
  const std::vector<LoopId> i = s.split(p.row, {t.rows()}), j = s.split(p.column, {t.columns()});
  const std::vector<LoopId> r = s.split(p.reduction, {t.loads, kSlab});
  if (!s.ok()) return;
  std::vector<LoopId> order = p.batch;
  std::vector<LoopId> tiles{i[0], j[0]};
  if (!p.group.empty() && t.swapped) std::swap(tiles[0], tiles[1]);
  order.insert(order.end(), tiles.begin(), tiles.end());
  order.insert(order.end(), {r[0], r[1], i[1], j[1], r[2]});
  s.reorder(order);
  // Threads that hold a tile in registers must see its rows as they are: not cut off.
  const std::vector<TileResult> results = finish_result(s, p, tiles.back(), whole ? Place::registers : Place::shared);
  if (!p.group.empty()) bind_tiles(s, p, tiles, t.swapped ? t.columns() : t.rows());
  const std::string sums = updated_buffer(s);
  const std::vector<LoopId> ways = s.reduce_across(r[0], t.warps, true, Place::shared);
  if (!s.ok()) return;
  const std::string partial = buffer_at(s, ways[0]);
  s.reorder({ways[0], ways[1]});
  const std::vector<LoopId> back = s.hold(partial, ways[0], Place::fragment);
  if (!s.ok()) return;
  const std::string held = buffer_at(s, ways[1]);
  const std::vector<LoopId> rows = s.split(i[1], {kTileRows}), columns = s.split(j[1], {kTileColumns});
  if (!s.ok()) return;
  s.reorder({rows[0], columns[0], rows[1], columns[1], r[2]});
  std::string gathered = held;
  const bool separated = left == DType::f32 || right == DType::f32;
  if (separated) {
    s.separate(r[1], true);
    if (!s.ok()) return;
    gathered = held + "_sum";
  }
  const std::vector<Loaded> operands = load_operands(s, p, left, right, ways[1]);
  if (!s.ok()) return;
  const std::vector<WarpNest> nests = find_nests(s, gathered);
  if (nests.empty()) return s.reject("no products of tiles");
  for (const WarpNest& n : nests) s.tensorize(n.row, n.column, n.summand);
  if (p.group.empty()) bind_tiles(s, p, {i[0], j[0]}, t.rows());
  // Copies keep their loops until then: what is known to be filled, or zero beyond an edge, needs no conditions.
  for (const Loaded& l : operands) {
    if (!l.parts.empty()) s.inline_buffer(l.parts);
    share_lanes_operand(s, l.copy);
  }
  for (const WarpNest& n : nests) unroll_each(s, n.outer);
  s.unroll(r[1]);
  for (const NestInfo& n : s.nests()) {
    if (!s.ok()) return;
    const bool is_sum = n.buffer == held || n.buffer == gathered || n.buffer == held + "_plain";
    const bool reads = std::all_of(n.reads.begin(), n.reads.end(), [&](const ReadInfo& read) { return read.buffer == held || read.buffer == gathered || read.buffer == held + "_plain"; });
    if (is_sum && reads && n.loops.size() >= 2) share_sums(s, {n.loops.end() - 2, n.loops.end()}, t);
  }
  share_recheck(s, held + "_plain", {rows[0], columns[0]}, rows[1], columns[1]);
  share_sums(s, back, t);
  if (s.ok()) s.bind(ways[0], Axis::thread_y);
  const std::int64_t elements = t.rows() * t.columns();
  combine_warps(s, t.swapped ? j[1] : i[1], t.swapped ? i[1] : j[1], ways[2], elements, t);
  if (const NestInfo zero = init_of(s, sums); s.ok() && zero.loops.size() >= 2) share_block(s, {zero.loops.end() - 2, zero.loops.end()}, elements, t);
  for (const TileResult& result : results)
    if (s.ok()) share_block(s, result.loops, elements, t);
}

/// Registers of a thread, roughly. Parts take more where they are zero beyond an edge, and have sums of their own beside
/// those that are added up and those that are made again.
std::int64_t count_registers(const ThinTile& t, const ProductSize& size, DType left, DType right) {
  constexpr std::int64_t kOther = 40, kBesideParts = 32, kBesideEdges = 20, kWordsOfVector = 4, kParts = 3;
  const auto held = [&](std::int64_t side, DType d) { return side / 8 * t.loads * kWordsOfVector * (is_f32(d) ? kParts : 1); };
  const std::int64_t sums = t.rows() * t.columns() / kWarp, operands = held(t.rows(), left) + held(t.columns(), right);
  if (!is_f32(left) && !is_f32(right)) return kOther + operands + sums;
  const bool has_edges = size.summands % (kSlab * t.loads * t.warps) != 0 || (is_f32(left) && size.rows % t.rows() != 0) || (is_f32(right) && size.columns % t.columns() != 0);
  return kBesideParts + operands + sums * 4 + (has_edges ? kBesideEdges : 0);
}

/// Clock cycles of a product, roughly: what a multiprocessor can take in from the L2, what it makes of it, or the memory; and
/// what does not overlap. `size` and dtypes are those of the tile's rows and columns. Not fitted to measurements so far.
double estimate_thin(const Schedule& s, const ThinTile& t, const ProductSize& size, DType left, DType right) {
  constexpr double kStart = 1500, kLatency = 800, kBytesOfCycle = 45, kMemoryBytesOfCycle = 2300, kSplit = 10, kProductCycles = 2, kMeet = 400;
  constexpr std::int64_t kRegisters = 65536, kMostOfThread = 255, kManyRegisters = 168, kMostResident = 2048;
  const std::int64_t registers = count_registers(t, size, left, right), threads = t.warps * kWarp;
  const std::int64_t fits = std::min(kRegisters / (registers * threads), kMostResident / threads);
  const double slower = fits < 1 || registers > kMostOfThread ? 3 : registers > kManyRegisters ? 1.2 : 1;  // spills, or close to it
  const std::int64_t tiles = divide_up(size.rows, t.rows()) * divide_up(size.columns, t.columns()) * size.batch;
  const double of_sm = static_cast<double>(divide_up(tiles, s.target().workers));
  const double rounds = std::ceil(static_cast<double>(tiles) / static_cast<double>(s.target().workers * std::max<std::int64_t>(1, fits)));
  const auto k = static_cast<double>(size.summands), rows = static_cast<double>(t.rows()), columns = static_cast<double>(t.columns());
  const double take_in = (rows * size_bytes(left) + columns * size_bytes(right)) * k / kBytesOfCycle;
  const double split = ((is_f32(left) ? rows : 0) + (is_f32(right) ? columns : 0)) * k * kSplit / 128;
  const double pairs = is_f32(left) && is_f32(right) ? 6 : is_f32(left) || is_f32(right) ? 3 : 1;
  const double multiply = rows * columns * k * pairs / (kTileRows * kTileColumns * 16) * kProductCycles + (pairs > 1 ? rows * columns * k / kSlab * 3 / 128 : 0);
  const double batches = std::ceil(k / static_cast<double>(kSlab * t.loads * t.warps));
  const double memory = static_cast<double>(size.batch) * k * (static_cast<double>(size.rows) * size_bytes(left) + static_cast<double>(size.columns) * size_bytes(right)) / kMemoryBytesOfCycle;
  const double leave = rows * columns * static_cast<double>(t.warps) / 32 + kMeet;
  // Few warps wait for their own results. What a warp loads it multiplies afterwards: others fill the time in between, if any.
  const double resident = std::min(of_sm, static_cast<double>(std::max<std::int64_t>(1, fits)));
  const auto active = static_cast<double>(std::min(t.warps, divide_up(size.summands, kSlab * t.loads)));
  const double work = (split + multiply) / std::min(1.0, 0.3 + 0.175 * resident * active / 4);
  const double busy = of_sm * (std::max(take_in, work) + 0.5 * std::min(take_in, work)) + rounds * batches * kLatency;
  constexpr double kNotHidden = 0.2;  ///< of what is quicker
  return (kStart + std::max(memory, busy) + kNotHidden * std::min(memory, busy) + rounds * leave) * slower;
}

double estimate_thin(const Schedule& s, const ThinTile& t, const std::vector<ProductSize>& sizes, const ThinOperands& o) {
  double cycles = 0;
  for (ProductSize size : sizes) {
    if (t.swapped) std::swap(size.rows, size.columns);
    cycles += std::log(estimate_thin(s, t, size, t.swapped ? o.right : o.left, t.swapped ? o.left : o.right));
  }
  return std::exp(cycles / static_cast<double>(sizes.size()));
}

constexpr std::int64_t kTall[] = {1, 2, 3, 4}, kWide[] = {1, 2, 3, 4, 6, 8}, kWarps[] = {16, 8, 4}, kLoads[] = {4, 2, 1, 8};

ThinTile guess_thin(const Schedule& s, const std::vector<ProductSize>& sizes, const ThinOperands& o) {
  ThinTile best;
  double least = 0;
  for (const bool swapped : {false, true})
    for (const std::int64_t tall : kTall)
      for (const std::int64_t wide : kWide)
        for (const std::int64_t warps : kWarps)
          for (const std::int64_t loads : kLoads) {
            const ThinTile t{swapped, tall, wide, warps, loads};
            const double cycles = estimate_thin(s, t, sizes, o);
            if (least > 0 && cycles >= least) continue;
            least = cycles;
            best = t;
          }
  return best;
}

template <std::size_t N>
std::vector<std::int64_t> choices(const std::int64_t (&values)[N], std::int64_t first) {
  return put_first(first, {values, values + N});
}

}  // namespace

bool suits_thin(const Schedule& s) { return find_thin(s).has_value(); }

bool gains_by_thin(const Schedule& s) {
  const auto o = find_thin(s);
  if (!o) return false;
  const std::vector<ProductSize> sizes = sample_sizes(s, o->product);
  if (suits_tensor_cores(s)) {
    // A ring has a block for 64 lines of the long side: where these are few for the multiprocessors, sums that warps share out
    // are quicker.
    constexpr std::int64_t kLinesOfRing = 64, kFew = 4;
    const bool is_thin = std::min(sizes.back().rows, sizes.back().columns) <= kThin;
    return is_thin && divide_up(std::max(sizes[0].rows, sizes[0].columns), kLinesOfRing) * kFew * sizes[0].batch <= s.target().workers;
  }
  const double cycles = estimate_thin(s, guess_thin(s, sizes, *o), sizes, *o);
  // What is estimated of plain tiles is low where one side is thin: by 0 to 70 % on an H200 (the tables of f32 products).
  constexpr double kPlainIsLow = 1.25;
  return cycles < estimate_plain_product(s, sizes) * kPlainIsLow && !(o->product.group.empty() && suits_parts(s) && estimate_product_of_parts(s, sizes) < cycles);
}

void schedule_thin_product(Schedule& s, Space& k) {
  const auto found = find_thin(s);
  if (!found) return s.reject("no thin product");
  const std::vector<ProductSize> sizes = sample_sizes(s, found->product);
  ThinTile t = guess_thin(s, sizes, *found);
  if (k.pick_flag("aligned", true)) s.assume_alignment(16);
  t.swapped = k.pick_flag("swap", t.swapped);
  t.tall = k.pick("tall", choices(kTall, t.tall));
  t.wide = k.pick("wide", choices(kWide, t.wide));
  t.warps = k.pick("warps", choices(kWarps, t.warps));
  t.loads = k.pick("loads", choices(kLoads, t.loads));
  constexpr std::int64_t kMostRegisters = 300;  // what is counted is rough; beyond that most of a tile lies in memory
  ProductSize size = sizes[0];
  if (t.swapped) std::swap(size.rows, size.columns);
  if (count_registers(t, size, t.swapped ? found->right : found->left, t.swapped ? found->left : found->right) > kMostRegisters) return s.reject("more registers than a thread has");
  schedule_thin(s, t, *found);
}

}  // namespace loopwright::schedules
