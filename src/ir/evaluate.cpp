#include "src/ir/evaluate.h"

#include <cmath>
#include <cstring>

#include "src/ir/arithmetic.h"

namespace loopwright::ir {
namespace {

Value integer(std::int64_t i) { return Value{.i = i}; }
Value real(double f) { return Value{.f = f}; }

class Constant final : public Evaluator {
 public:
  explicit Constant(Value value) : value_(value) {}
  Value run(Frame&) const override { return value_; }

 private:
  Value value_;
};

class Slot final : public Evaluator {
 public:
  explicit Slot(int slot) : slot_(static_cast<std::size_t>(slot)) {}
  Value run(Frame& frame) const override { return frame.slots[slot_]; }

 private:
  std::size_t slot_;
};

/// A node that applies `F` to the values of its children: one class for each operation, without a switch when it runs.
template <class F>
class Apply1 final : public Evaluator {
 public:
  Apply1(Evaluate a, F f) : a_(std::move(a)), f_(f) {}
  Value run(Frame& frame) const override { return f_(a_->run(frame)); }

 private:
  Evaluate a_;
  F f_;
};

template <class F>
class Apply2 final : public Evaluator {
 public:
  Apply2(Evaluate a, Evaluate b, F f) : a_(std::move(a)), b_(std::move(b)), f_(f) {}
  Value run(Frame& frame) const override {
    const Value a = a_->run(frame);
    return f_(a, b_->run(frame));
  }

 private:
  Evaluate a_, b_;
  F f_;
};

template <class F>
Evaluate apply(Evaluate a, F f) {
  return std::make_unique<Apply1<F>>(std::move(a), f);
}
template <class F>
Evaluate apply(Evaluate a, Evaluate b, F f) {
  return std::make_unique<Apply2<F>>(std::move(a), std::move(b), f);
}

class Choose final : public Evaluator {
 public:
  Choose(Evaluate c, Evaluate a, Evaluate b) : c_(std::move(c)), a_(std::move(a)), b_(std::move(b)) {}
  Value run(Frame& frame) const override { return c_->run(frame).i ? a_->run(frame) : b_->run(frame); }

 private:
  Evaluate c_, a_, b_;
};

/// `and` and `or` of bools: the second side only when the first does not decide.
class ShortCircuit final : public Evaluator {
 public:
  ShortCircuit(Evaluate a, Evaluate b, bool decisive)
      : a_(std::move(a)), b_(std::move(b)), decisive_(decisive) {}
  Value run(Frame& frame) const override {
    const Value a = a_->run(frame);
    return (a.i != 0) == decisive_ ? a : b_->run(frame);
  }

 private:
  Evaluate a_, b_;
  bool decisive_;
};

template <DType kType>
class LoadElement final : public Evaluator {
 public:
  explicit LoadElement(Locator at) : at_(std::move(at)) {}
  Value run(Frame& frame) const override {
    const std::int64_t offset = at_.offset(frame);
    Storage& s = at_.storage(frame);
    frame.note_read(s, offset);
    if constexpr (kType == DType::f32) {
      float value;
      std::memcpy(&value, s.data + offset * 4, sizeof value);
      return real(value);
    } else if constexpr (kType == DType::i64) {
      std::int64_t value;
      std::memcpy(&value, s.data + offset * 8, sizeof value);
      return integer(value);
    } else {
      return load_value(kType, s.data, offset);
    }
  }

 private:
  Locator at_;
};

float single(Value v) { return static_cast<float>(v.f); }

/// The common float operations in f32, where a double rounds to the same as the float operation.
Evaluate build_f32(BinaryOp op, Evaluate& a, Evaluate& b) {
  switch (op) {
    case BinaryOp::add:
      return apply(std::move(a), std::move(b), [](Value x, Value y) { return real(single(x) + single(y)); });
    case BinaryOp::sub:
      return apply(std::move(a), std::move(b), [](Value x, Value y) { return real(single(x) - single(y)); });
    case BinaryOp::mul:
      return apply(std::move(a), std::move(b), [](Value x, Value y) { return real(single(x) * single(y)); });
    case BinaryOp::div:
      return apply(std::move(a), std::move(b), [](Value x, Value y) { return real(single(x) / single(y)); });
    default: return nullptr;
  }
}

/// The common operations of indices.
Evaluate build_i64(BinaryOp op, Evaluate& a, Evaluate& b) {
  using U = std::uint64_t;
  const auto wrapping = [&](auto f) {
    return apply(std::move(a), std::move(b), [f](Value x, Value y) {
      return integer(static_cast<std::int64_t>(f(static_cast<U>(x.i), static_cast<U>(y.i))));
    });
  };
  switch (op) {
    case BinaryOp::add: return wrapping([](U x, U y) { return x + y; });
    case BinaryOp::sub: return wrapping([](U x, U y) { return x - y; });
    case BinaryOp::mul: return wrapping([](U x, U y) { return x * y; });
    case BinaryOp::lt:
      return apply(std::move(a), std::move(b), [](Value x, Value y) { return integer(x.i < y.i); });
    case BinaryOp::floor_div:
      return apply(std::move(a), std::move(b),
                   [](Value x, Value y) { return integer(floor_div_int(x.i, y.i)); });
    case BinaryOp::mod:
      return apply(std::move(a), std::move(b), [](Value x, Value y) { return integer(mod_int(x.i, y.i)); });
    default: return nullptr;
  }
}

}  // namespace

// ---------------------------------------------------------------- checks

const ParallelLoop* Frame::other_iteration(std::uint64_t time) const {
  // Iterations begin later the deeper the loop: nothing to search when the access is of the current innermost one.
  if (time >= loops.back().iteration_begin) return nullptr;
  for (const ParallelLoop& loop : loops)
    if (loop.begin <= time && time < loop.iteration_begin) return &loop;
  return nullptr;
}

void Frame::check_read(const Storage& s, Touch& t, std::int64_t offset) const {
  if (const ParallelLoop* loop = other_iteration(t.written))
    fail_race(s, offset, *loop, "was written by another iteration and is read");
  const ParallelLoop* loop = other_iteration(t.read);
  if (!loop) return;
  bool running = false;
  for (const ParallelLoop& l : loops) running |= l.begin == t.shared_since;
  if (!running || loop->begin < t.shared_since) t.shared_since = loop->begin;
}

void Frame::check_write(const Storage& s, const Touch& t, std::int64_t offset) const {
  if (const ParallelLoop* loop = other_iteration(t.written))
    fail_race(s, offset, *loop, "was written by another iteration and is written");
  if (const ParallelLoop* loop = other_iteration(t.read))
    fail_race(s, offset, *loop, "was read by another iteration and is written");
  for (const ParallelLoop& loop : loops)
    if (loop.begin == t.shared_since)
      fail_race(s, offset, loop, "was read by other iterations and is written");
}

namespace {
std::string element_text(const Storage& s, std::int64_t offset) {
  return "element " + std::to_string(offset) + " of `" + s.buffer->name + "`";
}
}  // namespace

void Frame::fail_race(const Storage& s, std::int64_t offset, const ParallelLoop& loop,
                      const char* what) const {
  throw Fault{ErrorCode::nondeterministic, element_text(s, offset) + " " + what + " by this one, in loop `" +
                                               loop.var->hint + "` whose iterations have no order"};
}

void Frame::fail_uninitialised(const Storage& s, std::int64_t offset) {
  throw Fault{ErrorCode::nondeterministic, element_text(s, offset) + " is read before it is written"};
}

void Locator::fail(const Storage& s, std::size_t dimension, std::int64_t index) {
  throw Fault{ErrorCode::out_of_bounds, "index " + std::to_string(index) + " of dimension " +
                                            std::to_string(dimension) + " of `" + s.buffer->name +
                                            "` is outside 0.." + std::to_string(s.shape[dimension])};
}

// ---------------------------------------------------------------- elements

Value load_value(DType dtype, const std::uint8_t* data, std::int64_t offset) {
  const std::uint8_t* bytes = data + offset * size_bytes(dtype);
  return is_float(dtype) ? real(load_element(dtype, bytes)) : integer(load_integer(dtype, bytes));
}

void store_value(DType dtype, std::uint8_t* data, std::int64_t offset, Value value) {
  std::uint8_t* bytes = data + offset * size_bytes(dtype);
  if (is_float(dtype)) store_element(dtype, bytes, value.f);
  else store_integer(dtype, bytes, value.i);
}

// ---------------------------------------------------------------- building

int EvaluatorBuilder::slot_of(const Var& v) {
  return slots_.try_emplace(v, static_cast<int>(slots_.size())).first->second;
}
int EvaluatorBuilder::storage_of(const Buffer& b) {
  return storages_.try_emplace(b, static_cast<int>(storages_.size())).first->second;
}

Evaluate EvaluatorBuilder::build(const Expr& e) {
  return std::visit(
      on{[&](const IntImm& x) -> Evaluate { return std::make_unique<Constant>(integer(x.value)); },
         [&](const FloatImm& x) -> Evaluate { return std::make_unique<Constant>(real(x.value)); },
         [&](const VarRef& x) -> Evaluate {
           const auto it = slots_.find(x.var);
           LW_BUG_IF(it == slots_.end(), "variable " + x.var.hint + " is not bound");
           return std::make_unique<Slot>(it->second);
         },
         [&](const Unary& x) { return build_unary(x, x.a->dtype); },
         [&](const Binary& x) { return build_binary(x); },
         [&](const Select& x) -> Evaluate {
           return std::make_unique<Choose>(build(x.condition), build(x.a), build(x.b));
         },
         [&](const Cast& x) { return build_cast(x, e->dtype); },
         [&](const Load& x) { return build_load(x); }},
      e->v);
}

Evaluate EvaluatorBuilder::build_unary(const Unary& x, DType from) {
  Evaluate a = build(x.a);
  const UnaryOp op = x.op;
  if (!is_float(from))
    return apply(std::move(a), [op, from](Value v) { return integer(apply_int(op, from, v.i)); });
  if (op == UnaryOp::is_nan || op == UnaryOp::is_inf)
    return apply(std::move(a), [op](Value v) { return integer(test_float(op, v.f)); });
  return apply(std::move(a), [op, from](Value v) { return real(apply_float(op, from, v.f)); });
}

Evaluate EvaluatorBuilder::build_binary(const Binary& x) {
  const BinaryOp op = x.op;
  const DType t = x.a->dtype;
  Evaluate a = build(x.a), b = build(x.b);
  if (t == DType::boolean && (op == BinaryOp::and_ || op == BinaryOp::or_))
    return std::make_unique<ShortCircuit>(std::move(a), std::move(b), op == BinaryOp::or_);
  if (Evaluate fast = t == DType::f32 ? build_f32(op, a, b) : t == DType::i64 ? build_i64(op, a, b) : nullptr)
    return fast;
  if (!is_float(t))
    return apply(std::move(a), std::move(b),
                 [op, t](Value v, Value w) { return integer(apply_int(op, t, v.i, w.i)); });
  if (is_compare(op))
    return apply(std::move(a), std::move(b),
                 [op](Value v, Value w) { return integer(compare_float(op, v.f, w.f)); });
  return apply(std::move(a), std::move(b),
               [op, t](Value v, Value w) { return real(apply_float(op, t, v.f, w.f)); });
}

Evaluate EvaluatorBuilder::build_cast(const Cast& x, DType to) {
  Evaluate a = build(x.a);
  const bool from_float = is_float(x.a->dtype);
  if (from_float && is_float(to)) {
    if (to == DType::f64 || (to == DType::f32 && x.a->dtype != DType::f64)) return a;  // widening is exact
    return apply(std::move(a), [to](Value v) { return real(round_to(to, v.f)); });
  }
  if (from_float) return apply(std::move(a), [to](Value v) { return integer(cast_to_int(to, v.f)); });
  if (is_float(to)) return apply(std::move(a), [to](Value v) { return real(cast_to_float(to, v.i)); });
  return apply(std::move(a), [to](Value v) { return integer(wrap(to, v.i)); });
}

Evaluate EvaluatorBuilder::build_load(const Load& x) {
  std::vector<Evaluate> index;
  for (const Expr& i : x.index) index.push_back(build(i));
  Locator at(storage_of(x.buffer), std::move(index));
  switch (x.buffer->dtype) {
    case DType::boolean: return std::make_unique<LoadElement<DType::boolean>>(std::move(at));
    case DType::i8: return std::make_unique<LoadElement<DType::i8>>(std::move(at));
    case DType::u8: return std::make_unique<LoadElement<DType::u8>>(std::move(at));
    case DType::i16: return std::make_unique<LoadElement<DType::i16>>(std::move(at));
    case DType::i32: return std::make_unique<LoadElement<DType::i32>>(std::move(at));
    case DType::i64: return std::make_unique<LoadElement<DType::i64>>(std::move(at));
    case DType::f16: return std::make_unique<LoadElement<DType::f16>>(std::move(at));
    case DType::bf16: return std::make_unique<LoadElement<DType::bf16>>(std::move(at));
    case DType::f32: return std::make_unique<LoadElement<DType::f32>>(std::move(at));
    case DType::f64: return std::make_unique<LoadElement<DType::f64>>(std::move(at));
  }
  throw_bug(__FILE__, __LINE__, "dtype", x.buffer->name);
}

}  // namespace loopwright::ir
