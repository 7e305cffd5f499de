// A kernel in higher precision: the oracle of the tuner's verification.
#pragma once

#include "src/ir/kernel.h"

namespace loopwright::driver {

/// Every float operation, intermediate and result in f64. Buffers that are only read keep their dtype (their values are
/// the data); every other float buffer, in-place inputs too, becomes f64. Casts between floats vanish.
ir::Kernel promote_to_f64(const ir::Kernel& kernel);

}  // namespace loopwright::driver
