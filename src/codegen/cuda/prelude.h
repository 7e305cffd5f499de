// The functions that emitted text may call beside CUDA's own: each is written into a program only when it is named there.
#pragma once

#include <string>
#include <string_view>

namespace loopwright::codegen {

/// Definitions of every function of the table that `text` names, and of those that these name.
std::string cuda_prelude(std::string_view text);

}  // namespace loopwright::codegen
