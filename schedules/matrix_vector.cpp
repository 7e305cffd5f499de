// Products with at most a few rows on one side: the larger operand is streamed once, along its memory.
#include <algorithm>

#include "schedules/families.h"
#include "schedules/nests.h"

namespace loopwright::schedules {
namespace {

/// The one product: an update that sums over one loop and reads two tensors.
std::vector<NestInfo> sums_of_products(const Schedule& s) {
  std::vector<NestInfo> out;
  for (NestInfo& n : updates(s))
    if (n.monoid == "sum" && n.reduction.size() == 1 && n.reads.size() >= 2) out.push_back(std::move(n));
  return out;
}

}  // namespace

bool is_matrix_vector(const Schedule& s) {
  const std::vector<NestInfo> products = sums_of_products(s);
  if (products.size() != 1 || updates(s).size() != 1) return false;
  std::int64_t small = INT64_MAX;
  const NestInfo& n = products[0];
  if (n.spatial.size() > 2) return false;
  if (n.spatial.size() == 1) return true;
  for (const LoopId& l : n.spatial) small = std::min(small, s.max_extent(l));
  return small <= 4;
}

void schedule_matrix_vector(Schedule& s, Space& k) {
  const std::int64_t accumulators = k.pick("accumulators", {4, 2, 8, 1});
  const std::int64_t columns = k.pick("columns", {4, 2, 1, 8});
  inline_intermediates(s);
  const std::vector<NestInfo> products = sums_of_products(s);
  if (!s.ok() || products.size() != 1) return s.reject("not one product");
  const NestInfo n = products[0];
  const LoopId r = n.reduction[0];
  const bool is_dot =
      std::all_of(n.reads.begin(), n.reads.end(), [&](const ReadInfo& a) { return ends_in(a, r); });
  if (is_dot) {  // every operand runs along the reduction: vector accumulators for each result
    s.parallel(n.spatial.size() == 2 && s.max_extent(n.spatial[0]) < s.max_extent(n.spatial[1])
                   ? n.spatial[1]
                   : n.spatial[0]);
    if (!s.ok()) return;
    reduce_in_vectors(s, r, natural_lanes(s, n), accumulators);
    return;
  }
  const LoopId column =
      n.spatial.back();  // the matrix runs along the result: vectors of results, one pass down
  const std::vector<LoopId> parts = s.split(column, {clamp_width(s, column, natural_lanes(s, n) * columns)});
  if (!s.ok()) return;
  std::vector<LoopId> order = {parts[0]};
  order.insert(order.end(), n.spatial.begin(), n.spatial.end() - 1);
  order.insert(order.end(), {r, parts[1]});
  s.reorder(order);
  const LoopId home = order[order.size() - 3];
  s.attempt([&](Schedule& t) {
    for (const LoopId& l : t.hold(n.buffer, home, Place::registers)) t.vectorize(l);
  });
  s.attempt([&](Schedule& t) { t.vectorize(parts[1]); });
  s.attempt([&](Schedule& t) { t.parallel(parts[0]); });
}

}  // namespace loopwright::schedules
