#include <algorithm>
#include <array>

#include "loopwright/shape.h"
#include "src/support/text.h"

namespace loopwright {
namespace {

using Op = SizeExpr::Op;
constexpr std::array<std::string_view, 10> kNames = {"constant",  "symbol",   "add", "sub", "mul",
                                                     "floor_div", "ceil_div", "mod", "min", "max"};

std::int64_t saturate(bool overflowed, std::int64_t value, bool negative) noexcept {
  if (!overflowed) return value;
  return negative ? INT64_MIN : INT64_MAX;
}

std::int64_t divide(std::int64_t a, std::int64_t b, bool up) noexcept {
  if (b == 0) return 0;
  if (a == INT64_MIN && b == -1) return INT64_MAX;
  const std::int64_t q = a / b;
  if (a % b == 0) return q;
  const bool positive = (a < 0) == (b < 0);
  if (up) return positive ? q + 1 : q;
  return positive ? q : q - 1;
}

std::int64_t modulo(std::int64_t a, std::int64_t b) noexcept {
  if (b == 0 || b == -1) return 0;
  const std::int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

std::int64_t compute(Op op, std::int64_t a, std::int64_t b) noexcept {
  std::int64_t out = 0;
  switch (op) {
    case Op::add: {
      const bool over = __builtin_add_overflow(a, b, &out);
      return saturate(over, out, a < 0);
    }
    case Op::sub: {
      const bool over = __builtin_sub_overflow(a, b, &out);
      return saturate(over, out, a < 0);
    }
    case Op::mul: {
      const bool over = __builtin_mul_overflow(a, b, &out);
      return saturate(over, out, (a < 0) != (b < 0));
    }
    case Op::floor_div: return divide(a, b, false);
    case Op::ceil_div: return divide(a, b, true);
    case Op::mod: return modulo(a, b);
    case Op::min: return std::min(a, b);
    case Op::max: return std::max(a, b);
    case Op::constant:
    case Op::symbol: break;
  }
  return 0;
}

Error syntax_error(std::string_view text, std::string found) {
  return Error{ErrorCode::syntax, "cannot read the size program `" + std::string(text) + "`",
               std::move(found), "", "postfix words, e.g. `s0 64 ceil_div`"};
}

}  // namespace

SizeExpr SizeExpr::symbol(int position) {
  LW_BUG_IF(position < 0, "symbol position " + std::to_string(position));
  SizeExpr out;
  out.items_ = {{Op::symbol, position}};
  return out;
}

int SizeExpr::depth() const {
  int depth = 0, deepest = 0;
  for (const Item& item : items_) {
    depth += item.op == Op::constant || item.op == Op::symbol ? 1 : -1;
    deepest = std::max(deepest, depth);
  }
  return deepest;
}

int SizeExpr::symbol_count() const {
  std::int64_t count = 0;
  for (const Item& item : items_)
    if (item.op == Op::symbol) count = std::max(count, item.value + 1);
  return static_cast<int>(count);
}

SizeExpr SizeExpr::apply(Op op, const SizeExpr& a, const SizeExpr& b) {
  LW_BUG_IF(op == Op::constant || op == Op::symbol, "apply of a leaf");
  const auto is = [](const SizeExpr& e, std::int64_t value) {
    return e.is_constant() && e.items_[0].value == value;
  };
  if (a.is_constant() && b.is_constant()) return compute(op, a.items_[0].value, b.items_[0].value);
  if ((op == Op::add || op == Op::sub) && is(b, 0)) return a;
  if (op == Op::add && is(a, 0)) return b;
  if ((op == Op::mul || op == Op::floor_div || op == Op::ceil_div) && is(b, 1)) return a;
  if (op == Op::mul && is(a, 1)) return b;
  if (op == Op::mul && (is(a, 0) || is(b, 0))) return 0;
  SizeExpr out = a;
  out.items_.insert(out.items_.end(), b.items_.begin(), b.items_.end());
  out.items_.push_back({op, 0});
  LW_BUG_IF(out.depth() > kMaxDepth, "a size program deeper than " + std::to_string(kMaxDepth));
  return out;
}

Result<SizeExpr> SizeExpr::from(const Dim& dim, const std::vector<std::string>& names) {
  if (dim.overflowed())
    return Error{ErrorCode::size_overflow, "cannot compute a size",
                 "a dimension does not fit a signed 64-bit integer", "", ""};
  SizeExpr sum = 0;
  for (const auto& [monomial, coefficient] : dim.terms()) {
    SizeExpr term = coefficient;
    for (const std::string& name : monomial) {
      const auto it = std::find(names.begin(), names.end(), name);
      if (it == names.end())
        return Error{ErrorCode::unknown_name, "cannot compute the size " + dim.text(),
                     "symbol `" + name + "` is not a parameter", "", "one of: " + text::join(names, ", ")};
      term = apply(Op::mul, term, symbol(static_cast<int>(it - names.begin())));
    }
    sum = apply(Op::add, sum, term);
  }
  return sum;
}

std::int64_t SizeExpr::evaluate(const std::int64_t* symbol_values) const noexcept {
  std::array<std::int64_t, kMaxDepth> stack;
  int top = -1;
  for (const Item& item : items_) {
    if (item.op == Op::constant) {
      stack[static_cast<std::size_t>(++top)] = item.value;
    } else if (item.op == Op::symbol) {
      stack[static_cast<std::size_t>(++top)] = symbol_values[item.value];
    } else {
      const std::int64_t b = stack[static_cast<std::size_t>(top--)];
      std::int64_t& a = stack[static_cast<std::size_t>(top)];
      a = compute(item.op, a, b);
    }
  }
  return stack[0];
}

std::string SizeExpr::text() const {
  std::vector<std::string> words;
  for (const Item& item : items_) {
    if (item.op == Op::constant) words.push_back(std::to_string(item.value));
    else if (item.op == Op::symbol) words.push_back("s" + std::to_string(item.value));
    else words.emplace_back(kNames[static_cast<std::size_t>(item.op)]);
  }
  return text::join(words, " ");
}

Result<SizeExpr> SizeExpr::parse(std::string_view text) {
  LW_TRY(text::Reader reader, text::Reader::read(text));
  SizeExpr out;
  out.items_.clear();
  int depth = 0;
  while (!reader.at_end() && !reader.at_newline()) {
    const text::Token& token = reader.peek();
    if (token.kind != text::TokenKind::identifier) {
      LW_TRY(const std::int64_t value, reader.expect_integer("a size program"));
      out.items_.push_back({Op::constant, value});
      ++depth;
    } else if (const auto it = std::find(kNames.begin() + 2, kNames.end(), token.text); it != kNames.end()) {
      if (--depth < 1) return syntax_error(text, "`" + token.text + "` has fewer than two operands");
      out.items_.push_back({static_cast<Op>(it - kNames.begin()), 0});
      reader.next();
    } else {
      const std::string& word = token.text;
      const bool digits =
          word.size() > 1 && word.size() < 8 && word.find_first_not_of("0123456789", 1) == std::string::npos;
      if (word[0] != 's' || !digits)
        return syntax_error(text, "`" + word + "` is neither an operation nor a symbol position like `s0`");
      out.items_.push_back({Op::symbol, std::stol(word.substr(1))});
      ++depth;
      reader.next();
    }
    if (depth > kMaxDepth)
      return syntax_error(text, "it needs more than " + std::to_string(kMaxDepth) + " values at once");
  }
  if (depth != 1) return syntax_error(text, "it leaves " + std::to_string(depth) + " values instead of one");
  return out;
}

}  // namespace loopwright
