#include "src/schedule/steps/unroll.h"

#include <algorithm>

#include "src/schedule/rejection.h"

namespace loopwright::schedule {

using ir::as;
using ir::Stmt;

namespace {

constexpr std::int64_t kMaxCopies = 64;
constexpr std::int64_t kMaxNestedCopies = 1024;

std::int64_t unrolled_copies(const Stmt& s) {
  if (const auto* l = as<ir::Loop>(s)) {
    const std::int64_t inner = unrolled_copies(l->body);
    return l->kind == ir::LoopKind::unroll
               ? inner * std::max<std::int64_t>(1, ir::as_int(l->extent).value_or(1))
               : inner;
  }
  std::int64_t most = 1;
  ir::map_children(
      s, [](const ir::Expr& e) { return e; },
      [&](const Stmt& child) {
        most = std::max(most, unrolled_copies(child));
        return child;
      });
  return most;
}

}  // namespace

Result<Applied> apply(const ir::Kernel& k, const Unroll& step) {
  LW_TRY(const Site site, require_serial(k, step.loop));
  const ir::Loop& l = site.loop();
  const auto extent = ir::as_int(ir::simplify(l.extent, facts_before(k, site)));
  if (!extent)
    return rejected(ErrorCode::illegal_unroll, "the extent " + ir::print(l.extent) + " is not a constant", k,
                    site.stmt(), "split " + step.loop + " by a factor first, then unroll the inner loop");
  std::int64_t copies =
      unrolled_copies(l.body) * std::max<std::int64_t>(1, std::min(*extent, kMaxNestedCopies + 1));
  for (const Stmt& s : site.path)
    if (const auto* outer = as<ir::Loop>(s); outer && outer->kind == ir::LoopKind::unroll)
      copies *= std::max<std::int64_t>(1, ir::as_int(outer->extent).value_or(1));
  if (*extent > kMaxCopies || copies > kMaxNestedCopies)
    return rejected(
        ErrorCode::too_large,
        std::to_string(*extent) + " copies, " + std::to_string(copies) + " with the loops around and inside",
        k, site.stmt(), "at most 64 copies of one loop and 1024 together: split " + step.loop + " first");
  return Applied{
      edit(k, {{site.stmt().get(), ir::loop(l.var, ir::int_imm(*extent), l.body, ir::LoopKind::unroll)}}),
      {}};
}

}  // namespace loopwright::schedule
