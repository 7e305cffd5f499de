#include "tuner/parallel.h"

#include <cstring>

namespace loopwright::tuner {

void copy_parts(void* to, const void* from, std::size_t bytes) {
  for_each_part(static_cast<std::int64_t>(bytes), [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin, static_cast<std::size_t>(end - begin));
  });
}

bool equal_parts(const void* a, const void* b, std::size_t bytes) {
  std::atomic<bool> equal{true};
  for_each_part(static_cast<std::int64_t>(bytes), [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    if (std::memcmp(static_cast<const char*>(a) + begin, static_cast<const char*>(b) + begin, static_cast<std::size_t>(end - begin)) != 0)
      equal = false;
  });
  return equal;
}

}  // namespace loopwright::tuner
