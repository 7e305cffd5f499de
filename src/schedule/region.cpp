#include "src/schedule/region.h"

#include <algorithm>
#include <cstdlib>

#include "src/ir/rewrite.h"
#include "src/ir/text.h"

namespace loopwright::schedule {

using ir::as;
using ir::Expr;
using ir::Var;

namespace {

/// A loop's part in one index.
struct Part {
  std::int64_t step = 0;  ///< absolute coefficient
  Expr extent;
};

Range whole_range(const Expr& shape) { return {ir::int_imm(0), shape, true, false, false}; }

bool is_zero(const Expr& e) { return ir::as_int(e) == 0; }

/// Upper bound (exclusive) of `index` from a condition `index + rest < bound` around the access, if there is one.
Expr bound_by_condition(const Access& a, const Expr& index, const std::vector<Var>& inner,
                        const ir::Facts& facts) {
  for (const Expr& c : a.conditions) {
    const auto* x = as<ir::Binary>(c);
    if (!x || x->op != ir::BinaryOp::lt || reads_local(c)) continue;
    const Expr rest = ir::simplify(x->a - index, facts);
    const Expr bound = ir::simplify(x->b - rest, facts);
    const auto used = ir::free_vars(bound);
    if (std::none_of(inner.begin(), inner.end(), [&](const Var& v) { return used.contains(v); }))
      return bound;
  }
  return nullptr;
}

/// Number of elements that the parts span, and whether they leave no gap.
Expr span_of(std::vector<Part> parts, bool& dense) {
  std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
    if (a.step != b.step) return a.step < b.step;
    return ir::as_int(a.extent).has_value() && !ir::as_int(b.extent).has_value();
  });
  std::int64_t constant = 1;
  Expr symbolic = ir::int_imm(0);
  dense = true;
  bool open = false;
  for (const Part& p : parts) {
    if (open || p.step > constant) dense = false;
    if (const auto n = ir::as_int(p.extent)) {
      constant += p.step * std::max<std::int64_t>(0, *n - 1);
    } else {
      symbolic = symbolic + (p.extent - ir::int_imm(1)) * ir::int_imm(p.step);
      open = true;
    }
  }
  return ir::int_imm(constant) + symbolic;
}

/// Inner variables that more than one dimension uses break exactness.
std::map<Var, int> count_uses(const Access& a, const std::vector<Var>& inner) {
  std::map<Var, int> uses;
  for (const Expr& e : a.index) {
    const auto free = ir::free_vars(e);
    for (const Var& v : inner) uses[v] += free.contains(v) ? 1 : 0;
  }
  return uses;
}

void settle(Range& r, const Expr& shape, const ir::Facts& facts, bool padded) {
  r.base = ir::simplify(r.base, facts);
  r.extent = ir::simplify(r.extent, facts);
  if (facts.bounds(r.extent).lo < 0)
    r.extent = ir::max(r.extent, ir::int_imm(0));  // loops without iterations
  const auto n = ir::as_int(shape), extent = ir::as_int(r.extent);
  if (padded && n && extent && *extent > *n && is_zero(r.base)) {
    r.exceeds = true;
    return;
  }
  if (is_zero(r.base) && (ir::same(r.extent, shape) || ir::same(r.extent, ir::simplify(shape, facts)) ||
                          (n && extent && *extent >= *n))) {
    r.extent = shape;
    r.whole = true;
    r.exceeds = false;
    return;
  }
  if (facts.bounds(r.base).lo < 0) {  // a part that is not evaluated may point below the buffer
    r = whole_range(shape);
    return;
  }
  r.exceeds = !facts.proves(ir::binary(ir::BinaryOp::le, ir::simplify(r.base + r.extent, facts), shape));
}

Range range_of(const Access& a, std::size_t d, const std::vector<Var>& inner, const std::map<Var, int>& uses,
               const ir::Facts& facts, const ir::Facts& inside, bool padded) {
  const Expr& shape = a.buffer->shape[d];
  if (reads_local(a.index[d])) return whole_range(shape);
  auto affine = ir::as_affine(a.index[d], inner);
  if (!affine) affine = ir::as_affine(ir::simplify(a.index[d], inside), inner);
  if (!affine) return whole_range(shape);
  Range r;
  r.base = affine->rest;
  std::vector<Part> parts;
  bool shared = false;
  for (std::size_t i = 0; i < inner.size(); ++i) {
    const auto it = affine->coefficients.find(inner[i]);
    if (it == affine->coefficients.end() || it->second == 0) continue;
    const Expr& extent = a.loop(i).extent;
    const auto used = ir::free_vars(extent);
    if (std::any_of(inner.begin(), inner.end(), [&](const Var& v) { return used.contains(v); }))
      return whole_range(shape);
    if (it->second < 0) r.base = r.base + (extent - ir::int_imm(1)) * ir::int_imm(it->second);
    parts.push_back({std::abs(it->second), extent});
    shared = shared || uses.at(inner[i]) > 1;
  }
  bool dense = false;
  r.extent = span_of(parts, dense);
  r.exact = dense && !shared;
  if (!ir::as_int(r.extent)) {
    if (const Expr bound = bound_by_condition(a, a.index[d], inner, inside)) {
      const Expr left = ir::simplify(bound - r.base, facts);
      if (facts.bounds(left).lo >= 0) r.extent = left;
    }
  }
  settle(r, shape, facts, padded);
  return r;
}

Range join(const Range& a, const Range& b, const Expr& shape, const ir::Facts& facts) {
  const auto covers = [&](Range big, const Range& small) {
    big.exact =
        big.exact && (big.whole || (ir::same(big.base, small.base) && ir::same(big.extent, small.extent)));
    return big;
  };
  if (a.whole) return covers(a, b);
  if (b.whole) return covers(b, a);
  const auto offset = ir::as_int(ir::simplify(b.base - a.base, facts));
  if (!offset) return whole_range(shape);
  if (ir::same(a.extent, b.extent) && *offset == 0) {
    Range r = a;
    r.exact = a.exact || b.exact;
    return r;
  }
  const auto m = ir::as_int(a.extent), n = ir::as_int(b.extent);
  if (!m || !n) return whole_range(shape);
  const std::int64_t lo = std::min<std::int64_t>(0, *offset), hi = std::max(*m, *offset + *n);
  Range r;
  r.base = *offset < 0 ? b.base : a.base;
  r.extent = ir::int_imm(hi - lo);
  r.exact = (a.exact && lo == 0 && hi == *m) || (b.exact && lo == *offset && hi == *offset + *n);
  settle(r, shape, facts, false);
  return r;
}

}  // namespace

Region region_of(const Access& access, const ir::Facts& facts, bool padded) {
  std::vector<Var> inner;
  ir::Facts inside = facts;
  for (std::size_t i = 0; i < access.loops.size(); ++i) {
    inner.push_back(access.loop(i).var);
    inside.bind_loop(access.loop(i).var, access.loop(i).extent);
  }
  const std::map<Var, int> uses = count_uses(access, inner);
  Region region;
  for (std::size_t d = 0; d < access.index.size(); ++d)
    region.push_back(range_of(access, d, inner, uses, facts, inside, padded));
  return region;
}

Region join(const Region& a, const Region& b, const ir::Buffer& buffer, const ir::Facts& facts) {
  Region out;
  for (std::size_t d = 0; d < a.size(); ++d) out.push_back(join(a[d], b[d], buffer->shape[d], facts));
  return out;
}

Region region_of(const std::vector<Access>& accesses, const std::vector<ir::Buffer>& buffers,
                 const ir::Facts& facts, bool reads_only, bool padded) {
  std::optional<Region> region;
  for (const Access& a : accesses) {
    if (std::find(buffers.begin(), buffers.end(), a.buffer) == buffers.end() || (reads_only && a.writes()))
      continue;
    const Region one = region_of(a, facts, padded);
    region = region ? join(*region, one, a.buffer, facts) : one;
  }
  if (region) return *region;
  Region all;
  for (const Expr& n : buffers.front()->shape) all.push_back(whole_range(n));
  return all;
}

bool same_box(const Region& a, const Region& b, const ir::Facts& facts) {
  for (std::size_t d = 0; d < a.size(); ++d) {
    if (a[d].whole && b[d].whole) continue;
    if (!is_zero(ir::simplify(a[d].base - b[d].base, facts)) ||
        !is_zero(ir::simplify(a[d].extent - b[d].extent, facts)))
      return false;
  }
  return true;
}

std::string text(const Region& region) {
  std::string out = "[";
  for (std::size_t d = 0; d < region.size(); ++d)
    out += (d ? ", " : "") + ir::print(region[d].base) + " .. +" + ir::print(region[d].extent);
  return out + "]";
}

}  // namespace loopwright::schedule
