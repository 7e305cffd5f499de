#include "src/runtime/misses.h"

#include <algorithm>

namespace loopwright::runtime {
namespace {

std::uint64_t hash_values(const std::int64_t* values, std::size_t count) noexcept {
  std::uint64_t hash = 0x9e3779b97f4a7c15ULL;
  for (std::size_t i = 0; i < count; ++i) {
    hash ^= static_cast<std::uint64_t>(values[i]);
    hash *= 0xbf58476d1ce4e5b9ULL;
    hash ^= hash >> 29;
  }
  return hash | 1;  // 0 marks a free slot
}

}  // namespace

MissTable::MissTable(std::size_t symbol_count)
    : symbol_count_(symbol_count),
      values_(new std::int64_t[kSlots * std::max<std::size_t>(1, symbol_count)]()) {}

void MissTable::add(const std::int64_t* symbols) noexcept { add(symbols, 1); }

/// Two sizes with the same 63-bit hash would share a count; the first one's values stand for both.
void MissTable::add(const std::int64_t* symbols, std::int64_t count) noexcept {
  const std::uint64_t key = hash_values(symbols, symbol_count_);
  for (std::size_t probe = 0; probe < kSlots; ++probe) {
    const std::size_t index = (key / 2 + probe) % kSlots;
    Slot& slot = slots_[index];
    std::uint64_t found = slot.key.load(std::memory_order_relaxed);
    if (found == 0 && slot.key.compare_exchange_strong(found, key, std::memory_order_relaxed)) {
      std::copy_n(symbols, symbol_count_, values_.get() + index * symbol_count_);
      slot.filled.store(true, std::memory_order_release);
      found = key;
    }
    if (found != key) continue;
    slot.count.fetch_add(count, std::memory_order_relaxed);
    return;
  }
  dropped_.fetch_add(count, std::memory_order_relaxed);
}

std::vector<MissTable::Entry> MissTable::take() {
  std::vector<Entry> entries;
  for (std::size_t index = 0; index < kSlots; ++index) {
    Slot& slot = slots_[index];
    if (!slot.filled.load(std::memory_order_acquire)) continue;
    const std::int64_t count = slot.count.exchange(0, std::memory_order_relaxed);
    if (count == 0) continue;
    const std::int64_t* values = values_.get() + index * symbol_count_;
    entries.push_back({std::vector<std::int64_t>(values, values + symbol_count_), count});
  }
  return entries;
}

void MissTable::put_back(const std::vector<Entry>& entries) noexcept {
  for (const Entry& entry : entries) add(entry.symbols.data(), entry.count);
}

}  // namespace loopwright::runtime
