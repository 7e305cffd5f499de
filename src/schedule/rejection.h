// Rejections: errors with the place marked in the kernel's text. `asked` is filled in by whoever applies the step.
#pragma once

#include <string>

#include "loopwright/schedule.h"
#include "src/ir/text.h"
#include "src/schedule/site.h"

namespace loopwright::schedule {

inline Error rejected(ErrorCode code, std::string found, std::string where = {}, std::string works = {}) {
  return {code, {}, std::move(found), std::move(where), std::move(works)};
}

inline Error rejected(ErrorCode code, std::string found, const ir::Kernel& k, const ir::Stmt& marked,
                      std::string works) {
  return {code, {}, std::move(found), ir::print_marked(k, marked), std::move(works)};
}

/// The loop of that name, or unknown_loop with the names that exist.
Result<Site> require_loop(const ir::Kernel& k, const std::string& name);
/// The same; bad_argument unless it is serial (or, with `unrolled`, unroll).
Result<Site> require_serial(const ir::Kernel& k, const std::string& name, bool unrolled = false);
/// The Alloc of an intermediate; unknown_buffer, or `code` when the name is a parameter.
Result<Site> require_intermediate(const ir::Kernel& k, const std::string& name, ErrorCode code);
Result<ir::Buffer> require_buffer(const ir::Kernel& k, const std::string& name);
/// The first vectorized loop on the path, if any: new loops must not appear below it.
const ir::Loop* vectorized_above(const Site& at);
/// Rejects with `code` when the loop is, or lies inside, a vectorized loop, which must stay innermost; and when it is or
/// lies inside a parallel loop and the place is global, which all iterations would share.
Status require_room(const ir::Kernel& k, const Site& at, Place place, ErrorCode code);
/// The same for a loop that stays as it is around what is added in front of it.
Status require_no_lanes(const ir::Kernel& k, const Site& at, ErrorCode code);

}  // namespace loopwright::schedule
