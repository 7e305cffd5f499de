#include "schedules/products.h"

#include <algorithm>

#include "schedules/nests.h"

namespace loopwright::schedules {

std::vector<MatrixProduct> find_matrix_products(const Schedule& s) {
  std::vector<MatrixProduct> out;
  for (const NestInfo& n : main_updates(s)) {
    if (n.monoid != "sum" || n.reduction.size() != 1 || n.spatial.size() < 2) continue;
    MatrixProduct p{n, n.spatial[n.spatial.size() - 2], n.spatial.back(), n.reduction[0], {}, {}, {}};
    p.batch.assign(n.spatial.begin(), n.spatial.end() - 2);
    const std::optional<NestInfo> groups = find_groups(s);
    for (const ReadInfo& r : n.reads) {
      if (!has_loop(r, p.reduction)) continue;
      if (r.by_data && (!groups || !p.group.empty())) continue;  // another matrix for each row
      if (r.by_data) p.group = groups->buffer, p.groups = s.max_extent(groups->reduction[0]);
      if (has_loop(r, p.row) && !has_loop(r, p.column)) p.left = r.buffer;
      if (has_loop(r, p.column) && !has_loop(r, p.row)) p.right = r.buffer;
    }
    if (!p.left.empty() && !p.right.empty()) out.push_back(std::move(p));
  }
  return out;
}

int dimension_of(const NestInfo& n, const std::string& buffer, const LoopId& l) {
  for (const ReadInfo& r : n.reads)
    if (r.buffer == buffer)
      for (std::size_t d = 0; d < r.dims.size(); ++d)
        if (r.dims[d] == l.name) return static_cast<int>(d);
  return -1;
}

std::vector<std::string> find_computed_operands(const Schedule& s) {
  const MatrixProduct p = find_matrix_products(s)[0];
  std::vector<std::string> out;
  for (const std::string& operand : {p.left, p.right})
    if (!s.buffer(operand).is_param && p.left != p.right && reader_count(s, operand) == 1) out.push_back(operand);
  return out;
}

bool is_narrow_operand(const Schedule& s, const std::string& operand, const NestInfo& product) {
  return s.buffer(operand).dtype != s.buffer(product.buffer).dtype;
}

void inline_operand(Schedule& s, const std::string& operand) {
  if (s.ok() && !s.buffer(operand).is_param) s.attempt([&](Schedule& t) { t.inline_buffer(operand); });
}

std::string updated_buffer(const Schedule& s) {
  const std::vector<NestInfo> sums = updates(s);
  return sums.empty() ? "" : sums.back().buffer;
}

}  // namespace loopwright::schedules
