#include "src/ir/parse_expr.h"

#include <cmath>

#include "src/ir/arithmetic.h"
#include "src/ir/text.h"

namespace loopwright::ir {
namespace {

using text::Token;
using text::TokenKind;

/// Brackets and signs inside each other; a kernel that needs more is not one that a person or a printer wrote.
constexpr int kMaxNesting = 1000;

struct InfixOp {
  BinaryOp op;
  int strength;
};

std::optional<InfixOp> infix_op(const Token& token) {
  if (token.kind == TokenKind::identifier) {
    if (token.text == "or") return InfixOp{BinaryOp::or_, 1};
    if (token.text == "and") return InfixOp{BinaryOp::and_, 2};
    return std::nullopt;
  }
  if (token.kind != TokenKind::punctuation) return std::nullopt;
  static const std::map<std::string, InfixOp, std::less<>> table = {
      {"==", {BinaryOp::eq, 3}}, {"!=", {BinaryOp::ne, 3}}, {"<", {BinaryOp::lt, 3}},
      {"<=", {BinaryOp::le, 3}}, {">", {BinaryOp::gt, 3}},  {">=", {BinaryOp::ge, 3}},
      {"+", {BinaryOp::add, 4}}, {"-", {BinaryOp::sub, 4}}, {"*", {BinaryOp::mul, 5}},
      {"/", {BinaryOp::div, 5}}};
  const auto it = table.find(token.text);
  return it == table.end() ? std::nullopt : std::optional(it->second);
}

std::string dtypes_text(const std::vector<Expr>& args) {
  std::vector<std::string> names;
  for (const Expr& a : args) names.emplace_back(name(a->dtype));
  return text::join(names, ", ");
}

}  // namespace

Error ExprParser::mismatch(const Token& at, std::string asked, std::string found, std::string works) const {
  return in_.error_at(at, ErrorCode::dtype_mismatch, std::move(asked), std::move(found), std::move(works));
}

Result<Expr> ExprParser::expression(DType dtype, std::string_view what) {
  const Token start = in_.peek();
  LW_TRY(Expr e, expression());
  if (e->dtype != dtype)
    return mismatch(start, "cannot read " + std::string(what), "it is " + std::string(name(e->dtype)),
                    "an expression of dtype " + std::string(name(dtype)));
  return e;
}

Result<std::vector<Expr>> ExprParser::index() {
  std::vector<Expr> out;
  LW_CHECK(in_.expect("[", "an index"));
  if (in_.accept("]")) return out;
  do {
    LW_TRY(Expr e, expression(DType::i64, "an index"));
    out.push_back(std::move(e));
  } while (in_.accept(","));
  LW_CHECK(in_.expect("]", "an index"));
  return out;
}

Result<Buffer> ExprParser::buffer_name() {
  const Token token = in_.peek();
  LW_TRY(const std::string text, in_.expect_identifier("a buffer"));
  const auto it = scope_.buffers.find(text);
  if (it != scope_.buffers.end()) return it->second;
  std::vector<std::string> known;
  for (const auto& [key, buffer] : scope_.buffers) known.push_back(key);
  return in_.error_at(token, ErrorCode::unknown_name, "cannot find buffer `" + text + "`",
                      "no such buffer in scope", "one of: " + text::join(known, ", "));
}

Result<Expr> ExprParser::infix(int strength) {
  if (++depth_ > kMaxNesting)
    return in_.unexpected("an expression", "at most " + std::to_string(kMaxNesting) + " nested brackets");
  LW_TRY(Expr left, sign());
  while (const auto op = infix_op(in_.peek())) {
    if (op->strength < strength) break;
    const Token at = in_.next();
    LW_TRY(Expr right, infix(op->strength + 1));
    LW_TRY(left, join(at, op->op, std::move(left), std::move(right)));
    // a < b < c would compare a bool with a number: refuse it by name.
    if (is_compare(op->op) && infix_op(in_.peek()) && infix_op(in_.peek())->strength == op->strength)
      return in_.unexpected("a comparison", "no second comparison without brackets");
  }
  --depth_;
  return left;
}

Result<Expr> ExprParser::join(const Token& at, BinaryOp op, Expr a, Expr b) {
  if (!result_dtype(op, a->dtype, b->dtype))
    return mismatch(at, "cannot apply " + std::string(name(op)), "the operands are " + dtypes_text({a, b}),
                    "equal dtypes that have this operation; casts are written, e.g. f32(x)");
  return binary(op, std::move(a), std::move(b));
}

Result<Expr> ExprParser::sign() {
  if (!in_.at("-")) return atom();
  const Token minus = in_.next();
  const Token& token = in_.peek();
  const bool special = token.kind == TokenKind::identifier && is_reserved_name(token.text);
  if (token.kind == TokenKind::integer || token.kind == TokenKind::real || special) return number(true);
  if (++depth_ > kMaxNesting) return in_.unexpected("an expression", "fewer signs");
  LW_TRY(Expr a, sign());
  --depth_;
  if (!result_dtype(UnaryOp::neg, a->dtype))
    return mismatch(minus, "cannot apply neg", "the operand is " + std::string(name(a->dtype)));
  return unary(UnaryOp::neg, std::move(a));
}

Result<Expr> ExprParser::number(bool negative) {
  const Token token = in_.next();
  if (token.kind == TokenKind::identifier) {  // inf_f32, nan_f32, true, false
    if (token.text == "true" || token.text == "false") {
      if (negative) return mismatch(token, "cannot apply neg", "the operand is bool");
      return int_imm(token.text == "true", DType::boolean);
    }
    if (!is_reserved_name(token.text) || token.text == "and" || token.text == "or")
      return in_.error_at(token, ErrorCode::syntax, "cannot read an expression",
                          "found `" + token.text + "`, expected a value");
    const double value = token.text.starts_with("inf") ? HUGE_VAL : std::nan("");
    const DType dtype = *parse_dtype(token.text.substr(4));
    if (!is_float(dtype)) return mismatch(token, "cannot read a literal", token.text + " is not a float");
    return float_imm(negative ? -value : value, dtype);
  }
  const auto dtype = token.suffix.empty() ? std::optional(DType::i64) : parse_dtype(token.suffix);
  const bool real = token.kind == TokenKind::real;
  if (!dtype || *dtype == DType::boolean || (real && !is_float(*dtype)))
    return in_.error_at(token, ErrorCode::syntax, "cannot read a literal",
                        "found `" + token.text + token.suffix + "`",
                        "a float with its dtype, e.g. 1.5f32; an integer of i64 without or another with its "
                        "dtype, e.g. 3i32");
  if (is_float(*dtype)) return float_imm(negative ? -token.real : token.real, *dtype);
  const std::uint64_t limit = std::uint64_t{INT64_MAX} + (negative ? 1 : 0);
  const auto value = static_cast<std::int64_t>(negative ? 0 - token.integer : token.integer);
  if (token.integer > limit || wrap(*dtype, value) != value)
    return in_.error_at(token, ErrorCode::size_overflow, "cannot read a literal",
                        token.text + " is outside " + std::string(name(*dtype)));
  return int_imm(value, *dtype);
}

Result<Expr> ExprParser::atom() {
  if (in_.accept("(")) {
    LW_TRY(Expr inner, expression());
    LW_CHECK(in_.expect(")", "an expression"));
    return inner;
  }
  const Token& token = in_.peek();
  if (token.kind == TokenKind::integer || token.kind == TokenKind::real) return number(false);
  if (token.kind != TokenKind::identifier)
    return in_.unexpected("an expression", "a number, a name, `-` or `(`");
  if (is_reserved_name(token.text)) return number(false);
  if (in_.peek(1).text == "(" && in_.peek(1).kind == TokenKind::punctuation) return call();
  if (in_.peek(1).text == "[" && in_.peek(1).kind == TokenKind::punctuation) return load_element();
  const auto it = scope_.vars.find(token.text);
  if (it == scope_.vars.end()) {
    std::vector<std::string> known;
    for (const auto& [key, v] : scope_.vars) known.push_back(key);
    return in_.error_at(token, ErrorCode::unknown_name, "cannot find variable `" + token.text + "`",
                        "no such variable in scope", "one of: " + text::join(known, ", "));
  }
  in_.next();
  return var(it->second.var, it->second.dtype);
}

Result<Expr> ExprParser::load_element() {
  const Token token = in_.peek();
  LW_TRY(Buffer buffer, buffer_name());
  LW_TRY(std::vector<Expr> where, index());
  if (where.size() != buffer->shape.size())
    return in_.error_at(token, ErrorCode::shape_mismatch, "cannot index `" + token.text + "`",
                        "it has rank " + std::to_string(buffer->shape.size()) + ", the index has " +
                            std::to_string(where.size()));
  return load(std::move(buffer), std::move(where));
}

Result<Expr> ExprParser::call() {
  const Token name_token = in_.next();
  LW_CHECK(in_.expect("(", "a call"));
  std::vector<Expr> args;
  if (!in_.at(")")) {
    do {
      LW_TRY(Expr e, expression());
      args.push_back(std::move(e));
    } while (in_.accept(","));
  }
  LW_CHECK(in_.expect(")", "a call"));
  return call_operation(name_token, std::move(args));
}

Result<Expr> ExprParser::call_operation(const Token& at, std::vector<Expr> args) {
  const auto to = parse_dtype(at.text);
  const auto one = parse_unary_op(at.text);
  const auto two = parse_binary_op(at.text);
  if (!to && !one && !two && at.text != "select")
    return in_.error_at(at, ErrorCode::unknown_op, "cannot apply `" + at.text + "`", "no such operation",
                        "an operation name such as exp or floor_div, a dtype for a cast, or select");
  const std::size_t wanted = to || one ? 1 : two ? 2 : 3;
  if (args.size() != wanted)
    return in_.error_at(at, ErrorCode::wrong_arity, "cannot apply `" + at.text + "`",
                        std::to_string(args.size()) + " operands, it takes " + std::to_string(wanted));
  if (to) return cast(std::move(args[0]), *to);
  if (two) return join(at, *two, std::move(args[0]), std::move(args[1]));
  if (one) {
    if (!result_dtype(*one, args[0]->dtype))
      return mismatch(at, "cannot apply " + at.text, "the operand is " + dtypes_text(args));
    return unary(*one, std::move(args[0]));
  }
  if (args[0]->dtype != DType::boolean || args[1]->dtype != args[2]->dtype)
    return mismatch(at, "cannot apply select", "the operands are " + dtypes_text(args),
                    "a bool and two of one dtype");
  return select(std::move(args[0]), std::move(args[1]), std::move(args[2]));
}

}  // namespace loopwright::ir
