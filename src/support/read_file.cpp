#include "src/support/read_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>

namespace loopwright {

Result<std::string> read_file(const std::string& path, std::size_t most_bytes) {
  const auto unreadable = [&](const char* what) {
    return Error{ErrorCode::io, "read " + path, std::string(what) + ": " + std::strerror(errno), "", "a file that may be read"};
  };
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return unreadable("it cannot be opened");
  constexpr std::size_t kBlockBytes = 64 << 10;
  std::string text;
  while (stream && text.size() <= most_bytes) {
    const std::size_t before = text.size();
    text.resize(before + kBlockBytes);
    stream.read(text.data() + before, kBlockBytes);
    text.resize(before + static_cast<std::size_t>(stream.gcount()));
  }
  if (stream.bad()) return unreadable("reading failed");
  if (text.size() > most_bytes)
    return Error{ErrorCode::too_large, "read " + path, "more than " + std::to_string(most_bytes) + " bytes", "",
                 "at most " + std::to_string(most_bytes) + " bytes"};
  return text;
}

}  // namespace loopwright
