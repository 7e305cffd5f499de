// Host memory that belongs to a thread and only grows.
#pragma once

#include <cstddef>
#include <cstdint>

namespace loopwright::runtime {

/// A thread runs one plan at a time, so that all its plans share these.
enum class ThreadBlock : std::uint8_t { tables, arena, zeroed };
inline constexpr int kThreadBlockCount = 3;

/// At least `bytes`, page-aligned; the content is lost when the block grows, and `zeroed` is then zero. Null when there is
/// no memory left.
std::byte* reserve_thread_memory(ThreadBlock which, std::int64_t bytes) noexcept;

/// The calling thread's number: the smallest that no thread has which runs. What belonged to the number of a thread that
/// ended belongs to the next one that gets it. -1 while the thread ends, or without memory.
int thread_number() noexcept;

}  // namespace loopwright::runtime
