#include <algorithm>
#include <cmath>

#include "src/graph/composites.h"
#include "src/graph/text_format.h"
#include "src/support/text.h"

namespace loopwright::graph {
namespace {

using text::Reader;
using text::Token;
using text::TokenKind;

/// A number (or true, false) where a value is wanted: becomes a constant once the other operands are known.
struct Literal {
  Attribute value;
  Token token;
};
using Operand = std::variant<Value, Literal>;

std::vector<std::string> dtype_names() {
  std::vector<std::string> names;
  for (int i = 0; i < kDTypeCount; ++i) names.emplace_back(name(static_cast<DType>(i)));
  return names;
}

class Parser {
 public:
  explicit Parser(Reader in) : in_(std::move(in)) {}

  Result<Graph> parse() {
    LW_CHECK(in_.expect("graph", "a graph file"));
    const Token at = in_.peek();
    LW_TRY(std::string title, in_.expect_identifier("the name of a graph"));
    if (!is_name(title)) return bad_name(at, "graph " + title);
    g_ = Graph(title);
    LW_CHECK(in_.expect_line_end("a graph file"));
    while (!in_.at_end()) {
      LW_CHECK(statement());
      LW_CHECK(in_.expect_line_end("a statement"));
    }
    return std::move(g_);
  }

 private:
  // ---- statements

  Status statement() {
    if (in_.accept("symbol")) return symbol();
    if (in_.accept("input")) return input();
    if (in_.accept("output")) return output();
    if (in_.accept("update")) return update();
    if (in_.at("accuracy") && in_.peek(1).kind == TokenKind::identifier) return accuracy();
    const Token at = in_.peek();
    LW_TRY(const std::string name,
           in_.expect_identifier("a statement (symbol, input, output, update, or `name = op(...)`)"));
    if (!is_name(name)) return bad_name(at, name + " = ...");
    if (!in_.at("=")) {
      const std::string hint = suggestion(name, {"symbol", "input", "output", "update"});
      return in_.unexpected("a statement that begins with `" + name.substr(0, 64) + "`" + hint, "`=`");
    }
    in_.next();
    LW_TRY(Value v, named_expression(name, at));
    names_[name] = v;
    return Unit{};
  }

  Status accuracy() {
    in_.next();
    const auto accuracy = parse_accuracy(in_.peek().text);
    if (!accuracy) return in_.unexpected("an accuracy", "strict or tf32");
    in_.next();
    g_.allow(*accuracy);
    return Unit{};
  }

  Status symbol() {
    const Token at = in_.peek();
    LW_TRY(const std::string name, in_.expect_identifier("the name of a symbol"));
    LW_CHECK(in_.expect("in", "a symbol"));
    LW_TRY(const std::int64_t lo, in_.expect_integer("the smallest value of a symbol"));
    LW_CHECK(in_.expect("..", "a symbol's range"));
    LW_TRY(const std::int64_t hi, in_.expect_integer("the largest value of a symbol"));
    return place(at, g_.symbol(name, lo, hi));
  }

  Status input() {
    const Token at = in_.peek();
    LW_TRY(const std::string name, in_.expect_identifier("the name of an input"));
    LW_CHECK(in_.expect(":", "an input"));
    TensorType type;
    LW_TRY(type.dtype, dtype());
    LW_TRY(type.shape, dims("a shape"));
    if (in_.accept("strides")) {
      LW_TRY(type.strides, dims("strides"));
      if (type.strides.size() != type.shape.size())
        return in_.error_at(
            at, ErrorCode::bad_strides, "input " + name,
            std::to_string(type.strides.size()) + " strides for rank " + std::to_string(type.rank()),
            "one stride for each axis");
    }
    Result<Value> made = g_.input(name, std::move(type));
    LW_CHECK(place(at, made));
    names_[name] = *made;
    return Unit{};
  }

  Status output() {
    const Token at = in_.peek();
    LW_TRY(const std::string name, in_.expect_identifier("the name of an output"));
    if (!in_.accept("=")) {
      LW_TRY(Value v, known(name, at));
      return place(at, g_.output(name, v));
    }
    if (!is_name(name)) return bad_name(at, "output " + name);
    LW_TRY(Value v, expression());
    return place(at, g_.output(name, v));
  }

  Status update() {
    const Token at = in_.peek();
    LW_TRY(const std::string name, in_.expect_identifier("the name of an input"));
    LW_CHECK(in_.expect("=", "an update"));
    LW_TRY(Value target, known(name, at));
    LW_TRY(Value v, expression());
    return place(at, g_.update(target, v));
  }

  // ---- values

  Result<Value> known(const std::string& name, const Token& at) {
    auto found = names_.find(name);
    if (found != names_.end()) return found->second;
    std::vector<std::string> names;
    for (const auto& [known_name, v] : names_) names.push_back(known_name);
    return in_.error_at(at, ErrorCode::unknown_name, "use `" + name.substr(0, 64) + "`",
                        "no value of this name" + suggestion(name, names), "a name that was defined above");
  }

  /// A call or a name.
  Result<Value> expression() {
    const Token at = in_.peek();
    LW_TRY(const std::string name, in_.expect_identifier("a value: a name or `op(...)`"));
    if (in_.at("(")) return call(name, at, "");
    return known(name, at);
  }

  Result<Value> named_expression(const std::string& result, const Token& place_of_name) {
    const Token at = in_.peek();
    LW_TRY(const std::string name, in_.expect_identifier("a value: a name or `op(...)`"));
    if (in_.at("(")) return call(name, at, result);
    LW_TRY(Value source, known(name, at));
    return placed(place_of_name, g_.apply("copy", {source}, {}, result));
  }

  Result<Value> call(const std::string& op, const Token& at, const std::string& result) {
    const Signature* signature = nullptr;
    if (const Op* row = find_op(op)) signature = &row->signature;
    else if (const Composite* composite = find_composite(op)) signature = &composite->op.signature;
    if (!signature)
      return in_.error_at(at, ErrorCode::unknown_op, "call `" + op.substr(0, 64) + "`",
                          "no op of this name" + suggestion(op, callable_names()), "an op of docs/lw.md");
    if (++depth_ > kMaxNesting)
      return in_.error_at(at, ErrorCode::syntax, "call `" + op + "`",
                          "more than " + std::to_string(kMaxNesting) + " nested calls",
                          "names for the inner values");
    in_.next();
    std::vector<Operand> operands;
    std::vector<NamedAttribute> attributes;
    while (!in_.at(")")) {
      LW_CHECK(argument(*signature, operands, attributes));
      if (!in_.at(")")) LW_CHECK(in_.expect(",", "the arguments of `" + op + "`"));
    }
    in_.next();
    --depth_;
    std::vector<Value> inputs;
    LW_TRY(inputs, constants(*signature, operands));
    return placed(at, g_.apply(op, inputs, std::move(attributes), result));
  }

  Status argument(const Signature& signature, std::vector<Operand>& operands,
                  std::vector<NamedAttribute>& attributes) {
    const Token at = in_.peek();
    const bool is_word = at.kind == TokenKind::identifier;
    if (is_word && in_.peek(1).kind == TokenKind::punctuation && in_.peek(1).text == "=") {
      const AttributeSpec* spec = signature.attribute(at.text);
      if (!spec) return unknown_attribute(signature, at);
      in_.next();
      in_.next();
      return attribute(*spec, attributes);
    }
    const bool wants_operand = static_cast<int>(operands.size()) < signature.max_operands();
    const bool is_call = is_word && in_.peek(1).kind == TokenKind::punctuation && in_.peek(1).text == "(";
    const bool is_value =
        is_word && (is_call || (is_name(at.text) && (wants_operand || names_.contains(at.text))));
    if (is_value) {
      if (!attributes.empty())
        return in_.unexpected("the arguments of `" + signature.name + "`",
                              "`attribute=value` after the first attribute");
      LW_TRY(Value v, expression());
      operands.emplace_back(v);
      return Unit{};
    }
    if (wants_operand && attributes.empty() && is_literal(at)) return literal(operands);
    if (attributes.size() < signature.attributes.size())
      return attribute(signature.attributes[attributes.size()], attributes);
    return in_.unexpected("the arguments of `" + signature.name + "`", wants_operand ? "a value" : "`)`");
  }

  bool is_literal(const Token& at) const {
    return at.kind == TokenKind::integer || at.kind == TokenKind::real || at.text == "-" ||
           (at.kind == TokenKind::identifier &&
            (at.text == "inf" || at.text == "nan" || at.text == "true" || at.text == "false"));
  }

  Status literal(std::vector<Operand>& operands) {
    const Token at = in_.peek();
    LW_TRY(Attribute value, number());
    operands.emplace_back(Literal{std::move(value), at});
    return Unit{};
  }

  /// Literals become constants in the dtype of the first operand of the same letter.
  Result<std::vector<Value>> constants(const Signature& signature, const std::vector<Operand>& operands) {
    std::vector<Value> out;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (const Value* v = std::get_if<Value>(&operands[i])) {
        out.push_back(*v);
        continue;
      }
      const Literal& literal = std::get<Literal>(operands[i]);
      const char letter = signature.operand(static_cast<int>(i));
      std::optional<DType> dtype;
      if (letter == 'I') dtype = DType::i64;
      if (letter == 'B') dtype = DType::boolean;
      for (std::size_t j = 0; j < operands.size() && !dtype; ++j)
        if (const Value* v = std::get_if<Value>(&operands[j]);
            v && signature.operand(static_cast<int>(j)) == letter)
          dtype = g_.type(*v).dtype;
      if (!dtype)
        return in_.error_at(literal.token, ErrorCode::dtype_mismatch,
                            "use a number in `" + signature.name + "`",
                            "no other operand that says its dtype", "constant(value, dtype)");
      Result<Value> made = g_.apply("constant", {}, {{"value", literal.value}, {"dtype", *dtype}});
      LW_CHECK(place(literal.token, made));
      out.push_back(*made);
    }
    return out;
  }

  // ---- attributes

  Error unknown_attribute(const Signature& signature, const Token& at) const {
    std::vector<std::string> names;
    for (const AttributeSpec& spec : signature.attributes) names.push_back(spec.name);
    return in_.error_at(at, ErrorCode::bad_attribute,
                        "set `" + at.text.substr(0, 64) + "` of `" + signature.name + "`",
                        "no attribute of this name" + suggestion(at.text, names),
                        names.empty() ? "no attributes" : "one of " + text::join(names, ", "));
  }

  Status attribute(const AttributeSpec& spec, std::vector<NamedAttribute>& attributes) {
    LW_TRY(Attribute value, attribute_value(spec));
    attributes.push_back({spec.name, std::move(value)});
    return Unit{};
  }

  Result<Attribute> attribute_value(const AttributeSpec& spec) {
    const std::string asked = "attribute `" + spec.name + "`";
    switch (spec.type) {
      case AttributeType::number: return number();
      case AttributeType::flag: {
        if (!in_.at("true") && !in_.at("false")) return in_.unexpected(asked, "true or false");
        return Attribute(in_.next().text == "true");
      }
      case AttributeType::integer: {
        LW_TRY(std::int64_t value, in_.expect_integer(asked));
        return Attribute(value);
      }
      case AttributeType::word: {
        LW_TRY(std::string word, in_.expect_identifier(asked));
        return Attribute(std::move(word));
      }
      case AttributeType::dtype: {
        LW_TRY(DType value, dtype());
        return Attribute(value);
      }
      case AttributeType::dims: {
        LW_TRY(std::vector<Dim> value, dims(asked));
        return Attribute(std::move(value));
      }
      case AttributeType::integers: break;
    }
    std::vector<std::int64_t> numbers;
    LW_CHECK(in_.expect("[", asked));
    while (!in_.at("]")) {
      LW_TRY(std::int64_t value, in_.expect_integer(asked));
      numbers.push_back(value);
      if (!in_.at("]")) LW_CHECK(in_.expect(",", asked));
    }
    in_.next();
    return Attribute(std::move(numbers));
  }

  /// An integer, a real, or true and false as 1 and 0.
  Result<Attribute> number() {
    if (in_.accept("true")) return Attribute(std::int64_t{1});
    if (in_.accept("false")) return Attribute(std::int64_t{0});
    const Token& first = in_.peek(in_.at("-") ? 1 : 0);
    if (first.kind == TokenKind::integer && first.suffix.empty()) {
      LW_TRY(std::int64_t value, in_.expect_integer("a number"));
      return Attribute(value);
    }
    LW_TRY(double value, in_.expect_real("a number"));
    return Attribute(value);
  }

  Result<DType> dtype() {
    const Token at = in_.peek();
    LW_TRY(const std::string word, in_.expect_identifier("a dtype"));
    if (auto parsed = parse_dtype(word)) return *parsed;
    return in_.error_at(at, ErrorCode::unknown_name, "use dtype `" + word.substr(0, 64) + "`",
                        "no dtype of this name" + suggestion(word, dtype_names()),
                        "one of " + text::join(dtype_names(), ", "));
  }

  // ---- sizes

  Result<std::vector<Dim>> dims(const std::string& asked) {
    std::vector<Dim> out;
    LW_CHECK(in_.expect("[", asked));
    while (!in_.at("]")) {
      LW_TRY(Dim dim, size(asked));
      out.push_back(std::move(dim));
      if (out.size() > 64) return in_.unexpected(asked, "at most 64 sizes");
      if (!in_.at("]")) LW_CHECK(in_.expect(",", asked));
    }
    in_.next();
    return out;
  }

  /// Tokens up to the `,` or `]` that ends a size, read by Dim::parse.
  Result<Dim> size(const std::string& asked) {
    constexpr int kMaxTokens = 64;
    const Token first = in_.peek();
    std::string words;
    int nesting = 0, count = 0;
    while (!in_.at_end() && !in_.at_newline() && !(nesting == 0 && (in_.at(",") || in_.at("]")))) {
      const Token token = in_.next();
      if (++count > kMaxTokens || token.kind == TokenKind::real || token.kind == TokenKind::string ||
          !token.suffix.empty())
        return in_.error_at(
            token, ErrorCode::syntax, "read " + asked, "`" + token.text.substr(0, 64) + "`",
            "a size of at most " + std::to_string(kMaxTokens) + " symbols, integers, + - * and brackets");
      if (token.kind == TokenKind::identifier && !has_symbol(token.text)) return unknown_symbol(token);
      if (token.text == "(") ++nesting;
      if (token.text == ")") --nesting;
      words += token.text + " ";
    }
    if (count == 0) return in_.unexpected(asked, "a size");
    Result<Dim> parsed = Dim::parse(words);
    if (parsed.ok()) return parsed;
    const Error& error = parsed.error();
    return in_.error_at(first, error.code, "read the size `" + words.substr(0, words.size() - 1) + "`",
                        error.found, error.works);
  }

  bool has_symbol(const std::string& name) const {
    return std::any_of(g_.symbols().begin(), g_.symbols().end(),
                       [&](const Symbol& s) { return s.name == name; });
  }

  Error unknown_symbol(const Token& token) const {
    std::vector<std::string> names;
    for (const Symbol& s : g_.symbols()) names.push_back(s.name);
    return in_.error_at(token, ErrorCode::bad_symbol, "use symbol `" + token.text.substr(0, 64) + "`",
                        "no symbol of this name" + suggestion(token.text, names),
                        "`symbol " + token.text.substr(0, 64) + " in lo..hi` above");
  }

  // ---- errors

  Error bad_name(const Token& at, const std::string& asked) const {
    return in_.error_at(at, ErrorCode::syntax, asked.substr(0, 64),
                        "a name that the format keeps for itself, or is too long",
                        "letters, digits and _, no digit first, and no word of the text format");
  }

  template <class T>
  Status place(const Token& at, const Result<T>& result) const {
    if (result.ok()) return Unit{};
    const Error& e = result.error();
    return in_.error_at(at, e.code, e.asked, e.found, e.works);
  }
  Result<Value> placed(const Token& at, Result<Value> result) const {
    LW_CHECK(place(at, result));
    return result;
  }

  Reader in_;
  Graph g_;
  std::map<std::string, Value, std::less<>> names_;  ///< what the text has defined
  int depth_ = 0;
};

}  // namespace

Result<Graph> parse_graph(std::string_view text, const std::string& file) {
  if (text.size() > kMaxTextBytes)
    return Error{ErrorCode::too_large, "parse " + file, std::to_string(text.size()) + " bytes", file + ":1:1",
                 "at most " + std::to_string(kMaxTextBytes) + " bytes"};
  LW_TRY(Reader reader, Reader::read(text, file, true));
  return Parser(std::move(reader)).parse();
}

}  // namespace loopwright::graph
