// Matrix products among a kernel's nests.
#pragma once

#include <string>
#include <vector>

#include "loopwright/schedule.h"

namespace loopwright::schedules {

/// An update that sums a product of two tensors over one loop, each with one of the result's last two loops.
struct MatrixProduct {
  NestInfo nest;
  LoopId row, column, reduction;  ///< of the result [.., row, column] and the sum
  std::vector<LoopId> batch;
  std::string left, right;  ///< operands indexed by row and reduction, by reduction and column
  std::string group;        ///< where rows are in groups, each of which has a matrix of its own on the right: the group of each row
  std::int64_t groups = 0;  ///< how many
};
/// Without thin ones, which are part of another's epilogue.
std::vector<MatrixProduct> find_matrix_products(const Schedule& s);

/// Position of the loop among the dimensions with which the nest reads `buffer`; -1 when it is not there.
int dimension_of(const NestInfo& n, const std::string& buffer, const LoopId& l);

/// Operands that pointwise nests compute for the one product alone. They stay buffers until they are copied, so that an
/// element is computed once and not for every product that it takes part in.
std::vector<std::string> find_computed_operands(const Schedule& s);

/// Whether the operand's elements are converted before they are multiplied.
bool is_narrow_operand(const Schedule& s, const std::string& operand, const NestInfo& product);

/// The definition of an operand that is computed goes to where it is read: into the copy, or else into the product.
void inline_operand(Schedule& s, const std::string& operand);

/// The buffer that the last update sums into now.
std::string updated_buffer(const Schedule& s);

}  // namespace loopwright::schedules
