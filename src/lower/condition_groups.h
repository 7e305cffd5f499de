// Conditions in a loop's body that hold for a stretch of its iterations.
#pragma once

#include <set>
#include <vector>

#include "src/ir/kernel.h"

namespace loopwright::lower {

/// Comparisons of the form `coefficient * v + k + rest < 0` where k, over the inner loops and over all the comparisons
/// of the group, lies in lowest..highest, and `rest` is known before the loop over v.
struct ConditionGroup {
  std::int64_t coefficient = 0;  ///< not zero
  ir::Expr rest;
  std::int64_t lowest = 0, highest = 0;
  std::set<const ir::ExprNode*> comparisons;
  bool guards_only = true;  ///< all are conditions of statements; where they fail nothing is left to do

  /// The first v for which they no longer all hold (coefficient > 0), or for which they all do (coefficient < 0).
  ir::Expr end_of_all() const;
  /// The first v for which none holds any more (coefficient > 0), or for which one may (coefficient < 0).
  ir::Expr end_of_some() const;
};

/// Groups of conditions of If statements, and of selects that guard loads, in `loop`, in order of first appearance.
std::vector<ConditionGroup> find_condition_groups(const ir::Loop& loop);
/// The body with every comparison of the group replaced by what it is known to be.
ir::Stmt assume_group(const ir::Stmt& body, const ConditionGroup& group, bool holds);

}  // namespace loopwright::lower
