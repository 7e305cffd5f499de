// The closed table of monoids: identity and combination as expressions, so that every consumer of the IR agrees.
#pragma once

#include <vector>

#include "src/ir/nodes.h"

namespace loopwright::ir {

std::string_view name(Monoid monoid);
std::optional<Monoid> parse_monoid(std::string_view text);
/// Number of state components.
int arity(Monoid monoid);
/// The neutral state, one constant for each component of the given dtypes.
std::vector<Expr> identity(Monoid monoid, const std::vector<DType>& dtypes);
/// combine(a, b), one expression for each component. Operands are used several times: pass variables or loads.
std::vector<Expr> combine(Monoid monoid, const std::vector<Expr>& a, const std::vector<Expr>& b);
/// True when the result does not depend on the order and grouping, bit for bit (min, max, any, all, arg*, integer sums).
bool is_exact(Monoid monoid, DType dtype);

/// True when the monoid is defined for state components of these dtypes.
bool accepts(Monoid monoid, const std::vector<DType>& dtypes);

}  // namespace loopwright::ir
