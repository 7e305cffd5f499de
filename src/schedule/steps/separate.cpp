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
constexpr double kLargestBf16 = 0x1.fep127, kSmallestBf16 = 0x1p-133, kLargestF32 = 0x1.fffffep127;

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

/// Stores each part of a value to the buffer, at `index` behind the part's number; `part` counts them. Of what is infinite or
/// near it the rest of a `rechecked` one is no number.
Stmt store_parts(const Expr& value, const ir::Buffer& buffer, const std::vector<Expr>& index, const Var& part, bool rechecked) {
  std::vector<std::pair<Var, Expr>> lets;
  const auto name = [&](const char* hint, const Expr& e) {
    lets.emplace_back(ir::fresh_var(hint), e);
    return ir::var(lets.back().first, e->dtype);
  };
  std::vector<Expr> parts;
  Expr rest = name("rest", value);
  for (std::int64_t i = 0; i + 1 < kParts; ++i) {
    if (rechecked) {
      parts.push_back(name("part", ir::cast(rest, DType::bf16)));
      rest = name("rest", (rest - ir::cast(parts.back(), DType::f32)) * f32(kScale));
      continue;
    }
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

Parts make_parts(const ir::Buffer& source, bool rechecked, Names& names, std::vector<std::string>& made) {
  ir::BufferInfo info;
  info.name = names.take(source->name + "_parts");
  info.dtype = DType::bf16;
  info.shape = source->shape;
  info.shape.insert(info.shape.begin(), ir::int_imm(kParts));
  const auto buffer = std::make_shared<const ir::BufferInfo>(std::move(info));
  Var part;
  const Stmt nest = loops_over(source->shape, buffer->name, names, &made, [&](const std::vector<Expr>& index) {
    part = names.var(buffer->name + "_part");
    return store_parts(ir::load(source, index), buffer, index, part, rechecked);
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

/// A factor of the products: an f32 input of so many parts, or a bf16 one that is its own single part.
struct Factor {
  const ir::Load* load = nullptr;
  bool is_single = false;
};

Factor take_factor(const Expr& e) {
  if (const auto* l = as<ir::Load>(e)) return {l, false};
  const auto* c = as<ir::Cast>(e);
  const auto* l = c != nullptr && e->dtype == DType::f32 ? as<ir::Load>(c->a) : nullptr;
  return l != nullptr && l->buffer->dtype == DType::bf16 ? Factor{l, true} : Factor{};
}

/// What the body sums up; the reason in `obstacle` otherwise.
struct Summed {
  Chain chain;
  const ir::Update* update = nullptr;
  Factor left, right;
};

Summed find_sum(const ir::Kernel& k, const Site& site, bool rechecked, std::string& obstacle) {
  Summed out{chain_of(site.loop().body), nullptr, {}, {}};
  out.update = as<ir::Update>(out.chain.leaf);
  const auto* times = out.update != nullptr && out.update->monoid == ir::Monoid::sum ? as<ir::Binary>(out.update->values[0]) : nullptr;
  if (times != nullptr && times->op == ir::BinaryOp::mul) {
    out.left = take_factor(times->a);
    out.right = take_factor(times->b);
  }
  const bool plain = std::all_of(out.chain.around.begin(), out.chain.around.end(), [](const Stmt& s) {
    const auto* l = as<ir::Loop>(s);
    return l != nullptr ? l->kind == ir::LoopKind::serial : as<ir::If>(s) != nullptr;
  });
  const auto is_f32 = [](const Factor& f) { return f.is_single || f.load->buffer->dtype == DType::f32; };
  if (!plain || out.left.load == nullptr || out.right.load == nullptr) obstacle = "the body is not one nest of serial loops around a sum of products of two tensors";
  else if (!is_f32(out.left) || !is_f32(out.right) || (out.left.is_single && out.right.is_single)) obstacle = "the factors are not f32";
  else if ((out.left.is_single || out.right.is_single) && !rechecked) obstacle = "an infinity of a bf16 factor would meet parts that are zero";
  else if (!is_input(k, out.left.load->buffer) || !is_input(k, out.right.load->buffer)) obstacle = "a factor is no input of the kernel";
  else if (out.update->buffers[0]->memory == ir::Memory::global) obstacle = "the sum is in global memory";
  return out;
}

/// The loops around the site that fill the sum, from the outermost inside its allocation on, with the conditions between them.
struct Filling {
  Stmt outermost;
  std::vector<Stmt> around;  ///< down to the update
};

std::optional<Filling> find_filling(const Site& site, const Summed& sum) {
  Filling out;
  bool allocated = false;
  for (const Stmt& s : site.path) {
    if (const auto* a = as<ir::Alloc>(s); a != nullptr && a->buffer == sum.update->buffers[0]) allocated = true;
    if (!allocated) continue;
    const bool is_nest = as<ir::Loop>(s) != nullptr || as<ir::If>(s) != nullptr;
    if (!out.outermost && as<ir::Loop>(s)) out.outermost = s;
    if (!out.outermost) continue;
    if (!is_nest) return std::nullopt;
    out.around.push_back(s);
  }
  out.around.insert(out.around.end(), sum.chain.around.begin(), sum.chain.around.end());
  return out.outermost ? std::optional(out) : std::nullopt;
}

/// Sums that are infinite or NaN once more, in plain arithmetic.
struct Recheck {
  ir::Buffer plain;
  std::vector<Stmt> nests;
};

std::optional<Recheck> make_recheck(const Filling& filling, const Summed& sum, Names& names) {
  const ir::Buffer& acc = sum.update->buffers[0];
  ir::BufferInfo info = *acc;
  info.name = names.take(acc->name + "_plain");
  Recheck out{std::make_shared<const ir::BufferInfo>(std::move(info)), {}};
  std::map<Var, Expr> values;
  std::set<Var> summed;
  std::vector<Stmt> spatial, rest;
  for (const Stmt& s : filling.around) {
    const auto* l = as<ir::Loop>(s);
    if (l == nullptr) {
      // What is beyond an edge has no sum to look at.
      const Expr& condition = as<ir::If>(s)->condition;
      const bool of_sums = std::any_of(summed.begin(), summed.end(), [&](const Var& v) { return ir::uses(condition, v); });
      (of_sums ? rest : spatial).push_back(ir::if_then(ir::substitute(condition, values), ir::seq({})));
      continue;
    }
    const bool indexes = ir::as_int(l->extent) == 1 || std::any_of(sum.update->index.begin(), sum.update->index.end(), [&](const Expr& e) { return ir::uses(e, l->var); });
    if (indexes && !ir::as_int(l->extent)) return std::nullopt;
    if (!indexes) summed.insert(l->var);
    const Var fresh = names.var(l->var.hint);
    (indexes ? spatial : rest).push_back(ir::loop(fresh, ir::substitute(l->extent, values), ir::seq({})));
    values[l->var] = ir::var(fresh);
  }
  std::vector<Expr> index;
  for (const Expr& e : sum.update->index) index.push_back(ir::substitute(e, values));
  const auto is_no_number = [&](const std::vector<Expr>& at) {
    return ir::unary(ir::UnaryOp::logical_not, ir::binary(ir::BinaryOp::le, ir::unary(ir::UnaryOp::abs, ir::load(acc, at)), f32(kLargestF32)));
  };
  const Stmt again = wrap(rest, ir::update(ir::Monoid::sum, {out.plain}, index, {ir::substitute(sum.update->values[0], values)}));
  out.nests.push_back(loops_over(acc->shape, out.plain->name, names, nullptr, [&](const std::vector<Expr>& at) { return ir::store(out.plain, at, f32(0)); }));
  out.nests.push_back(wrap(spatial, ir::if_then(is_no_number(index), again)));
  out.nests.push_back(loops_over(acc->shape, out.plain->name, names, nullptr, [&](const std::vector<Expr>& at) {
    return ir::store(acc, at, ir::select(is_no_number(at), ir::load(out.plain, at), ir::load(acc, at)));
  }));
  return out;
}

}  // namespace

Result<Applied> apply(const ir::Kernel& k, const Separate& step) {
  LW_TRY(const Site site, require_serial(k, step.loop));
  std::string obstacle;
  const Summed sum = find_sum(k, site, step.rechecked, obstacle);
  if (!obstacle.empty())
    return rejected(ErrorCode::illegal_tensorize, obstacle, k, site.stmt(), "a loop around one sum of products of two f32 inputs, held in a local buffer; `rechecked`, one of them may be bf16");
  Applied out{k, {}};
  Names names(k);
  std::map<ir::Buffer, Parts> parts;
  std::vector<ir::Buffer> made;
  std::vector<Stmt> items;
  for (const Factor& f : {sum.left, sum.right}) {
    const ir::Buffer& source = f.load->buffer;
    if (f.is_single || parts.contains(source)) continue;
    parts[source] = make_parts(source, step.rechecked, names, out.made);
    made.push_back(parts[source].buffer);
    items.push_back(parts[source].nest);
  }
  const ir::Buffer& acc = sum.update->buffers[0];
  ir::BufferInfo info = *acc;
  info.name = names.take(acc->name + "_sum");
  const auto partial = std::make_shared<const ir::BufferInfo>(std::move(info));
  const auto over_sum = [&](const auto& leaf) { return loops_over(acc->shape, partial->name, names, nullptr, leaf); };
  const auto part_of = [&](const Factor& f, const Expr& part) {
    if (f.is_single) return ir::cast(ir::load(f.load->buffer, f.load->index), DType::f32);
    std::vector<Expr> index = f.load->index;
    index.insert(index.begin(), part);
    return ir::cast(ir::load(parts.at(f.load->buffer).buffer, index), DType::f32);
  };
  const bool is_mixed = sum.left.is_single || sum.right.is_single;
  // The smallest products first.
  std::vector<Stmt> inside = {over_sum([&](const std::vector<Expr>& at) { return ir::store(partial, at, f32(0)); })};
  for (std::int64_t last = kParts - 1; last >= 0; --last) {
    const Var p = names.var(partial->name + "_part");
    const Expr left = is_mixed ? ir::int_imm(last) : ir::var(p), right = is_mixed ? left : ir::int_imm(last) - left;
    const Stmt leaf = ir::update(ir::Monoid::sum, {partial}, sum.update->index, {part_of(sum.left, left) * part_of(sum.right, right)});
    const Stmt nest = copy_nest(sum.chain, leaf, names);
    inside.push_back(is_mixed ? nest : ir::loop(p, ir::int_imm(last + 1), nest));
    if (last > 0) inside.push_back(over_sum([&](const std::vector<Expr>& at) { return ir::store(partial, at, ir::load(partial, at) * f32(1 / kScale)); }));
  }
  inside.push_back(over_sum([&](const std::vector<Expr>& at) { return ir::update(ir::Monoid::sum, {acc}, at, {ir::load(partial, at)}); }));
  const Stmt loop = with_body(site.stmt(), ir::alloc(partial, ir::seq(std::move(inside))));
  Stmt body = edit(k.body, {{site.stmt().get(), loop}});
  if (step.rechecked) {
    const auto filling = find_filling(site, sum);
    auto recheck = filling ? make_recheck(*filling, sum, names) : std::nullopt;
    if (!recheck)
      return rejected(ErrorCode::illegal_tensorize, "the loops that fill `" + acc->name + "` hold more than the sum, or are not constant where they index it", k, site.stmt(),
                      "separate in front of steps that put other statements into these loops");
    const Stmt filled = edit(filling->outermost, {{site.stmt().get(), loop}});
    recheck->nests.insert(recheck->nests.begin(), filled);
    body = edit(k.body, {{filling->outermost.get(), ir::alloc(recheck->plain, ir::seq(std::move(recheck->nests)))}});
  }
  items.push_back(body);
  out.kernel.body = alloc_all(made, ir::seq(std::move(items)));
  return out;
}

}  // namespace loopwright::schedule
