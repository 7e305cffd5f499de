#include "src/schedule/steps/cache.h"

#include <algorithm>

#include "src/schedule/rejection.h"

namespace loopwright::schedule {

Result<Applied> apply(const ir::Kernel& k, const Cache& step) {
  LW_TRY(const ir::Buffer buffer, require_buffer(k, step.buffer));
  const auto at = std::find_if(k.params.begin(), k.params.end(), [&](const ir::Param& p) { return p.buffer == buffer; });
  if (at == k.params.end() || at->role != ArgRole::input)
    return rejected(ErrorCode::bad_argument, "`" + step.buffer + "` is no input, or one that is written", {}, "an input that is read only");
  const DType t = buffer->dtype;
  if (t != DType::f32 && t != DType::bf16 && t != DType::f16)
    return rejected(ErrorCode::bad_argument, "`" + step.buffer + "` has elements of the dtype " + std::string(name(t)), {}, "f32, bf16 or f16");
  Applied out{k, {}};
  out.kernel.params[static_cast<std::size_t>(at - k.params.begin())].cache = step.policy;
  return out;
}

}  // namespace loopwright::schedule
