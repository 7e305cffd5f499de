#include <cctype>
#include <map>
#include <set>

#include "src/ir/arithmetic.h"
#include "src/ir/monoid.h"
#include "src/ir/text.h"
#include "src/support/text.h"

namespace loopwright::ir {
namespace {

/// Binding strength in text; a child prints in brackets when it binds less than its place asks for.
enum Strength : int { kOr = 1, kAnd, kCompare, kSum, kProduct, kSign, kAtom };

struct Infix {
  std::string_view text;
  int strength;
};

std::optional<Infix> infix_of(BinaryOp op) {
  switch (op) {
    case BinaryOp::or_: return Infix{" or ", kOr};
    case BinaryOp::and_: return Infix{" and ", kAnd};
    case BinaryOp::eq: return Infix{" == ", kCompare};
    case BinaryOp::ne: return Infix{" != ", kCompare};
    case BinaryOp::lt: return Infix{" < ", kCompare};
    case BinaryOp::le: return Infix{" <= ", kCompare};
    case BinaryOp::gt: return Infix{" > ", kCompare};
    case BinaryOp::ge: return Infix{" >= ", kCompare};
    case BinaryOp::add: return Infix{" + ", kSum};
    case BinaryOp::sub: return Infix{" - ", kSum};
    case BinaryOp::mul: return Infix{"*", kProduct};
    case BinaryOp::div: return Infix{" / ", kProduct};
    default: return std::nullopt;
  }
}

/// `hint` as an identifier that is no word of the expression grammar.
std::string clean_name(const std::string& hint) {
  std::string out;
  for (const char c : hint) {
    const bool dot = c == '.' && !out.empty() && out.back() != '.';
    out += std::isalnum(static_cast<unsigned char>(c)) || c == '_' || dot ? c : '_';
  }
  while (!out.empty() && out.back() == '.') out.pop_back();
  if (out.empty() || std::isdigit(static_cast<unsigned char>(out[0]))) out.insert(0, "v");
  return is_reserved_name(out) ? out + "_" : out;
}

/// Names for variables and buffers, all different within one text.
class Names {
 public:
  void reserve(const Kernel& k) {
    for (const Param& p : k.params) take(buffers_[p.buffer.get()], p.buffer->name);
    for (const SymbolParam& s : k.symbols) take(vars_[s.var.id], s.symbol.name);
  }
  const std::string& of(const Var& v) { return find(vars_[v.id], v.hint); }
  const std::string& of(const Buffer& b) { return find(buffers_[b.get()], b->name); }

 private:
  void take(std::string& slot, const std::string& name) {
    slot = name;
    used_.insert(name);
  }
  const std::string& find(std::string& slot, const std::string& hint) {
    if (!slot.empty()) return slot;
    const std::string base = clean_name(hint);
    std::string name = base;
    for (int n = 1; used_.contains(name); ++n) name = base + "_" + std::to_string(n);
    take(slot, name);
    return slot;
  }
  std::map<std::uint32_t, std::string> vars_;
  std::map<const BufferInfo*, std::string> buffers_;
  std::set<std::string> used_;
};

class Printer {
 public:
  explicit Printer(const StmtNode* marked = nullptr) : marked_(marked) {}
  Names names;
  std::string out;

  std::string text(const Expr& e, int place = 0) {
    const auto [body, strength] =
        std::visit(on{[&](const IntImm& x) { return integer(x.value, e->dtype); },
                      [&](const FloatImm& x) { return real(x.value, e->dtype); },
                      [&](const VarRef& x) { return Piece{names.of(x.var), kAtom}; },
                      [&](const Unary& x) {
                        if (x.op == UnaryOp::neg) return Piece{"-" + text(x.a, kAtom), kSign};
                        return Piece{call(name(x.op), {x.a}), kAtom};
                      },
                      [&](const Binary& x) { return binary_text(x); },
                      [&](const Select& x) { return Piece{call("select", {x.condition, x.a, x.b}), kAtom}; },
                      [&](const Cast& x) { return Piece{call(name(e->dtype), {x.a}), kAtom}; },
                      [&](const Load& x) { return Piece{names.of(x.buffer) + bracketed(x.index), kAtom}; }},
                   e->v);
    return strength < place ? "(" + body + ")" : body;
  }

  void block(const Stmt& s) {
    ++depth_;
    const std::size_t before = out.size();
    print(s);
    if (out.size() == before) line("nothing");
    --depth_;
  }

  void print(const Stmt& s) {
    const bool marks = s.get() == marked_ && marked_ != nullptr;
    if (marks) ++marking_;
    std::visit(on{[&](const Loop& x) {
                    const std::string v = names.of(x.var);
                    const std::string kind =
                        x.kind == LoopKind::serial ? "" : " " + std::string(name(x.kind));
                    line("for " + v + " in 0.." + text(x.extent, kSum) + kind);
                    block(x.body);
                  },
                  [&](const Store& x) {
                    const std::string target = names.of(x.buffer) + bracketed(x.index);
                    line(target + " = " + text(x.value));
                  },
                  [&](const Update& x) { line(update_text(x)); },
                  [&](const If& x) {
                    line("if " + text(x.condition));
                    block(x.then);
                  },
                  [&](const Let& x) {
                    const std::string value = text(x.value);
                    line("let " + names.of(x.var) + ": " + std::string(name(x.value->dtype)) + " = " + value);
                    print(x.body);
                  },
                  [&](const Alloc& x) {
                    line("alloc " + declaration(x.buffer) + " " + std::string(name(x.buffer->memory)));
                    print(x.body);
                  },
                  [&](const Seq& x) {
                    for (const Stmt& item : x.items) print(item);
                  }},
               s->v);
    if (marks) --marking_;
  }

  void print(const Kernel& k) {
    names.reserve(k);
    std::vector<std::string> params;
    for (const Param& p : k.params)
      params.push_back(declaration(p.buffer) + " " + std::string(role_word(p.role)) +
                       (p.is_streamed ? " streamed" : "") + (p.cache == CachePolicy::normal ? "" : " " + std::string(name(p.cache))));
    line("kernel " + k.name + "(" + text::join(params, ", ") + ")");
    ++depth_;
    for (const SymbolParam& s : k.symbols)
      line("symbol " + s.symbol.name + " in " + std::to_string(s.symbol.lo) + ".." +
           std::to_string(s.symbol.hi));
    if (!(k.guard == Guard{})) line("assume " + k.guard.text());
    line("level " + std::string(name(k.level)));
    if (!k.contract) line("contract off");
    if (k.accuracy != Accuracy::strict) line("accuracy " + std::string(loopwright::name(k.accuracy)));
    --depth_;
    block(k.body);
  }

  void set_margin(bool margin) { margin_ = margin; }

 private:
  struct Piece {
    std::string body;
    int strength;
  };

  static std::string_view role_word(ArgRole role) {
    if (role == ArgRole::input) return "in";
    return role == ArgRole::output ? "out" : "inout";
  }

  static Piece integer(std::int64_t value, DType dtype) {
    if (dtype == DType::boolean) return {value ? "true" : "false", kAtom};
    return {std::to_string(value) + (dtype == DType::i64 ? "" : std::string(name(dtype))),
            value < 0 ? kSign : kAtom};
  }

  static Piece real(double value, DType dtype) {
    std::string digits =
        dtype == DType::f64 ? text::real_text(value) : text::real_text(static_cast<float>(value));
    if (digits.ends_with("inf") || digits.ends_with("nan")) digits += "_";
    return {digits + std::string(name(dtype)), digits[0] == '-' ? kSign : kAtom};
  }

  std::string list(const std::vector<Expr>& items) {
    std::vector<std::string> parts;
    for (const Expr& item : items) parts.push_back(text(item));
    return text::join(parts, ", ");
  }
  std::string bracketed(const std::vector<Expr>& index) { return "[" + list(index) + "]"; }
  std::string call(std::string_view function, const std::vector<Expr>& args) {
    return std::string(function) + "(" + list(args) + ")";
  }

  Piece binary_text(const Binary& x) {
    const auto infix = infix_of(x.op);
    if (!infix) return {call(name(x.op), {x.a, x.b}), kAtom};
    // Sums and products group to the left; comparisons do not chain.
    const int left = infix->strength == kCompare ? kCompare + 1 : infix->strength;
    const std::string a = text(x.a, left);
    return {a + std::string(infix->text) + text(x.b, infix->strength + 1), infix->strength};
  }

  std::string declaration(const Buffer& b) {
    std::string out_text = names.of(b) + ": " + std::string(name(b->dtype)) + bracketed(b->shape);
    if (!b->strides.empty()) out_text += " strides " + bracketed(b->strides);
    return out_text;
  }

  std::string update_text(const Update& x) {
    std::vector<std::string> targets;
    for (const Buffer& b : x.buffers) targets.push_back(names.of(b));
    const bool tuple = targets.size() > 1;
    const std::string target = tuple ? "(" + text::join(targets, ", ") + ")" : targets[0];
    const std::string index = bracketed(x.index);
    const std::string values = tuple ? "(" + list(x.values) + ")" : text(x.values[0]);
    return "update " + std::string(name(x.monoid)) + " " + target + index + " by " + values;
  }

  void line(const std::string& content) {
    if (margin_) out += marking_ > 0 ? "> " : "  ";
    out.append(static_cast<std::size_t>(depth_) * 2, ' ');
    out += content;
    out += '\n';
  }

  const StmtNode* marked_;
  int marking_ = 0;
  int depth_ = 0;
  bool margin_ = false;
};

}  // namespace

bool is_reserved_name(std::string_view text) {
  constexpr std::string_view kWords[] = {"and", "or", "true", "false"};
  for (const std::string_view word : kWords)
    if (text == word) return true;
  const bool special = text.starts_with("inf_") || text.starts_with("nan_");
  return special && parse_dtype(text.substr(4)).has_value();
}

std::string print(const Kernel& k) {
  Printer printer;
  printer.print(k);
  return std::move(printer.out);
}

std::string print(const Stmt& s) {
  Printer printer;
  printer.print(s);
  return std::move(printer.out);
}

std::string print(const Expr& e) { return Printer().text(e); }

std::string print_marked(const Kernel& k, const Stmt& marked) {
  Printer printer(marked.get());
  printer.set_margin(true);
  printer.print(k);
  return std::move(printer.out);
}

}  // namespace loopwright::ir
