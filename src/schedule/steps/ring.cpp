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

bool has_threads(const Stmt& s) {
  bool found = false;
  ir::walk(
      s,
      [&](const Stmt& x) {
        const auto* l = as<ir::Loop>(x);
        found = found || (l != nullptr && l->kind == ir::LoopKind::thread_x);
      },
      [](const Expr&) {});
  return found;
}

/// The body of a loop behind numbers and conditions that hold for all of an iteration (persist makes them).
struct Inside {
  std::vector<Stmt> around;  ///< outermost first
  Stmt body;
};
Inside look_inside(const ir::Loop& l) {
  Inside out{{}, l.body};
  while (true) {
    const auto* let = as<ir::Let>(out.body);
    const auto* condition = as<ir::If>(out.body);
    if (let == nullptr && condition == nullptr) return out;
    out.around.push_back(out.body);
    out.body = let != nullptr ? let->body : condition->then;
  }
}

/// What is left when the body of a loop is replaced, with what is around it.
Stmt put_inside(const Inside& inside, Stmt body) {
  for (auto s = inside.around.rbegin(); s != inside.around.rend(); ++s) {
    const auto* let = as<ir::Let>(*s);
    body = let != nullptr ? ir::let(let->var, let->value, body)
                          : ir::if_then(std::get<ir::If>((*s)->v).condition, body);
  }
  return body;
}

/// Why threads cannot read what the engine fills; empty for nothing.
std::string find_reader_obstacle(const Inside& inside, const std::vector<StagedCopy>& copies,
                                 const Stmt& rest) {
  for (const Stmt& s : inside.around) {
    const auto* let = as<ir::Let>(s);
    if (ir::has_load(let != nullptr ? let->value : std::get<ir::If>(s->v).condition))
      return "the way to the copies is read from memory";
  }
  const std::vector<ir::Buffer> written = ir::buffers_of(rest).written;
  for (const StagedCopy& c : copies)
    if (std::find(written.begin(), written.end(), c.buffer) != written.end())
      return "the body writes `" + c.buffer->name + "` again";
  return {};
}

/// The kernel with the copies (each one a statement of the ring by now) and the rest at slots of rings.
ir::Kernel move_to_slots(const ir::Kernel& k, const Site& site, const Ring& step, const Inside& inside, const ir::Facts& facts, const std::vector<StagedCopy>& copies, const Stmt& rest) {
  const ir::Loop& l = site.loop();
  const Expr slot = ir::mod(ir::var(l.var), ir::int_imm(step.depth));
  std::vector<Stmt> items;
  std::vector<ir::Buffer> rings;
  std::map<ir::Buffer, ir::Buffer> slots;
  for (const StagedCopy& c : copies) {
    ir::BufferInfo info = *c.buffer;
    info.shape.insert(info.shape.begin(), ir::int_imm(step.depth));
    rings.push_back(std::make_shared<const ir::BufferInfo>(std::move(info)));
    slots[c.buffer] = rings.back();
    items.push_back(c.copy);
  }
  items.push_back(rest);
  const Stmt body = redirect(ir::seq(std::move(items)), facts, slots, [&](const std::vector<Expr>& index, const ir::Facts&) {
    std::vector<Expr> out{slot};
    out.insert(out.end(), index.begin(), index.end());
    return out;
  });
  const Stmt ring = ir::loop(l.var, l.extent, put_inside(inside, body), ir::LoopKind::ring);
  return edit(k, {{site.stmt().get(), alloc_all(rings, ring)}});
}

/// Why threads cannot make a copy without waiting for it; empty for nothing.
std::string find_async_obstacle(const StagedCopy& c, const std::vector<ir::Buffer>& written) {
  const Chain chain = chain_of(c.copy);
  const auto* store = as<ir::Store>(chain.leaf);
  if (store == nullptr || store->buffer != c.buffer || !has_threads(c.copy)) return "it is no nest of loops over threads around one store";
  const auto* select = as<ir::Select>(store->value);
  const auto* load = as<ir::Load>(select != nullptr ? select->a : store->value);
  if (load == nullptr || load->buffer->memory != ir::Memory::global) return "it computes or converts what it copies";
  if (select != nullptr && (ir::has_load(select->condition) || !ir::same(select->b, ir::constant(0, select->b->dtype)))) return "it fills in something else than zero";
  if (std::any_of(load->index.begin(), load->index.end(), ir::has_load)) return "it looks up where to read";
  if (std::find(written.begin(), written.end(), load->buffer) != written.end()) return "the loop writes `" + load->buffer->name + "`";
  return {};
}

/// Copies by the threads themselves.
Result<Applied> make_async(const ir::Kernel& k, const Ring& step, const Site& site) {
  const ir::Loop& l = site.loop();
  Stmt rest = l.body;
  std::vector<StagedCopy> copies = take_copies(rest);
  if (copies.empty()) return rejected(kNoRing, "the body does not begin with copies to shared memory", k, site.stmt(), "stage at " + step.loop + " in shared first");
  if (!has_threads(rest)) return rejected(kNoRing, "the rest of the body is not shared out over threads", k, site.stmt(), "bind its loops to thread_x");
  const std::vector<ir::Buffer> written = ir::buffers_of(l.body).written, later = ir::buffers_of(rest).written;
  Names names(k);
  for (StagedCopy& c : copies) {
    std::string obstacle = find_async_obstacle(c, written);
    if (std::find(later.begin(), later.end(), c.buffer) != later.end()) obstacle = "the body writes it again";
    if (!obstacle.empty())
      return rejected(kNoRing, "`" + c.buffer->name + "` cannot be filled ahead: " + obstacle, k, c.copy, "copies of global memory as it is, in loops that are split and bound");
    c.copy = ir::loop(names.var(c.buffer->name + "_async"), ir::int_imm(1), c.copy, ir::LoopKind::async);
  }
  return Applied{move_to_slots(k, site, step, {{}, l.body}, facts_inside(k, site), copies, rest), {}};
}

}  // namespace

Result<Applied> apply(const ir::Kernel& k, const Ring& step) {
  if (step.depth < 2 || step.depth > kMostSlots)
    return rejected(ErrorCode::bad_argument, "a depth of " + std::to_string(step.depth), {}, "2 to 16 slots");
  LW_TRY(const Site site, require_serial(k, step.loop));
  const ir::Loop& l = site.loop();
  if (step.async) return make_async(k, step, site);
  const Inside inside = look_inside(l);
  Stmt rest = inside.body;
  std::vector<StagedCopy> copies = take_copies(rest);
  if (copies.empty())
    return rejected(kNoRing, "the body does not begin with copies to shared memory", k, site.stmt(),
                    "stage at " + step.loop + " in shared first");
  // Threads read slots of rows; products on tensor cores have warps of their own and read nothing else.
  const bool by_threads = ir::feeds_threads({l.var, l.extent, ir::LoopKind::ring, rest}) && has_threads(rest);
  if (const Stmt other = by_threads ? nullptr : find_other_work(rest))
    return rejected(kNoRing, "the body does other work than products on tensor cores", k, other,
                    "tensorize the product inside first, or share out the work over threads");
  if (!by_threads && !inside.around.empty())
    return rejected(kNoRing, "conditions are around the products", k, inside.around[0],
                    "the loop that holds the copies");
  if (const std::string obstacle = by_threads ? find_reader_obstacle(inside, copies, rest) : "";
      !obstacle.empty())
    return rejected(kNoRing, obstacle, k, site.stmt(), "rows at numbers that are computed, and read only");
  ir::Facts facts = facts_inside(k, site);
  for (const Stmt& s : inside.around) {
    if (const auto* let = as<ir::Let>(s)) facts.bind_let(let->var, let->value);
    else facts.assume(std::get<ir::If>(s->v).condition);
  }
  for (StagedCopy& c : copies) {
    const auto* nest = as<ir::Loop>(c.copy);
    const auto matched =
        nest ? ir::match_bulk_copy(*nest, facts)
             : Result<ir::BulkCopy>(Error{ErrorCode::bad_argument, {}, "no loops of a copy", {}, "stage"});
    const std::string obstacle = !matched.ok()               ? matched.error().found
                                 : matched->tile != c.buffer ? "it fills another buffer"
                                 : by_threads                ? find_row_copy_obstacle(k, *matched, facts)
                                                             : find_copy_obstacle(k, *matched, facts);
    if (!obstacle.empty())
      return rejected(kNoRing, "the engine cannot fill `" + c.buffer->name + "`: " + obstacle, k, c.copy,
                      by_threads ? "single rows of parameters that nobody writes, of a multiple of 16 bytes, "
                                   "each at a multiple of 16 bytes, assume_alignment 16"
                                 : "staged tiles of dense 16-bit or f32 parameters with rows of 128 bytes, "
                                   "assume_alignment 16, and rows of the source of a multiple of 16 bytes");
    c.copy = ir::loop(nest->var, nest->extent, nest->body, ir::LoopKind::bulk);
  }
  return Applied{move_to_slots(k, site, step, inside, facts, copies, rest), {}};
}

}  // namespace loopwright::schedule
