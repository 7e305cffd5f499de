// The functions that texts with rings call: barriers, the copy engine, tensor cores.
#pragma once

#include <string>
#include <string_view>

namespace loopwright::codegen {

/// Definitions of what `text` calls of them.
std::string tensor_core_prelude(std::string_view text);

}  // namespace loopwright::codegen
