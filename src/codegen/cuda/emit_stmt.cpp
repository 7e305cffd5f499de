#include <algorithm>

#include "src/codegen/cuda/body_emitter.h"
#include "src/codegen/cuda/ops_text.h"
#include "src/ir/rewrite.h"

namespace loopwright::codegen {

using ir::Expr;
using ir::LoopKind;
using ir::Stmt;

namespace {

/// What a statement evaluates first; empty where that is no value.
std::vector<Expr> first_values(const Stmt& s) {
  if (const auto* x = ir::as<ir::Store>(s)) return {x->value};
  if (const auto* u = ir::as<ir::Update>(s)) return u->values;
  if (const auto* l = ir::as<ir::Let>(s)) return {l->value};
  return {};
}

/// A vector loop around one statement, perhaps under conditions.
bool is_copy(Stmt s) {
  while (const auto* i = ir::as<ir::If>(s)) {
    if (ir::has_load(i->condition)) return false;
    s = i->then;
  }
  const auto* l = ir::as<ir::Loop>(s);
  const auto extent = l != nullptr ? ir::as_int(l->extent) : std::nullopt;
  return extent && l->kind == LoopKind::vectorize && *extent > 1 && *extent <= 64 &&
         !first_values(l->body).empty();
}

/// Whether a product on tensor cores is somewhere in the statement, or other statements are.
bool multiplies_inside(const Stmt& s) {
  if (ir::as<ir::Seq>(s) != nullptr || ir::as<ir::Alloc>(s) != nullptr) return true;
  bool found = false;
  ir::walk(s, [&](const Stmt& x) {
    const auto* l = ir::as<ir::Loop>(x);
    found = found || (l != nullptr && l->kind == LoopKind::mma);
  }, [](const Expr&) {});
  return found;
}

}  // namespace

BodyEmitter::BodyEmitter(LaunchContext& launch) : launch_(launch), facts_(launch.kernel) {}

void BodyEmitter::bind(const ir::Var& v, const std::string& name, const Expr& extent) {
  names_[v] = name;
  narrow_[v] = true;
  facts_.bind_loop(v, extent);
}

void BodyEmitter::bind_symbol(const ir::SymbolParam& s, const std::string& name) {
  narrow_[s.var] = fits_int(ir::var(s.var));
  names_[s.var] = name;
}

Error BodyEmitter::refuse(std::string found, std::string works) const {
  return Error{ErrorCode::compile_failed, "compiling kernel `" + launch_.kernel.name + "` for CUDA", std::move(found), "",
               std::move(works)};
}

Status BodyEmitter::emit(const Stmt& body) {
  barriers_ = plan_barriers(body, facts_, launch_.block);
  LW_CHECK(launch_.consumers > 0 ? emit_roles(body) : emit_one(body));
  if (failure_) return *failure_;
  return Unit{};
}

bool BodyEmitter::is_in_axis(int axis) const {
  return std::any_of(threads_.begin(), threads_.end(), [&](const auto& t) { return t.second.axis == axis; });
}

std::string BodyEmitter::thread_index(int axis) const {
  if (axis == 2) return "blockIdx.x % " + std::to_string(launch_.block.cluster);
  return axis == 0 ? "threadIdx.x" : "threadIdx.y";
}

void BodyEmitter::let_next_begin() {
  if (!launch_.holds_next || serial_loops_ > 0) return;
  line("lw_let_next_begin();");
  launch_.holds_next = false;
}

void BodyEmitter::barrier() {
  let_next_begin();
  if (launch_.block.cluster > 1 && !is_in_axis(2)) return cluster_barrier();
  if (launch_.block.threads() == 1) return;
  // The producer of a ring does not come along.
  if (launch_.consumers > 0 && !is_in_axis(1)) {
    const std::string groups = std::to_string(launch_.consumers), threads = std::to_string(launch_.block.threads());
    return line("lw_row_barrier(" + groups + ", " + threads + ");");
  }
  if (!is_in_axis(1) || (launch_.block.y == 1 && launch_.consumers == 0)) return line("__syncthreads();");
  const std::int64_t x = launch_.block.x;
  if (x == 1) return;
  if (x % 32 == 0) {
    if (x == 32) return line("__syncwarp();");
    return line("lw_row_barrier(threadIdx.y, " + std::to_string(x) + ");");
  }
  line("__syncwarp(" + std::to_string((1ull << x) - 1) + "u << (threadIdx.y * " + std::to_string(x) + " % 32));");
}

Status BodyEmitter::emit_one(const Stmt& s) {
  if (goes_along() && !in_ring_ && !has_ring(s) && !guides_ring(s)) return Unit{};
  if (barriers_.contains(s.get()) && !goes_along()) barrier();
  if (ring_ && role_ == Role::consumer && !multiplies_inside(s) && (!in_ring_ || pace_ == Pace::settled)) {
    if (begins_sum(s)) return Unit{};
    if (in_ring_) end_products();
  }
  wait_for_row(s);
  LW_CHECK(emit_statement(s));
  return leave_row(s);
}

Status BodyEmitter::emit_statement(const Stmt& s) {
  return std::visit(ir::on{[&](const ir::Loop& l) { return emit_loop(l); },
                           [&](const ir::Store& x) -> Status {
                             if (in_async_) return emit_async_copy(x);
                             begin({x.value});
                             emit_store(x);
                             return Unit{};
                           },
                           [&](const ir::Update& u) -> Status {
                             begin(u.values);
                             emit_update(u);
                             return Unit{};
                           },
                           [&](const ir::If& i) { return emit_if(i); },
                           [&](const ir::Let& l) { return emit_let(l); },
                           [&](const ir::Alloc& a) { return block("", [&] { return allocate(a); }); },
                           [&](const ir::Seq& q) -> Status {
                             for (std::size_t i = 0; i < q.items.size(); ++i) {
                               LW_TRY(const std::size_t stored, emit_matrices(q.items, i));
                               if (stored > 0) {
                                 i += stored - 1;
                                 continue;
                               }
                               if (i == 0 || !is_copy(q.items[i - 1])) load_ahead(q.items, i);
                               LW_CHECK(emit_one(q.items[i]));
                             }
                             return Unit{};
                           }},
                    s->v);
}

// ---------------------------------------------------------------- loops

Status BodyEmitter::emit_loop(const ir::Loop& l) {
  const auto extent = ir::as_int(l.extent);
  if (extent && *extent <= 0) return Unit{};
  if (ring_ && defines_group_operand(l)) return Unit{};
  if (l.kind == LoopKind::ring && ring_) return emit_ring(l);
  if (l.kind == LoopKind::bulk && ring_) return emit_bulk(l);
  if (l.kind == LoopKind::ring && ir::is_fed_by_threads(l)) return emit_async_ring(l);
  if (l.kind == LoopKind::async) return emit_async(l);
  if (l.kind == LoopKind::ring && ir::feeds_threads(l)) return emit_row_ring(l);
  if (l.kind == LoopKind::bulk && row_ring_) return emit_row_copy(l);
  if (l.kind == LoopKind::mma) return ring_ ? emit_matrix_product(l) : emit_warp_product(l);
  if (l.kind == LoopKind::across && extent && *extent > 1) return emit_across(l);
  if (const auto axis = thread_axis(l.kind); axis && extent) {
    if (ring_ && has_ring(l.body)) return emit_turns(l);
    if (!is_in_axis(*axis)) return emit_thread_loop(l);
  }
  if (l.kind == LoopKind::vectorize && extent && *extent > 1 && *extent <= 64) return emit_lanes(l);
  begin({l.extent});
  const std::string end = index(l.extent);
  const std::string name = fresh(l.var.hint);
  const bool narrow = fits_int(l.extent);
  const std::string type = narrow ? "int" : "long long";
  ++serial_loops_;
  if (ring_ && has_ring(l.body)) line("#pragma unroll 1");
  const Status status = block("for (" + type + " " + name + " = 0; " + name + " < " + end + "; ++" + name + ") ", [&] {
    bind(l.var, name, l.extent);
    narrow_[l.var] = narrow;
    return emit_one(l.body);
  });
  --serial_loops_;
  return status;
}

Status BodyEmitter::emit_thread_loop(const ir::Loop& l) {
  const int axis = *thread_axis(l.kind);
  const std::int64_t extent = *ir::as_int(l.extent);
  const std::int64_t all = axis == 0 ? launch_.block.x : axis == 1 ? launch_.block.y : launch_.block.cluster;
  const std::string index = thread_index(axis);
  threads_[l.var] = {axis, extent};
  const Status status = block(extent < all ? "if (" + index + " < " + std::to_string(extent) + ") " : "", [&] {
    bind(l.var, axis == 2 ? "(int)(" + index + ")" : "(int)" + index, l.extent);
    return emit_one(l.body);
  });
  threads_.erase(l.var);
  return status;
}

Status BodyEmitter::emit_lanes(const ir::Loop& l) {
  return block("", [&]() -> Status {
    narrow_[l.var] = true;
    facts_.bind_loop(l.var, l.extent);
    lanes_ = Lanes{l.var, *ir::as_int(l.extent), 0, {}, {}, {}};
    const Status status = emit_lanes_of(l.body);
    lanes_.reset();
    return status;
  });
}

/// Copies of an unrolled vector loop that begin at `first`: what they all load comes in front of the first, so that the
/// loads are under way at once. Only of memory that nobody writes in this launch.
void BodyEmitter::load_ahead(const std::vector<Stmt>& items, std::size_t first) {
  std::size_t last = first;
  // No more than the registers of a thread hold beside the rest.
  constexpr std::int64_t kRegistersOfSm = 65536, kOtherRegisters = 40, kWordsOfLoad = 4;
  const std::int64_t room = std::min<std::int64_t>(255, kRegistersOfSm / launch_.block.threads()) - kOtherRegisters;
  const std::size_t most = static_cast<std::size_t>(std::max<std::int64_t>(2, room / kWordsOfLoad));
  while (last < items.size() && last - first < most && is_copy(items[last])) ++last;
  if (last - first < 2 || lanes_ || in_async_) return;
  const ir::Facts outer = facts_;
  std::int64_t words = 0;
  for (std::size_t i = first; i < last; ++i) {
    facts_ = outer;
    std::string guard;
    Stmt s = items[i];
    while (const auto* condition = ir::as<ir::If>(s)) {
      begin({condition->condition});
      guard += (guard.empty() ? "" : " && ") + text(condition->condition);
      facts_.assume(condition->condition);
      s = condition->then;
    }
    const auto& l = std::get<ir::Loop>(s->v);
    facts_.bind_loop(l.var, l.extent);
    narrow_[l.var] = true;
    lanes_ = Lanes{l.var, *ir::as_int(l.extent), 0, {}, {}, {}};
    const std::vector<Expr> parts = first_values(l.body);
    begin(parts);
    load_wide(parts, guard, true);
    for (auto& [e, load] : lanes_->loads) {
      ahead_[e] = load;
      words += static_cast<std::int64_t>(load.words.size()) * std::max(1, size_bytes(e->dtype) / 4);
    }
    ahead_kept_.insert(ahead_kept_.end(), kept_.begin(), kept_.end());
    lanes_.reset();
  }
  launch_.words_ahead = std::max(launch_.words_ahead, words);
  facts_ = outer;
}

/// Whether neighbouring lanes' values are rounded to 16 bits: an instruction does two of them.
bool BodyEmitter::rounds_pairs(const Expr& value) const {
  const auto* c = ir::as<ir::Cast>(value);
  return c != nullptr && c->a->dtype == DType::f32 && (value->dtype == DType::bf16 || value->dtype == DType::f16) && lanes_->count % 2 == 0;
}

/// Statement by statement for all lanes, as long as none of them depends on a condition.
Status BodyEmitter::emit_lanes_of(const Stmt& s) {
  if (const auto* q = ir::as<ir::Seq>(s)) {
    for (const Stmt& item : q->items) LW_CHECK(emit_lanes_of(item));
    return Unit{};
  }
  if (const auto* x = ir::as<ir::Store>(s); x != nullptr && in_async_) return emit_async_copy(*x);
  if (const auto* x = ir::as<ir::Store>(s)) {
    lanes_->loads.clear();
    begin({x->value});
    load_wide({x->value});
    if (store_wide(*x)) return Unit{};
    for (lanes_->now = 0; lanes_->now < lanes_->count; ++lanes_->now) {
      lane_memo_.assign(1, {});
      emit_store(*x);
    }
    lanes_->now = 0;
    return Unit{};
  }
  if (const auto* u = ir::as<ir::Update>(s)) {
    lanes_->loads.clear();
    begin(u->values);
    load_wide(u->values);
    for (lanes_->now = 0; lanes_->now < lanes_->count; ++lanes_->now) {
      lane_memo_.assign(1, {});
      emit_update(*u);
    }
    lanes_->now = 0;
    return Unit{};
  }
  if (const auto* l = ir::as<ir::Let>(s)) {
    lanes_->loads.clear();
    begin({l->value});
    if (!depends_on_lane(l->value)) {
      const Value v = eval(l->value);
      const bool narrow = l->value->dtype == DType::i64 && v.narrow;
      names_[l->var] = name_value(narrow ? "int" : std::string(c_type(l->value->dtype)), v.text);
      narrow_[l->var] = narrow;
    } else if (rounds_pairs(l->value)) {
      load_wide({l->value});
      std::vector<std::string> words;
      for (const std::string& word : pack_lanes(l->value, lanes_->count)) words.push_back(name_value("unsigned", word));
      for (std::int64_t i = 0; i < lanes_->count; ++i)
        lanes_->values[l->var].push_back("lw_pick16(" + words[static_cast<std::size_t>(i / 2)] + ", " + std::to_string(i % 2) + ")");
      lanes_->halves[l->var] = std::move(words);
      narrow_[l->var] = false;
    } else {
      load_wide({l->value});
      std::vector<std::string> values;
      bool narrow = false;
      for (lanes_->now = 0; lanes_->now < lanes_->count; ++lanes_->now) {
        lane_memo_.assign(1, {});
        const Value v = eval(l->value);
        narrow = l->value->dtype == DType::i64 && v.narrow;
        values.push_back(name_value(narrow ? "int" : std::string(c_type(l->value->dtype)), v.text));
      }
      lanes_->now = 0;
      lanes_->values[l->var] = values;
      narrow_[l->var] = narrow;
    }
    if (l->value->dtype == DType::i64) {
      facts_.bind_let(l->var, l->value);
      if (!ir::has_load(l->value)) lets_[l->var] = ir::substitute(l->value, lets_);
    }
    return emit_lanes_of(l->body);
  }
  if (const auto* i = ir::as<ir::If>(s)) {
    lanes_->loads.clear();
    begin({i->condition});
    if (!depends_on_lane(i->condition)) {
      const std::string condition = text(i->condition);
      conditions_.push_back(i->condition);
      const Status status = block("if (" + condition + ") ", [&] {
        facts_.assume(i->condition);
        return emit_lanes_of(i->then);
      });
      conditions_.pop_back();
      return status;
    }
  }
  return emit_lane_by_lane(s);
}

/// Iterations are independent: one lane may do all of a statement before the next one begins.
Status BodyEmitter::emit_lane_by_lane(const Stmt& s) {
  const Lanes lanes = *lanes_;
  Status status = Unit{};
  for (std::int64_t i = 0; i < lanes.count && status.ok(); ++i) {
    status = block("", [&] {
      lanes_.reset();
      names_[lanes.var] = std::to_string(i);
      narrow_[lanes.var] = true;
      for (const auto& [v, values] : lanes.values) names_[v] = values[static_cast<std::size_t>(i)];
      return emit_one(ir::substitute(s, {{lanes.var, ir::int_imm(i)}}));
    });
  }
  lanes_ = lanes;
  return status;
}

// ---------------------------------------------------------------- conditions, bindings, writes

Status BodyEmitter::emit_if(const ir::If& i) {
  begin({i.condition});
  const std::string condition = text(i.condition);
  conditions_.push_back(i.condition);
  const Status status = block("if (" + condition + ") ", [&] {
    facts_.assume(i.condition);
    return emit_one(i.then);
  });
  conditions_.pop_back();
  return status;
}

Status BodyEmitter::emit_let(const ir::Let& l) {
  begin({l.value});
  const Value v = eval(l.value);
  const bool narrow = l.value->dtype == DType::i64 && v.narrow;
  names_[l.var] = name_value(narrow ? "int" : std::string(c_type(l.value->dtype)), v.text);
  narrow_[l.var] = narrow;
  if (l.value->dtype == DType::i64) {
    facts_.bind_let(l.var, l.value);
    if (!ir::has_load(l.value)) lets_[l.var] = ir::substitute(l.value, lets_);
  }
  return emit_one(l.body);
}

std::string BodyEmitter::only_thread(const ir::Buffer& buffer) const {
  if (buffer->memory == ir::Memory::registers || buffer->memory == ir::Memory::fragment) return {};
  const std::int64_t extents[] = {launch_.block.x, launch_.block.y, launch_.block.cluster};
  std::string indices;
  for (int axis = 0; axis < 3; ++axis)
    if (extents[axis] > 1 && !is_in_axis(axis)) indices += (indices.empty() ? "" : " + ") + thread_index(axis);
  return indices.empty() ? indices : indices + " == 0";
}

/// A store by the one thread that does what all of them would do alike.
void BodyEmitter::store_once(const ir::Buffer& buffer, const Expr& linear, const std::string& value) {
  const std::string only = only_thread(buffer);
  if (only.empty()) return store_element(buffer, linear, value);
  line("if (" + only + ") {");
  ++depth_;
  // Names given inside are gone outside.
  memo_.emplace_back();
  lane_memo_.emplace_back();
  store_element(buffer, linear, value);
  memo_.pop_back();
  lane_memo_.pop_back();
  --depth_;
  line("}");
}

void BodyEmitter::emit_store(const ir::Store& s) {
  Expr linear = linear_index(*s.buffer, s.index);
  if (lanes_) linear = ir::substitute(linear, {{lanes_->var, ir::int_imm(lanes_->now)}});
  const std::string value = text(s.value);
  store_once(s.buffer, linear, value);
}

void BodyEmitter::emit_update(const ir::Update& u) {
  std::vector<std::string> values;
  for (const Expr& e : u.values) values.push_back(text(e));
  std::vector<DType> dtypes;
  std::vector<std::string> state;
  Expr linear = linear_index(*u.buffers[0], u.index);
  if (lanes_) linear = ir::substitute(linear, {{lanes_->var, ir::int_imm(lanes_->now)}});
  for (const ir::Buffer& b : u.buffers) {
    dtypes.push_back(b->dtype);
    state.push_back(load_element(b, linear));
  }
  combine_values(u.monoid, dtypes, state, values);
  for (std::size_t i = 0; i < state.size(); ++i) store_once(u.buffers[i], linear, state[i]);
}

// ---------------------------------------------------------------- how a local array is spread

namespace {

/// The spread that the accesses of `buffer` ask for; the largest when some do not see the threads.
class SpreadFinder {
 public:
  SpreadFinder(const ir::Buffer& buffer, std::map<ir::Var, Expr> lets) : buffer_(buffer), lets_(std::move(lets)) {}
  std::optional<Spread> found;
  bool failed = false;

  void visit(const Stmt& s, ir::Facts facts, std::map<ir::Var, ThreadLoop> threads) {
    if (const auto* l = ir::as<ir::Loop>(s)) {
      facts.bind_loop(l->var, l->extent);
      const auto extent = ir::as_int(l->extent);
      if (const auto axis = thread_axis(l->kind); axis && extent) threads[l->var] = {*axis, *extent};
    }
    if (const auto* i = ir::as<ir::If>(s)) facts.assume(i->condition);
    if (const auto* l = ir::as<ir::Let>(s); l != nullptr && l->value->dtype == DType::i64) {
      facts.bind_let(l->var, l->value);
      if (!ir::has_load(l->value)) lets_[l->var] = ir::substitute(l->value, lets_);
    }
    if (const auto* x = ir::as<ir::Store>(s); x != nullptr && x->buffer == buffer_) take(x->index[0], facts, threads);
    if (const auto* u = ir::as<ir::Update>(s))
      if (std::find(u->buffers.begin(), u->buffers.end(), buffer_) != u->buffers.end()) take(u->index[0], facts, threads);
    ir::map_children(s,
                     [&](const Expr& e) {
                       ir::walk(e, [&](const Expr& x) {
                         const auto* l = ir::as<ir::Load>(x);
                         if (l != nullptr && l->buffer == buffer_) take(l->index[0], facts, threads);
                       });
                       return e;
                     },
                     [&](const Stmt& child) {
                       visit(child, facts, threads);
                       return child;
                     });
  }

 private:
  void take(const Expr& index, const ir::Facts& facts, const std::map<ir::Var, ThreadLoop>& threads) {
    const auto place = spread_index(ir::substitute(index, lets_), threads, facts);
    if (!place) failed = true;
    else if (!found || found->size() < place->spread.size()) found = place->spread;
  }
  ir::Buffer buffer_;
  std::map<ir::Var, Expr> lets_;
};

}  // namespace

Result<Spread> BodyEmitter::find_spread(const ir::Alloc& a) const {
  SpreadFinder finder(a.buffer, lets_);
  finder.visit(a.body, facts_, {});
  if (finder.failed)
    return refuse("the threads' shares of `" + a.buffer->name + "` are no regular pattern",
                  "loops over `" + a.buffer->name + "` that are split by constants");
  return finder.found.value_or(Spread{});
}

}  // namespace loopwright::codegen
