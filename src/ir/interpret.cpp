#include "src/ir/interpret.h"

#include <algorithm>

#include "src/ir/evaluate.h"
#include "src/ir/monoid.h"
#include "src/ir/rewrite.h"
#include "src/ir/text.h"
#include "src/support/text.h"

namespace loopwright::ir {
namespace {

/// Elements that an Alloc may have: a bound for nonsense, not for real kernels.
constexpr std::int64_t kMaxElements = std::int64_t{1} << 31;

class Executor {
 public:
  virtual ~Executor() = default;
  virtual void run(Frame& frame) const = 0;
};
using Execute = std::unique_ptr<const Executor>;

/// The statement that is being executed, for the message of a fault.
struct Progress {
  const StmtNode* at = nullptr;
  std::uint64_t steps = 0;
  std::uint64_t max_steps = 0;
  void enter(const StmtNode* s) {
    at = s;
    if (++steps > max_steps)
      throw Fault{ErrorCode::timeout,
                  "it executed " + std::to_string(max_steps) + " statements and was not done"};
  }
};

class Sequence final : public Executor {
 public:
  explicit Sequence(std::vector<Execute> items) : items_(std::move(items)) {}
  void run(Frame& frame) const override {
    for (const Execute& item : items_) item->run(frame);
  }

 private:
  std::vector<Execute> items_;
};

class RunLoop final : public Executor {
 public:
  RunLoop(const StmtNode* s, Progress& progress, int slot, Evaluate extent, Execute body)
      : s_(s),
        progress_(progress),
        slot_(static_cast<std::size_t>(slot)),
        extent_(std::move(extent)),
        body_(std::move(body)) {
    const auto& l = std::get<Loop>(s->v);
    var_ = &l.var;
    ordered_ = !is_unordered(l.kind);
  }
  void run(Frame& frame) const override {
    progress_.enter(s_);
    const std::int64_t extent = extent_->run(frame).i;
    if (!ordered_) {
      ++frame.now;
      frame.loops.push_back({frame.now, frame.now, var_});
    }
    for (std::int64_t i = 0; i < extent; ++i) {
      progress_.enter(s_);
      frame.slots[slot_].i = i;
      if (!ordered_ && i > 0) frame.loops.back().iteration_begin = ++frame.now;
      body_->run(frame);
    }
    if (!ordered_) {
      frame.loops.pop_back();
      ++frame.now;
    }
  }

 private:
  const StmtNode* s_;
  Progress& progress_;
  std::size_t slot_;
  Evaluate extent_;
  Execute body_;
  const Var* var_;
  bool ordered_;
};

class RunStore final : public Executor {
 public:
  RunStore(const StmtNode* s, Progress& progress, Locator at, Evaluate value)
      : s_(s),
        progress_(progress),
        at_(std::move(at)),
        value_(std::move(value)),
        dtype_(std::get<Store>(s->v).buffer->dtype) {}
  void run(Frame& frame) const override {
    progress_.enter(s_);
    const Value value = value_->run(frame);
    const std::int64_t offset = at_.offset(frame);
    Storage& s = at_.storage(frame);
    frame.note_write(s, offset);
    store_value(dtype_, s.data, offset, value);
  }

 private:
  const StmtNode* s_;
  Progress& progress_;
  Locator at_;
  Evaluate value_;
  DType dtype_;
};

/// state = combine(state, values): states and values pass through slots, from which the combining expressions read.
class RunUpdate final : public Executor {
 public:
  struct Component {
    Locator at;
    DType dtype;
    Evaluate value, combined;
    std::size_t state_slot, value_slot;
  };
  RunUpdate(const StmtNode* s, Progress& progress, std::vector<Component> components)
      : s_(s), progress_(progress), components_(std::move(components)) {}
  void run(Frame& frame) const override {
    progress_.enter(s_);
    for (const Component& c : components_) frame.slots[c.value_slot] = c.value->run(frame);
    const std::int64_t first = load_states(frame);
    if (components_.size() == 1) {
      write(frame, components_[0], first, components_[0].combined->run(frame));
      return;
    }
    std::vector<Value> results;
    for (const Component& c : components_) results.push_back(c.combined->run(frame));
    for (std::size_t i = 0; i < results.size(); ++i)
      write(frame, components_[i], components_[i].at.offset(frame), results[i]);
  }

 private:
  /// The offset in the first buffer.
  std::int64_t load_states(Frame& frame) const {
    std::int64_t first = 0;
    for (std::size_t i = 0; i < components_.size(); ++i) {
      const Component& c = components_[i];
      const std::int64_t offset = c.at.offset(frame);
      if (i == 0) first = offset;
      Storage& s = c.at.storage(frame);
      frame.note_read(s, offset);
      frame.slots[c.state_slot] = load_value(c.dtype, s.data, offset);
    }
    return first;
  }
  static void write(Frame& frame, const Component& c, std::int64_t offset, Value value) {
    Storage& s = c.at.storage(frame);
    frame.note_write(s, offset);
    store_value(c.dtype, s.data, offset, value);
  }
  const StmtNode* s_;
  Progress& progress_;
  std::vector<Component> components_;
};

class RunIf final : public Executor {
 public:
  RunIf(const StmtNode* s, Progress& progress, Evaluate condition, Execute then)
      : s_(s), progress_(progress), condition_(std::move(condition)), then_(std::move(then)) {}
  void run(Frame& frame) const override {
    progress_.enter(s_);
    if (condition_->run(frame).i) then_->run(frame);
  }

 private:
  const StmtNode* s_;
  Progress& progress_;
  Evaluate condition_;
  Execute then_;
};

class RunLet final : public Executor {
 public:
  RunLet(const StmtNode* s, Progress& progress, int slot, Evaluate value, Execute body)
      : s_(s),
        progress_(progress),
        slot_(static_cast<std::size_t>(slot)),
        value_(std::move(value)),
        body_(std::move(body)) {}
  void run(Frame& frame) const override {
    progress_.enter(s_);
    frame.slots[slot_] = value_->run(frame);
    body_->run(frame);
  }

 private:
  const StmtNode* s_;
  Progress& progress_;
  std::size_t slot_;
  Evaluate value_;
  Execute body_;
};

void lay_out(Storage& s, std::vector<std::int64_t> shape, std::vector<std::int64_t> strides,
             std::int64_t& span) {
  span = 1;
  std::int64_t count = 1;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] < 0)
      throw Fault{ErrorCode::out_of_bounds, "dimension " + std::to_string(d) + " of `" + s.buffer->name +
                                                "` is " + std::to_string(shape[d])};
    if (__builtin_mul_overflow(count, shape[d], &count) || count > kMaxElements)
      throw Fault{ErrorCode::out_of_memory, "buffer `" + s.buffer->name + "` has more than 2^31 elements"};
  }
  if (strides.empty()) {
    strides.assign(shape.size(), 1);
    for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  }
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::int64_t reach = 0;
    if (count > 0 && (strides[d] < 0 || __builtin_mul_overflow(shape[d] - 1, strides[d], &reach) ||
                      __builtin_add_overflow(span, reach, &span) || span > kMaxElements))
      throw Fault{ErrorCode::out_of_memory,
                  "buffer `" + s.buffer->name + "` spans more than 2^31 elements or has a negative stride"};
  }
  if (count == 0) span = 0;
  s.shape = std::move(shape);
  s.strides = std::move(strides);
}

class RunAlloc final : public Executor {
 public:
  RunAlloc(const StmtNode* s, Progress& progress, int storage, std::vector<Evaluate> shape,
           std::vector<Evaluate> strides, Execute body)
      : s_(s),
        progress_(progress),
        storage_(static_cast<std::size_t>(storage)),
        shape_(std::move(shape)),
        strides_(std::move(strides)),
        body_(std::move(body)) {}
  void run(Frame& frame) const override {
    progress_.enter(s_);
    Storage& s = frame.storages[storage_];
    s.buffer = std::get<Alloc>(s_->v).buffer.get();
    std::int64_t span = 0;
    lay_out(s, values(frame, shape_), values(frame, strides_), span);
    s.touches.assign(static_cast<std::size_t>(span), Touch{});
    s.owned.assign(static_cast<std::size_t>(span) * static_cast<std::size_t>(size_bytes(s.buffer->dtype)), 0);
    s.data = s.owned.data();
    body_->run(frame);
  }

 private:
  static std::vector<std::int64_t> values(Frame& frame, const std::vector<Evaluate>& exprs) {
    std::vector<std::int64_t> out;
    for (const Evaluate& e : exprs) out.push_back(e->run(frame).i);
    return out;
  }
  const StmtNode* s_;
  Progress& progress_;
  std::size_t storage_;
  std::vector<Evaluate> shape_, strides_;
  Execute body_;
};

/// Builds executors; keeps the numbering of variables and buffers.
class Compiler {
 public:
  explicit Compiler(Progress& progress) : progress_(progress) {}
  EvaluatorBuilder exprs;

  Execute build(const Stmt& s) {
    return std::visit(
        on{[&](const Loop& x) -> Execute {
             Evaluate extent = exprs.build(x.extent);
             const int slot = exprs.slot_of(x.var);
             return std::make_unique<RunLoop>(s.get(), progress_, slot, std::move(extent), build(x.body));
           },
           [&](const Store& x) -> Execute {
             return std::make_unique<RunStore>(s.get(), progress_, locator(x.buffer, x.index),
                                               exprs.build(x.value));
           },
           [&](const Update& x) -> Execute {
             return std::make_unique<RunUpdate>(s.get(), progress_, components(x));
           },
           [&](const If& x) -> Execute {
             return std::make_unique<RunIf>(s.get(), progress_, exprs.build(x.condition), build(x.then));
           },
           [&](const Let& x) -> Execute {
             Evaluate value = exprs.build(x.value);
             const int slot = exprs.slot_of(x.var);
             return std::make_unique<RunLet>(s.get(), progress_, slot, std::move(value), build(x.body));
           },
           [&](const Alloc& x) -> Execute {
             const int storage = exprs.storage_of(x.buffer);
             return std::make_unique<RunAlloc>(s.get(), progress_, storage, all(x.buffer->shape),
                                               all(x.buffer->strides), build(x.body));
           },
           [&](const Seq& x) -> Execute {
             std::vector<Execute> items;
             for (const Stmt& item : x.items) items.push_back(build(item));
             return std::make_unique<Sequence>(std::move(items));
           }},
        s->v);
  }

 private:
  std::vector<Evaluate> all(const std::vector<Expr>& list) {
    std::vector<Evaluate> out;
    for (const Expr& e : list) out.push_back(exprs.build(e));
    return out;
  }
  Locator locator(const Buffer& b, const std::vector<Expr>& index) {
    return Locator(exprs.storage_of(b), all(index));
  }

  std::vector<RunUpdate::Component> components(const Update& x) {
    std::vector<Expr> states, values;
    std::vector<std::size_t> state_slots, value_slots;
    for (const Buffer& b : x.buffers) {
      const Var state = fresh_var("state"), value = fresh_var("value");
      state_slots.push_back(static_cast<std::size_t>(exprs.slot_of(state)));
      value_slots.push_back(static_cast<std::size_t>(exprs.slot_of(value)));
      states.push_back(var(state, b->dtype));
      values.push_back(var(value, b->dtype));
    }
    const std::vector<Expr> combined = combine(x.monoid, states, values);
    std::vector<RunUpdate::Component> out;
    for (std::size_t i = 0; i < x.buffers.size(); ++i)
      out.push_back({locator(x.buffers[i], x.index), x.buffers[i]->dtype, exprs.build(x.values[i]),
                     exprs.build(combined[i]), state_slots[i], value_slots[i]});
    return out;
  }

  Progress& progress_;
};

Error wrong_arguments(const Kernel& k, std::string found, std::string works) {
  return Error{ErrorCode::wrong_arguments, "cannot interpret kernel " + k.name, std::move(found), "",
               std::move(works)};
}

Status bind_symbols(const Kernel& k, const Bindings& symbols, EvaluatorBuilder& exprs, Frame& frame) {
  for (const SymbolParam& s : k.symbols) {
    const auto it = symbols.find(s.symbol.name);
    if (it == symbols.end())
      return wrong_arguments(k, "symbol `" + s.symbol.name + "` has no value", "a value for every symbol");
    if (it->second < s.symbol.lo || it->second > s.symbol.hi)
      return Error{ErrorCode::out_of_range, "cannot interpret kernel " + k.name,
                   s.symbol.name + " is " + std::to_string(it->second), "",
                   "a value in " + std::to_string(s.symbol.lo) + ".." + std::to_string(s.symbol.hi)};
    frame.slots[static_cast<std::size_t>(exprs.slot_of(s.var))].i = it->second;
  }
  for (const SymbolGuard& g : k.guard.symbols)
    if (!Guard{{g}, 1}.holds(symbols))
      return wrong_arguments(k, "the symbols do not satisfy what the kernel assumes", k.guard.text());
  return Unit{};
}

/// Evaluates shape or strides of a parameter, which hold symbols only.
std::vector<std::int64_t> sizes_of(const std::vector<Expr>& list, EvaluatorBuilder& exprs, Frame& frame) {
  std::vector<std::int64_t> out;
  for (const Expr& e : list) out.push_back(exprs.build(e)->run(frame).i);
  return out;
}

std::string sizes_text(const std::vector<std::int64_t>& sizes) {
  std::vector<std::string> parts;
  for (const std::int64_t size : sizes) parts.push_back(std::to_string(size));
  return "[" + text::join(parts, ", ") + "]";
}

Status bind_param(const Kernel& k, const Param& p, std::map<std::string, Array>& arguments,
                  EvaluatorBuilder& exprs, Frame& frame) {
  const BufferInfo& b = *p.buffer;
  const auto it = arguments.find(b.name);
  if (it == arguments.end())
    return wrong_arguments(k, "argument `" + b.name + "` is missing", "an array for every parameter");
  Array& a = it->second;
  Storage& s = frame.storages[static_cast<std::size_t>(exprs.storage_of(p.buffer))];
  s.buffer = &b;
  std::int64_t span = 0;
  lay_out(s, sizes_of(b.shape, exprs, frame), sizes_of(b.strides, exprs, frame), span);
  if (a.dtype != b.dtype || a.shape != s.shape)
    return wrong_arguments(k,
                           "argument `" + b.name + "` is " + std::string(name(a.dtype)) + sizes_text(a.shape),
                           std::string(name(b.dtype)) + sizes_text(s.shape));
  for (std::size_t d = 0; d < s.shape.size(); ++d)
    if (span > 0 && s.shape[d] > 1 && (d >= a.strides.size() || a.strides[d] != s.strides[d]))
      return wrong_arguments(k, "argument `" + b.name + "` has strides " + sizes_text(a.strides),
                             "strides " + sizes_text(s.strides));
  if (static_cast<std::int64_t>(a.data.size()) < span * size_bytes(b.dtype))
    return wrong_arguments(k, "argument `" + b.name + "` has " + std::to_string(a.data.size()) + " bytes",
                           std::to_string(span * size_bytes(b.dtype)) + " bytes");
  s.data = a.data.data();
  s.touches.assign(static_cast<std::size_t>(span), Touch{p.role == ArgRole::output ? 0u : 1u, 0, 0});
  return Unit{};
}

/// True for loop variables and symbols: what a message can show as a number.
bool is_index(const Kernel& k, const Var& v) {
  bool out =
      std::any_of(k.symbols.begin(), k.symbols.end(), [&](const SymbolParam& s) { return s.var == v; });
  walk(
      k.body,
      [&](const Stmt& s) {
        if (const auto* l = as<Loop>(s)) out |= l->var == v;
      },
      [](const Expr&) {});
  return out;
}

Error fault_error(const Kernel& k, const Fault& fault, const Progress& progress,
                  const EvaluatorBuilder& exprs, const Frame& frame) {
  Stmt at;
  std::vector<std::string> values;
  walk(
      k.body,
      [&](const Stmt& s) {
        if (s.get() == progress.at) at = s;
      },
      [](const Expr&) {});
  // The loops and symbols that the statement names; a slot outlives its loop, so only free variables are current.
  for (const Var& v : at ? free_vars(at) : std::set<Var>{}) {
    const auto slot = exprs.slots().find(v);
    if (slot != exprs.slots().end() && is_index(k, v))
      values.push_back(v.hint + " = " +
                       std::to_string(frame.slots[static_cast<std::size_t>(slot->second)].i));
  }
  const std::string found = fault.found + (values.empty() ? "" : ", with " + text::join(values, ", "));
  return Error{fault.code, "cannot interpret kernel " + k.name, found, at ? print_marked(k, at) : print(k),
               ""};
}

}  // namespace

Status interpret(const Kernel& k, const Bindings& symbols, std::map<std::string, Array>& arguments,
                 const InterpretOptions& options) {
  Progress progress;
  progress.max_steps = options.max_steps;
  Frame frame;
  frame.options = options;
  Compiler compiler(progress);
  for (const SymbolParam& s : k.symbols) compiler.exprs.slot_of(s.var);
  for (const Param& p : k.params) compiler.exprs.storage_of(p.buffer);
  const Execute body = compiler.build(k.body);
  frame.slots.resize(static_cast<std::size_t>(compiler.exprs.slot_count()));
  frame.storages.resize(static_cast<std::size_t>(compiler.exprs.storage_count()));
  try {
    LW_CHECK(bind_symbols(k, symbols, compiler.exprs, frame));
    for (const Param& p : k.params) LW_CHECK(bind_param(k, p, arguments, compiler.exprs, frame));
    body->run(frame);
  } catch (const Fault& fault) {
    return fault_error(k, fault, progress, compiler.exprs, frame);
  }
  return Unit{};
}

}  // namespace loopwright::ir
