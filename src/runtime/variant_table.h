// Which of a kernel's variants serves given symbol values: the first, in order of preference, whose guard holds.
#pragma once

#include <cstdint>
#include <vector>

#include "loopwright/base.h"
#include "loopwright/shape.h"

namespace loopwright::runtime {

/// For each guarded symbol the breakpoints of all variants, sorted; between two of them the set of variants whose
/// bounds hold is fixed and stored as bits. Choosing is one search and one `and` a symbol, then the lowest bit.
class VariantTable {
 public:
  VariantTable() = default;
  /// `names[i]` is the name that guards use for the symbol whose value is at `positions[i]`. bad_artifact for a guard
  /// over another name, with an alignment that is no power of two or a multiple below 1.
  static Result<VariantTable> make(const std::vector<Guard>& guards, const std::vector<std::string>& names,
                                   const std::vector<std::int32_t>& positions);

  /// Whether `choose` looks at addresses.
  bool needs_addresses() const { return needs_addresses_; }
  /// -1 when no guard holds. `address_bits` is the bitwise or of the addresses of the kernel's buffers.
  int choose(const std::int64_t* symbols, std::uint64_t address_bits) const noexcept;

 private:
  struct Axis {
    std::int32_t position = 0;
    std::vector<std::int64_t> breaks;
    std::vector<std::uint64_t> sets;  ///< breaks.size() + 1 sets of `words_` words
  };
  struct Multiple {
    std::int32_t position = 0;
    std::int64_t of = 1;
  };
  struct Fine {  ///< what bounds do not say
    std::vector<Multiple> multiples;
    std::uint64_t address_mask = 0;
    bool none() const { return multiples.empty() && address_mask == 0; }
  };
  void add_axis(const std::vector<Guard>& guards, const std::string& name, std::int32_t position);
  bool holds(const Fine& fine, const std::int64_t* symbols, std::uint64_t address_bits) const noexcept;

  std::size_t words_ = 0;
  std::vector<std::uint64_t> all_;     ///< a bit for each variant
  std::vector<std::uint64_t> simple_;  ///< variants whose bounds say all
  std::vector<Axis> axes_;
  std::vector<Fine> fine_;
  bool needs_addresses_ = false;
};

}  // namespace loopwright::runtime
