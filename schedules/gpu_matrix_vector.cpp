// GPU: products with a few rows or columns on one side. The other operand, the matrix, is streamed once along its memory,
// many loads of a thread under way before the first use; the few vectors come from the caches. Where the memory runs along
// the sum, threads side by side hold partial sums of the same lines and exchange them. Where it runs along the lines, threads
// side by side hold neighbouring lines, threads above each other take summands in turn and meet in shared memory.
#include <algorithm>

#include "schedules/families.h"
#include "schedules/gpu_nests.h"
#include "schedules/nests.h"

namespace loopwright::schedules {
namespace {

constexpr std::int64_t kMostVectors = 8;     ///< where tensor cores begin to win was not measured
constexpr std::int64_t kMostApart = 128;     ///< vectors of a thread that stand apart in the code
constexpr std::int64_t kMostDown = 128;      ///< threads whose partial sums one thread adds up
constexpr std::int64_t kMostPartials = 12288;

/// The one product: an update that sums, over one loop, a matrix times vectors.
struct Streamed {
  NestInfo nest;
  std::size_t line = 0;  ///< position of the matrix' lines among the loops of the result
  LoopId reduction;
  std::int64_t vectors = 1;
  bool is_dot = false;   ///< the matrix' memory runs along the reduction
  bool is_down = false;  ///< ... along its lines
};

std::optional<Streamed> find_streamed(const Schedule& s) {
  const std::vector<NestInfo> sums = main_updates(s);
  if (sums.size() != 1 || outputs(s).size() != 1 || find_groups(s)) return std::nullopt;
  Streamed p{.nest = sums[0]};
  const NestInfo& n = p.nest;
  if (n.monoid != "sum" || n.reduction.size() != 1 || n.reads.size() < 2 || n.spatial.empty()) return std::nullopt;
  p.reduction = n.reduction[0];
  for (std::size_t i = 1; i < n.spatial.size(); ++i)
    if (s.max_extent(n.spatial[i]) >= s.max_extent(n.spatial[p.line])) p.line = i;
  for (std::size_t i = 0; i < n.spatial.size(); ++i) {
    if (i == p.line) continue;
    const auto extent = s.constant_extent(n.spatial[i]);
    if (!extent) return std::nullopt;
    p.vectors *= *extent;
  }
  if (p.vectors > kMostVectors) return std::nullopt;
  const auto matrix = std::find_if(n.reads.begin(), n.reads.end(), [&](const ReadInfo& r) { return has_loop(r, n.spatial[p.line]) && has_loop(r, p.reduction); });
  if (matrix == n.reads.end()) return std::nullopt;
  p.is_down = ends_in(*matrix, n.spatial[p.line]) && s.constant_extent(n.spatial[p.line]).has_value();
  p.is_dot = ends_in(*matrix, p.reduction);
  return p;
}

/// How a block streams its lines.
struct Lines {
  std::int64_t threads = 32;  ///< of one line
  std::int64_t groups = 8;    ///< of threads, above each other
  std::int64_t each = 1;      ///< lines of a group
  std::int64_t width = 8;     ///< summands of a vector
  std::int64_t unrolled = 4;  ///< vectors of a line in flight
};

/// Loops of the nest below `outer`, which is around it.
std::vector<LoopId> loops_below(const NestInfo& n, const LoopId& outer) {
  const auto at = std::find(n.loops.begin(), n.loops.end(), outer);
  return at == n.loops.end() ? n.loops : std::vector<LoopId>(at + 1, n.loops.end());
}

void unroll_nested(Schedule& s, const std::vector<LoopId>& loops) {
  for (const LoopId& l : loops)
    if (s.ok()) s.unroll(l);
}

void reorder_all(Schedule& s, const std::vector<LoopId>& order) {
  if (order.size() > 1) s.reorder(order);
}

/// Threads of a group hold partial sums of the lines and vectors, which lie in `group`'s body.
void sum_lines(Schedule& s, const std::string& sums, const LoopId& group, const LoopId& reduction, const Lines& l) {
  std::vector<LoopId> kept = loops_below(nest_of(s, sums), group);
  std::erase(kept, reduction);
  std::vector<LoopId> order{reduction};
  order.insert(order.end(), kept.begin(), kept.end());
  reorder_all(s, order);
  const std::vector<LoopId> r = s.reduce_across(reduction, l.threads * l.width, true, Place::registers);
  if (!s.ok()) return;
  const std::string partial = buffer_at(s, r[0]);
  const std::vector<LoopId> combined = loops_below(nest_with(s, r[2]), group);

  // Thread outside, then its vectors, the lines and vectors of each, then the lanes.
  const std::vector<LoopId> way = s.split(r[0], {l.width});
  if (!s.ok()) return;
  order = {way[0], r[1]};
  order.insert(order.end(), kept.begin(), kept.end());
  order.push_back(way[1]);
  reorder_all(s, order);
  s.bind(way[0], Axis::thread_x);
  unroll_nested(s, kept);
  if (!s.ok()) return;
  l.width > 1 ? s.vectorize(way[1]) : s.unroll(way[1]);
  const std::vector<LoopId> rounds = s.split(r[1], {l.unrolled});
  if (!s.ok()) return;
  s.unroll(rounds[1]);

  std::vector<LoopId> zero = loops_below(init_of(s, partial), group);
  if (zero.empty()) return s.reject("no nest that begins the partial sums");
  const std::vector<LoopId> zeros = s.split(zero[0], {l.width});
  if (!s.ok()) return;
  zero[0] = zeros[1];
  s.bind(zeros[0], Axis::thread_x);
  unroll_nested(s, zero);

  order = combined;
  std::erase(order, r[2]);
  const std::vector<LoopId> each = order;
  order.push_back(r[2]);
  reorder_all(s, order);
  if (!s.ok()) return;
  combine_threads(s, r[2], {.threads = l.threads});
  unroll_nested(s, each);
}

/// The nest of the result with the lines' loop in front; returns its loops over lines and vectors.
std::vector<LoopId> put_lines_first(Schedule& s, const Streamed& p) {
  const NestInfo last = outputs(s).back();
  std::vector<LoopId> order(last.loops.begin(), last.loops.begin() + static_cast<std::ptrdiff_t>(p.nest.spatial.size()));
  std::rotate(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(p.line), order.begin() + static_cast<std::ptrdiff_t>(p.line) + 1);
  reorder_all(s, order);
  return order;
}

/// Moves the sums into `loop` of the result's nest; returns the buffer that they lie in there.
std::string move_sums(Schedule& s, const Streamed& p, const LoopId& loop) {
  const bool is_result = p.nest.writes_output;
  for (const std::string& buffer : intermediates_backwards(s)) s.attempt([&](Schedule& t) { t.compute_at(buffer, loop, Place::registers); });
  if (!is_result) return p.nest.buffer;
  s.hold(p.nest.buffer, loop, Place::registers);
  return s.ok() ? buffer_at(s, p.reduction) : "";
}

void schedule_dots(Schedule& s, const Streamed& p, const Lines& l) {
  const std::string result = outputs(s).back().buffer;
  const std::vector<LoopId> loops = put_lines_first(s, p);
  const std::vector<LoopId> parts = s.split(loops[0], {l.groups, l.each});
  if (!s.ok()) return;
  s.bind(parts[0], Axis::grid_x);
  s.bind(parts[1], Axis::thread_y);
  const std::string sums = move_sums(s, p, parts[1]);
  if (!s.ok()) return;
  sum_lines(s, sums, parts[1], p.reduction, l);
  for (const NestInfo& n : s.nests()) {
    if (n.is_update || (n.buffer != sums && n.buffer != result)) continue;
    unroll_each(s, loops_below(n, parts[1]));
  }
}

/// How a block streams neighbouring lines.
struct Tile {
  std::int64_t across = 8;    ///< threads side by side
  std::int64_t down = 32;     ///< threads above each other
  std::int64_t width = 8;     ///< lines of a vector
  std::int64_t unrolled = 8;  ///< vectors of a thread in flight
};

/// One line of a tile a thread: `line` is the loop over them, `rest` the loops inside.
void share_results(Schedule& s, const LoopId& line, const std::vector<LoopId>& rest, const Tile& t) {
  if (!s.ok()) return;
  const std::vector<LoopId> parts = s.split(line, {t.across});
  if (!s.ok()) return;
  s.bind(parts[0], Axis::thread_y);
  s.bind(parts[1], Axis::thread_x);
  unroll_nested(s, rest);
}

void schedule_down(Schedule& s, const Streamed& p, const Tile& t) {
  const std::string result = outputs(s).back().buffer;
  const std::vector<LoopId> loops = put_lines_first(s, p);
  const std::vector<LoopId> parts = s.split(loops[0], {t.across * t.width});
  if (!s.ok()) return;
  const std::string sums = move_sums(s, p, parts[0]);
  if (!s.ok()) return;
  std::vector<LoopId> kept = loops_below(nest_of(s, sums), parts[0]);
  std::erase(kept, p.reduction);
  if (kept.size() != p.nest.spatial.size()) return s.reject("the tile's loops are not those of the result");
  const std::vector<LoopId> lines = s.split(kept[p.line], {t.width});
  if (!s.ok()) return;
  kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(p.line));
  std::vector<LoopId> order{p.reduction, lines[0]};
  order.insert(order.end(), kept.begin(), kept.end());
  order.push_back(lines[1]);
  s.reorder(order);
  const std::vector<LoopId> r = s.reduce_across(p.reduction, t.down, true, Place::shared);
  if (!s.ok()) return;
  std::vector<LoopId> combined = loops_below(nest_with(s, r[2]), parts[0]);
  const std::string partial = buffer_at(s, r[0]);
  order = {r[0], lines[0], r[1]};
  order.insert(order.end(), kept.begin(), kept.end());
  order.push_back(lines[1]);
  s.reorder(order);
  const std::vector<LoopId> back = s.hold(partial, lines[0], Place::registers);
  if (!s.ok()) return;
  s.bind(r[0], Axis::thread_y);
  s.bind(lines[0], Axis::thread_x);
  unroll_nested(s, kept);
  if (s.ok()) s.vectorize(lines[1]);
  for (const LoopId& loop : back) s.attempt([&](Schedule& u) { loop == back.back() ? u.vectorize(loop) : u.unroll(loop); });
  const std::string held = buffer_at(s, r[1]);
  if (const NestInfo zero = init_of(s, held); !zero.loops.empty()) unroll_each(s, loops_below(zero, lines[0]));
  const std::vector<LoopId> rounds = s.split(r[1], {t.unrolled});
  if (!s.ok()) return;
  s.unroll(rounds[1]);

  // Partial sums meet, those of a line in one thread.
  const auto made_from = [&](const LoopId& line) {
    const auto found = std::find_if(combined.begin(), combined.end(), [&](const LoopId& c) { return c.name.starts_with(line.name + "_c"); });
    return found == combined.end() ? LoopId{} : *found;
  };
  const LoopId vector = made_from(lines[0]), lane = made_from(lines[1]);
  if (vector.name.empty()) return s.reject("the lines are no loop of the combination");
  const bool has_lanes = !lane.name.empty();  // a single one leaves no loop
  std::vector<LoopId> vectors = combined;
  std::erase_if(vectors, [&](const LoopId& c) { return c == vector || c == lane || c == r[2]; });
  order = {vector};
  if (has_lanes) order.push_back(lane);
  order.insert(order.end(), vectors.begin(), vectors.end());
  order.push_back(r[2]);
  s.reorder(order);
  const std::vector<LoopId> rounds_met = s.split(r[2], {std::min<std::int64_t>(t.down, 32)});
  if (!s.ok()) return;
  s.unroll(rounds_met[1]);
  share_results(s, has_lanes ? s.fuse(vector, lane) : vector, vectors, t);
  for (const NestInfo& n : s.nests()) {
    if (!s.ok() || n.is_update || (n.buffer != sums && n.buffer != result)) continue;
    order = loops_below(n, parts[0]);
    // The nest that computes the result has its lines in front already; the others lie as the result does.
    const std::size_t at = n.buffer == sums || p.nest.writes_output ? p.line : 0;
    if (order.size() <= at) return s.reject("a tile without a loop over its lines");
    const LoopId line = order[at];
    std::erase(order, line);
    order.insert(order.begin(), line);
    reorder_all(s, order);
    share_results(s, line, {order.begin() + 1, order.end()}, t);
  }
  s.bind(parts[0], Axis::grid_x);
}

void pick_dots(Schedule& s, Space& k, const Streamed& p, std::int64_t width) {
  Lines l;
  l.width = width;
  const std::int64_t vectors = (s.max_extent(p.reduction) + width - 1) / width;  // of a line
  std::int64_t guess = 32;
  while (guess < 256 && vectors > guess * 16) guess *= 2;
  std::vector<std::int64_t> threads{guess};
  for (const std::int64_t t : {32, 64, 128, 256, 16, 8})
    if (t != guess && t <= std::max<std::int64_t>(8, vectors)) threads.push_back(t);
  l.threads = k.pick("threads", threads);
  l.groups = k.pick("block", {256, 128, 512}) / l.threads;
  l.each = k.pick("lines", p.vectors <= 2 ? std::vector<std::int64_t>{2, 1, 4} : std::vector<std::int64_t>{1, 2});
  std::vector<std::int64_t> unrolled;
  for (const std::int64_t u : {4, 8, 2, 16, 1})
    if (u * l.each * p.vectors <= kMostApart) unrolled.push_back(u);
  l.unrolled = std::min(k.pick("vectors", unrolled), std::max<std::int64_t>(1, (vectors + l.threads - 1) / l.threads));
  if (l.groups < 1) return s.reject("more threads a line than a block has");
  schedule_dots(s, p, l);
}

/// Threads side by side over the lines, the best guess first: as many blocks as there are multiprocessors, but rows of at
/// least a sector. Empty where a tile cannot be shared out: vectors of one line, fewer lines than a tile, and sums that are the
/// result itself and leave a partial tile.
std::vector<std::int64_t> tile_choices(const Schedule& s, const Streamed& p, std::int64_t width) {
  const std::int64_t lines = s.max_extent(p.nest.spatial[p.line]);
  std::int64_t guess = 16;
  while (guess > 2 && lines < s.target().workers * guess * width) guess /= 2;
  std::vector<std::int64_t> out{guess};
  for (const std::int64_t a : {8, 4, 16, 32, 2})
    if (a != guess) out.push_back(a);
  std::erase_if(out, [&](std::int64_t a) { return width == 1 || a * width > lines || (p.nest.writes_output && lines % (a * width) != 0); });
  return out;
}

/// Elements of a vector along the matrix' memory.
std::int64_t find_width(const Schedule& s, const Streamed& p) {
  NestInfo along = p.nest;
  const LoopId memory = p.is_dot ? p.reduction : p.nest.spatial[p.line];
  along.loops = {memory};
  return s.constant_extent(memory) ? natural_width(s, along, memory) : 1;
}

void pick_down(Schedule& s, Space& k, const Streamed& p, std::int64_t width) {
  Tile t;
  t.width = width;
  const std::vector<std::int64_t> across = tile_choices(s, p, width);
  if (across.empty()) return s.reject("no tile of lines");
  t.across = k.pick("across", across);
  t.down = std::min(k.pick("block", {256, 512, 128}) / t.across, kMostDown);
  t.unrolled = k.pick("vectors", {8, 4, 16, 2});
  if (t.width > t.down) return s.reject("fewer threads than lines of a tile");
  if (t.down * p.vectors * t.across * t.width > kMostPartials) return s.reject("more partial sums than a block's shared memory holds");
  schedule_down(s, p, t);
}

}  // namespace

bool is_gpu_matrix_vector(const Schedule& s) {
  const auto p = find_streamed(s);
  if (!p) return false;
  // One vector along the memory is a row reduction, and that family was measured.
  return p->is_dot ? p->vectors > 1 : p->is_down && !tile_choices(s, *p, find_width(s, *p)).empty();
}

void schedule_gpu_matrix_vector(Schedule& s, Space& k) {
  if (k.pick_flag("aligned", true)) s.assume_alignment(16);
  inline_thin_sums(s);
  inline_intermediates(s);
  const auto p = find_streamed(s);
  if (!s.ok() || !p || !(p->is_dot || p->is_down)) return s.reject("not one matrix, streamed along its memory, times a few vectors");
  const std::int64_t width = find_width(s, *p);
  p->is_dot ? pick_dots(s, k, *p, width) : pick_down(s, k, *p, width);
}

}  // namespace loopwright::schedules
