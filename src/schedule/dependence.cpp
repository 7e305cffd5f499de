#include "src/schedule/dependence.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "src/ir/monoid.h"
#include "src/ir/rewrite.h"
#include "src/ir/text.h"

namespace loopwright::schedule {

using ir::as;
using ir::Expr;
using ir::Stmt;
using ir::Var;

namespace {

/// `coefficient * t` with t in [lo, hi]; `same` >= 0: t is the difference of one quantity between the two instances.
struct Term {
  std::int64_t coefficient = 0;
  double lo = 0, hi = 0;
  int same = -1;
};

/// Sum of the terms plus a constant in [lo, hi] is zero when both instances touch the same element.
struct Equation {
  std::vector<Term> terms;
  double lo = 0, hi = 0;
  bool exact = false;  ///< lo == hi is an integer constant
};

double magnitude(const Term& t) {
  return std::abs(static_cast<double>(t.coefficient)) * std::max(std::abs(t.lo), std::abs(t.hi));
}

double low_bound(const ir::Interval& i) { return i.lo == INT64_MIN ? -INFINITY : static_cast<double>(i.lo); }
double high_bound(const ir::Interval& i) { return i.hi == INT64_MAX ? INFINITY : static_cast<double>(i.hi); }

/// True when the equation leaves `target` no value but zero: every other term is smaller than one step of it, or comes
/// in multiples that are larger than all of the rest.
bool forces_zero(const Equation& q, std::size_t target) {
  const std::int64_t step = std::abs(q.terms[target].coefficient);
  double lo = q.lo, hi = q.hi;
  std::int64_t multiple = 0;
  for (std::size_t i = 0; i < q.terms.size(); ++i) {
    if (i == target) continue;
    if (std::abs(q.terms[i].coefficient) < step) {
      const double a = static_cast<double>(q.terms[i].coefficient) * q.terms[i].lo, b = static_cast<double>(q.terms[i].coefficient) * q.terms[i].hi;
      lo += std::min(a, b);
      hi += std::max(a, b);
    } else {
      multiple = std::gcd(multiple, q.terms[i].coefficient);
    }
  }
  const double small = std::max(std::abs(lo), std::abs(hi));  // not a number where a bound is missing
  if (!(small < static_cast<double>(step))) return false;
  return multiple == 0 || magnitude(q.terms[target]) + small < static_cast<double>(multiple);
}

/// True when no values of the terms satisfy the equation.
bool is_impossible(const Equation& q) {
  double lo = q.lo, hi = q.hi;
  std::int64_t divisor = 0;
  for (const Term& t : q.terms) {
    const double a = static_cast<double>(t.coefficient) * t.lo, b = static_cast<double>(t.coefficient) * t.hi;
    if (std::isnan(a) || std::isnan(b)) return false;
    lo += std::min(a, b);
    hi += std::max(a, b);
    divisor = std::gcd(divisor, t.coefficient);
  }
  if (lo > 0 || hi < 0) return true;
  return q.exact && divisor > 1 && static_cast<std::int64_t>(q.lo) % divisor != 0;
}

/// Solves for the loops whose iterations must be equal. Quantities are the common loops, then div and mod terms of them
/// (`atoms`), which are treated like variables.
class Solver {
 public:
  Solver(const Access& a, const Access& b, const ir::Facts& facts, const std::set<ir::Buffer>& written)
      : a_(a), b_(b), facts_(facts), written_(written) {
    while (common_ < a.loops.size() && common_ < b.loops.size() && a.loops[common_] == b.loops[common_])
      ++common_;
    for (const Stmt& l : a.loops) bind(l, vars_a_);
    for (const Stmt& l : b.loops) bind(l, vars_b_);
    for (std::size_t i = 0; i < common_; ++i)  // a loop of one iteration is in it
      zero_.push_back(facts_.proves(ir::binary(ir::BinaryOp::le, a.loop(i).extent, ir::int_imm(1))));
  }

  std::optional<std::vector<bool>> solve() {
    for (std::size_t d = 0; d < a_.index.size(); ++d) add_equation(a_.index[d], b_.index[d]);
    if (a_.index.size() > 1) add_equation(linear_index(a_), linear_index(b_));
    bool changed = true;
    while (changed) {
      changed = false;
      for (Equation& q : equations_) {
        std::erase_if(q.terms,
                      [&](const Term& t) { return t.same >= 0 && zero_[static_cast<std::size_t>(t.same)]; });
        if (is_impossible(q)) return std::nullopt;
        for (std::size_t i = 0; i < q.terms.size(); ++i) {
          if (q.terms[i].same < 0 || !forces_zero(q, i)) continue;
          zero_[static_cast<std::size_t>(q.terms[i].same)] = true;
          changed = true;
        }
      }
      changed = join_digits() || changed;
    }
    zero_.resize(common_);
    return std::vector<bool>(zero_.begin(), zero_.end());
  }

 private:
  /// The element's number: follows from the indices, and puts together what a fused loop took apart into floor_div and mod.
  Expr linear_index(const Access& access) const { return ir::simplify(ir::linear_position(*access.buffer, access.index), facts_); }

  void bind(const Stmt& s, std::vector<Var>& vars) {
    const auto& l = std::get<ir::Loop>(s->v);
    facts_.bind_loop(l.var, l.extent);
    vars.push_back(l.var);
  }

  bool is_common(const Expr& e) const {
    const std::set<Var> used = ir::free_vars(e);
    for (std::size_t i = common_; i < vars_a_.size(); ++i)
      if (used.contains(vars_a_[i])) return false;
    for (std::size_t i = common_; i < vars_b_.size(); ++i)
      if (used.contains(vars_b_[i])) return false;
    return true;
  }

  bool uses_loops(const Expr& e, const std::vector<Var>& vars) const {
    const std::set<Var> used = ir::free_vars(e);
    return std::any_of(vars.begin(), vars.end(), [&](const Var& v) { return used.contains(v); });
  }

  /// floor_div and mod of loop variables become variables of their own.
  Expr abstract(const Expr& e, std::vector<Var>& vars) {
    if (const auto* x = as<ir::Binary>(e); x &&
                                           (x->op == ir::BinaryOp::floor_div || x->op == ir::BinaryOp::mod) &&
                                           uses_loops(x->a, vars) && !uses_loops(x->b, vars)) {
      for (std::size_t i = 0; i < atoms_.size(); ++i)
        if (ir::same(atoms_[i].expr, e)) {
          vars.push_back(atoms_[i].var);
          return ir::var(atoms_[i].var);
        }
      atoms_.push_back({e, ir::fresh_var("atom"), is_common(e)});
      facts_.set_range(atoms_.back().var, facts_.bounds(e));
      zero_.push_back(false);
      vars.push_back(atoms_.back().var);
      return ir::var(atoms_.back().var);
    }
    return ir::map_children(e, [&](const Expr& child) { return abstract(child, vars); });
  }

  /// Position in zero_ of a quantity that both instances share; -1 for one of a single instance.
  int position(const Var& v) const {
    for (std::size_t i = 0; i < common_; ++i)
      if (vars_a_[i] == v) return static_cast<int>(i);
    for (std::size_t i = 0; i < atoms_.size(); ++i)
      if (atoms_[i].var == v && atoms_[i].common) return static_cast<int>(common_ + i);
    return -1;
  }

  Term term(const Var& v, std::int64_t coefficient, int same) const {
    const ir::Interval range = facts_.bounds(ir::var(v));
    const double lo = low_bound(range), hi = high_bound(range);
    if (same >= 0) return {coefficient, lo - hi, hi - lo, same};
    return {coefficient, lo, hi, -1};
  }

  /// An index read from memory that changes meanwhile says nothing.
  bool is_stable(const Expr& e) const {
    bool stable = true;
    ir::walk(e, [&](const Expr& x) {
      if (const auto* l = as<ir::Load>(x); l && written_.contains(l->buffer)) stable = false;
    });
    return stable;
  }

  void add_equation(const Expr& x, const Expr& y) {
    if (!is_stable(x) || !is_stable(y)) return;
    std::vector<Var> vars_x = vars_a_, vars_y = vars_b_;
    const Expr ex = abstract(x, vars_x), ey = abstract(y, vars_y);
    const auto ax = ir::as_affine(ex, vars_x), ay = ir::as_affine(ey, vars_y);
    if (!ax || !ay) return;
    Equation q;
    std::map<Var, std::int64_t> left = ay->coefficients;
    for (const auto& [v, c] : ax->coefficients) {
      if (c == 0) continue;
      const int same = position(v);
      const auto it = left.find(v);
      if (same >= 0 && it != left.end() && it->second == c) {
        q.terms.push_back(term(v, c, same));
        left.erase(it);
      } else {
        q.terms.push_back(term(v, c, -1));
      }
    }
    for (const auto& [v, c] : left)
      if (c != 0) q.terms.push_back(term(v, -c, -1));
    const Expr rest = ir::simplify(ax->rest - ay->rest, facts_);
    const ir::Interval bounds = facts_.bounds(rest);
    q.lo = low_bound(bounds);
    q.hi = high_bound(bounds);
    q.exact = ir::as_int(rest).has_value();
    equations_.push_back(std::move(q));
  }

  static bool is_digit(const Expr& e, ir::BinaryOp op) {
    const auto* x = as<ir::Binary>(e);
    return x && x->op == op;
  }

  bool same_value(const Expr& x, const Expr& y) const {
    return ir::same(x, y) || ir::same(ir::simplify(x, facts_), ir::simplify(y, facts_));
  }

  /// The right side is positive, or the loops that the left side uses run no iteration when it is zero.
  bool is_divisor(const ir::Binary& digit) const {
    if (facts_.proves(ir::lt(ir::int_imm(0), digit.b))) return true;
    if (facts_.bounds(digit.b).lo < 0) return false;
    for (std::size_t i = 0; i < common_; ++i) {
      if (!ir::uses(digit.a, vars_a_[i])) continue;
      const Expr extent = ir::rewrite(
          a_.loop(i).extent, [&](const Expr& x) { return ir::same(x, digit.b) ? ir::int_imm(0) : x; });
      if (ir::as_int(ir::simplify(extent, facts_)) == 0) return true;
    }
    return false;
  }

  /// When the quotient and the remainder of an expression are equal in both instances, so is the expression.
  bool join_digits() {
    bool changed = false;
    for (std::size_t i = 0; i < atoms_.size(); ++i) {
      if (joined_.contains(i) || !zero_[common_ + i] || !is_digit(atoms_[i].expr, ir::BinaryOp::mod))
        continue;
      const auto& low = std::get<ir::Binary>(atoms_[i].expr->v);
      if (!is_divisor(low)) continue;
      for (std::size_t j = 0; j < atoms_.size(); ++j) {
        if (!zero_[common_ + j] || !is_digit(atoms_[j].expr, ir::BinaryOp::floor_div)) continue;
        if (!same_value(atoms_[j].expr, ir::floor_div(low.a, low.b))) continue;
        joined_.insert(i);
        changed = true;
        mark_equal(low.a);
        break;
      }
    }
    return changed;
  }

  void mark_equal(const Expr& e) {
    for (std::size_t i = 0; i < atoms_.size(); ++i)
      if (atoms_[i].common && same_value(atoms_[i].expr, e)) {
        zero_[common_ + i] = true;
        return;
      }
    if (is_digit(e, ir::BinaryOp::floor_div)) {
      atoms_.push_back({e, ir::fresh_var("atom"), true});
      zero_.push_back(true);
      return;
    }
    add_equation(e, e);
  }

  struct Atom {
    Expr expr;
    Var var;
    bool common;
  };
  const Access& a_;
  const Access& b_;
  ir::Facts facts_;
  const std::set<ir::Buffer>& written_;
  std::size_t common_ = 0;
  std::vector<Var> vars_a_, vars_b_;
  std::vector<Atom> atoms_;
  std::vector<bool> zero_;  ///< common loops, then atoms
  std::set<std::size_t> joined_;
  std::vector<Equation> equations_;
};

std::string describe(const Access& a) {
  std::string out = a.kind == Access::Kind::read    ? "reads "
                    : a.kind == Access::Kind::write ? "writes "
                                                    : "updates ";
  out += a.buffer->name;
  if (a.index.empty()) return out;
  out += "[";
  for (std::size_t d = 0; d < a.index.size(); ++d) out += (d ? ", " : "") + ir::print(a.index[d]);
  return out + "]";
}

/// Calls f(a, b) for every pair that shares a buffer and holds a write; stops at the first that f answers.
template <class F>
std::optional<Conflict> find_pair(const std::vector<Access>& accesses, const F& f) {
  for (std::size_t i = 0; i < accesses.size(); ++i)
    for (std::size_t j = i; j < accesses.size(); ++j) {
      const Access &a = accesses[i], &b = accesses[j];
      if (a.buffer != b.buffer || a.local || (!a.writes() && !b.writes())) continue;
      if (f(a, b)) return Conflict{a, b};
    }
  return std::nullopt;
}

bool commute(const Access& a, const Access& b) {
  return a.kind == Access::Kind::update && b.kind == Access::Kind::update && a.monoid == b.monoid &&
         ir::is_exact(a.monoid, a.buffer->dtype);
}

}  // namespace

std::string Conflict::text() const {
  if (first.statement == second.statement && first.kind == second.kind)
    return "different iterations may hit the same element where it " + describe(first);
  return "one iteration " + describe(first) + " while another " + describe(second);
}

std::optional<std::vector<bool>> equal_iterations(const Access& a, const Access& b, const ir::Facts& facts,
                                                  const std::set<ir::Buffer>& written) {
  return Solver(a, b, facts, written).solve();
}

std::set<ir::Buffer> written_buffers(const std::vector<Access>& accesses) {
  std::set<ir::Buffer> out;
  for (const Access& a : accesses)
    if (a.writes()) out.insert(a.buffer);
  return out;
}

std::optional<Conflict> find_carried(const Stmt& root, const ir::Facts& facts) {
  const Expr& extent = std::get<ir::Loop>(root->v).extent;
  if (facts.proves(ir::binary(ir::BinaryOp::le, extent, ir::int_imm(1)))) return std::nullopt;  // no other iteration
  const std::vector<Access> accesses = collect_accesses(root);
  const std::set<ir::Buffer> written = written_buffers(accesses);
  return find_pair(accesses, [&](const Access& a, const Access& b) {
    const auto equal = equal_iterations(a, b, facts, written);
    return equal && !equal->front();
  });
}

std::optional<Conflict> find_reversed(const Stmt& root, const std::vector<Var>& before,
                                      const std::vector<Var>& after, const ir::Facts& facts) {
  const std::vector<Access> accesses = collect_accesses(root);
  const std::set<ir::Buffer> written = written_buffers(accesses);
  return find_pair(accesses, [&](const Access& a, const Access& b) {
    if (commute(a, b)) return false;
    const auto equal = equal_iterations(a, b, facts, written);
    if (!equal) return false;
    const auto free = [&](const Var& v) {
      for (std::size_t i = 0; i < equal->size(); ++i)
        if (a.loop(i).var == v) return !(*equal)[i] && ir::as_int(a.loop(i).extent) != 1;  // no other iteration
      return false;
    };
    std::vector<Var> x, y;
    std::copy_if(before.begin(), before.end(), std::back_inserter(x), free);
    std::copy_if(after.begin(), after.end(), std::back_inserter(y), free);
    return x.size() > 1 && x != y;
  });
}

}  // namespace loopwright::schedule
