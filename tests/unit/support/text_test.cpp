#include "src/support/text.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

namespace loopwright::text {
namespace {

std::string words(std::string_view text, bool join_brackets = false) {
  const auto r = Reader::read(text, "", join_brackets);
  if (!r.ok()) return "error " + r.error().found;
  Reader reader = *r;
  std::vector<std::string> out;
  while (!reader.at_end()) {
    const Token t = reader.next();
    out.push_back(t.kind == TokenKind::newline ? "/" : t.text + (t.suffix.empty() ? "" : "~" + t.suffix));
  }
  return join(out, " ");
}

TEST(Reader, splits_ranges_names_and_numbers) {
  EXPECT_EQ(words("for i_0 in 0..n.x parallel"), "for i_0 in 0 .. n.x parallel /");
  EXPECT_EQ(words("1..64 1.5f32 3i32 1e-05f64 1e5 .5 2. 0x1.8p3f32 0x1fu8"),
            "1 .. 64 1.5~f32 3~i32 1e-05~f64 1e5 .5 2. 0x1.8p3~f32 0x1f~u8 /");
  EXPECT_EQ(words("a<=b->c!=d<<2"), "a <= b -> c != d << 2 /");
}

TEST(Reader, lines_comments_and_brackets) {
  EXPECT_EQ(words("a # b\n\n  # only this\n c(1,\n 2)\n"), "a / c ( 1 , / 2 ) /");
  EXPECT_EQ(words("c(1,\n 2)\nd", true), "c ( 1 , 2 ) / d /");
  EXPECT_EQ(words(""), "");
}

TEST(Reader, strings_have_escapes_and_an_end) {
  auto r = *Reader::read(quoted("a\"b\\c\nd\te"));
  EXPECT_EQ(*r.expect_string("a name"), "a\"b\\c\nd\te");
  EXPECT_EQ(words("\"abc\nd"), "error found a string without its closing quote");
  EXPECT_EQ(words("\"\\q\""), "error found an unknown escape in a string");
}

TEST(Reader, errors_have_line_column_and_what_was_expected) {
  auto r = *Reader::read("one\n  two )\n", "x.lw");
  r.next(), r.next(), r.next();
  const Error e = r.expect("(", "a call").error();
  EXPECT_EQ(e.message(),
            "syntax: cannot read a call: found `)`, expected `(`\n  x.lw:2:7\n      two )\n          ^");
  EXPECT_EQ(words("a \x01"), "error found the byte 1, which belongs to no word");
}

TEST(Reader, integers_are_checked_against_64_bits) {
  EXPECT_EQ(*Reader::read("-9223372036854775808")->expect_integer("n"), INT64_MIN);
  EXPECT_EQ(Reader::read("9223372036854775808")->expect_integer("n").error().code, ErrorCode::size_overflow);
  EXPECT_EQ(Reader::read("3i32")->expect_integer("n").error().code, ErrorCode::syntax);
  EXPECT_EQ(*Reader::read("0x7fffffffffffffff")->expect_integer("n"), INT64_MAX);
  EXPECT_FALSE(Reader::read("99999999999999999999").ok());
  EXPECT_FALSE(Reader::read("1e400").ok());
  EXPECT_FALSE(Reader::read("0x1p1024").ok());
  EXPECT_TRUE(Reader::read("1e308").ok());
  EXPECT_EQ(words("99999999999999999999"), "error found the integer 99999999999999999999, which does not fit 64 bits");
  EXPECT_EQ(words("0x"), "error found `0x` without digits");
}

TEST(Reader, every_text_that_has_no_words_is_told_what_works) {
  for (const std::string_view text : {"99999999999999999999", "0x", "1e400", "\"abc", "\"\\q\"", "a \x01", "\t"}) {
    const auto r = Reader::read(text, "x.lw");
    ASSERT_FALSE(r.ok()) << text;
    EXPECT_NE(r.error().asked, "") << text;
    EXPECT_NE(r.error().found, "") << text;
    EXPECT_NE(r.error().where, "") << text;
    EXPECT_NE(r.error().works, "") << text;
  }
}

TEST(Reader, every_double_reads_back) {
  std::mt19937_64 rng(1);
  for (int n = 0; n < 20000; ++n) {
    const double value = std::bit_cast<double>(rng());
    const double back = *Reader::read(real_text(value))->expect_real("a number");
    const bool same = std::bit_cast<std::uint64_t>(back) == std::bit_cast<std::uint64_t>(value);
    ASSERT_TRUE(same || (std::isnan(value) && std::isnan(back))) << real_text(value);
    const float small = std::bit_cast<float>(static_cast<std::uint32_t>(rng()));
    const auto small_back = static_cast<float>(*Reader::read(real_text(small))->expect_real("a number"));
    ASSERT_TRUE(small_back == small || (std::isnan(small) && std::isnan(small_back))) << real_text(small);
  }
  EXPECT_EQ(real_text(1.0), "1.0");
  EXPECT_EQ(real_text(-HUGE_VAL), "-inf");
}

TEST(Reader, seek_returns_to_a_place) {
  auto r = *Reader::read("a b c");
  const std::size_t at = r.position();
  r.next();
  EXPECT_TRUE(r.accept("b"));
  r.seek(at);
  EXPECT_TRUE(r.at("a"));
  EXPECT_EQ(r.peek(1).column, 3);
}

TEST(Writer, indents_by_two_blanks) {
  Writer w;
  w.line("a");
  w.indent();
  w.line("b");
  w.dedent();
  w.line("c");
  EXPECT_EQ(w.take(), "a\n  b\nc\n");
}

}  // namespace
}  // namespace loopwright::text
