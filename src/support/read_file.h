// Text files that a user names.
#pragma once

#include <cstddef>
#include <string>

#include "loopwright/base.h"

namespace loopwright {

/// The whole of a file, a pipe or a device; io when it cannot be read, too_large beyond `most_bytes`, of which no more is
/// read: a device may have no end.
Result<std::string> read_file(const std::string& path, std::size_t most_bytes);

}  // namespace loopwright
