// Which loops carry a dependence. Answers are conservative: what is not proved absent counts as present.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "src/ir/simplify.h"
#include "src/schedule/access.h"

namespace loopwright::schedule {

/// Two accesses, at least one of them a write, that may touch the same element in different iterations of a loop.
struct Conflict {
  Access first, second;
  /// `iterations may both write acc[i]` and the like.
  std::string text() const;
};

/// For the loops around both accesses (their common outermost ones below the root): true where two instances that touch
/// the same element are certainly in the same iteration. Empty when no instances touch the same element.
/// `facts` is what is known in front of the root; `written` are the buffers that change below it.
std::optional<std::vector<bool>> equal_iterations(const Access& a, const Access& b, const ir::Facts& facts,
                                                  const std::set<ir::Buffer>& written);
std::set<ir::Buffer> written_buffers(const std::vector<Access>& accesses);

/// A conflict between different iterations of the loop `root` through memory that outlives an iteration.
std::optional<Conflict> find_carried(const ir::Stmt& root, const ir::Facts& facts);

/// A conflict whose order changes when the loops of the chain that begins at `root` run in the order `after` instead of
/// `before`. Both list the same loops.
std::optional<Conflict> find_reversed(const ir::Stmt& root, const std::vector<ir::Var>& before,
                                      const std::vector<ir::Var>& after, const ir::Facts& facts);

}  // namespace loopwright::schedule
