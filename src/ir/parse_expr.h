// The expression grammar of kernel text; parse.cpp adds statements.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "src/ir/nodes.h"
#include "src/support/text.h"

namespace loopwright::ir {

/// A variable in scope with its dtype.
struct NamedVar {
  Var var;
  DType dtype = DType::i64;
};

/// What names mean at a place of the text.
struct Scope {
  std::map<std::string, NamedVar, std::less<>> vars;
  std::map<std::string, Buffer, std::less<>> buffers;
  bool contains(std::string_view name) const { return vars.contains(name) || buffers.contains(name); }
};

class ExprParser {
 public:
  ExprParser(text::Reader& reader, const Scope& scope) : in_(reader), scope_(scope) {}
  Result<Expr> expression() { return infix(1); }
  /// An expression of this dtype; `what` names it in messages.
  Result<Expr> expression(DType dtype, std::string_view what);
  /// `[` i64 expressions `]`.
  Result<std::vector<Expr>> index();
  Result<Buffer> buffer_name();
  Error mismatch(const text::Token& at, std::string asked, std::string found, std::string works = {}) const;

 private:
  Result<Expr> infix(int strength);
  Result<Expr> sign();
  Result<Expr> atom();
  Result<Expr> number(bool negative);
  Result<Expr> call();
  Result<Expr> call_operation(const text::Token& name, std::vector<Expr> args);
  Result<Expr> load_element();
  Result<Expr> join(const text::Token& at, BinaryOp op, Expr a, Expr b);

  text::Reader& in_;
  const Scope& scope_;
  int depth_ = 0;
};

}  // namespace loopwright::ir
