// How often a kernel was called at sizes that no tuned range holds.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace loopwright::runtime {

/// Counts by symbol values; no lock and no allocation after construction. Holds kSlots different sizes: what comes
/// later is only counted as `dropped`, for a hint to the tuner need not be complete.
class MissTable {
 public:
  static constexpr std::size_t kSlots = 256;
  explicit MissTable(std::size_t symbol_count);

  /// From any number of threads.
  void add(const std::int64_t* symbols) noexcept;

  struct Entry {
    std::vector<std::int64_t> symbols;
    std::int64_t count = 0;
  };
  /// The counts since the last call; from any thread.
  std::vector<Entry> take();
  /// Gives counts back that could not be written.
  void put_back(const std::vector<Entry>& entries) noexcept;
  std::int64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  struct Slot {
    std::atomic<std::uint64_t> key{0};  ///< hash of the values, never 0 once taken
    std::atomic<bool> filled{false};    ///< the values are there
    std::atomic<std::int64_t> count{0};
  };
  void add(const std::int64_t* symbols, std::int64_t count) noexcept;

  std::size_t symbol_count_;
  std::array<Slot, kSlots> slots_;
  std::unique_ptr<std::int64_t[]>
      values_;  ///< symbol_count_ for each slot, written once by who takes the slot
  std::atomic<std::int64_t> dropped_{0};
};

}  // namespace loopwright::runtime
