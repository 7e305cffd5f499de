#include <algorithm>

#include "src/codegen/cuda/body_emitter.h"
#include "src/codegen/cuda/ops_text.h"
#include "src/ir/rewrite.h"

namespace loopwright::codegen {

using ir::BinaryOp;
using ir::Expr;

namespace {

bool is_leaf(const Expr& e) { return ir::as<ir::IntImm>(e) || ir::as<ir::FloatImm>(e) || ir::as<ir::VarRef>(e); }

constexpr std::size_t kLongestInline = 100;  ///< characters of an operand before it gets a name

}  // namespace

/// True when evaluating the expression may read what is not there unless a condition holds; wide loads have been made.
bool BodyEmitter::touches_memory(const Expr& e) const {
  bool found = false;
  ir::walk(e, [&](const Expr& x) { found = found || (ir::as<ir::Load>(x) != nullptr && !(lanes_ && lanes_->loads.contains(x.get()))); });
  return found;
}

std::string BodyEmitter::fresh(const std::string& hint) { return hint + "_" + std::to_string(++number_); }

std::string BodyEmitter::name_value(const std::string& type, const std::string& value) {
  const std::string name = fresh("v");
  line("const " + type + " " + name + " = " + value + ";");
  return name;
}

std::string BodyEmitter::wide(const Value& v, DType dtype) {
  return dtype == DType::i64 && v.narrow ? "((long long)" + v.text + ")" : v.text;
}

bool BodyEmitter::fits_int(const Expr& e) const {
  const ir::Interval range = facts_.bounds(e);
  return range.lo >= INT32_MIN && range.hi <= INT32_MAX;
}

bool BodyEmitter::depends_on_lane(const Expr& e) {
  if (!lanes_) return false;
  const auto known = varies_.find(e.get());
  if (known != varies_.end()) return known->second;
  bool varies = false;
  if (const auto* ref = ir::as<ir::VarRef>(e)) {
    varies = ref->var == lanes_->var || lanes_->values.contains(ref->var);
  } else {
    ir::map_children(e, [&](const Expr& child) {
      varies = varies || depends_on_lane(child);
      return child;
    });
  }
  varies_[e.get()] = varies;
  kept_.push_back(e);
  return varies;
}

void BodyEmitter::begin(const std::vector<Expr>& parts) {
  memo_.assign(1, {});
  lane_memo_.assign(1, {});
  varies_.clear();
  divisors_.clear();
  uses_.clear();
  kept_ = parts;
  std::set<const ir::ExprNode*> seen;
  const std::function<void(const Expr&)> count = [&](const Expr& e) {
    ++uses_[e.get()];
    if (!seen.insert(e.get()).second) return;
    ir::map_children(e, [&](const Expr& child) {
      count(child);
      return child;
    });
  };
  for (const Expr& e : parts) count(e);
}

BodyEmitter::Value BodyEmitter::eval(const Expr& e) {
  if (is_leaf(e)) return eval_node(e);
  const bool varies = depends_on_lane(e);
  std::vector<Memo>& memo = varies ? lane_memo_ : memo_;
  for (const Memo& level : memo) {
    const auto known = level.find(e.get());
    if (known != level.end()) return known->second;
  }
  Value value = eval_node(e);
  const bool shared = uses_[e.get()] > 1 || (lanes_ && !varies && e->dtype != DType::i64);
  if (shared || value.text.size() > kLongestInline) {
    const bool is_name = value.text.find_first_of(" (.[") == std::string::npos;
    if (!is_name) value.text = name_value(e->dtype == DType::i64 && value.narrow ? "int" : std::string(c_type(e->dtype)), value.text);
  }
  memo.back()[e.get()] = value;
  kept_.push_back(e);
  return value;
}

BodyEmitter::Value BodyEmitter::eval_node(const Expr& e) {
  return std::visit(
      ir::on{[&](const ir::IntImm& x) -> Value {
               const bool narrow = e->dtype == DType::i64 && x.value > INT32_MIN && x.value <= INT32_MAX;
               return {c_integer(x.value, narrow ? DType::i32 : e->dtype), narrow};
             },
             [&](const ir::FloatImm& x) -> Value { return {c_number(x.value, e->dtype)}; },
             [&](const ir::VarRef& x) -> Value {
               if (lanes_ && x.var == lanes_->var) return {std::to_string(lanes_->now), true};
               if (lanes_)
                 if (const auto it = lanes_->values.find(x.var); it != lanes_->values.end())
                   return {it->second[static_cast<std::size_t>(lanes_->now)], narrow_[x.var]};
               const auto it = names_.find(x.var);
               LW_BUG_IF(it == names_.end(), "variable `" + x.var.hint + "` has no name in the text");
               return {it->second, narrow_[x.var]};
             },
             [&](const ir::Unary& x) -> Value {
               if (!launch_.rough.contains(e.get())) return {c_unary(x.op, x.a->dtype, text(x.a))};
               return {std::string(x.op == ir::UnaryOp::exp ? "lw_exp_rough(" : "lw_sigmoid_rough(") + text(x.a) + ")"};
             },
             [&](const ir::Binary& x) -> Value { return eval_binary(e, x); },
             [&](const ir::Select& x) -> Value { return eval_select(e, x.condition, x.a, x.b); },
             [&](const ir::Cast& x) -> Value { return eval_cast(e, x.a); },
             [&](const ir::Load& x) -> Value { return eval_load(e, x); }},
      e->v);
}

/// An operation of integers whose result and operands all fit an `int`; an empty text when that is not so.
BodyEmitter::Value BodyEmitter::eval_index_op(const Expr& e, const ir::Binary& x) {
  const bool comparison = e->dtype == DType::boolean;
  if (!comparison && !fits_int(e)) return {};
  const Value a = eval(x.a);
  const Value b = eval(x.b);
  if (!a.narrow || !b.narrow) return {};
  const auto infix = [&](const char* op) { return Value{"(" + a.text + " " + op + " " + b.text + ")", !comparison}; };
  const bool unsigned_division = facts_.bounds(x.a).lo >= 0 && facts_.bounds(x.b).lo > 0;
  switch (x.op) {
    case BinaryOp::add: return infix("+");
    case BinaryOp::sub: return infix("-");
    case BinaryOp::mul: return infix("*");
    case BinaryOp::min: return {"min(" + a.text + ", " + b.text + ")", true};
    case BinaryOp::max: return {"max(" + a.text + ", " + b.text + ")", true};
    case BinaryOp::div:
    case BinaryOp::floor_div:
      if (!unsigned_division) return {};
      return {"(int)((unsigned)" + a.text + " / (unsigned)" + b.text + ")", true};
    case BinaryOp::fmod:
    case BinaryOp::mod:
      if (!unsigned_division) return {};
      return {"(int)((unsigned)" + a.text + " % (unsigned)" + b.text + ")", true};
    case BinaryOp::eq: return infix("==");
    case BinaryOp::ne: return infix("!=");
    case BinaryOp::lt: return infix("<");
    case BinaryOp::le: return infix("<=");
    case BinaryOp::gt: return infix(">");
    case BinaryOp::ge: return infix(">=");
    default: return {};
  }
}

/// All lanes have one divisor: its reciprocal once, then a corrected product for each. Small divisors are scaled, so that
/// the reciprocal is finite. A rough quotient is the product alone.
std::string BodyEmitter::divide_lanes(const std::string& a, const Expr& divisor, bool rough) {
  Divisor& d = divisors_[divisor.get()];
  if (d.scale.empty()) {
    const std::string b = text(divisor);
    d.scale = name_value("float", "fabsf(" + b + ") < 0x1p-100f ? 0x1p+64f : 1.0f");
    d.value = name_value("float", b + " * " + d.scale);
    d.reciprocal = name_value("float", "__frcp_rn(" + d.value + ")");
  }
  if (rough) return "(" + a + " * " + d.scale + " * " + d.reciprocal + ")";
  return "lw_divide(" + a + " * " + d.scale + ", " + d.value + ", " + d.reciprocal + ")";
}

BodyEmitter::Value BodyEmitter::eval_binary(const Expr& e, const ir::Binary& x) {
  if (x.a->dtype == DType::i64)
    if (Value v = eval_index_op(e, x); !v.text.empty()) return v;
  if (e->dtype == DType::boolean && x.a->dtype == DType::boolean && touches_memory(x.b)) {
    // The second side only when the first does not decide.
    if (x.op == BinaryOp::and_) return eval_select(e, x.a, x.b, ir::int_imm(0, DType::boolean));
    if (x.op == BinaryOp::or_) return eval_select(e, x.a, ir::int_imm(1, DType::boolean), x.b);
  }
  const std::string a = text(x.a);
  if (x.op == BinaryOp::div && e->dtype == DType::f32 && lanes_ && !depends_on_lane(x.b)) return {divide_lanes(a, x.b, launch_.rough.contains(e.get()))};
  const std::string b = text(x.b);
  const bool positive = x.a->dtype == DType::i64 && facts_.bounds(x.a).lo >= 0 && facts_.bounds(x.b).lo > 0;
  if (positive && (x.op == BinaryOp::floor_div || x.op == BinaryOp::div))
    return {"(long long)((unsigned long long)" + a + " / (unsigned long long)" + b + ")", false};
  if (positive && (x.op == BinaryOp::mod || x.op == BinaryOp::fmod)) {
    const std::string rest = "((unsigned long long)" + a + " % (unsigned long long)" + b + ")";
    return fits_int(e) ? Value{"(int)" + rest, true} : Value{"(long long)" + rest, false};
  }
  return {c_binary(x.op, x.a->dtype, a, b, launch_.kernel.contract), false};
}

BodyEmitter::Value BodyEmitter::eval_select(const Expr& e, const Expr& condition, const Expr& a, const Expr& b) {
  const std::string c = text(condition);
  if (!touches_memory(a) && !touches_memory(b)) {
    const Value x = eval(a), y = eval(b);
    if (e->dtype == DType::i64 && x.narrow && y.narrow) return {"(" + c + " ? " + x.text + " : " + y.text + ")", true};
    return {"(" + c + " ? " + wide(x, a->dtype) + " : " + wide(y, b->dtype) + ")", false};
  }
  const std::string name = fresh("s");
  line(std::string(c_type(e->dtype)) + " " + name + ";");
  const auto side = [&](const std::string& head, const Expr& value) {
    line(head);
    ++depth_;
    memo_.emplace_back();
    lane_memo_.emplace_back();
    const std::string x = text(value);
    line(name + " = " + x + ";");
    memo_.pop_back();
    lane_memo_.pop_back();
    --depth_;
  };
  side("if (" + c + ") {", a);
  side("} else {", b);
  line("}");
  return {name, false};
}

BodyEmitter::Value BodyEmitter::eval_cast(const Expr& e, const Expr& a) {
  const DType from = a->dtype, to = e->dtype;
  if ((from == DType::bf16 || from == DType::f16) && to == DType::f32) {
    if (const auto half = find_half(a)) {
      const std::string function = from == DType::bf16 ? "lw_bf16" : "lw_f16";
      return {function + (half->second ? "_high(" : "_low(") + half->first + ")"};
    }
  }
  if (from == DType::i64 && to != DType::boolean) {
    const Value v = eval(a);
    if (v.narrow) return {c_cast(DType::i32, to, v.text), false};
    return {c_cast(from, to, v.text), false};
  }
  if (to == DType::i64 && !is_float(from) && fits_int(e)) return {"((int)" + text(a) + ")", true};
  if (to == DType::i64 && is_integer(from)) return {"((int)" + text(a) + ")", true};
  return {c_cast(from, to, text(a)), false};
}

BodyEmitter::Value BodyEmitter::eval_load(const Expr& e, const ir::Load& l) {
  if (lanes_) {
    const auto it = lanes_->loads.find(e.get());
    if (it != lanes_->loads.end()) return {element_of(it->second, l.buffer->dtype, lanes_->now)};
  }
  return {load_element(l.buffer, linear_index(*l.buffer, l.index))};
}

}  // namespace loopwright::codegen
