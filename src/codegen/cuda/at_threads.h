// Values of index expressions at given thread numbers.
#pragma once

#include <map>
#include <optional>

#include "src/ir/nodes.h"

namespace loopwright::codegen {

/// Value of an index when variables have these values; empty when it holds anything else.
std::optional<std::int64_t> at_threads(const ir::Expr& e, const std::map<ir::Var, std::int64_t>& values);

}  // namespace loopwright::codegen
