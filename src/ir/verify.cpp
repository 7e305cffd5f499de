#include "src/ir/verify.h"

#include <algorithm>
#include <map>
#include <set>

#include "src/ir/arithmetic.h"
#include "src/ir/engine.h"
#include "src/ir/monoid.h"
#include "src/ir/rewrite.h"
#include "src/ir/text.h"
#include "src/support/text.h"

namespace loopwright::ir {
namespace {

/// What was found and what would work; the place is added where the statement is known.
struct Problem {
  std::string found, works;
};
using Check = std::optional<Problem>;

#define LW_IR_CHECK(expression) \
  if (Check problem = (expression)) return problem

std::string text_of(DType t) { return std::string(name(t)); }

class Verifier {
 public:
  Verifier(const Kernel& k, Level level) : k_(k), level_(level) {}

  Status run() {
    if (Check problem = signature()) return error(*problem, print(k_));
    if (Check problem = statement(k_.body))
      return error(*problem, place_ ? print_marked(k_, place_) : print(k_));
    return Unit{};
  }

 private:
  Error error(const Problem& p, std::string where) const {
    return Error{ErrorCode::malformed_ir,
                 "cannot accept kernel " + k_.name + " at level " + std::string(name(level_)), p.found,
                 std::move(where), p.works};
  }

  // ---------------------------------------------------------------- names and scopes

  Check new_name(const std::string& text, std::string_view what) {
    if (!text::is_identifier(text) || is_reserved_name(text))
      return Problem{std::string(what) + " has the name `" + text + "`",
                     "letters, digits and _, and no word of the language"};
    if (!names_.insert(text).second)
      return Problem{"the name `" + text + "` is given twice",
                     "a name of its own for every parameter, symbol and buffer"};
    return std::nullopt;
  }

  Check bind(const Var& v, DType dtype) {
    if (!ever_bound_.insert(v.id).second)
      return Problem{"variable `" + v.hint + "` is bound twice", "a copy through clone_bindings"};
    vars_[v] = dtype;
    return std::nullopt;
  }

  Check signature() {
    if (!text::is_identifier(k_.name))
      return Problem{"the kernel's name is `" + k_.name + "`", "letters, digits and _"};
    for (const SymbolParam& s : k_.symbols) {
      LW_IR_CHECK(new_name(s.symbol.name, "a symbol"));
      if (s.symbol.lo < 0 || s.symbol.lo > s.symbol.hi)
        return Problem{"symbol `" + s.symbol.name + "` has the range " + std::to_string(s.symbol.lo) + ".." +
                           std::to_string(s.symbol.hi),
                       "0 <= lo <= hi"};
      LW_IR_CHECK(bind(s.var, DType::i64));
    }
    for (const SymbolGuard& g : k_.guard.symbols)
      if (!names_.contains(g.name) || g.multiple_of < 1)
        return Problem{"the guard `" + k_.guard.text() + "` names no symbol or a multiple below 1",
                       "guards of the kernel's symbols"};
    for (const Param& p : k_.params) {
      LW_IR_CHECK(new_name(p.buffer->name, "a parameter"));
      LW_IR_CHECK(declaration(p.buffer));
      if (p.buffer->memory != Memory::global)
        return Problem{"parameter `" + p.buffer->name + "` is in " + std::string(name(p.buffer->memory)),
                       "global"};
      if (p.role == ArgRole::workspace)
        return Problem{"parameter `" + p.buffer->name + "` is workspace", "an Alloc of global memory"};
      for (const auto* list : {&p.buffer->shape, &p.buffer->strides})
        for (const Expr& e : *list)
          if (has_load(e))
            return Problem{"a size of parameter `" + p.buffer->name + "` reads memory", "sizes over symbols"};
      if (p.role == ArgRole::input) inputs_.insert(p.buffer);
    }
    return std::nullopt;
  }

  Check declaration(const Buffer& b) {
    for (const auto* list : {&b->shape, &b->strides})
      for (const Expr& e : *list) LW_IR_CHECK(expression(e, DType::i64, "a size of `" + b->name + "`"));
    if (!b->strides.empty() && b->strides.size() != b->shape.size())
      return Problem{"buffer `" + b->name + "` has " + std::to_string(b->strides.size()) + " strides for " +
                         std::to_string(b->shape.size()) + " dimensions",
                     "one for each"};
    // Parameters keep the shape their caller knows, and what engines copy boxes of; backends compute their offsets.
    const bool is_parameter =
        std::any_of(k_.params.begin(), k_.params.end(), [&](const Param& p) { return p.buffer == b; });
    if (level_ >= Level::flat && !is_parameter && (b->shape.size() > 1 || !b->strides.empty()) && !find_boxed(k_.body).contains(b))
      return Problem{"buffer `" + b->name + "` has rank " + std::to_string(b->shape.size()) +
                         (b->strides.empty() ? "" : " and strides"),
                     "one dense dimension at this level"};
    buffers_.insert(b);
    return std::nullopt;
  }

  // ---------------------------------------------------------------- expressions

  Check expression(const Expr& e, DType wanted, const std::string& what) {
    if (e == nullptr) return Problem{what + " is missing", "an expression"};
    LW_IR_CHECK(expression(e));
    if (e->dtype != wanted) return Problem{what + " is " + text_of(e->dtype), text_of(wanted)};
    return std::nullopt;
  }

  /// The node itself; children first.
  Check expression(const Expr& e) {
    const auto known = checked_.find(e.get());
    // Good in this scope before; in another one its variables and buffers may be out of reach.
    if (known != checked_.end() && known->second == scope_) return std::nullopt;
    Check problem;
    map_children(e, [&](const Expr& child) {
      if (!problem) problem = expression(child);
      return child;
    });
    if (problem) return problem;
    LW_IR_CHECK(std::visit([&](const auto& x) { return node(x, e->dtype); }, e->v));
    checked_[e.get()] = scope_;
    return std::nullopt;
  }

  Check node(const IntImm& x, DType t) {
    if (is_float(t) || wrap(t, x.value) != x.value)
      return Problem{"literal " + std::to_string(x.value) + " is no value of " + text_of(t),
                     "a literal in range"};
    return std::nullopt;
  }
  Check node(const FloatImm& x, DType t) {
    if (!is_float(t) || (x.value == x.value && round_to(t, x.value) != x.value))
      return Problem{"literal " + std::to_string(x.value) + " is no value of " + text_of(t),
                     "a rounded literal"};
    return std::nullopt;
  }
  Check node(const VarRef& x, DType t) {
    const auto it = vars_.find(x.var);
    if (it == vars_.end())
      return Problem{"variable `" + x.var.hint + "` is used outside its scope",
                     "a use inside the loop or let that binds it"};
    if (it->second != t)
      return Problem{"variable `" + x.var.hint + "` is " + text_of(it->second) + ", used as " + text_of(t),
                     "its dtype"};
    return std::nullopt;
  }
  Check node(const Unary& x, DType t) {
    if (result_dtype(x.op, x.a->dtype) != std::optional(t))
      return Problem{std::string(name(x.op)) + " of " + text_of(x.a->dtype) + " as " + text_of(t),
                     "an operation of the dtype"};
    return std::nullopt;
  }
  Check node(const Binary& x, DType t) {
    if (result_dtype(x.op, x.a->dtype, x.b->dtype) != std::optional(t))
      return Problem{std::string(name(x.op)) + " of " + text_of(x.a->dtype) + " and " + text_of(x.b->dtype) +
                         " as " + text_of(t),
                     "operands of one dtype that has the operation"};
    return std::nullopt;
  }
  Check node(const Select& x, DType t) {
    if (x.condition->dtype != DType::boolean || x.a->dtype != t || x.b->dtype != t)
      return Problem{"a select whose parts have other dtypes",
                     "a bool condition and two sides of the result's dtype"};
    return std::nullopt;
  }
  Check node(const Cast&, DType) { return std::nullopt; }
  Check node(const Load& x, DType t) {
    LW_IR_CHECK(access(x.buffer, x.index));
    if (x.buffer->dtype != t)
      return Problem{"a load of `" + x.buffer->name + "` as " + text_of(t), text_of(x.buffer->dtype)};
    return std::nullopt;
  }

  Check access(const Buffer& b, const std::vector<Expr>& index) {
    if (!buffers_.contains(b))
      return Problem{"buffer `" + b->name + "` is used outside its scope",
                     "a parameter or a buffer of an enclosing alloc"};
    if (index.size() != b->shape.size())
      return Problem{"an index of rank " + std::to_string(index.size()) + " for `" + b->name + "`",
                     "rank " + std::to_string(b->shape.size())};
    for (const Expr& i : index) LW_IR_CHECK(expression(i, DType::i64, "an index of `" + b->name + "`"));
    return std::nullopt;
  }

  Check target(const Buffer& b, const std::vector<Expr>& index) {
    LW_IR_CHECK(access(b, index));
    if (inputs_.contains(b))
      return Problem{"input `" + b->name + "` is written", "an output or inout parameter"};
    return std::nullopt;
  }

  // ---------------------------------------------------------------- statements

  Check statement(const Stmt& s) {
    if (s == nullptr) return Problem{"a statement is missing", "an empty Seq"};
    if (!as<Seq>(s)) place_ = s;
    return std::visit([&](const auto& x) { return node(x); }, s->v);
  }

  /// The body of a binder: what is checked inside it says nothing about outside.
  Check scoped(const Stmt& body) {
    const std::uint64_t outer = scope_;
    scope_ = ++scope_count_;
    LW_IR_CHECK(statement(body));
    scope_ = outer;
    return std::nullopt;
  }

  Check loop_kind(const Loop& x) const {
    if (level_ == Level::naive && x.kind != LoopKind::serial)
      return Problem{"loop `" + x.var.hint + "` is " + std::string(name(x.kind)),
                     "serial loops in a naive kernel"};
    if (level_ >= Level::flat && x.kind == LoopKind::unroll)
      return Problem{"loop `" + x.var.hint + "` is still to be unrolled", "its copies at this level"};
    if (level_ == Level::emittable && x.kind == LoopKind::parallel && loop_depth_ > 0)
      return Problem{"parallel loop `" + x.var.hint + "` is inside another loop",
                     "parallel loops on the outside only"};
    if (level_ == Level::emittable && x.kind == LoopKind::vectorize && !as_int(x.extent))
      return Problem{"vectorized loop `" + x.var.hint + "` has a symbolic extent", "a constant extent"};
    return std::nullopt;
  }

  Check node(const Loop& x) {
    LW_IR_CHECK(expression(x.extent, DType::i64, "the extent of loop `" + x.var.hint + "`"));
    LW_IR_CHECK(loop_kind(x));
    LW_IR_CHECK(bind(x.var, DType::i64));
    ++loop_depth_;
    LW_IR_CHECK(scoped(x.body));
    --loop_depth_;
    vars_.erase(x.var);
    return std::nullopt;
  }
  Check node(const Store& x) {
    LW_IR_CHECK(target(x.buffer, x.index));
    return expression(x.value, x.buffer->dtype, "the value stored to `" + x.buffer->name + "`");
  }
  Check node(const Update& x) {
    std::vector<DType> dtypes;
    for (const Buffer& b : x.buffers) {
      LW_IR_CHECK(target(b, x.index));
      dtypes.push_back(b->dtype);
    }
    if (x.values.size() != x.buffers.size() || !accepts(x.monoid, dtypes))
      return Problem{"an update by " + std::string(name(x.monoid)) + " of " + std::to_string(dtypes.size()) +
                         " buffers whose dtypes it is not defined for",
                     std::to_string(arity(x.monoid)) + " buffers of its dtypes"};
    for (std::size_t i = 0; i < dtypes.size(); ++i)
      LW_IR_CHECK(expression(x.values[i], dtypes[i], "the value for `" + x.buffers[i]->name + "`"));
    if (std::set<Buffer>(x.buffers.begin(), x.buffers.end()).size() != x.buffers.size())
      return Problem{"an update of one buffer twice", "a buffer for each component"};
    return std::nullopt;
  }
  Check node(const If& x) {
    LW_IR_CHECK(expression(x.condition, DType::boolean, "a condition"));
    return statement(x.then);
  }
  Check node(const Let& x) {
    if (x.value == nullptr) return Problem{"let `" + x.var.hint + "` has no value", "an expression"};
    LW_IR_CHECK(expression(x.value));
    LW_IR_CHECK(bind(x.var, x.value->dtype));
    LW_IR_CHECK(scoped(x.body));
    vars_.erase(x.var);
    return std::nullopt;
  }
  Check node(const Alloc& x) {
    LW_IR_CHECK(new_name(x.buffer->name, "a buffer"));
    if (level_ == Level::naive && x.buffer->memory != Memory::global)
      return Problem{"buffer `" + x.buffer->name + "` is in " + std::string(name(x.buffer->memory)),
                     "global memory in a naive kernel"};
    LW_IR_CHECK(declaration(x.buffer));
    LW_IR_CHECK(scoped(x.body));
    buffers_.erase(x.buffer);
    return std::nullopt;
  }
  Check node(const Seq& x) {
    for (const Stmt& item : x.items) LW_IR_CHECK(statement(item));
    return std::nullopt;
  }

  const Kernel& k_;
  Level level_;
  Stmt place_;
  int loop_depth_ = 0;
  std::uint64_t scope_ = 0, scope_count_ = 0;
  std::set<std::string> names_;
  std::set<std::uint32_t> ever_bound_;
  std::map<Var, DType> vars_;
  std::set<Buffer> buffers_, inputs_;
  std::map<const ExprNode*, std::uint64_t> checked_;  ///< the scope in which the subtree was found good
};

}  // namespace

Status verify(const Kernel& k) { return verify(k, k.level); }
Status verify(const Kernel& k, Level level) { return Verifier(k, level).run(); }

}  // namespace loopwright::ir
