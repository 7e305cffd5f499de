// Definitions of loads and of row copies with cache policies.
#pragma once

#include <string>
#include <string_view>

namespace loopwright::codegen {

/// Those that the text calls: lw_load_<policy> of every type that loads have, lw_copy_row_<policy>.
std::string cache_prelude(std::string_view text);

}  // namespace loopwright::codegen
