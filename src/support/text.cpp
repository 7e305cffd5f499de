#include "src/support/text.h"

#include <charconv>
#include <cmath>
#include <cstdlib>

namespace loopwright::text {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool is_word(char c) { return is_letter(c) || is_digit(c); }

/// End of the identifier that begins at `at`: a `.` belongs to it only between two word characters.
std::size_t identifier_end(std::string_view s, std::size_t at) {
  while (at < s.size() && (is_word(s[at]) || (s[at] == '.' && at + 1 < s.size() && is_word(s[at + 1])))) ++at;
  return at;
}

class Scanner {
 public:
  Scanner(std::string_view text, bool join_brackets) : text_(text), join_brackets_(join_brackets) {}

  std::vector<Token> tokens;
  std::string problem;  ///< set when scan() returns false; the place is that of `tokens.back()`
  std::string works;    ///< set with `problem`

  bool scan() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') {
        end_line();
      } else if (c == ' ' || c == '\r') {
        ++at_;
      } else if (c == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (!scan_token(c)) {
        return false;
      }
    }
    if (!tokens.empty() && tokens.back().kind != TokenKind::newline) start(TokenKind::newline);
    start(TokenKind::end);
    return true;
  }

 private:
  char look(std::size_t ahead) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  Token& start(TokenKind kind) {
    Token token;
    token.kind = kind;
    token.line = line_;
    token.column = static_cast<int>(at_ - line_begin_) + 1;
    tokens.push_back(std::move(token));
    return tokens.back();
  }

  void end_line() {
    const bool joined = join_brackets_ && depth_ > 0;
    if (!joined && !tokens.empty() && tokens.back().kind != TokenKind::newline) start(TokenKind::newline);
    ++at_;
    ++line_;
    line_begin_ = at_;
  }

  bool scan_token(char c) {
    if (is_letter(c)) {
      Token& token = start(TokenKind::identifier);
      const std::size_t end = identifier_end(text_, at_);
      token.text = text_.substr(at_, end - at_);
      at_ = end;
      return true;
    }
    if (is_digit(c) || (c == '.' && is_digit(look(1)))) return scan_number();
    if (c == '"') return scan_string();
    return scan_punctuation(c);
  }

  void skip_digits(std::size_t& end, bool hex) const {
    while (end < text_.size() && (hex ? is_hex(text_[end]) : is_digit(text_[end]))) ++end;
  }

  /// Takes an exponent that begins with `mark` when digits follow it.
  bool skip_exponent(std::size_t& end, char mark) const {
    if (end >= text_.size() || (text_[end] | 0x20) != mark) return false;
    std::size_t digits = end + 1;
    if (digits < text_.size() && (text_[digits] == '+' || text_[digits] == '-')) ++digits;
    if (digits >= text_.size() || !is_digit(text_[digits])) return false;
    end = digits;
    skip_digits(end, false);
    return true;
  }

  bool fail(std::string what, std::string what_works) {
    problem = std::move(what);
    works = std::move(what_works);
    return false;
  }

  bool scan_number() {
    Token& token = start(TokenKind::integer);
    const bool hex = text_[at_] == '0' && (look(1) | 0x20) == 'x';
    std::size_t end = hex ? at_ + 2 : at_;
    skip_digits(end, hex);
    if (end < text_.size() && text_[end] == '.' && !(end + 1 < text_.size() && text_[end + 1] == '.')) {
      token.kind = TokenKind::real;
      skip_digits(++end, hex);
    }
    if (skip_exponent(end, hex ? 'p' : 'e')) token.kind = TokenKind::real;
    token.text = text_.substr(at_, end - at_);
    token.real = std::strtod(token.text.c_str(), nullptr);
    if (token.kind == TokenKind::real && std::isinf(token.real)) {
      return fail("the number " + token.text + " does not fit float64", "a magnitude below 1.8e308, or inf");
    }
    const std::size_t suffix = end;
    while (end < text_.size() && is_word(text_[end])) ++end;
    token.suffix = text_.substr(suffix, end - suffix);
    if (token.kind == TokenKind::integer) {
      const char* first = token.text.data() + (hex ? 2 : 0);
      const char* last = token.text.data() + token.text.size();
      if (first == last) return fail("`" + token.text + "` without digits", "0x1f, or a decimal number");
      const auto parsed = std::from_chars(first, last, token.integer, hex ? 16 : 10);
      if (parsed.ec != std::errc() || parsed.ptr != last) {
        return fail("the integer " + token.text + ", which does not fit 64 bits", "an integer below 2^64");
      }
    }
    at_ = end;
    return true;
  }

  bool scan_string() {
    Token& token = start(TokenKind::string);
    for (++at_; at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n'; ++at_) {
      if (text_[at_] != '\\') {
        token.text += text_[at_];
        continue;
      }
      ++at_;
      const char c = look(0);
      if (c == 'n') token.text += '\n';
      else if (c == 't') token.text += '\t';
      else if (c == '"' || c == '\\') token.text += c;
      else {
        return fail("an unknown escape in a string", R"(\n, \t, \" and \\)");
      }
    }
    if (look(0) != '"') {
      return fail("a string without its closing quote", "a closing quote on the same line; \\n stands for a line's end");
    }
    ++at_;
    return true;
  }

  bool scan_punctuation(char c) {
    Token& token = start(TokenKind::punctuation);
    if (c < 0x21 || c > 0x7e) {
      return fail("the byte " + std::to_string(static_cast<unsigned char>(c)) + ", which belongs to no word",
                  "printable ASCII and spaces; anything may stand in a comment, after #");
    }
    constexpr std::string_view kPairs[] = {"->", "..", "<=", ">=", "==", "!=", "<<", ">>", "&&", "||"};
    std::size_t length = 1;
    for (const std::string_view pair : kPairs)
      if (text_.substr(at_, 2) == pair) length = 2;
    token.text = text_.substr(at_, length);
    if (c == '(' || c == '[' || c == '{') ++depth_;
    if (c == ')' || c == ']' || c == '}') --depth_;
    at_ += length;
    return true;
  }

  std::string_view text_;
  bool join_brackets_;
  std::size_t at_ = 0;
  std::size_t line_begin_ = 0;
  int line_ = 1;
  int depth_ = 0;
};

std::vector<std::string> split_lines(std::string_view text) {
  std::vector<std::string> lines;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::end: return "the end of the text";
    case TokenKind::newline: return "the end of the line";
    case TokenKind::string: return quoted(token.text);
    default: return "`" + token.text + token.suffix + "`";
  }
}

template <class Real>
std::string shortest_text(Real value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  std::string out(buffer, end);
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

}  // namespace

Result<Reader> Reader::read(std::string_view text, std::string source, bool join_brackets) {
  Reader reader;
  reader.source_ = std::move(source);
  reader.lines_ = split_lines(text);
  Scanner scanner(text, join_brackets);
  const bool good = scanner.scan();
  reader.tokens_ = std::move(scanner.tokens);
  if (!good) {
    return reader.error_at(reader.tokens_.back(), ErrorCode::syntax, "cannot read the text",
                           "found " + scanner.problem, scanner.works);
  }
  return reader;
}

const Token& Reader::peek(std::size_t ahead) const {
  return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
}

Token Reader::next() {
  Token token = peek();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool Reader::at(std::string_view word) const {
  const Token& token = peek();
  return (token.kind == TokenKind::identifier || token.kind == TokenKind::punctuation) && token.text == word;
}

bool Reader::accept(std::string_view word) {
  if (!at(word)) return false;
  next();
  return true;
}

Status Reader::expect(std::string_view word, std::string_view asked) {
  if (accept(word)) return Unit{};
  return unexpected(asked, "`" + std::string(word) + "`");
}

Result<std::string> Reader::expect_identifier(std::string_view asked) {
  if (peek().kind != TokenKind::identifier) return unexpected(asked, "a name");
  return next().text;
}

Result<std::int64_t> Reader::expect_integer(std::string_view asked) {
  const std::size_t start = at_;
  const bool negative = accept("-");
  const Token& token = peek();
  if (token.kind != TokenKind::integer || !token.suffix.empty()) {
    Error error = unexpected(asked, "an integer");
    at_ = start;
    return error;
  }
  const std::uint64_t limit = std::uint64_t{INT64_MAX} + (negative ? 1 : 0);
  if (token.integer > limit)
    return error_at(token, ErrorCode::size_overflow, "cannot read " + std::string(asked),
                    token.text + " does not fit a signed 64-bit integer", "an integer from -2^63 to 2^63 - 1");
  const std::uint64_t magnitude = next().integer;
  return static_cast<std::int64_t>(negative ? 0 - magnitude : magnitude);
}

Result<double> Reader::expect_real(std::string_view asked) {
  const std::size_t start = at_;
  const bool negative = accept("-");
  const Token& token = peek();
  double value = 0;
  if (token.kind == TokenKind::identifier && (token.text == "inf" || token.text == "nan")) {
    value = token.text == "inf" ? HUGE_VAL : std::nan("");
  } else if ((token.kind == TokenKind::real || token.kind == TokenKind::integer) && token.suffix.empty()) {
    value = token.real;
  } else {
    Error error = unexpected(asked, "a number");
    at_ = start;
    return error;
  }
  next();
  return negative ? -value : value;
}

Result<std::string> Reader::expect_string(std::string_view asked) {
  if (peek().kind != TokenKind::string) return unexpected(asked, "a string in double quotes");
  return next().text;
}

Status Reader::expect_line_end(std::string_view asked) {
  if (at_end()) return Unit{};
  if (!at_newline()) return unexpected(asked, "the end of the line");
  next();
  return Unit{};
}

Error Reader::unexpected(std::string_view asked, std::string_view expected) const {
  const Token& token = peek();
  return error_at(token, ErrorCode::syntax, "cannot read " + std::string(asked),
                  "found " + describe(token) + ", expected " + std::string(expected));
}

Error Reader::error_at(const Token& token, ErrorCode code, std::string asked, std::string found,
                       std::string works) const {
  std::string where = source_.empty() ? "line " + std::to_string(token.line) + ":"
                                      : source_ + ":" + std::to_string(token.line) + ":";
  where += std::to_string(token.column);
  const auto index = static_cast<std::size_t>(token.line - 1);
  if (index < lines_.size() && lines_[index].size() <= 200) {
    where +=
        "\n  " + lines_[index] + "\n  " + std::string(static_cast<std::size_t>(token.column - 1), ' ') + "^";
  }
  return Error{code, std::move(asked), std::move(found), std::move(where), std::move(works)};
}

void Writer::line(std::string_view text) {
  text_.append(static_cast<std::size_t>(depth_) * 2, ' ');
  text_ += text;
  text_ += '\n';
}

std::string real_text(double value) { return shortest_text(value); }
std::string real_text(float value) { return shortest_text(value); }

std::string quoted(std::string_view value) {
  std::string out = "\"";
  for (const char c : value) {
    if (c == '\n') out += "\\n";
    else if (c == '\t') out += "\\t";
    else if (c == '"' || c == '\\') (out += '\\') += c;
    else out += c;
  }
  return out + "\"";
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string out;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i != 0) out += separator;
    out += parts[i];
  }
  return out;
}

bool is_identifier(std::string_view text) {
  return !text.empty() && is_letter(text[0]) && identifier_end(text, 0) == text.size();
}

}  // namespace loopwright::text
