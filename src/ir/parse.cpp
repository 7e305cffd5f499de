#include "src/ir/monoid.h"
#include "src/ir/parse_expr.h"
#include "src/ir/text.h"

namespace loopwright::ir {
namespace {

using text::Token;
using text::TokenKind;

/// Loops and conditions inside each other.
constexpr int kMaxBlocks = 200;

template <class Enum>
std::optional<Enum> parse_word(std::string_view text, std::initializer_list<Enum> values) {
  for (const Enum value : values)
    if (name(value) == text) return value;
  return std::nullopt;
}

class KernelParser {
 public:
  explicit KernelParser(text::Reader reader) : in_(std::move(reader)), exprs_(in_, scope_) {}

  Result<Kernel> kernel() {
    if (in_.peek().column != 1) return in_.unexpected("a kernel", "`kernel` at the beginning of the line");
    LW_CHECK(in_.expect("kernel", "a kernel"));
    LW_TRY(out_.name, in_.expect_identifier("a kernel name"));
    const std::size_t params_at = in_.position();
    while (!in_.at_newline() && !in_.at_end()) in_.next();
    in_.next();
    LW_CHECK(header());
    const std::size_t body_at = in_.position();
    in_.seek(params_at);  // shapes of parameters name symbols, which are declared below them
    LW_CHECK(params());
    in_.seek(body_at);
    LW_TRY(out_.body, block(3));
    if (!in_.at_end()) return in_.unexpected("a kernel", "the end of the kernel");
    return std::move(out_);
  }

 private:
  // ---------------------------------------------------------------- header

  bool at_header(std::string_view word, TokenKind second) const {
    return in_.at(word) && in_.peek().column == 3 && in_.peek(1).kind == second;
  }

  Status header() {
    while (true) {
      if (at_header("symbol", TokenKind::identifier)) {
        LW_CHECK(symbol());
      } else if (at_header("assume", TokenKind::identifier)) {
        LW_CHECK(assume());
      } else if (at_header("level", TokenKind::identifier)) {
        in_.next();
        const auto level =
            parse_word(in_.peek().text, {Level::naive, Level::scheduled, Level::flat, Level::emittable});
        if (!level) return in_.unexpected("a level", "naive, scheduled, flat or emittable");
        out_.level = *level;
        in_.next();
        LW_CHECK(in_.expect_line_end("a level"));
      } else if (at_header("contract", TokenKind::identifier)) {
        in_.next();
        out_.contract = in_.at("on");
        if (!in_.at("on") && !in_.at("off")) return in_.unexpected("contract", "on or off");
        in_.next();
        LW_CHECK(in_.expect_line_end("contract"));
      } else if (at_header("accuracy", TokenKind::identifier)) {
        in_.next();
        const auto accuracy = parse_accuracy(in_.peek().text);
        if (!accuracy) return in_.unexpected("an accuracy", "strict or tf32");
        out_.accuracy = *accuracy;
        in_.next();
        LW_CHECK(in_.expect_line_end("an accuracy"));
      } else {
        return Unit{};
      }
    }
  }

  Status symbol() {
    in_.next();
    const Token token = in_.peek();
    Symbol s;
    LW_TRY(s.name, in_.expect_identifier("a symbol"));
    LW_CHECK(in_.expect("in", "a symbol"));
    LW_TRY(s.lo, in_.expect_integer("a lower bound"));
    LW_CHECK(in_.expect("..", "a range"));
    LW_TRY(s.hi, in_.expect_integer("an upper bound"));
    if (s.lo < 0 || s.lo > s.hi)
      return in_.error_at(token, ErrorCode::bad_symbol, "cannot declare symbol `" + s.name + "`",
                          "its range is " + std::to_string(s.lo) + ".." + std::to_string(s.hi),
                          "0 <= lo <= hi");
    LW_CHECK(check_new(token, s.name));
    const Var v = fresh_var(s.name);
    scope_.vars[s.name] = NamedVar{v, DType::i64};
    out_.symbols.push_back({std::move(s), v});
    return in_.expect_line_end("a symbol");
  }

  Status assume() {
    in_.next();
    const Token start = in_.peek();
    std::string line;
    while (!in_.at_newline() && !in_.at_end()) line += in_.next().text + " ";
    auto guard = Guard::parse(line);
    if (!guard.ok())
      return in_.error_at(start, guard.error().code, "cannot read an assumption", guard.error().found,
                          guard.error().works);
    out_.guard = std::move(*guard);
    return in_.expect_line_end("an assumption");
  }

  Status params() {
    LW_CHECK(in_.expect("(", "kernel parameters"));
    if (!in_.at(")")) {
      do {
        LW_TRY(Buffer buffer, declaration());
        Param p{buffer, ArgRole::input};
        if (in_.accept("out")) p.role = ArgRole::output;
        else if (in_.accept("inout")) p.role = ArgRole::inout;
        else if (!in_.accept("in")) return in_.unexpected("a kernel parameter", "in, out or inout");
        p.is_streamed = p.role == ArgRole::output && in_.accept("streamed");
        for (const CachePolicy policy : {CachePolicy::no_allocate, CachePolicy::evict_first, CachePolicy::evict_last})
          if (p.role == ArgRole::input && in_.accept(name(policy))) p.cache = policy;
        scope_.buffers[buffer->name] = buffer;
        out_.params.push_back(std::move(p));
      } while (in_.accept(","));
    }
    LW_CHECK(in_.expect(")", "kernel parameters"));
    return in_.expect_line_end("kernel parameters");
  }

  /// `name: dtype[shape]`, and `strides [strides]`; the memory is set by the caller.
  Result<std::shared_ptr<BufferInfo>> declaration() {
    auto info = std::make_shared<BufferInfo>();
    const Token token = in_.peek();
    LW_TRY(info->name, in_.expect_identifier("a buffer"));
    LW_CHECK(check_new(token, info->name));
    LW_CHECK(in_.expect(":", "a buffer"));
    LW_TRY(info->dtype, dtype());
    LW_TRY(info->shape, exprs_.index());
    if (in_.accept("strides")) {
      LW_TRY(info->strides, exprs_.index());
      if (info->strides.size() != info->shape.size())
        return in_.error_at(token, ErrorCode::bad_strides, "cannot declare buffer `" + info->name + "`",
                            std::to_string(info->strides.size()) + " strides for " +
                                std::to_string(info->shape.size()) + " dimensions");
    }
    return info;
  }

  Result<DType> dtype() {
    const auto dtype = in_.peek().kind == TokenKind::identifier ? parse_dtype(in_.peek().text) : std::nullopt;
    if (!dtype) return in_.unexpected("a dtype", "one of bool i8 u8 i16 i32 i64 f16 bf16 f32 f64");
    in_.next();
    return *dtype;
  }

  Status check_new(const Token& token, const std::string& text) const {
    if (is_reserved_name(text))
      return in_.error_at(token, ErrorCode::syntax, "cannot use the name `" + text + "`",
                          "it is a word of the language", "another name");
    if (scope_.contains(text))
      return in_.error_at(token, ErrorCode::duplicate_name, "cannot use the name `" + text + "`",
                          "it has a meaning here already", "another name");
    return Unit{};
  }

  // ---------------------------------------------------------------- statements

  /// A Let or an Alloc with what precedes it in its block: its scope is the rest of the block.
  struct Open {
    std::vector<Stmt> before;
    std::optional<Let> let;
    Buffer buffer;
  };

  /// Statements that begin at `column`.
  Result<Stmt> block(int column) {
    if (column > 2 * kMaxBlocks)
      return in_.unexpected("a block", "at most " + std::to_string(kMaxBlocks) + " blocks inside each other");
    if (in_.at_end() || in_.peek().column < column)
      return in_.unexpected(
          "a block", "a statement indented by " + std::to_string(column - 1) + " blanks, or `nothing`");
    const Scope saved = scope_;
    std::vector<Open> opened;
    std::vector<Stmt> items;
    while (!in_.at_end() && in_.peek().column >= column) {
      if (in_.peek().column != column)
        return in_.unexpected("a block", "an indentation of " + std::to_string(column - 1) + " blanks");
      Open open;
      LW_TRY(Stmt s, statement(column, open));
      if (s != nullptr) {
        items.push_back(std::move(s));
        continue;
      }
      open.before = std::move(items);
      items.clear();
      opened.push_back(std::move(open));
    }
    scope_ = saved;
    while (!opened.empty()) {
      Open open = std::move(opened.back());
      opened.pop_back();
      Stmt body = seq(std::move(items));
      items = std::move(open.before);
      items.push_back(open.let ? ir::let(open.let->var, open.let->value, std::move(body))
                               : ir::alloc(open.buffer, std::move(body)));
    }
    return seq(std::move(items));
  }

  /// Fills `open` and returns nullptr for a Let or an Alloc.
  Result<Stmt> statement(int column, Open& open) {
    const bool word = in_.peek().kind == TokenKind::identifier &&
                      !(in_.peek(1).kind == TokenKind::punctuation && in_.peek(1).text == "[");
    if (word && in_.at("for")) return loop(column);
    if (word && in_.at("if")) return condition(column);
    if (word && in_.at("update")) return update();
    if (word && in_.at("let")) return let(open);
    if (word && in_.at("alloc")) return alloc(open);
    if (word && in_.accept("nothing")) {
      LW_CHECK(in_.expect_line_end("nothing"));
      return seq({});
    }
    if (word || in_.peek().kind != TokenKind::identifier)
      return in_.unexpected("a statement",
                            "for, if, let, alloc, update, nothing or a store like `y[i] = ...`");
    return store();
  }

  Result<Stmt> loop(int column) {
    in_.next();
    const Token token = in_.peek();
    LW_TRY(const std::string text, in_.expect_identifier("a loop"));
    LW_CHECK(check_new(token, text));
    LW_CHECK(in_.expect("in", "a loop"));
    LW_TRY(const std::int64_t zero, in_.expect_integer("a loop"));
    if (zero != 0)
      return in_.error_at(token, ErrorCode::syntax, "cannot read a loop",
                          "it begins at " + std::to_string(zero), "loops begin at 0");
    LW_CHECK(in_.expect("..", "a loop"));
    LW_TRY(Expr extent, exprs_.expression(DType::i64, "an extent"));
    LoopKind kind = LoopKind::serial;
    if (!in_.at_newline()) {
      const auto parsed = parse_word(
          in_.peek().text, {LoopKind::serial, LoopKind::unroll, LoopKind::vectorize, LoopKind::parallel, LoopKind::grid_x,
                             LoopKind::grid_y, LoopKind::grid_z, LoopKind::thread_x, LoopKind::thread_y,
                             LoopKind::cluster_x, LoopKind::across, LoopKind::last_block, LoopKind::ring,
                             LoopKind::bulk, LoopKind::mma, LoopKind::async});
      if (!parsed)
        return in_.unexpected("a loop", "serial, unroll, vectorize, parallel, an axis of a GPU or the end of the line");
      kind = *parsed;
      in_.next();
    }
    LW_CHECK(in_.expect_line_end("a loop"));
    const Var v = fresh_var(text);
    scope_.vars[text] = NamedVar{v, DType::i64};
    LW_TRY(Stmt body, block(column + 2));
    scope_.vars.erase(text);
    return ir::loop(v, std::move(extent), std::move(body), kind);
  }

  Result<Stmt> condition(int column) {
    in_.next();
    LW_TRY(Expr e, exprs_.expression(DType::boolean, "a condition"));
    LW_CHECK(in_.expect_line_end("a condition"));
    LW_TRY(Stmt then, block(column + 2));
    return if_then(std::move(e), std::move(then));
  }

  Result<Stmt> let(Open& open) {
    in_.next();
    const Token token = in_.peek();
    LW_TRY(const std::string text, in_.expect_identifier("a let"));
    LW_CHECK(check_new(token, text));
    LW_CHECK(in_.expect(":", "a let"));
    LW_TRY(const DType type, dtype());
    LW_CHECK(in_.expect("=", "a let"));
    LW_TRY(Expr value, exprs_.expression(type, "the value of a let"));
    LW_CHECK(in_.expect_line_end("a let"));
    const Var v = fresh_var(text);
    scope_.vars[text] = NamedVar{v, type};
    open.let = Let{v, std::move(value), nullptr};
    return Stmt(nullptr);
  }

  Result<Stmt> alloc(Open& open) {
    in_.next();
    LW_TRY(const std::shared_ptr<BufferInfo> info, declaration());
    const auto memory = parse_word(in_.peek().text, {Memory::global, Memory::cluster, Memory::shared,
                                                     Memory::registers, Memory::fragment});
    if (!memory) return in_.unexpected("an alloc", "global, cluster, shared, registers or fragment");
    info->memory = *memory;
    in_.next();
    LW_CHECK(in_.expect_line_end("an alloc"));
    scope_.buffers[info->name] = info;
    open.buffer = info;
    return Stmt(nullptr);
  }

  Status check_target(const Token& token, const Buffer& buffer, const std::vector<Expr>& index) const {
    if (index.size() == buffer->shape.size()) return Unit{};
    return in_.error_at(token, ErrorCode::shape_mismatch, "cannot index `" + buffer->name + "`",
                        "it has rank " + std::to_string(buffer->shape.size()) + ", the index has " +
                            std::to_string(index.size()));
  }

  Result<Stmt> store() {
    const Token token = in_.peek();
    LW_TRY(Buffer buffer, exprs_.buffer_name());
    LW_TRY(std::vector<Expr> index, exprs_.index());
    LW_CHECK(check_target(token, buffer, index));
    LW_CHECK(in_.expect("=", "a store"));
    LW_TRY(Expr value, exprs_.expression(buffer->dtype, "the value stored to `" + buffer->name + "`"));
    LW_CHECK(in_.expect_line_end("a store"));
    return ir::store(std::move(buffer), std::move(index), std::move(value));
  }

  Result<Stmt> update() {
    in_.next();
    const Token token = in_.peek();
    const auto monoid = parse_monoid(token.text);
    if (!monoid)
      return in_.unexpected(
          "an update", "a monoid: sum, product, min, max, any, all, argmin, argmax, log_sum_exp or welford");
    in_.next();
    const bool tuple = in_.accept("(");
    std::vector<Buffer> buffers;
    do {
      LW_TRY(Buffer buffer, exprs_.buffer_name());
      buffers.push_back(std::move(buffer));
    } while (tuple && in_.accept(","));
    if (tuple) LW_CHECK(in_.expect(")", "an update"));
    LW_TRY(std::vector<Expr> index, exprs_.index());
    std::vector<DType> dtypes;
    for (const Buffer& b : buffers) {
      LW_CHECK(check_target(token, b, index));
      dtypes.push_back(b->dtype);
    }
    if (!accepts(*monoid, dtypes))
      return in_.error_at(token, ErrorCode::dtype_mismatch, "cannot update by " + token.text,
                          std::to_string(buffers.size()) + " buffers of dtypes that it is not defined for",
                          std::to_string(arity(*monoid)) + " buffers, see docs/ir.md");
    LW_CHECK(in_.expect("by", "an update"));
    LW_TRY(std::vector<Expr> values, update_values(tuple, buffers));
    LW_CHECK(in_.expect_line_end("an update"));
    return ir::update(*monoid, std::move(buffers), std::move(index), std::move(values));
  }

  Result<std::vector<Expr>> update_values(bool tuple, const std::vector<Buffer>& buffers) {
    std::vector<Expr> values;
    if (tuple) LW_CHECK(in_.expect("(", "the values of an update"));
    for (const Buffer& b : buffers) {
      if (!values.empty()) LW_CHECK(in_.expect(",", "the values of an update"));
      LW_TRY(Expr e, exprs_.expression(b->dtype, "the value for `" + b->name + "`"));
      values.push_back(std::move(e));
    }
    if (tuple) LW_CHECK(in_.expect(")", "the values of an update"));
    return values;
  }

  text::Reader in_;
  Scope scope_;
  ExprParser exprs_;
  Kernel out_;
};

}  // namespace

Result<Kernel> parse_kernel(std::string_view text) {
  LW_TRY(text::Reader reader, text::Reader::read(text));
  return KernelParser(std::move(reader)).kernel();
}

}  // namespace loopwright::ir
