// Named compositions of ops. They expand into primitives at once; a graph never holds one.
#pragma once

#include "src/graph/ops.h"

namespace loopwright::graph {

struct Composite {
  Op op;  ///< signature and dtypes only
  /// Operands that are absent have id -1; all positions are there. The last node gets `name`.
  std::function<Result<Value>(Graph&, const Call&, const std::vector<Value>& inputs, const std::string& name)>
      expand;
};

const std::vector<Composite>& composite_table();
/// Null when there is none.
const Composite* find_composite(std::string_view name);
/// Checks the call and expands it.
Result<Value> expand_composite(Graph& g, const Composite& composite, std::vector<Value> inputs,
                               const std::vector<NamedAttribute>& attributes, const std::string& name);

}  // namespace loopwright::graph
