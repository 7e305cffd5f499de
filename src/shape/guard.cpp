#include <algorithm>
#include <numeric>

#include "loopwright/shape.h"
#include "src/support/text.h"

namespace loopwright {
namespace {

std::int64_t least_common_multiple(std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  // A saturated multiple is met by no size in practice, which is what such a guard means.
  return __builtin_mul_overflow(a / std::gcd(a, b), b, &out) ? INT64_MAX : out;
}

std::string symbol_text(const SymbolGuard& s) {
  std::string out = s.name;
  const bool bounded = s.lo != 0 || s.hi != INT64_MAX;
  if (bounded) out += " in " + std::to_string(s.lo) + ".." + (s.hi == INT64_MAX ? "" : std::to_string(s.hi));
  if (s.multiple_of != 1 || !bounded) out += " % " + std::to_string(s.multiple_of);
  return out;
}

Result<SymbolGuard> parse_symbol(text::Reader& in) {
  SymbolGuard out;
  LW_TRY(out.name, in.expect_identifier("a guard"));
  if (in.accept("in")) {
    LW_TRY(out.lo, in.expect_integer("a lower bound"));
    LW_CHECK(in.expect("..", "a range"));
    if (in.peek().kind == text::TokenKind::integer || in.at("-")) {
      LW_TRY(out.hi, in.expect_integer("an upper bound"));
    }
  } else if (!in.at("%")) {
    return in.unexpected("a guard", "`in` or `%`");
  }
  if (in.accept("%")) {
    const text::Token token = in.peek();
    LW_TRY(out.multiple_of, in.expect_integer("a multiple"));
    if (out.multiple_of < 1)
      return in.error_at(token, ErrorCode::syntax, "cannot read a guard",
                         "the multiple is " + std::to_string(out.multiple_of), "a multiple of at least 1");
  }
  return out;
}

Status parse_alignment(text::Reader& in, Guard& out) {
  const text::Token token = in.peek();
  LW_TRY(out.alignment_bytes, in.expect_integer("an alignment"));
  const std::int64_t a = out.alignment_bytes;
  if (a < 1 || (a & (a - 1)) != 0)
    return in.error_at(token, ErrorCode::syntax, "cannot read a guard",
                       "the alignment is " + std::to_string(a), "a power of two, in bytes");
  return Unit{};
}

}  // namespace

bool Guard::holds(const Bindings& bindings) const {
  return std::all_of(symbols.begin(), symbols.end(), [&](const SymbolGuard& s) {
    const auto it = bindings.find(s.name);
    return it != bindings.end() && s.lo <= it->second && it->second <= s.hi &&
           it->second % s.multiple_of == 0;
  });
}

Guard Guard::both(const Guard& a, const Guard& b) {
  std::map<std::string, SymbolGuard> merged;
  for (const Guard* guard : {&a, &b}) {
    for (const SymbolGuard& s : guard->symbols) {
      SymbolGuard& m = merged.try_emplace(s.name, SymbolGuard{s.name}).first->second;
      m.lo = std::max(m.lo, s.lo);
      m.hi = std::min(m.hi, s.hi);
      m.multiple_of = least_common_multiple(m.multiple_of, s.multiple_of);
    }
  }
  Guard out;
  for (auto& [name, s] : merged) out.symbols.push_back(std::move(s));
  out.alignment_bytes = std::max(a.alignment_bytes, b.alignment_bytes);
  return out;
}

std::string Guard::text() const {
  std::vector<std::string> parts;
  for (const SymbolGuard& s : symbols) parts.push_back(symbol_text(s));
  if (alignment_bytes != 1) parts.push_back("align " + std::to_string(alignment_bytes));
  return parts.empty() ? "always" : text::join(parts, ", ");
}

Result<Guard> Guard::parse(std::string_view text) {
  LW_TRY(text::Reader in, text::Reader::read(text));
  Guard out;
  const bool always =
      in.at("always") && in.peek(1).kind != text::TokenKind::identifier && in.peek(1).text != "%";
  if (always) {
    in.next();
  } else {
    do {
      if (in.at("align") && in.peek(1).kind == text::TokenKind::integer) {
        in.next();
        LW_CHECK(parse_alignment(in, out));
        continue;
      }
      const text::Token token = in.peek();
      LW_TRY(SymbolGuard s, parse_symbol(in));
      const bool twice = std::any_of(out.symbols.begin(), out.symbols.end(),
                                     [&](const SymbolGuard& o) { return o.name == s.name; });
      if (twice)
        return in.error_at(token, ErrorCode::duplicate_name, "cannot read a guard",
                           "symbol `" + s.name + "` occurs twice", "one guard for each symbol");
      out.symbols.push_back(std::move(s));
    } while (in.accept(","));
  }
  LW_CHECK(in.expect_line_end("a guard"));
  if (!in.at_end()) return in.unexpected("a guard", "the end of the text");
  std::sort(out.symbols.begin(), out.symbols.end(),
            [](const SymbolGuard& a, const SymbolGuard& b) { return a.name < b.name; });
  return out;
}

}  // namespace loopwright
