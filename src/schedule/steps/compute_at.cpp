#include "src/schedule/steps/compute_at.h"

#include <algorithm>

#include "src/schedule/narrow.h"

namespace loopwright::schedule {

using ir::Stmt;

namespace {

constexpr ErrorCode kComputeAtCode = ErrorCode::illegal_compute_at;

/// Nobody but the loop's body and the producers reads the buffers.
Status check_readers(const ir::Kernel& k, const std::vector<ir::Buffer>& buffers, const Producers& p,
                     const Site& site) {
  std::set<Stmt> allowed;
  const auto allow = [&](const Stmt& root) {
    for (const Access& a : collect_accesses(root)) allowed.insert(a.statement);
  };
  for (const Stmt& u : p.units) allow(u);
  allow(site.loop().body);
  for (const Access& a : collect_accesses(k.body))
    if (std::find(buffers.begin(), buffers.end(), a.buffer) != buffers.end() &&
        !allowed.contains(a.statement))
      return rejected(kComputeAtCode, "`" + a.buffer->name + "` is also used outside `" + site.loop().var.hint + "`",
                      k, a.statement,
                      "compute the other readers at this loop first, or a loop around all of them");
  return Unit{};
}

}  // namespace

Result<Applied> apply(const ir::Kernel& k, const ComputeAt& step) {
  LW_TRY(const Site alloc, require_intermediate(k, step.buffer, kComputeAtCode));
  LW_TRY(const Site site, require_loop(k, step.loop));
  LW_CHECK(require_room(k, site, step.place, kComputeAtCode));
  const ir::Buffer buffer = std::get<ir::Alloc>(alloc.stmt()->v).buffer;
  const std::vector<ir::Buffer> group = update_group(k.body, buffer);
  for (const ir::Buffer& b : group) LW_CHECK(require_intermediate(k, b->name, kComputeAtCode));
  LW_TRY(const Producers p, find_producers(k, group, site, false, kComputeAtCode));
  LW_CHECK(check_readers(k, group, p, site));
  std::vector<Stmt> others = p.between;
  others.push_back(p.user);
  LW_CHECK(check_inputs(k, p.units, others, kComputeAtCode));

  const ir::Facts facts = facts_inside(k, site);
  const Stmt& body = site.loop().body;
  const Region region = region_of(collect_accesses(body), group, facts, true, step.place == Place::fragment);
  LW_TRY(MovedProducers moved, move_producers(k, p.units, group, region, step.place, facts, kComputeAtCode));
  moved.items.push_back(redirect(body, facts, moved.local, relative_to(region)));
  moved.edits[site.stmt().get()] =
      with_body(site.stmt(), alloc_all(moved.allocs, ir::seq(std::move(moved.items))));
  Applied out{edit(k, moved.edits), {}};
  out.kernel.body = drop_allocs(out.kernel.body, group);
  return out;
}

}  // namespace loopwright::schedule
