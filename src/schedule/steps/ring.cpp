#include "src/schedule/steps/ring.h"

#include <algorithm>

#include "src/schedule/engine_copy.h"
#include "src/schedule/tile.h"

namespace loopwright::schedule {

using ir::as;
using ir::Expr;
using ir::Stmt;

namespace {

constexpr ErrorCode kNoRing = ErrorCode::illegal_ring;
constexpr std::int64_t kMostSlots = 16;

bool is_fragment(const ir::Buffer& b) { return b->memory == ir::Memory::fragment; }

/// The first statement outside of mma loops that is more than arithmetic on fragments; null when there is none.
Stmt find_other_work(const Stmt& s) {
  if (const auto* l = as<ir::Loop>(s); l && l->kind == ir::LoopKind::mma) return nullptr;
  if (as<ir::Store>(s) || as<ir::Update>(s)) {
    const ir::Accesses found = ir::buffers_of(s);
    const bool inside = std::all_of(found.read.begin(), found.read.end(), is_fragment) && std::all_of(found.written.begin(), found.written.end(), is_fragment);
    return inside ? nullptr : s;
  }
  if (const auto* a = as<ir::Alloc>(s); a != nullptr && !is_fragment(a->buffer)) return s;
  Stmt found;
  ir::map_children(s, [](const Expr& e) { return e; }, [&](const Stmt& child) {
    if (!found) found = find_other_work(child);
    return child;
  });
  return found;
}

}  // namespace

Result<Applied> apply(const ir::Kernel& k, const Ring& step) {
  if (step.depth < 2 || step.depth > kMostSlots)
    return rejected(ErrorCode::bad_argument, "a depth of " + std::to_string(step.depth), {}, "2 to 16 slots");
  LW_TRY(const Site site, require_serial(k, step.loop));
  const ir::Loop& l = site.loop();
  Stmt rest = l.body;
  const std::vector<StagedCopy> copies = take_copies(rest);
  if (copies.empty()) return rejected(kNoRing, "the body does not begin with copies to shared memory", k, site.stmt(), "stage at " + step.loop + " in shared first");
  if (const Stmt other = find_other_work(rest))
    return rejected(kNoRing, "the body does other work than products on tensor cores", k, other, "tensorize the product inside first");
  const ir::Facts facts = facts_inside(k, site);
  for (const StagedCopy& c : copies) {
    const auto* nest = as<ir::Loop>(c.copy);
    const auto matched = nest ? ir::match_bulk_copy(*nest, facts) : Result<ir::BulkCopy>(Error{ErrorCode::bad_argument, {}, "no loops of a copy", {}, "stage"});
    const std::string obstacle = !matched.ok() ? matched.error().found : matched->tile != c.buffer ? "it fills another buffer" : find_copy_obstacle(k, *matched, facts);
    if (!obstacle.empty())
      return rejected(kNoRing, "the engine cannot fill `" + c.buffer->name + "`: " + obstacle, k, c.copy,
                      "staged tiles of dense 16-bit or f32 parameters with rows of 128 bytes, assume_alignment 16, and rows of the source of a multiple of 16 bytes");
  }
  const Expr slot = ir::mod(ir::var(l.var), ir::int_imm(step.depth));
  std::vector<Stmt> items;
  std::vector<ir::Buffer> rings;
  std::map<ir::Buffer, ir::Buffer> slots;
  for (const StagedCopy& c : copies) {
    ir::BufferInfo info = *c.buffer;
    info.shape.insert(info.shape.begin(), ir::int_imm(step.depth));
    rings.push_back(std::make_shared<const ir::BufferInfo>(std::move(info)));
    slots[c.buffer] = rings.back();
    const auto& nest = std::get<ir::Loop>(c.copy->v);
    items.push_back(ir::loop(nest.var, nest.extent, nest.body, ir::LoopKind::bulk));
  }
  items.push_back(rest);
  const Stmt body = redirect(ir::seq(std::move(items)), facts, slots, [&](const std::vector<Expr>& index, const ir::Facts&) {
    std::vector<Expr> out{slot};
    out.insert(out.end(), index.begin(), index.end());
    return out;
  });
  const Stmt ring = ir::loop(l.var, l.extent, body, ir::LoopKind::ring);
  return Applied{edit(k, {{site.stmt().get(), alloc_all(rings, ring)}}), {}};
}

}  // namespace loopwright::schedule
