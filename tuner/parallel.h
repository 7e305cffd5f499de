// Work on large buffers, shared out over all cores. Nothing is timed meanwhile.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace loopwright::tuner {

/// Below this a thread costs more than it saves.
inline constexpr std::int64_t kPart = 1 << 20;

/// Calls work(part, begin, end) for parts of [0, count) that are kPart long, the last one shorter; each once, in any
/// order and on several threads when there are several parts. `work` must not throw.
template <class Work>
void for_each_part(std::int64_t count, const Work& work, unsigned most_threads = 16) {
  const std::int64_t parts = (count + kPart - 1) / kPart;
  std::atomic<std::int64_t> next{0};
  const auto serve = [&] {
    for (std::int64_t part = next++; part < parts; part = next++) work(part, part * kPart, std::min(count, (part + 1) * kPart));
  };
  const std::int64_t wanted = std::min<std::int64_t>({parts, std::thread::hardware_concurrency(), most_threads});
  std::vector<std::jthread> threads;
  for (std::int64_t t = 1; t < wanted; ++t) threads.emplace_back(serve);
  serve();
}

void copy_parts(void* to, const void* from, std::size_t bytes);
bool equal_parts(const void* a, const void* b, std::size_t bytes);

}  // namespace loopwright::tuner
