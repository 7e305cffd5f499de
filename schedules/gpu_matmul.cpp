// GPU: matrix products. With a thin side by single warps on tensor cores (gpu_thin_product.cpp). On Hopper's tensor cores
// where the operands are parameters of 16 bits that the copy engine can take, or of f32 where tf32 is allowed, or f32 ones
// whose product is large enough to be made of bf16 parts (gpu_tensor_product.cpp), otherwise in plain arithmetic
// (gpu_plain_product.cpp).
#include <algorithm>

#include "schedules/families.h"
#include "schedules/gpu_products.h"
#include "schedules/nests.h"

namespace loopwright::schedules {

bool is_gpu_matmul(const Schedule& s) {
  const std::vector<MatrixProduct> products = find_matrix_products(s);
  if (products.empty() || products.size() != main_updates(s).size() || s.max_extent(products[0].reduction) <= 0) return false;
  const MatrixProduct& p = products[0];
  // Several sums of one tile, where they meet: of one left operand.
  if (products.size() > 1)
    return std::all_of(products.begin(), products.end(), [&](const MatrixProduct& q) { return q.left == p.left && q.right != p.left && q.group.empty() && !q.nest.writes_output; });
  const auto runs_along_sum = [&](const std::string& operand) { return dimension_of(p.nest, operand, p.reduction) + 1 == static_cast<int>(s.buffer(operand).shape.size()); };
  if (!p.group.empty()) return true;
  // One row against rows of weights: every weight is read once, along its memory, which rows of sums do best.
  return !((s.max_extent(p.row) == 1 || s.max_extent(p.column) == 1) && runs_along_sum(p.left) && runs_along_sum(p.right));
}

void schedule_gpu_matmul(Schedule& s, Space& k) {
  if (!is_gpu_matmul(s)) return s.reject("no product of two tensors");
  if (suits_thin(s) && k.pick_flag("thin", gains_by_thin(s))) return schedule_thin_product(s, k);
  if (suits_tensor_cores(s) && k.pick_flag("tensor", true)) return schedule_tensor_product(s, k);
  // Parts would be made of all matrices, also of those that no row meets.
  const bool in_groups = !find_matrix_products(s)[0].group.empty();
  if (!in_groups && suits_parts(s) && k.pick_flag("parts", gains_by_parts(s))) return schedule_product_of_parts(s, k);
  schedule_plain_product(s, k);
}

}  // namespace loopwright::schedules
