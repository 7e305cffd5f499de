// SHA-256, for the keys of the database and for content-addressed artifacts.
#pragma once

#include <string>
#include <string_view>

namespace loopwright {

/// 64 lower-case hexadecimal digits.
std::string sha256_hex(std::string_view bytes);
/// The same without the processor's instructions for it.
std::string sha256_hex_plain(std::string_view bytes);

}  // namespace loopwright
