#include "src/runtime/variant_table.h"

#include <algorithm>
#include <bit>

namespace loopwright::runtime {
namespace {

/// How many breakpoints are at most `value`. No branch depends on the data.
std::size_t count_passed(const std::vector<std::int64_t>& breaks, std::int64_t value) noexcept {
  const std::int64_t* base = breaks.data();
  std::size_t left = breaks.size();
  std::size_t passed = 0;
  while (left > 8) {
    const std::size_t half = left / 2;
    const bool upper = base[half - 1] <= value;
    base += upper ? half : 0;
    passed += upper ? half : 0;
    left -= half;
  }
  for (std::size_t i = 0; i < left; ++i) passed += base[i] <= value ? 1 : 0;
  return passed;
}

const SymbolGuard* find_guard(const Guard& guard, const std::string& name) {
  for (const SymbolGuard& symbol : guard.symbols)
    if (symbol.name == name) return &symbol;
  return nullptr;
}

Error bad_guard(const Guard& guard, std::string found) {
  return {ErrorCode::bad_artifact, "use the guard `" + guard.text() + "`", std::move(found), "",
          "a guard over the workload's own symbols"};
}

}  // namespace

Result<VariantTable> VariantTable::make(const std::vector<Guard>& guards,
                                        const std::vector<std::string>& names,
                                        const std::vector<std::int32_t>& positions) {
  VariantTable table;
  table.words_ = std::max<std::size_t>(1, (guards.size() + 63) / 64);
  table.all_.assign(table.words_, 0);
  table.simple_.assign(table.words_, 0);
  for (std::size_t v = 0; v < guards.size(); ++v) {
    const Guard& guard = guards[v];
    if (guard.alignment_bytes < 1 || !std::has_single_bit(static_cast<std::uint64_t>(guard.alignment_bytes)))
      return bad_guard(guard, "an alignment that is not a power of two");
    Fine fine;
    fine.address_mask = static_cast<std::uint64_t>(guard.alignment_bytes) - 1;
    for (const SymbolGuard& symbol : guard.symbols) {
      const auto it = std::find(names.begin(), names.end(), symbol.name);
      if (it == names.end()) return bad_guard(guard, "`" + symbol.name + "` is not a symbol of the workload");
      if (symbol.multiple_of < 1) return bad_guard(guard, "a multiple below 1");
      if (symbol.multiple_of > 1)
        fine.multiples.push_back(
            {positions[static_cast<std::size_t>(it - names.begin())], symbol.multiple_of});
    }
    const std::uint64_t bit = std::uint64_t{1} << v % 64;
    table.all_[v / 64] |= bit;
    if (fine.none()) table.simple_[v / 64] |= bit;
    table.needs_addresses_ |= fine.address_mask != 0;
    table.fine_.push_back(std::move(fine));
  }
  for (std::size_t i = 0; i < names.size(); ++i) table.add_axis(guards, names[i], positions[i]);
  return table;
}

void VariantTable::add_axis(const std::vector<Guard>& guards, const std::string& name,
                            std::int32_t position) {
  Axis axis;
  axis.position = position;
  for (const Guard& guard : guards) {
    const SymbolGuard* symbol = find_guard(guard, name);
    if (symbol == nullptr) continue;
    axis.breaks.push_back(symbol->lo);
    if (symbol->hi != INT64_MAX) axis.breaks.push_back(symbol->hi + 1);
  }
  if (axis.breaks.empty()) return;
  std::sort(axis.breaks.begin(), axis.breaks.end());
  axis.breaks.erase(std::unique(axis.breaks.begin(), axis.breaks.end()), axis.breaks.end());
  axis.sets.assign((axis.breaks.size() + 1) * words_, 0);
  for (std::size_t segment = 0; segment <= axis.breaks.size(); ++segment) {
    // Bounds are constant within a segment, so that its first value stands for all of it.
    const std::int64_t value = segment == 0 ? INT64_MIN : axis.breaks[segment - 1];
    for (std::size_t v = 0; v < guards.size(); ++v) {
      const SymbolGuard* symbol = find_guard(guards[v], name);
      if (symbol == nullptr || (symbol->lo <= value && value <= symbol->hi))
        axis.sets[segment * words_ + v / 64] |= std::uint64_t{1} << v % 64;
    }
  }
  axes_.push_back(std::move(axis));
}

int VariantTable::choose(const std::int64_t* symbols, std::uint64_t address_bits) const noexcept {
  for (std::size_t word = 0; word < words_; ++word) {
    std::uint64_t set = all_[word];
    for (const Axis& axis : axes_)
      set &= axis.sets[count_passed(axis.breaks, symbols[axis.position]) * words_ + word];
    for (; set != 0; set &= set - 1) {
      const int bit = std::countr_zero(set);
      const std::size_t variant = word * 64 + static_cast<std::size_t>(bit);
      if ((simple_[word] >> bit & 1) != 0 || holds(fine_[variant], symbols, address_bits))
        return static_cast<int>(variant);
    }
  }
  return -1;
}

bool VariantTable::holds(const Fine& fine, const std::int64_t* symbols,
                         std::uint64_t address_bits) const noexcept {
  if ((address_bits & fine.address_mask) != 0) return false;
  for (const Multiple& multiple : fine.multiples)
    if (symbols[multiple.position] % multiple.of != 0) return false;
  return true;
}

}  // namespace loopwright::runtime
