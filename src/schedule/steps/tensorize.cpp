#include "src/schedule/steps/tensorize.h"

#include <algorithm>

#include "src/ir/engine.h"
#include "src/schedule/rejection.h"

namespace loopwright::schedule {

using ir::as;
using ir::Expr;
using ir::Stmt;

namespace {

constexpr ErrorCode kNoTensor = ErrorCode::illegal_tensorize;

bool lies_in_fragment(const ir::Buffer& b) { return b->memory == ir::Memory::fragment; }

/// What keeps a warp from the product of what its lanes hold; empty for nothing.
std::string find_warp_obstacle(const ir::MatrixProduct& p) {
  const DType t = p.a.buffer->dtype;
  if (t != p.b.buffer->dtype || (t != DType::bf16 && t != DType::f16))
    return "tiles of " + std::string(name(t)) + " and " + std::string(name(p.b.buffer->dtype)) + ", not both bf16 or both f16";
  if (p.m != 16 || p.n != 8) return std::to_string(p.m) + " rows and " + std::to_string(p.n) + " columns, not 16 and 8";
  if (p.k != 16 && p.k != 32 && p.k != 64) return std::to_string(p.k) + " summands, not 16, 32 or 64";
  for (const auto* o : {&p.a, &p.b}) {
    if (!lies_in_fragment(o->buffer)) return "`" + o->buffer->name + "` is no fragment, as the other operand is";
    if (o->reduction != 1 || o->along % p.k != 0) return "summands of `" + o->buffer->name + "` are no neighbours, in rows of a multiple of " + std::to_string(p.k);
  }
  if (!lies_in_fragment(p.acc) || p.acc->dtype != DType::f32) return "`" + p.acc->name + "` is no f32 fragment";
  return {};
}

/// What keeps a warpgroup from the product of what its lanes load, into sums that lie as those of its tiles do.
std::string find_group_obstacle(const ir::MatrixProduct& p) {
  constexpr std::int64_t kMostSummands = 64;
  const DType t = p.a.buffer->dtype;
  if (t != p.b.buffer->dtype || (t != DType::bf16 && t != DType::f16 && t != DType::f32))
    return "tiles of " + std::string(name(t)) + " and " + std::string(name(p.b.buffer->dtype)) + ", not both bf16, f16 or f32";
  if (p.n % 8 != 0) return std::to_string(p.n) + " columns, no multiple of 8";
  if (p.k > kMostSummands) return std::to_string(p.k) + " summands, more than " + std::to_string(kMostSummands);
  for (const auto* o : {&p.a, &p.b}) {
    if (!lies_in_fragment(o->buffer)) return "`" + o->buffer->name + "` is no fragment, as the other operand is";
    if (o->reduction != 1 || o->along != p.k) return "summands of `" + o->buffer->name + "` are no neighbours, in rows of exactly " + std::to_string(p.k);
  }
  if (!lies_in_fragment(p.acc) || p.acc->dtype != DType::f32 || p.column_step != 1 || p.row_step != p.n) return "`" + p.acc->name + "` is no f32 fragment with rows of " + std::to_string(p.n);
  return {};
}

/// Whether all that is written to an f32 tile is rounded to tf32: tensor cores would cut the other bits off.
bool is_rounded(const ir::Kernel& k, const ir::Buffer& tile) {
  bool rounded = true;
  ir::walk(k.body, [&](const Stmt& s) {
    const auto* x = as<ir::Store>(s);
    if (x == nullptr || x->buffer != tile) return;
    const auto* chosen = as<ir::Select>(x->value);
    const auto* value = as<ir::Unary>(chosen != nullptr ? chosen->a : x->value);
    const auto* other = chosen != nullptr ? as<ir::FloatImm>(chosen->b) : nullptr;
    rounded = rounded && value != nullptr && value->op == ir::UnaryOp::round_tf32 && (chosen == nullptr || (other != nullptr && other->value == 0));
  }, [](const Expr&) {});
  return rounded;
}

/// What keeps tensor cores from the product; empty for nothing.
std::string find_product_obstacle(const ir::Kernel& k, const ir::MatrixProduct& p) {
  const bool of_fragments = lies_in_fragment(p.a.buffer) || lies_in_fragment(p.b.buffer);
  if (of_fragments) return p.m % 64 == 0 ? find_group_obstacle(p) : find_warp_obstacle(p);
  if (p.m != 64) return std::to_string(p.m) + " rows, not 64";
  if (p.n % 8 != 0 || p.n < 8 || p.n > 256) return std::to_string(p.n) + " columns, no multiple of 8 up to 256";
  const DType t = p.a.buffer->dtype;
  if (t != p.b.buffer->dtype || (t != DType::bf16 && t != DType::f16 && t != DType::f32))
    return "tiles of " + std::string(name(t)) + " and " + std::string(name(p.b.buffer->dtype)) + ", not both bf16, f16 or f32";
  const std::int64_t summands = 32 / size_bytes(t);  // of one instruction
  if (p.k % summands != 0) return std::to_string(p.k) + " summands, no multiple of " + std::to_string(summands);
  for (const auto* o : {&p.a, &p.b}) {
    if (o->buffer->memory != ir::Memory::shared) return "`" + o->buffer->name + "` is not in shared memory";
    if (t == DType::f32 && o->reduction != 1) return "summands of the f32 tile `" + o->buffer->name + "` do not lie side by side";
    if (t == DType::f32 && !is_rounded(k, o->buffer)) return "`" + o->buffer->name + "` is not rounded to tf32";
    if (o == &p.b && o->reduction != 1 && p.n % 64 != 0) return std::to_string(p.n) + " columns, no multiple of 64 where they lie side by side in `" + o->buffer->name + "`";
    if (o->along != 1 && o->reduction != 1) return "`" + o->buffer->name + "` is read in strides along both loops";
  }
  if (!lies_in_fragment(p.acc) || p.acc->dtype != DType::f32) return "`" + p.acc->name + "` is no f32 fragment";
  if (p.column_step == 1 && p.row_step != p.n)
    return "rows of `" + p.acc->name + "` have " + std::to_string(p.row_step) + " elements, the product " + std::to_string(p.n) + " columns";
  return {};
}

/// Whether the local copy that `l` reads holds zero wherever the condition does not hold.
bool is_padded_beyond(const ir::Kernel& k, const ir::Load& l, const ir::Binary& condition, const ir::Facts& facts) {
  const ir::Store* writer = nullptr;
  int writers = 0;
  ir::walk(k.body, [&](const Stmt& s) {
    const auto* x = as<ir::Store>(s);
    if (x == nullptr || x->buffer != l.buffer) return;
    writer = x;
    ++writers;
  }, [](const Expr&) {});
  const auto* value = writers == 1 ? as<ir::Select>(writer->value) : nullptr;
  if (value == nullptr || as<ir::FloatImm>(value->b) == nullptr || as<ir::FloatImm>(value->b)->value != 0) return false;
  std::map<ir::Var, Expr> at;
  for (std::size_t d = 0; d < l.index.size(); ++d)
    if (const auto* v = as<ir::VarRef>(writer->index[d])) at[v->var] = l.index[d];
  std::vector<Expr> parts;
  ir::take_conjuncts(value->condition, parts);
  return std::any_of(parts.begin(), parts.end(), [&](const Expr& e) {
    const auto* x = as<ir::Binary>(e);
    if (x == nullptr || x->op != ir::BinaryOp::lt) return false;
    return ir::as_int(ir::simplify(ir::substitute(x->a - x->b, at) - (condition.a - condition.b), facts)) == 0;
  });
}

/// Takes away conditions between and inside the loops: those that are the same for all of the tile go to `outside`, those
/// beyond which both factors are zero go altogether. Empty when another one is left.
std::optional<Stmt> take_conditions(const ir::Kernel& k, const Stmt& s, const std::set<ir::Var>& loops, ir::Facts facts, std::vector<Expr>& outside) {
  if (const auto* l = as<ir::Loop>(s)) {
    facts.bind_loop(l->var, l->extent);
    const auto body = take_conditions(k, l->body, loops, facts, outside);
    return body ? std::optional(ir::loop(l->var, l->extent, *body, l->kind)) : std::nullopt;
  }
  const auto* i = as<ir::If>(s);
  if (i == nullptr) return s;
  const std::set<ir::Var> used = ir::free_vars(i->condition);
  const bool same = std::none_of(loops.begin(), loops.end(), [&](const ir::Var& v) { return used.contains(v); });
  if (same && !ir::has_load(i->condition)) {
    outside.push_back(i->condition);
    return take_conditions(k, i->then, loops, facts, outside);
  }
  const auto* condition = as<ir::Binary>(i->condition);
  bool padded = condition != nullptr && condition->op == ir::BinaryOp::lt;
  ir::walk(i->then, [&](const Stmt& x) {
    const auto* u = as<ir::Update>(x);
    if (u == nullptr) return;
    for (const Expr& value : u->values)
      ir::walk(value, [&](const Expr& e) {
        const auto* l = as<ir::Load>(e);
        padded = padded && (l == nullptr || is_padded_beyond(k, *l, *condition, facts));
      });
  }, [](const Expr&) {});
  return padded ? take_conditions(k, i->then, loops, facts, outside) : std::nullopt;
}

}  // namespace

Result<Applied> apply(const ir::Kernel& k, const Tensorize& step) {
  if (step.loops.size() != 3)
    return rejected(ErrorCode::bad_argument, std::to_string(step.loops.size()) + " loops", {}, "three: rows, columns, summands");
  for (const std::string& name : step.loops) LW_CHECK(require_serial(k, name));
  LW_TRY(const Site site, require_serial(k, step.loops[0]));
  const ir::Loop& l = site.loop();
  std::set<ir::Var> loops;
  ir::walk(site.stmt(), [&](const Stmt& s) {
    if (const auto* inner = as<ir::Loop>(s)) loops.insert(inner->var);
  }, [](const Expr&) {});
  std::vector<Expr> conditions;
  const auto whole = take_conditions(k, site.stmt(), loops, facts_before(k, site), conditions);
  if (!whole)
    return rejected(kNoTensor, "a condition inside the tile is more than the edge of a tile that was staged with zeros", k, site.stmt(), "stage both operands at a loop outside first");
  const Stmt inside = std::get<ir::Loop>((*whole)->v).body;
  const auto* second = as<ir::Loop>(inside);
  const auto* third = second ? as<ir::Loop>(second->body) : nullptr;
  if (!third || second->var.hint != step.loops[1] || third->var.hint != step.loops[2])
    return rejected(kNoTensor, "the loops are not directly in each other in this order", k, site.stmt(), "reorder, so that they are the innermost ones");
  const Stmt nest = ir::loop(l.var, l.extent, inside, ir::LoopKind::mma);
  const auto product = ir::match_matrix_product(std::get<ir::Loop>(nest->v), facts_before(k, site));
  if (!product.ok()) return rejected(kNoTensor, product.error().found, k, site.stmt(), product.error().works);
  if (const std::string obstacle = find_product_obstacle(k, *product); !obstacle.empty())
    return rejected(kNoTensor, obstacle, k, site.stmt(),
                    "64 rows, a multiple of 8 columns, tiles of bf16, f16 or rounded f32 staged in shared memory and an accumulator held in a fragment; or 16 (or a multiple of 64) rows, 8 columns and tiles in fragments");
  Stmt out = nest;
  for (std::size_t c = conditions.size(); c-- > 0;) out = ir::if_then(conditions[c], out);
  return Applied{edit(k, {{site.stmt().get(), out}}), {}};
}

}  // namespace loopwright::schedule
