#include "src/runtime/thread_memory.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <vector>

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

/// Who has which number. Lives as long as the process: threads may end after everything else has.
struct ThreadNumbers {
  std::mutex mutex;
  std::vector<bool> taken;

  static ThreadNumbers& all() {
    static auto* const numbers = new ThreadNumbers;
    return *numbers;
  }
  int take() {
    const std::lock_guard lock(mutex);
    const auto free = std::find(taken.begin(), taken.end(), false);
    const auto number = free - taken.begin();
    if (free == taken.end()) taken.push_back(true);
    else *free = true;
    return static_cast<int>(number);
  }
  void give_back(int number) {
    const std::lock_guard lock(mutex);
    taken[static_cast<std::size_t>(number)] = false;
  }
};

constexpr int kNoNumberYet = -2, kEnded = -1;
constinit thread_local int number_of_thread = kNoNumberYet;

int take_number() noexcept {
  struct Owner {
    Owner() { number_of_thread = ThreadNumbers::all().take(); }
    ~Owner() {
      ThreadNumbers::all().give_back(number_of_thread);
      number_of_thread = kEnded;
    }
  };
  try {
    thread_local const Owner owner;
    static_cast<void>(owner);
    return number_of_thread;
  } catch (...) {  // host memory
    return kEnded;
  }
}

}  // namespace

int thread_number() noexcept {
  return number_of_thread != kNoNumberYet ? number_of_thread : take_number();
}

std::byte* reserve_thread_memory(ThreadBlock which, std::int64_t bytes) noexcept {
  Memory& memory = blocks[static_cast<int>(which)];
  if (bytes <= memory.bytes) [[likely]]
    return memory.base;
  return grow(memory, bytes);
}

}  // namespace loopwright::runtime
