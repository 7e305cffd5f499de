// Interprets two kernels on the same random data.
#pragma once

#include <string>

#include "src/ir/kernel.h"

namespace loopwright::test {

/// Empty when both leave the same bits in every argument, else what differs. The first kernel must run without errors.
std::string compare_meaning(const ir::Kernel& a, const ir::Kernel& b, const Bindings& symbols, unsigned seed = 1);
/// Lowers `text` pass by pass, verifying and comparing after each with the kernel as given.
std::string check_every_pass(const std::string& text, const Bindings& symbols);

}  // namespace loopwright::test
