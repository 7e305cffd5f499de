#include "src/schedule/steps/stage.h"

#include <algorithm>
#include <numeric>

#include "src/schedule/tile.h"

namespace loopwright::schedule {

using ir::as;
using ir::Expr;
using ir::Stmt;
using ir::Var;

namespace {

constexpr ErrorCode kStageCode = ErrorCode::illegal_stage;
constexpr std::int64_t kMaxTile = 4096;

/// The dimensions of the copy: of the region in `order`, then the tiles in the same order.
struct Layout {
  std::vector<std::size_t> order;
  std::vector<std::int64_t> tiles;  ///< one a dimension of the buffer, 1 = none
  Region region;
};

Result<Layout> make_layout(const Stage& step, const ir::Buffer& buffer) {
  const std::size_t rank = buffer->shape.size();
  const std::string dims = std::to_string(rank) + " dimensions of `" + buffer->name + "`";
  Layout layout;
  layout.order.resize(rank);
  std::iota(layout.order.begin(), layout.order.end(), std::size_t{0});
  if (!step.order.empty()) {
    std::vector<int> sorted = step.order;
    std::sort(sorted.begin(), sorted.end());
    bool permutation = sorted.size() == rank;
    for (std::size_t d = 0; permutation && d < rank; ++d) permutation = sorted[d] == static_cast<int>(d);
    if (!permutation)
      return rejected(ErrorCode::bad_argument, "the order is no permutation of the " + dims, {},
                      "each dimension once");
    layout.order.assign(step.order.begin(), step.order.end());
  }
  layout.tiles.assign(rank, 1);
  if (!step.tiles.empty()) {
    if (step.tiles.size() != rank)
      return rejected(ErrorCode::bad_argument, std::to_string(step.tiles.size()) + " tiles for the " + dims,
                      {}, "one tile a dimension, 1 for none");
    for (const std::int64_t t : step.tiles)
      if (t < 1 || t > kMaxTile)
        return rejected(ErrorCode::bad_argument, "a tile of " + std::to_string(t), {},
                        "tiles from 1 to 4096");
    layout.tiles = step.tiles;
  }
  return layout;
}

bool is_tiled(const Layout& layout) {
  return std::any_of(layout.tiles.begin(), layout.tiles.end(), [](std::int64_t t) { return t > 1; });
}

Error reject_written(const ir::Kernel& k, const Access& a) {
  return rejected(kStageCode, "`" + a.buffer->name + "` is written there as well", k, a.statement,
                  "hold, or a loop of a nest that only reads `" + a.buffer->name + "`");
}

/// Every element of the buffer holds a value in front of the reader, and nobody changes it meanwhile.
Status check_source(const ir::Kernel& k, const ir::Buffer& buffer, const Site& site, const Stmt& reader) {
  Stmt outermost = reader;
  for (const Stmt& s : site.path)
    if (as<ir::Loop>(s)) {
      outermost = s;
      break;
    }
  for (const Access& a : collect_accesses(outermost))
    if (a.buffer == buffer && a.writes() && !a.local) return reject_written(k, a);
  for (const ir::Param& p : k.params) {
    if (p.buffer != buffer) continue;
    if (p.role != ArgRole::output) return Unit{};
    return rejected(kStageCode, "`" + buffer->name + "` is an output, which may not be written in full before", k,
                    reader, "an input or an intermediate");
  }
  const auto alloc = find_alloc(k, buffer->name);
  if (alloc && is_fully_written(k, *alloc, reader)) return Unit{};
  return rejected(kStageCode, "no single nest writes all of `" + buffer->name + "` before", k, reader,
                  "an input, or an intermediate that one nest computes");
}

/// Where the body's index lands in the copy.
IndexMap layout_index(const Layout& layout) {
  return [layout](const std::vector<Expr>& index, const ir::Facts& facts) {
    const std::vector<Expr> relative = relative_to(layout.region)(index, facts);
    std::vector<Expr> out;
    for (const std::size_t d : layout.order)
      out.push_back(layout.tiles[d] == 1
                        ? relative[d]
                        : ir::simplify(ir::floor_div(relative[d], ir::int_imm(layout.tiles[d])), facts));
    for (const std::size_t d : layout.order)
      if (layout.tiles[d] != 1)
        out.push_back(ir::simplify(ir::mod(relative[d], ir::int_imm(layout.tiles[d])), facts));
    return out;
  };
}

std::vector<Expr> layout_shape(const Layout& layout, const ir::Facts& facts) {
  std::vector<Expr> shape;
  for (const std::size_t d : layout.order)
    shape.push_back(
        layout.tiles[d] == 1
            ? layout.region[d].extent
            : ir::simplify(ir::ceil_div(layout.region[d].extent, ir::int_imm(layout.tiles[d])), facts));
  for (const std::size_t d : layout.order)
    if (layout.tiles[d] != 1) shape.push_back(ir::int_imm(layout.tiles[d]));
  return shape;
}

/// What must hold so that the loads inside an index stay within their buffers: the copy stands in front of the reader's conditions.
/// Of loads inside an index of a load the inner come first.
std::vector<Expr> list_load_bounds(const Expr& index) {
  std::vector<const ir::Load*> loads;
  ir::walk(index, [&](const Expr& e) {
    if (const auto* l = as<ir::Load>(e)) loads.push_back(l);
  });
  std::vector<Expr> bounds;
  for (auto l = loads.rbegin(); l != loads.rend(); ++l)
    for (std::size_t d = 0; d < (*l)->index.size(); ++d) {
      bounds.push_back(ir::lt(ir::int_imm(-1), (*l)->index[d]));
      bounds.push_back(ir::lt((*l)->index[d], (*l)->buffer->shape[d]));
    }
  return bounds;
}

/// for p: copy[p] = buffer[base + position of p], or zero where that is beyond the region or the buffer. `rounded`: to tf32.
Stmt make_copy(const ir::Buffer& buffer, const ir::Buffer& copy, bool rounded, const Layout& layout,
               const std::vector<Var>& loops, ir::Facts facts) {
  for (std::size_t i = 0; i < loops.size(); ++i) facts.bind_loop(loops[i], copy->shape[i]);
  std::vector<Expr> index(layout.region.size()), target;
  std::vector<Expr> conditions;
  const auto require = [&](const Expr& condition) {
    if (facts.proves(condition)) return;
    conditions.push_back(condition);
    facts.assume(condition);
  };
  for (const Range& r : layout.region)
    for (const Expr& bound : list_load_bounds(r.base)) require(bound);
  std::size_t next_tile = layout.order.size();
  for (std::size_t i = 0; i < layout.order.size(); ++i) {
    const std::size_t d = layout.order[i];
    Expr position = ir::var(loops[i]);
    if (layout.tiles[d] != 1)
      position = position * ir::int_imm(layout.tiles[d]) + ir::var(loops[next_tile++]);
    const Range& r = layout.region[d];
    require(ir::lt(position, r.extent));
    index[d] = r.whole ? position : r.base + position;
    if (r.exceeds) require(ir::lt(index[d], buffer->shape[d]));
  }
  for (const Var& v : loops) target.push_back(ir::var(v));
  Expr value = ir::cast(ir::load(buffer, index), copy->dtype);
  if (rounded) value = ir::unary(ir::UnaryOp::round_tf32, value);
  if (const Expr inside = conjunction(conditions))
    value = ir::select(inside, value, ir::constant(0, copy->dtype));
  Stmt s = ir::store(copy, target, value);
  for (std::size_t i = loops.size(); i-- > 0;) s = ir::loop(loops[i], copy->shape[i], s);
  return s;
}

/// Tensor cores take whole tiles: what is staged for them is padded with zeros.
bool feeds_fragment(const Stmt& body) {
  const std::vector<ir::Buffer> written = ir::buffers_of(body).written;
  return std::any_of(written.begin(), written.end(), [](const ir::Buffer& b) { return b->memory == ir::Memory::fragment; });
}

/// The body with a buffer of the casts' dtype in place of `buffer` and the casts around its reads; or with one of the same
/// dtype, where all of them are rounded to tf32.
struct Converted {
  ir::Buffer buffer;
  Stmt body;
  bool rounded = false;
};
Result<Converted> convert_reads(const ir::Kernel& k, const Stmt& body, const ir::Buffer& buffer) {
  Converted out{nullptr, nullptr};
  bool several = false;
  out.body = ir::rewrite(body, [&](const Expr& e) {
    const auto* c = as<ir::Cast>(e);
    const auto* u = as<ir::Unary>(e);
    const bool rounds = u != nullptr && u->op == ir::UnaryOp::round_tf32;
    const auto* l = c != nullptr ? as<ir::Load>(c->a) : rounds ? as<ir::Load>(u->a) : nullptr;
    if (l == nullptr || l->buffer != buffer) return e;
    if (out.buffer == nullptr) {
      ir::BufferInfo info = *buffer;
      info.dtype = e->dtype;
      out.buffer = std::make_shared<const ir::BufferInfo>(std::move(info));
      out.rounded = rounds;
    }
    several = several || out.buffer->dtype != e->dtype || out.rounded != rounds;
    return several ? e : ir::load(out.buffer, l->index);
  }, [](const Stmt& s) { return s; });
  for (const Access& a : collect_accesses(out.body))
    if (a.buffer == buffer || several)
      return rejected(kStageCode, several ? "reads of `" + buffer->name + "` are cast to several dtypes"
                                     : "`" + buffer->name + "` is read without a cast", k, a.statement,
                      "reads that all go through a cast to one dtype, or the copy without `converted`");
  return out;
}

/// The part of the kernel that reads a copy of a whole buffer.
struct Span {
  Stmt old;                  ///< a sequence of the kernel: `before` and `body` together
  std::vector<Stmt> before;  ///< up to the nest that computes an intermediate; nothing for a parameter
  Stmt body;
};

Result<Span> find_span(const ir::Kernel& k, const ir::Buffer& buffer) {
  const auto alloc = find_alloc(k, buffer->name);
  if (!alloc) return Span{k.body, {}, k.body};
  for (const Stmt& s : alloc->path)
    if (as<ir::Loop>(s))
      return rejected(kStageCode, "`" + buffer->name + "` is allocated inside a loop", k, s, "that loop");
  Stmt at = std::get<ir::Alloc>(alloc->stmt()->v).body;
  while (true) {
    std::vector<ir::Buffer> ignored;
    Span span{under_allocs(at, ignored), {}, {}};
    const std::vector<Stmt> items = items_of(span.old);
    std::size_t behind = 0;
    for (std::size_t i = 0; i < items.size(); ++i) {
      const ir::Accesses found = ir::buffers_of(items[i]);
      if (std::find(found.written.begin(), found.written.end(), buffer) != found.written.end()) behind = i + 1;
    }
    // Buffers that were allocated since enclose everything behind them.
    if (behind > 0 && as<ir::Alloc>(items[behind - 1])) {
      at = std::get<ir::Alloc>(items[behind - 1]->v).body;
      continue;
    }
    const auto middle = items.begin() + static_cast<std::ptrdiff_t>(behind);
    span.before.assign(items.begin(), middle);
    span.body = ir::seq({middle, items.end()});
    return span;
  }
}

}  // namespace

Result<Applied> apply(const ir::Kernel& k, const Stage& step) {
  LW_TRY(const ir::Buffer buffer, require_buffer(k, step.buffer));
  LW_TRY(Layout layout, make_layout(step, buffer));
  Site site;
  Span span;
  if (!step.loop.empty()) {
    LW_TRY(site, require_loop(k, step.loop));
    LW_CHECK(require_room(k, site, step.place, kStageCode));
  } else if (step.place != Place::global) {
    return rejected(kStageCode, "the whole kernel cannot share private memory", {}, "place global, or a loop");
  } else {
    LW_TRY(span, find_span(k, buffer));
  }
  const Stmt body = step.loop.empty() ? span.body : site.loop().body;
  const ir::Facts facts = step.loop.empty() ? ir::Facts(k) : facts_inside(k, site);
  std::vector<Access> reads;
  for (const Access& a : collect_accesses(body)) {
    if (a.buffer != buffer) continue;
    if (a.local)
      return rejected(kStageCode, "`" + buffer->name + "` is allocated inside", k, a.statement,
                      "a loop inside its allocation");
    if (a.writes()) return reject_written(k, a);
    reads.push_back(a);
  }
  if (reads.empty())
    return rejected(kStageCode, "the body does not read `" + buffer->name + "`", k,
                    step.loop.empty() ? body : site.stmt(), "a loop around its reads");
  LW_CHECK(check_source(k, buffer, site, step.loop.empty() ? body : site.stmt()));

  layout.region = region_of(reads, {buffer}, facts, true, feeds_fragment(body));
  Converted source{buffer, body};
  if (step.converted) {
    LW_TRY(source, convert_reads(k, body, buffer));
  }
  Names names(k);
  LW_TRY(const ir::Buffer copy,
         make_local(source.buffer, names.take(buffer->name + (is_tiled(layout) ? "_packed" : "_staged")),
                    layout_shape(layout, facts), step.place, kStageCode));
  std::vector<Var> loops;
  for (std::size_t i = 0; i < copy->shape.size(); ++i)
    loops.push_back(names.var(copy->name + "_" + std::to_string(i)));
  const Stmt moved = redirect(source.body, facts, {{source.buffer, copy}}, layout_index(layout));
  const Stmt inside = ir::alloc(copy, ir::seq({make_copy(buffer, copy, source.rounded, layout, loops, facts), moved}));
  Applied out{k, {}};
  if (step.loop.empty()) {
    span.before.push_back(inside);
    out.kernel = edit(k, {{span.old.get(), ir::seq(span.before)}});
  } else {
    out.kernel = edit(k, {{site.stmt().get(), with_body(site.stmt(), inside)}});
  }
  out.kernel = drop_guards(std::move(out.kernel));
  for (const Var& v : loops) out.made.push_back(v.hint);
  return out;
}

}  // namespace loopwright::schedule
