// Symbolic sizes: symbols with ranges, dimensions as polynomials over them, and guards.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "loopwright/base.h"

namespace loopwright {

/// A named size that is known only when a plan runs: lo <= value <= hi (inclusive, 0 <= lo).
struct Symbol {
  std::string name;
  std::int64_t lo = 1;
  std::int64_t hi = 1;
  bool operator==(const Symbol&) const = default;
};

/// Values of symbols by name.
using Bindings = std::map<std::string, std::int64_t, std::less<>>;

/// A size: a polynomial with integer coefficients over symbols, e.g. `4*tokens + 2` or `batch*tokens`.
/// Two Dims are equal exactly when their canonical forms are. Arithmetic saturates to an overflowed state that
/// `evaluate` and `bounds` report as size_overflow; it never wraps.
class Dim {
 public:
  Dim() = default;                              ///< zero
  Dim(std::int64_t value);                      // NOLINT: implicit on purpose
  Dim(int value) : Dim(std::int64_t{value}) {}  // NOLINT: implicit on purpose
  Dim(const Symbol& symbol);                    // NOLINT: implicit on purpose
  static Dim symbol(std::string name);

  bool is_constant() const;
  /// The value when `is_constant()`.
  std::optional<std::int64_t> constant() const;
  bool overflowed() const { return overflowed_; }
  /// Names of the symbols that occur, sorted, without repetition.
  std::vector<std::string> symbols() const;
  /// size_overflow, or unknown_name for a symbol without a value.
  Result<std::int64_t> evaluate(const Bindings& bindings) const;
  /// Smallest and largest value (not always attained) over the symbols' ranges.
  struct Bounds {
    std::int64_t lo, hi;
  };
  Result<Bounds> bounds(const std::vector<Symbol>& symbols) const;
  /// The largest integer known to divide every value; 0 for the zero polynomial, which everything divides.
  std::int64_t known_divisor() const;
  /// The quotient when the polynomial division leaves no remainder.
  std::optional<Dim> divide_exactly(const Dim& divisor) const;
  /// Renames symbols; names without an entry stay.
  Dim rename(const std::map<std::string, std::string>& names) const;
  /// Canonical text: terms in a fixed order, `0` for zero; `parse` also takes brackets.
  std::string text() const;
  static Result<Dim> parse(std::string_view text);

  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  bool operator==(const Dim& other) const = default;

  /// Sorted symbol names (repeated for powers) → coefficient, never zero. The empty key is the constant term.
  const std::map<std::vector<std::string>, std::int64_t>& terms() const { return terms_; }

 private:
  std::map<std::vector<std::string>, std::int64_t> terms_;
  bool overflowed_ = false;
};

/// A size as a short postfix program over symbol values by position: what the runtime evaluates for grids, byte counts
/// and offsets. Division by zero gives zero; overflow saturates to INT64_MIN / INT64_MAX and is caught when the plan
/// checks its sizes.
class SizeExpr {
 public:
  enum class Op : std::uint8_t { constant, symbol, add, sub, mul, floor_div, ceil_div, mod, min, max };
  struct Item {
    Op op = Op::constant;
    std::int64_t value = 0;  ///< the constant, or the position of the symbol
    bool operator==(const Item&) const = default;
  };
  static constexpr int kMaxDepth = 32;

  SizeExpr() : SizeExpr(std::int64_t{0}) {}
  SizeExpr(std::int64_t value) : items_{{Op::constant, value}} {}  // NOLINT: implicit on purpose
  static SizeExpr symbol(int position);
  static SizeExpr apply(Op op, const SizeExpr& a, const SizeExpr& b);
  /// `names[i]` is the symbol at position i; unknown_name when a symbol of `dim` is not among them.
  static Result<SizeExpr> from(const Dim& dim, const std::vector<std::string>& names);

  /// Values on the stack at the deepest point; `apply` of a result deeper than kMaxDepth is a Bug.
  int depth() const;
  /// One more than the largest symbol position used.
  int symbol_count() const;
  bool is_constant() const { return items_.size() == 1 && items_[0].op == Op::constant; }
  /// No allocation, no exception.
  std::int64_t evaluate(const std::int64_t* symbol_values) const noexcept;
  /// Postfix words separated by blanks: `s0 64 ceil_div`.
  std::string text() const;
  static Result<SizeExpr> parse(std::string_view text);
  bool operator==(const SizeExpr&) const = default;

 private:
  std::vector<Item> items_;
};

/// What a variant may assume about one symbol: lo <= value <= hi and value % multiple_of == 0.
struct SymbolGuard {
  std::string name;
  std::int64_t lo = 0;
  std::int64_t hi = INT64_MAX;
  std::int64_t multiple_of = 1;
  bool operator==(const SymbolGuard&) const = default;
};

/// A box of symbol values, with divisibility and the alignment in bytes that every pointer must have.
/// An empty list of guards holds always.
struct Guard {
  std::vector<SymbolGuard> symbols;  ///< sorted by name, at most one for each name
  std::int64_t alignment_bytes = 1;  ///< power of two; every buffer address is a multiple of it
  bool operator==(const Guard&) const = default;

  bool holds(const Bindings& bindings) const;
  /// Both guards at once: intersected bounds, least common multiples, larger alignment.
  static Guard both(const Guard& a, const Guard& b);
  /// `tokens in 1..64 % 8, align 16`; `always` when empty.
  std::string text() const;
  static Result<Guard> parse(std::string_view text);
};

}  // namespace loopwright
