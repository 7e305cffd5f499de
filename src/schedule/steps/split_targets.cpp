#include "src/schedule/steps/split_targets.h"

#include <algorithm>

#include "src/schedule/access.h"
#include "src/schedule/rejection.h"

namespace loopwright::schedule {

using ir::as;
using ir::Expr;
using ir::Stmt;
using ir::Var;

namespace {

constexpr ErrorCode kSplitTargetsCode = ErrorCode::illegal_bind;

Error reject(const ir::Kernel& k, const Stmt& at, std::string found) {
  return rejected(kSplitTargetsCode, std::move(found), k, at,
                  "a nest that writes one dimension where an index that it reads says, as scatter does");
}

/// The dimension that is indexed by data which the loops move through; empty for none or several.
std::optional<std::size_t> find_dimension(const std::vector<Expr>& index, const std::vector<Stmt>& around) {
  std::optional<std::size_t> found;
  for (std::size_t d = 0; d < index.size(); ++d) {
    if (!is_moved_by_data(index[d], around)) continue;
    if (found) return std::nullopt;
    found = d;
  }
  return found;
}

}  // namespace

Result<Applied> apply(const ir::Kernel& k, const SplitTargets& step) {
  LW_TRY(const Site site, require_serial(k, step.loop));
  if (step.part < 1)
    return rejected(ErrorCode::bad_argument, "parts of " + std::to_string(step.part) + " elements", {},
                    "1 element or more");
  LW_CHECK(require_no_lanes(k, site, kSplitTargetsCode));
  const Chain chain = chain_of(site.stmt());
  const auto* store = as<ir::Store>(chain.leaf);
  const auto* update = as<ir::Update>(chain.leaf);
  if (!store && !update) return reject(k, site.stmt(), "the loop does not hold a single store or update");
  const std::vector<ir::Buffer> written = store ? std::vector{store->buffer} : update->buffers;
  for (const Access& a : collect_accesses(site.stmt()))
    if (a.kind == Access::Kind::read && std::find(written.begin(), written.end(), a.buffer) != written.end())
      return reject(k, a.statement, "`" + a.buffer->name + "` is read where it is written");
  std::vector<Expr> index = store ? store->index : update->index;
  const auto d = find_dimension(index, chain.around);
  if (!d)
    return reject(k, chain.leaf,
                  "no single dimension of `" + written.front()->name +
                      "` is indexed by data that the loops move through");

  Names names(k);
  const Var part = names.var(step.loop + "_t");
  const Expr size = ir::int_imm(step.part), first = ir::var(part) * size, at = index[*d];
  const Expr within = ir::logical_and(ir::binary(ir::BinaryOp::le, first, at), ir::lt(at, first + size));
  index[*d] = first + ir::mod(at, size);
  const Stmt leaf =
      ir::if_then(within, store ? ir::store(store->buffer, index, store->value)
                                : ir::update(update->monoid, update->buffers, index, update->values));
  const Expr parts = ir::simplify(ir::ceil_div(written.front()->shape[*d], size), facts_before(k, site));
  return Applied{edit(k, {{site.stmt().get(), ir::loop(part, parts, wrap(chain.around, leaf))}}),
                 {part.hint}};
}

}  // namespace loopwright::schedule
