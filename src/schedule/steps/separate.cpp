#include "src/schedule/steps/separate.h"

#include <algorithm>

#include "src/schedule/tile.h"

namespace loopwright::schedule {

using ir::as;
using ir::Expr;
using ir::Stmt;
using ir::Var;

namespace {

constexpr std::int64_t kParts = 3;            ///< 8 bits each
constexpr double kScale = 256;                ///< from one part to the next
constexpr double kLargestBf16 = 0x1.fep127, kSmallestBf16 = 0x1p-133;

Expr f32(double v) { return ir::float_imm(v, DType::f32); }

/// Loops over a shape, named after a buffer, around leaf(index).
template <class Leaf>
Stmt loops_over(const std::vector<Expr>& shape, const std::string& name, Names& names, std::vector<std::string>* made, const Leaf& leaf) {
  std::vector<Var> loops;
  std::vector<Expr> index;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    loops.push_back(names.var(name + "_" + std::to_string(d)));
    index.push_back(ir::var(loops.back()));
    if (made != nullptr) made->push_back(loops.back().hint);
  }
  Stmt s = leaf(index);
  for (std::size_t d = shape.size(); d-- > 0;) s = ir::loop(loops[d], shape[d], s);
  return s;
}

/// The parts of an input, and the nest that makes them.
struct Parts {
  ir::Buffer buffer;
  Stmt nest;
};

/// Stores each part of a value to the buffer, at `index` behind the part's number; `part` counts them.
Stmt store_parts(const Expr& value, const ir::Buffer& buffer, const std::vector<Expr>& index, const Var& part) {
  std::vector<std::pair<Var, Expr>> lets;
  const auto name = [&](const char* hint, const Expr& e) {
    lets.emplace_back(ir::fresh_var(hint), e);
    return ir::var(lets.back().first, e->dtype);
  };
  std::vector<Expr> parts;
  Expr rest = name("rest", value);
  for (std::int64_t i = 0; i + 1 < kParts; ++i) {
    Expr inside = ir::min(ir::max(rest, f32(-kLargestBf16)), f32(kLargestBf16));
    // What is not zero has a first part that is not: times an infinity's last part it is no NaN.
    const Expr sign = ir::unary(ir::UnaryOp::sign, rest);
    if (i == 0) inside = ir::select(ir::binary(ir::BinaryOp::le, ir::unary(ir::UnaryOp::abs, rest), f32(kSmallestBf16 / 2)), sign * f32(kSmallestBf16), inside);
    parts.push_back(name("part", ir::cast(ir::select(ir::unary(ir::UnaryOp::is_inf, rest), i == 0 ? sign : f32(0), inside), DType::bf16)));
    rest = name("rest", (rest - ir::cast(parts.back(), DType::f32)) * f32(kScale));
  }
  Expr chosen = ir::cast(rest, DType::bf16);
  for (std::int64_t i = kParts - 1; i-- > 0;) chosen = ir::select(ir::binary(ir::BinaryOp::eq, ir::var(part), ir::int_imm(i)), parts[static_cast<std::size_t>(i)], chosen);
  std::vector<Expr> target = index;
  target.insert(target.begin(), ir::var(part));
  Stmt s = ir::loop(part, ir::int_imm(kParts), ir::store(buffer, target, chosen));
  for (std::size_t i = lets.size(); i-- > 0;) s = ir::let(lets[i].first, lets[i].second, s);
  return s;
}

Parts make_parts(const ir::Buffer& source, Names& names, std::vector<std::string>& made) {
  ir::BufferInfo info;
  info.name = names.take(source->name + "_parts");
  info.dtype = DType::bf16;
  info.shape = source->shape;
  info.shape.insert(info.shape.begin(), ir::int_imm(kParts));
  const auto buffer = std::make_shared<const ir::BufferInfo>(std::move(info));
  Var part;
  const Stmt nest = loops_over(source->shape, buffer->name, names, &made, [&](const std::vector<Expr>& index) {
    part = names.var(buffer->name + "_part");
    return store_parts(ir::load(source, index), buffer, index, part);
  });
  made.push_back(part.hint);
  return {buffer, nest};
}

/// A copy of the nest with loops of its own, named after the old ones.
Stmt copy_nest(const Chain& chain, Stmt leaf, Names& names) {
  std::map<Var, Expr> values;
  std::vector<Stmt> around;
  for (const Stmt& s : chain.around) {
    if (const auto* l = as<ir::Loop>(s)) {
      const Var fresh = names.var(l->var.hint);
      around.push_back(ir::loop(fresh, ir::substitute(l->extent, values), ir::seq({}), l->kind));
      values[l->var] = ir::var(fresh);
    } else {
      around.push_back(ir::if_then(ir::substitute(as<ir::If>(s)->condition, values), ir::seq({})));
    }
  }
  return wrap(around, ir::substitute(leaf, values));
}

bool is_input(const ir::Kernel& k, const ir::Buffer& buffer) {
  return std::any_of(k.params.begin(), k.params.end(), [&](const ir::Param& p) { return p.buffer == buffer && p.role == ArgRole::input; });
}

/// What the body sums up; the reason in `obstacle` otherwise.
struct Summed {
  Chain chain;
  const ir::Update* update = nullptr;
  const ir::Load *left = nullptr, *right = nullptr;
};

Summed find_sum(const ir::Kernel& k, const Site& site, std::string& obstacle) {
  Summed out{chain_of(site.loop().body), nullptr, nullptr, nullptr};
  out.update = as<ir::Update>(out.chain.leaf);
  const auto* times = out.update != nullptr && out.update->monoid == ir::Monoid::sum ? as<ir::Binary>(out.update->values[0]) : nullptr;
  if (times != nullptr && times->op == ir::BinaryOp::mul) {
    out.left = as<ir::Load>(times->a);
    out.right = as<ir::Load>(times->b);
  }
  const bool plain = std::all_of(out.chain.around.begin(), out.chain.around.end(), [](const Stmt& s) {
    const auto* l = as<ir::Loop>(s);
    return l != nullptr ? l->kind == ir::LoopKind::serial : as<ir::If>(s) != nullptr;
  });
  if (!plain || out.left == nullptr || out.right == nullptr) obstacle = "the body is not one nest of serial loops around a sum of products of two tensors";
  else if (out.left->buffer->dtype != DType::f32 || out.right->buffer->dtype != DType::f32) obstacle = "the factors are not f32";
  else if (!is_input(k, out.left->buffer) || !is_input(k, out.right->buffer)) obstacle = "a factor is no input of the kernel";
  else if (out.update->buffers[0]->memory == ir::Memory::global) obstacle = "the sum is in global memory";
  return out;
}

}  // namespace

Result<Applied> apply(const ir::Kernel& k, const Separate& step) {
  LW_TRY(const Site site, require_serial(k, step.loop));
  std::string obstacle;
  const Summed sum = find_sum(k, site, obstacle);
  if (!obstacle.empty())
    return rejected(ErrorCode::illegal_tensorize, obstacle, k, site.stmt(), "a loop around one sum of products of two f32 inputs, held in a local buffer");
  Applied out{k, {}};
  Names names(k);
  std::map<ir::Buffer, Parts> parts;
  std::vector<ir::Buffer> made;
  std::vector<Stmt> items;
  for (const ir::Buffer& source : {sum.left->buffer, sum.right->buffer}) {
    if (parts.contains(source)) continue;
    parts[source] = make_parts(source, names, out.made);
    made.push_back(parts[source].buffer);
    items.push_back(parts[source].nest);
  }
  const ir::Buffer& acc = sum.update->buffers[0];
  ir::BufferInfo info = *acc;
  info.name = names.take(acc->name + "_sum");
  const auto partial = std::make_shared<const ir::BufferInfo>(std::move(info));
  const auto over_sum = [&](const auto& leaf) { return loops_over(acc->shape, partial->name, names, nullptr, leaf); };
  const auto part_of = [&](const ir::Load& l, const Expr& part) {
    std::vector<Expr> index = l.index;
    index.insert(index.begin(), part);
    return ir::cast(ir::load(parts.at(l.buffer).buffer, index), DType::f32);
  };
  // The smallest products first.
  std::vector<Stmt> inside = {over_sum([&](const std::vector<Expr>& at) { return ir::store(partial, at, f32(0)); })};
  for (std::int64_t last = kParts - 1; last >= 0; --last) {
    const Var p = names.var(partial->name + "_part");
    const Stmt leaf = ir::update(ir::Monoid::sum, {partial}, sum.update->index, {part_of(*sum.left, ir::var(p)) * part_of(*sum.right, ir::int_imm(last) - ir::var(p))});
    inside.push_back(ir::loop(p, ir::int_imm(last + 1), copy_nest(sum.chain, leaf, names)));
    if (last > 0) inside.push_back(over_sum([&](const std::vector<Expr>& at) { return ir::store(partial, at, ir::load(partial, at) * f32(1 / kScale)); }));
  }
  inside.push_back(over_sum([&](const std::vector<Expr>& at) { return ir::update(ir::Monoid::sum, {acc}, at, {ir::load(partial, at)}); }));
  const Stmt loop = with_body(site.stmt(), ir::alloc(partial, ir::seq(std::move(inside))));
  items.push_back(edit(k.body, {{site.stmt().get(), loop}}));
  out.kernel.body = alloc_all(made, ir::seq(std::move(items)));
  return out;
}

}  // namespace loopwright::schedule
