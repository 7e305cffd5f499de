// Messages between the tuner and its worker: four bytes of length (little endian), then that many bytes of JSON text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace loopwright::tuner {

inline constexpr int kProtocolVersion = 1;
/// Longer messages are refused on both sides: a wild length must not become a wild allocation.
inline constexpr std::uint32_t kMaxMessageBytes = 64u << 20;
/// The worker finds its socket and the shared memory at these descriptors.
inline constexpr int kWorkerSocket = 3;
inline constexpr int kWorkerArena = 4;

enum class Received : std::uint8_t { message, timeout, closed, broken };

/// False when the other side is gone or the message is too long.
bool send_message(int socket, std::string_view text);
/// Waits at most `timeout_ms` for the whole message; a negative number waits for ever.
Received receive_message(int socket, std::int64_t timeout_ms, std::string& text);

/// First page of the shared memory: what the worker's signal handler can still say.
struct FaultReport {
  std::uint32_t signal = 0;        ///< 0: none
  std::uint32_t inside_arena = 0;  ///< 1: `offset` is the address that was touched
  std::uint64_t offset = 0;
};
/// Exit status of a worker whose handler wrote a FaultReport.
inline constexpr int kFaultExit = 86;

/// Shared memory seen by both sides at different addresses; positions in it are offsets.
class Arena {
 public:
  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();
  /// Sparse memory of `bytes` bytes, or less where that much address space is refused; false when none is to be had.
  bool create(std::uint64_t bytes);
  bool attach(int descriptor);
  std::uint8_t* at(std::uint64_t offset) const { return base_ + offset; }
  std::uint64_t bytes() const { return bytes_; }
  int descriptor() const { return descriptor_; }
  /// Gives the memory of a region back to the system; it reads as zero afterwards.
  void release(std::uint64_t offset, std::uint64_t bytes);

 private:
  std::uint8_t* base_ = nullptr;
  std::uint64_t bytes_ = 0;
  int descriptor_ = -1;
};

}  // namespace loopwright::tuner
