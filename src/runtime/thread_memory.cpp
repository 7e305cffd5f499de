#include "src/runtime/thread_memory.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace loopwright::runtime {
namespace {

/// Plain data, so that the hot path reads it without the guard that a thread_local with a destructor has.
struct Memory {
  std::byte* base;
  std::int64_t bytes;
};
constinit thread_local Memory blocks[kThreadBlockCount] = {};

struct MemoryOwner {
  bool started = false;
  MemoryOwner() : started(true) {}
  ~MemoryOwner() {
    for (Memory& memory : blocks) {
      std::free(memory.base);
      memory = {};
    }
  }
};

/// An arena larger than the machine's memory could be allocated but not used: the system would end the program.
std::int64_t count_physical_bytes() noexcept {
  const std::int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  std::int64_t bytes = 0;
  const bool known = pages > 0 && page > 0 && !__builtin_mul_overflow(pages, page, &bytes);
  return known ? bytes : std::numeric_limits<std::int64_t>::max() / 2;
}

/// By at least an eighth, so that a symbol that creeps up does not allocate on each call.
std::byte* grow(Memory& memory, std::int64_t bytes) noexcept {
  constexpr std::int64_t kPage = 4096;
  thread_local const MemoryOwner owner;
  if (!owner.started || bytes > count_physical_bytes()) return nullptr;
  const std::int64_t wanted = (std::max(bytes, memory.bytes + memory.bytes / 8) + kPage - 1) / kPage * kPage;
  std::free(memory.base);
  memory = {};
  auto* base = static_cast<std::byte*>(std::aligned_alloc(kPage, static_cast<std::size_t>(wanted)));
  if (base != nullptr && &memory == &blocks[static_cast<int>(ThreadBlock::zeroed)])
    std::fill_n(base, wanted, std::byte{0});
  if (base != nullptr) memory = {base, wanted};
  return base;
}

}  // namespace

std::byte* reserve_thread_memory(ThreadBlock which, std::int64_t bytes) noexcept {
  Memory& memory = blocks[static_cast<int>(which)];
  if (bytes <= memory.bytes) [[likely]]
    return memory.base;
  return grow(memory, bytes);
}

}  // namespace loopwright::runtime
