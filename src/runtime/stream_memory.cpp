#include "src/runtime/stream_memory.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

namespace loopwright::runtime {
namespace {

constexpr std::int64_t kGranularity = 64 << 10;
/// A thread that works on more streams than this at once looks its blocks up under a lock.
constexpr int kNotes = 8;

struct Note {
  std::uint64_t serial;  ///< 0: free
  void* stream;
  std::byte* base[kMemoryKinds];
  std::int64_t bytes[kMemoryKinds];
};
/// Plain data, so that the hot path reads it without the guard that a thread_local with a destructor has.
constinit thread_local Note notes[kNotes] = {};
constinit thread_local int next_note = 0;

Note* find_note(std::uint64_t serial, void* stream) noexcept {
  for (Note& note : notes)
    if (note.serial == serial && note.stream == stream) return &note;
  return nullptr;
}

/// Zeroes in no stream of anyone's, so that it happens once, and not at each replay of what is captured meanwhile.
cuda::Status fill_now(const CudaDriver& driver, cuda::Address address, std::int64_t bytes) {
  cuda::Stream stream = nullptr;
  cuda::Status status = driver.create_stream(&stream, cuda::kStreamNonBlocking);
  if (status != cuda::kSuccess) return status;
  status = driver.fill(address, 0, static_cast<std::size_t>(bytes), stream);
  if (status == cuda::kSuccess) status = driver.wait_stream(stream);
  driver.destroy_stream(stream);
  return status;
}

}  // namespace

struct StreamMemory::Blocks {
  struct Block {
    MemoryKind kind;
    void* stream;
    std::byte* base;
    std::int64_t bytes;
    bool in_use;  ///< by some thread
  };
  std::mutex mutex;
  std::vector<Block> all;

  /// Gives back what a thread noted.
  void give_back(const Note& note) {
    const std::lock_guard lock(mutex);
    for (Block& block : all)
      for (const std::byte* base : note.base)
        if (base != nullptr && block.base == base) block.in_use = false;
  }
  Block* take(MemoryKind kind, std::int64_t bytes, void* stream) {
    for (Block& block : all) {
      if (block.in_use || block.kind != kind || block.stream != stream || block.bytes < bytes) continue;
      block.in_use = true;
      return &block;
    }
    return nullptr;
  }
};

/// Runs when a thread ends.
struct StreamMemory::Ended {
  std::vector<std::pair<std::uint64_t, std::weak_ptr<StreamMemory>>> used;
  ~Ended() {
    for (Note& note : notes) {
      for (const auto& [serial, memory] : used)
        if (const auto alive = note.serial == serial ? memory.lock() : nullptr)
          alive->blocks_->give_back(note);
      note = {};
    }
  }
};

StreamMemory::StreamMemory(const CudaDriver& driver, cuda::Context context)
    : driver_(driver), context_(context), blocks_(std::make_unique<Blocks>()) {
  static std::atomic<std::uint64_t> made{0};
  serial_ = ++made;
}

StreamMemory::~StreamMemory() {
  if (blocks_->all.empty() || driver_.push_context(context_) != cuda::kSuccess) return;
  for (const Blocks::Block& block : blocks_->all) driver_.free(reinterpret_cast<cuda::Address>(block.base));
  cuda::Context popped = nullptr;
  driver_.pop_context(&popped);
}

std::byte* StreamMemory::reserve(MemoryKind kind, std::int64_t bytes, void* stream,
                                 cuda::Status& status) noexcept {
  const int which = static_cast<int>(kind);
  if (const Note* note = find_note(serial_, stream); note != nullptr && note->bytes[which] >= bytes)
      [[likely]]
    return note->base[which];
  try {
    return grow(kind, bytes, stream, status);
  } catch (const std::exception&) {  // host memory
    status = cuda::kOutOfMemory;
    return nullptr;
  }
}

std::byte* StreamMemory::grow(MemoryKind kind, std::int64_t bytes, void* stream, cuda::Status& status) {
  thread_local Ended ended;
  const int which = static_cast<int>(kind);
  Note* note = find_note(serial_, stream);
  const std::int64_t twice = note != nullptr ? 2 * note->bytes[which] : 0;
  const std::int64_t wanted = (std::max(bytes, twice) + kGranularity - 1) / kGranularity * kGranularity;
  std::byte* base = nullptr;
  {
    const std::lock_guard lock(blocks_->mutex);
    if (const Blocks::Block* block = blocks_->take(kind, bytes, stream); block != nullptr) base = block->base;
  }
  if (base == nullptr) base = allocate(kind, wanted, stream, status);
  if (base == nullptr && wanted > bytes) base = allocate(kind, bytes, stream, status);
  if (base == nullptr) return nullptr;
  std::int64_t size = 0;
  {
    const std::lock_guard lock(blocks_->mutex);
    for (Blocks::Block& block : blocks_->all) {
      if (block.base == base) size = block.bytes;
      // The outgrown block goes back: another thread on this stream may do with less.
      if (note != nullptr && note->base[which] != nullptr && block.base == note->base[which])
        block.in_use = false;
    }
  }
  if (note == nullptr) {
    note = &notes[next_note];
    next_note = (next_note + 1) % kNotes;
    for (const auto& [serial, memory] : ended.used)
      if (const auto alive = note->serial == serial ? memory.lock() : nullptr)
        alive->blocks_->give_back(*note);
    *note = {.serial = serial_, .stream = stream, .base = {}, .bytes = {}};
    const auto known = [&](const auto& used) { return used.first == serial_; };
    if (std::none_of(ended.used.begin(), ended.used.end(), known))
      ended.used.emplace_back(serial_, weak_from_this());
  }
  note->base[which] = base;
  note->bytes[which] = size;
  return base;
}

std::byte* StreamMemory::allocate(MemoryKind kind, std::int64_t bytes, void* stream, cuda::Status& status) {
  auto* const handle = static_cast<cuda::Stream>(stream);
  if ((status = driver_.push_context(context_)) != cuda::kSuccess) return nullptr;
  int capturing = 0;
  status = driver_.is_capturing(handle, &capturing);
  cuda::Address address = 0;
  // While a stream is captured, a thread may allocate once it has said that this is no part of the capture.
  int mode = cuda::kCaptureRelaxed;
  const bool relaxed = status == cuda::kSuccess && capturing != 0 &&
                       (status = driver_.exchange_capture_mode(&mode)) == cuda::kSuccess;
  if (status == cuda::kSuccess) status = driver_.allocate(&address, static_cast<std::size_t>(bytes));
  if (status == cuda::kSuccess && kind == MemoryKind::zeroed)
    status = relaxed ? fill_now(driver_, address, bytes)
                     : driver_.fill(address, 0, static_cast<std::size_t>(bytes), handle);
  if (status != cuda::kSuccess && address != 0) driver_.free(address);
  if (relaxed) driver_.exchange_capture_mode(&mode);
  cuda::Context popped = nullptr;
  driver_.pop_context(&popped);
  if (status != cuda::kSuccess) return nullptr;
  auto* base = reinterpret_cast<std::byte*>(address);
  const std::lock_guard lock(blocks_->mutex);
  blocks_->all.push_back({kind, stream, base, bytes, true});
  return base;
}

}  // namespace loopwright::runtime
