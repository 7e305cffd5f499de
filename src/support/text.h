// The one tokenizer and the one indenting writer of all text formats: graphs, kernels, traces.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "loopwright/base.h"

namespace loopwright::text {

enum class TokenKind : std::uint8_t { identifier, integer, real, string, punctuation, newline, end };

/// Identifiers begin with a letter or `_` and hold letters, digits, `_` and single `.`. Numbers may carry a suffix
/// without a blank between: `3i32`, `1.5f32`. Punctuation is `-> .. <= >= == != << >> && ||` or one character.
/// `#` begins a comment that ends with its line. Blank lines give no newline token.
struct Token {
  TokenKind kind = TokenKind::end;
  std::string text;           ///< as written; for strings the value without quotes and escapes
  std::string suffix;         ///< of a number
  std::uint64_t integer = 0;  ///< magnitude, for TokenKind::integer
  double real = 0;            ///< value of a number of either kind
  int line = 1;               ///< from 1
  int column = 1;             ///< from 1; of the first token of a line it is the indentation + 1
};

/// Tokens of a text with a place in them. Copy it to look ahead, or use position() and seek().
class Reader {
 public:
  /// `source` is the file name for messages; empty when there is none. Newlines inside ( [ { are dropped when
  /// `join_brackets` is true.
  static Result<Reader> read(std::string_view text, std::string source = {}, bool join_brackets = false);

  const Token& peek(std::size_t ahead = 0) const;
  Token next();
  std::size_t position() const { return at_; }
  void seek(std::size_t position) { at_ = position; }
  bool at_end() const { return peek().kind == TokenKind::end; }
  bool at_newline() const { return peek().kind == TokenKind::newline; }
  /// True when the next token is this identifier or punctuation.
  bool at(std::string_view word) const;
  /// Takes the token when it is this identifier or punctuation.
  bool accept(std::string_view word);
  /// `accept` or a syntax error. `asked` says what was being read, e.g. "a kernel parameter".
  Status expect(std::string_view word, std::string_view asked);
  Result<std::string> expect_identifier(std::string_view asked);
  /// An integer without suffix, with an optional minus sign; size_overflow outside i64.
  Result<std::int64_t> expect_integer(std::string_view asked);
  /// A real or an integer, `inf` or `nan`, with an optional minus sign, without suffix.
  Result<double> expect_real(std::string_view asked);
  Result<std::string> expect_string(std::string_view asked);
  /// A newline or the end of the text.
  Status expect_line_end(std::string_view asked);

  /// Syntax error at the next token: found it, while `expected` was expected.
  Error unexpected(std::string_view asked, std::string_view expected) const;
  /// An error of any code at a token.
  Error error_at(const Token& token, ErrorCode code, std::string asked, std::string found,
                 std::string works = {}) const;

 private:
  std::vector<Token> tokens_;  ///< the last one is TokenKind::end
  std::size_t at_ = 0;
  std::string source_;
  std::vector<std::string> lines_;
};

/// Lines indented by two spaces a level.
class Writer {
 public:
  void line(std::string_view text);
  void indent() { ++depth_; }
  void dedent() { --depth_; }
  int depth() const { return depth_; }
  const std::string& text() const { return text_; }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
  int depth_ = 0;
};

/// The shortest decimal text that reads back as the same double, always with `.`, an exponent, or as `inf` / `nan`.
std::string real_text(double value);
/// The same for the shortest text that reads back as the same float once rounded to float.
std::string real_text(float value);
/// In double quotes, with `\"`, `\\`, `\n` and `\t` escaped.
std::string quoted(std::string_view value);
std::string join(const std::vector<std::string>& parts, std::string_view separator);
bool is_identifier(std::string_view text);

}  // namespace loopwright::text
