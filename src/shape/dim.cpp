#include <algorithm>
#include <numeric>
#include <set>

#include "loopwright/shape.h"
#include "src/support/text.h"

namespace loopwright {
namespace {

using Monomial = std::vector<std::string>;

/// An order that multiplication keeps: by degree, then by the exponents of the symbols in the order of their names.
bool is_below(const Monomial& a, const Monomial& b) {
  if (a.size() != b.size()) return a.size() < b.size();
  // With sorted names of equal degree, the lexicographically smaller list has more of the earlier symbols.
  return b < a;
}

std::map<Monomial, std::int64_t>::const_iterator leading(const std::map<Monomial, std::int64_t>& terms) {
  return std::max_element(terms.begin(), terms.end(),
                          [](const auto& a, const auto& b) { return is_below(a.first, b.first); });
}

Monomial product(const Monomial& a, const Monomial& b) {
  Monomial out;
  std::merge(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(out));
  return out;
}

std::optional<Monomial> quotient(const Monomial& a, const Monomial& b) {
  if (!std::includes(a.begin(), a.end(), b.begin(), b.end())) return std::nullopt;
  Monomial out;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(out));
  return out;
}

Dim from_term(const Monomial& monomial, std::int64_t coefficient) {
  Dim out = coefficient;
  for (const std::string& name : monomial) out = out * Dim::symbol(name);
  return out;
}

Error overflow_error(const std::string& what) {
  return Error{ErrorCode::size_overflow, "cannot compute the size " + what,
               "it does not fit a signed 64-bit integer", "", "smaller dimensions or symbol ranges"};
}

class DimParser {
 public:
  explicit DimParser(text::Reader& reader) : in_(reader) {}

  Result<Dim> sum() {
    LW_TRY(Dim total, product_of_factors());
    while (in_.at("+") || in_.at("-")) {
      const bool minus = in_.next().text == "-";
      LW_TRY(const Dim next, product_of_factors());
      total = minus ? total - next : total + next;
    }
    return total;
  }

 private:
  Result<Dim> product_of_factors() {
    LW_TRY(Dim total, factor());
    while (in_.accept("*")) {
      LW_TRY(const Dim next, factor());
      total = total * next;
    }
    return total;
  }

  Result<Dim> factor() {
    if (++depth_ > 100) return in_.unexpected("a size", "at most 100 nested brackets");
    if (in_.peek().kind == text::TokenKind::identifier) {
      --depth_;
      return Dim::symbol(in_.next().text);
    }
    if (in_.accept("(")) {
      LW_TRY(Dim inner, sum());
      LW_CHECK(in_.expect(")", "a size"));
      --depth_;
      return inner;
    }
    const bool minus = in_.at("-") && in_.peek(1).kind != text::TokenKind::integer;
    if (minus) {
      in_.next();
      LW_TRY(const Dim inner, factor());
      --depth_;
      return Dim(0) - inner;
    }
    const auto value = in_.expect_integer("a size");
    if (!value.ok() && value.error().code == ErrorCode::syntax)
      return in_.unexpected("a size", "a symbol, an integer or `(`");
    if (!value.ok()) return value.error();
    --depth_;
    return Dim(*value);
  }

  text::Reader& in_;
  int depth_ = 0;
};

/// Range of coefficient * product of the symbols; empty on overflow.
std::optional<Dim::Bounds> term_bounds(const Monomial& monomial, std::int64_t coefficient,
                                       const std::map<std::string, Symbol>& table) {
  std::int64_t lo = 1, hi = 1;
  for (const std::string& name : monomial) {
    const Symbol& s = table.at(name);
    if (__builtin_mul_overflow(lo, s.lo, &lo) || __builtin_mul_overflow(hi, s.hi, &hi)) return std::nullopt;
  }
  if (__builtin_mul_overflow(lo, coefficient, &lo) || __builtin_mul_overflow(hi, coefficient, &hi))
    return std::nullopt;
  return Dim::Bounds{std::min(lo, hi), std::max(lo, hi)};
}

}  // namespace

Dim::Dim(std::int64_t value) {
  if (value != 0) terms_[{}] = value;
}
Dim::Dim(const Symbol& symbol) : Dim(Dim::symbol(symbol.name)) {}

Dim Dim::symbol(std::string name) {
  Dim out;
  out.terms_[{std::move(name)}] = 1;
  return out;
}

bool Dim::is_constant() const { return constant().has_value(); }

std::optional<std::int64_t> Dim::constant() const {
  if (overflowed_ || terms_.size() > 1) return std::nullopt;
  if (terms_.empty()) return 0;
  return terms_.begin()->first.empty() ? std::optional(terms_.begin()->second) : std::nullopt;
}

std::vector<std::string> Dim::symbols() const {
  std::set<std::string> names;
  for (const auto& [monomial, coefficient] : terms_) names.insert(monomial.begin(), monomial.end());
  return {names.begin(), names.end()};
}

Result<std::int64_t> Dim::evaluate(const Bindings& bindings) const {
  if (overflowed_) return overflow_error("of a dimension");
  std::int64_t sum = 0;
  for (const auto& [monomial, coefficient] : terms_) {
    std::int64_t term = coefficient;
    for (const std::string& name : monomial) {
      const auto it = bindings.find(name);
      if (it == bindings.end())
        return Error{ErrorCode::unknown_name, "cannot compute the size " + text(),
                     "symbol `" + name + "` has no value", "", "a value for every symbol"};
      if (__builtin_mul_overflow(term, it->second, &term)) return overflow_error(text());
    }
    if (__builtin_add_overflow(sum, term, &sum)) return overflow_error(text());
  }
  return sum;
}

Result<Dim::Bounds> Dim::bounds(const std::vector<Symbol>& symbols) const {
  if (overflowed_) return overflow_error("of a dimension");
  std::map<std::string, Symbol> table;
  for (const Symbol& s : symbols) table[s.name] = s;
  for (const std::string& name : this->symbols())
    if (!table.contains(name))
      return Error{ErrorCode::unknown_name, "cannot bound the size " + text(),
                   "symbol `" + name + "` has no range", "", "a range for every symbol"};
  Bounds sum{0, 0};
  for (const auto& [monomial, coefficient] : terms_) {
    const auto term = term_bounds(monomial, coefficient, table);
    if (!term || __builtin_add_overflow(sum.lo, term->lo, &sum.lo) ||
        __builtin_add_overflow(sum.hi, term->hi, &sum.hi))
      return overflow_error(text());
  }
  return sum;
}

std::int64_t Dim::known_divisor() const {
  if (overflowed_) return 1;
  std::int64_t divisor = 0;
  for (const auto& [monomial, coefficient] : terms_) {
    if (coefficient == INT64_MIN) return 1;  // its magnitude does not fit
    divisor = std::gcd(divisor, coefficient);
  }
  return divisor;
}

std::optional<Dim> Dim::divide_exactly(const Dim& divisor) const {
  if (overflowed_ || divisor.overflowed_ || divisor.terms_.empty()) return std::nullopt;
  const auto [head, head_coefficient] = *leading(divisor.terms_);
  Dim rest = *this, out;
  while (!rest.terms_.empty()) {
    const auto [monomial, coefficient] = *leading(rest.terms_);
    const auto part = quotient(monomial, head);
    if (!part || (head_coefficient == -1 && coefficient == INT64_MIN) || coefficient % head_coefficient != 0)
      return std::nullopt;
    const Dim term = from_term(*part, coefficient / head_coefficient);
    out = out + term;
    rest = rest - term * divisor;
    if (rest.overflowed_ || out.overflowed_) return std::nullopt;
  }
  return out;
}

Dim Dim::rename(const std::map<std::string, std::string>& names) const {
  Dim out;
  out.overflowed_ = overflowed_;
  for (const auto& [monomial, coefficient] : terms_) {
    Monomial renamed;
    for (const std::string& name : monomial) {
      const auto it = names.find(name);
      renamed.push_back(it == names.end() ? name : it->second);
    }
    out = out + from_term(renamed, coefficient);
  }
  return out;
}

std::string Dim::text() const {
  if (overflowed_) return "overflow";
  std::string out;
  const auto append = [&out](const Monomial& monomial, std::int64_t coefficient) {
    const bool negative = coefficient < 0;
    // The magnitude of INT64_MIN needs the unsigned type.
    const std::uint64_t magnitude =
        negative ? 0 - static_cast<std::uint64_t>(coefficient) : static_cast<std::uint64_t>(coefficient);
    if (out.empty()) out += negative ? "-" : "";
    else out += negative ? " - " : " + ";
    if (magnitude != 1 || monomial.empty()) out += std::to_string(magnitude) + (monomial.empty() ? "" : "*");
    out += text::join(monomial, "*");
  };
  for (const auto& [monomial, coefficient] : terms_)
    if (!monomial.empty()) append(monomial, coefficient);
  if (const auto it = terms_.find({}); it != terms_.end()) append({}, it->second);
  return out.empty() ? "0" : out;
}

Result<Dim> Dim::parse(std::string_view text) {
  LW_TRY(text::Reader reader, text::Reader::read(text));
  LW_TRY(Dim out, DimParser(reader).sum());
  LW_CHECK(reader.expect_line_end("a size"));
  if (!reader.at_end()) return reader.unexpected("a size", "the end of the text");
  if (out.overflowed()) return overflow_error(std::string(text));
  return out;
}

Dim operator+(const Dim& a, const Dim& b) {
  Dim out = a;
  out.overflowed_ = a.overflowed_ || b.overflowed_;
  for (const auto& [monomial, coefficient] : b.terms_) {
    std::int64_t& sum = out.terms_[monomial];
    if (__builtin_add_overflow(sum, coefficient, &sum)) out.overflowed_ = true;
    if (sum == 0) out.terms_.erase(monomial);
  }
  if (out.overflowed_) out.terms_.clear();
  return out;
}

Dim operator-(const Dim& a, const Dim& b) { return a + b * Dim(-1); }

Dim operator*(const Dim& a, const Dim& b) {
  Dim out;
  out.overflowed_ = a.overflowed_ || b.overflowed_;
  for (const auto& [ma, ca] : a.terms_) {
    for (const auto& [mb, cb] : b.terms_) {
      const Monomial key = product(ma, mb);
      std::int64_t term = 0;
      std::int64_t& sum = out.terms_[key];
      if (__builtin_mul_overflow(ca, cb, &term) || __builtin_add_overflow(sum, term, &sum))
        out.overflowed_ = true;
      if (sum == 0) out.terms_.erase(key);
    }
  }
  if (out.overflowed_) out.terms_.clear();
  return out;
}

}  // namespace loopwright
