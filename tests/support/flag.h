// Numbers given to a test program beside GoogleTest's own options, for longer runs by hand.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace loopwright::test {

/// The value of `--name=N` among the program's arguments, or `otherwise`.
inline std::uint64_t flag(const std::string& name, std::uint64_t otherwise) {
  const std::string prefix = "--" + name + "=";
  for (const std::string& a : ::testing::internal::GetArgvs())
    if (a.rfind(prefix, 0) == 0) return std::stoull(a.substr(prefix.size()));
  return otherwise;
}

}  // namespace loopwright::test
