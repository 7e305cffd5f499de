#include "src/schedule/steps/stream.h"

#include <algorithm>

#include "src/schedule/rejection.h"
#include "src/schedule/access.h"

namespace loopwright::schedule {

Result<Applied> apply(const ir::Kernel& k, const Stream& step) {
  LW_TRY(const ir::Buffer buffer, require_buffer(k, step.buffer));
  const auto at = std::find_if(k.params.begin(), k.params.end(),
                               [&](const ir::Param& p) { return p.buffer == buffer; });
  if (at == k.params.end() || at->role != ArgRole::output)
    return rejected(ErrorCode::bad_argument, "`" + step.buffer + "` is no output", {}, "an output");
  for (const Access& a : collect_accesses(k.body))
    if (a.buffer == buffer && a.kind != Access::Kind::write)
      return rejected(ErrorCode::bad_argument, "`" + step.buffer + "` is read again", k, a.statement,
                      "an output that is written once; hold it first");
  Applied out{k, {}};
  out.kernel.params[static_cast<std::size_t>(at - k.params.begin())].is_streamed = true;
  return out;
}

}  // namespace loopwright::schedule
