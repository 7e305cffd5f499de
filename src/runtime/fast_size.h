// A SizeExpr with the usual cases taken out, for sizes that every call evaluates.
#pragma once

#include <cstdint>
#include <utility>

#include "loopwright/shape.h"

namespace loopwright::runtime {

class FastSize {
 public:
  FastSize() : FastSize(SizeExpr(std::int64_t{0})) {}
  explicit FastSize(SizeExpr expr) : expr_(std::move(expr)) {
    if (expr_.is_constant()) {
      value_ = expr_.evaluate(nullptr);
      return;
    }
    kind_ = Kind::general;
    for (int i = 0; i < expr_.symbol_count(); ++i) {
      if (!(expr_ == SizeExpr::symbol(i))) continue;
      kind_ = Kind::symbol;
      value_ = i;
    }
  }
  const SizeExpr& expr() const { return expr_; }
  bool is_zero() const { return kind_ == Kind::constant && value_ == 0; }
  std::int64_t evaluate(const std::int64_t* symbols) const noexcept {
    if (kind_ == Kind::constant) return value_;
    return kind_ == Kind::symbol ? symbols[value_] : expr_.evaluate(symbols);
  }

 private:
  enum class Kind : std::uint8_t { constant, symbol, general };
  Kind kind_ = Kind::constant;
  std::int64_t value_ = 0;  ///< the constant, or the symbol's position
  SizeExpr expr_;
};

}  // namespace loopwright::runtime
