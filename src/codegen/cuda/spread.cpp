#include "src/codegen/cuda/spread.h"

#include <algorithm>

#include "src/ir/rewrite.h"

namespace loopwright::codegen {
namespace {

using ir::Expr;
using ir::Var;

/// A sum with integer coefficients and a rest without these variables.
struct Sum {
  std::map<Var, std::int64_t> terms;
  std::int64_t constant = 0;
  Expr rest;  ///< null for none

  Expr expr() const {
    Expr out = ir::int_imm(constant);
    for (const auto& [v, k] : terms) out = out + ir::var(v) * ir::int_imm(k);
    return rest ? out + rest : out;
  }
};

std::int64_t floor_mod(std::int64_t a, std::int64_t b) { return ((a % b) + b) % b; }

/// Removes thread variable `v` from the sum; false when the rest does not fall apart around it.
bool remove_level(Sum& sum, const Var& v, std::int64_t stride, std::int64_t threads, const ir::Facts& facts) {
  const std::int64_t period = stride * threads;
  Sum outer, inner;
  for (const auto& [u, k] : sum.terms) {
    if (u == v) continue;
    if (k % period == 0) outer.terms[u] = k / threads;
    else inner.terms[u] = k;
  }
  inner.constant = floor_mod(sum.constant, period);
  outer.constant = (sum.constant - inner.constant) / threads;
  if (sum.rest) {
    if (facts.divisor(sum.rest) % period != 0) return false;
    outer.rest = ir::simplify(ir::floor_div(sum.rest, ir::int_imm(threads)), facts);
  }
  const ir::Interval range = facts.bounds(inner.expr());
  if (range.lo < 0 || range.hi >= stride) return false;
  for (const auto& [u, k] : inner.terms) outer.terms[u] += k;
  outer.constant += inner.constant;
  sum = outer;
  return true;
}

}  // namespace

std::optional<int> thread_axis(ir::LoopKind kind) {
  switch (kind) {
    case ir::LoopKind::thread_x: return 0;
    case ir::LoopKind::thread_y: return 1;
    case ir::LoopKind::cluster_x: return 2;
    default: return std::nullopt;
  }
}

std::optional<SpreadIndex> spread_index(const Expr& index, const std::map<Var, ThreadLoop>& threads,
                                        const ir::Facts& facts) {
  const std::set<Var> used = ir::free_vars(index);
  const std::vector<Var> vars(used.begin(), used.end());
  const bool varies = std::any_of(vars.begin(), vars.end(), [&](const Var& v) { return threads.contains(v); });
  if (!varies) return SpreadIndex{{}, index};
  const auto affine = ir::as_affine(ir::simplify(index, facts), vars);
  if (!affine) return std::nullopt;
  Sum sum;
  sum.terms = affine->coefficients;
  if (const auto constant = ir::as_int(affine->rest)) sum.constant = *constant;
  else sum.rest = affine->rest;
  std::vector<std::pair<std::int64_t, Var>> levels;
  for (const auto& [v, k] : sum.terms)
    if (threads.contains(v)) levels.emplace_back(k, v);
  std::sort(levels.begin(), levels.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  SpreadIndex out;
  for (const auto& [k, v] : levels) {
    const ThreadLoop& loop = threads.at(v);
    // A level above divided what lies outside of it, never this one, whose stride is below.
    if (k <= 0 || !remove_level(sum, v, k, loop.threads, facts)) return std::nullopt;
    out.spread.push_back({loop.axis, k, loop.threads});
  }
  out.local = ir::simplify(sum.expr(), facts);
  return out;
}

std::int64_t count_held(std::int64_t count, const Spread& spread) {
  for (const SpreadLevel& level : spread) {
    const std::int64_t period = level.stride * level.threads;
    count = (count + period - 1) / period * level.stride;
  }
  return count;
}

}  // namespace loopwright::codegen
