// Values of which a few bits are enough: in the end they are rounded to 16 bits, and on the way there an error of 2^-17 of
// the value stays one. Products and quotients keep it, so do sums of what is not negative, and values that are kept in
// between and only used so.
#pragma once

#include <set>

#include "src/ir/kernel.h"

namespace loopwright::codegen {

/// The exponentials, sigmoids and quotients of the kernel that may be computed roughly wherever they are used.
std::set<const ir::ExprNode*> find_rough(const ir::Kernel& kernel);

}  // namespace loopwright::codegen
