#include "src/schedule/tiling.h"

#include <algorithm>

#include "src/ir/text.h"

namespace loopwright::schedule {

using ir::as;
using ir::Expr;
using ir::Var;

namespace {

struct Digit {
  std::int64_t step;
  Expr extent;
};

bool reaches(std::int64_t step, const Expr& extent, const Expr& shape, const ir::Facts& facts) {
  const Expr end = ir::simplify(extent * ir::int_imm(step), facts);
  if (facts.proves(ir::binary(ir::BinaryOp::le, shape, end))) return true;
  return ir::same(ir::simplify(extent, facts), ir::simplify(ir::ceil_div(shape, ir::int_imm(step)), facts));
}

/// The bases count the dimension through in steps of `extent`, like the digits of a number.
bool counts_through(std::vector<Digit> digits, const Range& r, const Expr& shape, const ir::Facts& facts) {
  if (digits.empty())
    return r.whole ||
           (ir::as_int(r.base) == 0 && facts.proves(ir::binary(ir::BinaryOp::le, shape, r.extent)));
  const auto extent = ir::as_int(r.extent);
  if (!extent) return false;
  std::sort(digits.begin(), digits.end(), [](const Digit& a, const Digit& b) { return a.step < b.step; });
  std::int64_t step = *extent;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (digits[i].step != step) return false;
    if (i + 1 == digits.size()) return reaches(step, digits[i].extent, shape, facts);
    const auto n = ir::as_int(digits[i].extent);
    if (!n) return false;
    step *= *n;
  }
  return true;
}

/// At most one iteration: nothing to be disjoint from.
bool is_single(const ir::Stmt& loop, const ir::Facts& facts) {
  return facts.proves(ir::binary(ir::BinaryOp::le, as<ir::Loop>(loop)->extent, ir::int_imm(1)));
}

}  // namespace

std::optional<std::string> explain_no_tiling(const Region& region, const ir::Buffer& buffer,
                                             const std::vector<ir::Stmt>& loops, const ir::Facts& facts) {
  std::vector<Var> vars;
  for (const ir::Stmt& l : loops) vars.push_back(as<ir::Loop>(l)->var);
  std::vector<int> used(vars.size(), 0);
  for (std::size_t d = 0; d < region.size(); ++d) {
    const auto affine = ir::as_affine(region[d].base, vars);
    const bool plain = affine && ir::as_int(ir::simplify(affine->rest, facts)) == 0;
    std::vector<Digit> digits;
    for (std::size_t i = 0; plain && i < vars.size(); ++i) {
      const auto it = affine->coefficients.find(vars[i]);
      if (it == affine->coefficients.end() || it->second == 0 || is_single(loops[i], facts)) continue;
      digits.push_back({it->second, as<ir::Loop>(loops[i])->extent});
      ++used[i];
    }
    if (!plain || !counts_through(digits, region[d], buffer->shape[d], facts))
      return "dimension " + std::to_string(d) + " of `" + buffer->name + "` is touched at " +
             ir::print(region[d].base) + " .. +" + ir::print(region[d].extent) +
             ", which does not count it through";
  }
  for (std::size_t i = 0; i < vars.size(); ++i)
    if (used[i] != 1 && !is_single(loops[i], facts))
      return "iterations of `" + vars[i].hint + "` touch the same part of `" + buffer->name + "`";
  return std::nullopt;
}

}  // namespace loopwright::schedule
