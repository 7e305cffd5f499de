#include <algorithm>

#include "src/codegen/cuda/body_emitter.h"
#include "src/codegen/cuda/ops_text.h"
#include "src/codegen/cuda/slots.h"
#include "src/ir/rewrite.h"

namespace loopwright::codegen {

using ir::Expr;
using ir::Memory;

namespace {

constexpr std::int64_t kWidestAccess = 16;       ///< bytes
constexpr std::int64_t kSharedAlignment = 16;    ///< bytes
constexpr std::int64_t kWorkspaceAlignment = 256;

/// Elements of a local array that share a word of four bytes.
std::int64_t elements_per_word(DType dtype) { return std::max(1, 4 / size_bytes(dtype)); }

std::string c_word_type(std::int64_t bytes) {
  switch (bytes) {
    case 4: return "unsigned";
    case 8: return "uint2";
    case 16: return "uint4";
    default: return "unsigned short";
  }
}

/// C text of a vector of `n` values of the dtype's own type.
std::string vector_type(DType dtype, std::int64_t n) {
  switch (dtype) {
    case DType::f32: return "float" + std::to_string(n);
    case DType::i32: return "int" + std::to_string(n);
    case DType::f64: return "double" + std::to_string(n);
    default: return "longlong" + std::to_string(n);
  }
}

/// Takes apart an index in which a condition has put a number for the thread (`if t < 1 { a[32] }`): with a thread of
/// any number in it again, as the condition is known to hold for the owner alone.
std::optional<SpreadIndex> spread_at_owner(const Expr& index, const Spread& spread, std::map<ir::Var, ThreadLoop> threads,
                                           const ir::Facts& facts) {
  const std::set<ir::Var> used = ir::free_vars(index);
  const auto affine = ir::as_affine(ir::simplify(index, facts), {used.begin(), used.end()});
  const auto constant = affine ? ir::as_int(affine->rest) : std::nullopt;
  if (!constant || *constant < 0) return std::nullopt;
  Expr out = index;
  ir::Facts any = facts;
  const auto around = threads;
  for (const SpreadLevel& level : spread)
    for (const auto& [v, loop] : around) {
      if (loop.axis != level.axis || loop.threads != level.threads || used.contains(v)) continue;
      const Expr owner = ir::int_imm(*constant / level.stride % level.threads);
      const bool is_owner = facts.proves(ir::lt(ir::var(v), owner + ir::int_imm(1))) && facts.proves(ir::lt(owner - ir::int_imm(1), ir::var(v)));
      if (!is_owner) return std::nullopt;
      const ir::Var thread = ir::fresh_var(v.hint);
      any.bind_loop(thread, ir::int_imm(loop.threads));
      threads[thread] = loop;
      out = out + (ir::var(thread) - owner) * ir::int_imm(level.stride);
    }
  return spread_index(out, threads, any);
}

constexpr const char* kComponents[] = {"x", "y", "z", "w"};

/// Whether some statement stores to the array what it computes from the array.
bool is_combined(const ir::Alloc& a) {
  bool found = false;
  ir::walk(a.body, [&](const ir::Stmt& s) {
    const auto* x = ir::as<ir::Store>(s);
    if (x == nullptr || x->buffer != a.buffer) return;
    ir::walk(x->value, [&](const Expr& e) {
      const auto* l = ir::as<ir::Load>(e);
      found = found || (l != nullptr && l->buffer == a.buffer);
    });
  }, [](const Expr&) {});
  return found;
}

}  // namespace

Expr BodyEmitter::linear_index(const ir::BufferInfo& buffer, const std::vector<Expr>& index) const {
  Expr sum = ir::int_imm(0);
  Expr stride = ir::int_imm(1);
  for (std::size_t d = index.size(); d-- > 0;) {
    const Expr& step = buffer.strides.empty() ? stride : buffer.strides[d];
    const Expr term = ir::as_int(step) == 1 ? index[d] : index[d] * step;
    sum = ir::as_int(sum) == 0 ? term : ir::as_int(term) == 0 ? sum : term + sum;
    if (buffer.strides.empty()) stride = ir::as_int(stride) == 1 ? buffer.shape[d] : stride * buffer.shape[d];
  }
  return index.size() == 1 ? sum : ir::simplify(sum, facts_);
}

std::int64_t BodyEmitter::alignment(const ir::Buffer& buffer) const {
  if (buffer->memory == Memory::shared) return kSharedAlignment;
  for (const ir::Param& p : launch_.kernel.params)
    if (p.buffer == buffer) return std::max<std::int64_t>(launch_.kernel.guard.alignment_bytes, size_bytes(buffer->dtype));
  return kWorkspaceAlignment;
}

/// The index of an element in what one thread holds of a register buffer.
std::string BodyEmitter::local_index(const ir::Buffer& buffer, const Expr& linear, Expr* local) {
  const Array& array = arrays_.at(buffer);
  Expr position = ir::substitute(linear, lets_);
  if (!array.spread.empty()) {
    std::map<ir::Var, ThreadLoop> threads = threads_;
    for (const auto& [v, loop] : threads_at_alloc_[buffer]) threads.erase(v);
    auto found = spread_index(position, threads, facts_);
    if (!found || found->spread != array.spread) found = spread_at_owner(position, array.spread, threads, facts_);
    if (!found || found->spread != array.spread) {
      if (!failure_)
        failure_ = refuse("`" + buffer->name + "` is spread over the threads in one way and accessed in another",
                          "loops over `" + buffer->name + "` that are all split and bound alike");
      *local = ir::int_imm(0);
      return "0";
    }
    position = found->local;
  }
  *local = ir::simplify(position, facts_);
  return index(*local);
}

std::string BodyEmitter::place_of(const ir::Buffer& buffer, const Expr& linear) {
  if (buffer->memory == Memory::fragment) return fragment_element(buffer, linear);
  if (buffer->memory == Memory::registers) {
    Expr local;
    const std::string at = local_index(buffer, linear, &local);
    return arrays_.at(buffer).name + "[" + at + "]";
  }
  if (outgoing_.contains(buffer)) return place_in_blocks(buffer, linear);
  if (const auto it = swizzles_.find(buffer); it != swizzles_.end()) {
    const Swizzle& z = it->second;
    const std::string at = name_value("unsigned", index(linear));
    return shared_.at(buffer) + "[" + at + " ^ " + at + " / " + std::to_string(z.group) + " % " + std::to_string(z.vectors) + " * " +
           std::to_string(z.width) + "]";
  }
  const std::string& base = buffer->memory == Memory::shared ? shared_.at(buffer) : launch_.pointers.at(buffer);
  return base + "[" + index(linear) + "]";
}

std::optional<std::pair<std::string, int>> BodyEmitter::find_half(const Expr& e) {
  if (const auto* v = ir::as<ir::VarRef>(e); v != nullptr && lanes_) {
    const auto it = lanes_->halves.find(v->var);
    if (it != lanes_->halves.end()) return std::pair{it->second[static_cast<std::size_t>(lanes_->now / 2)], static_cast<int>(lanes_->now % 2)};
  }
  const auto* l = ir::as<ir::Load>(e);
  if (l == nullptr || size_bytes(l->buffer->dtype) != 2) return std::nullopt;
  if (lanes_) {
    const auto it = lanes_->loads.find(e.get());
    if (it != lanes_->loads.end() && it->second.per_word == 2)
      return std::pair{it->second.words[static_cast<std::size_t>(lanes_->now / 2)], static_cast<int>(lanes_->now % 2)};
  }
  if (l->buffer->memory != Memory::registers) return std::nullopt;
  Expr local;
  const Expr linear = linear_index(*l->buffer, l->index);
  local_index(l->buffer, lanes_ ? ir::substitute(linear, {{lanes_->var, ir::int_imm(lanes_->now)}}) : linear, &local);
  const auto constant = ir::as_int(local);
  if (!constant) return std::nullopt;
  return std::pair{arrays_.at(l->buffer).name + "[" + std::to_string(*constant / 2) + "]", static_cast<int>(*constant % 2)};
}

std::string BodyEmitter::load_element(const ir::Buffer& buffer, const Expr& linear) {
  const DType t = buffer->dtype;
  if (warp_fragments_.contains(buffer) && size_bytes(t) == 2) {
    const auto half = warp_half(buffer, linear);
    return half ? "lw_pick16(" + half->first + ", " + std::to_string(half->second) + ")" : "0";
  }
  if (buffer->memory == Memory::registers) {
    const Array& array = arrays_.at(buffer);
    if (array.per_word == 1) return place_of(buffer, linear);
    Expr local;
    const std::string at = local_index(buffer, linear, &local);
    const std::string n = std::to_string(array.per_word);
    const std::string picked = (array.per_word == 2 ? "lw_pick16(" : "lw_pick8(") + array.name + "[(" + at + ") / " + n + "], (" + at + ") % " + n + ")";
    return t == DType::boolean ? "(" + picked + " != 0)" : array.per_word == 4 || t == DType::i16 ? "((" + std::string(c_type(t)) + ")" + picked + ")" : picked;
  }
  const std::string place = place_of(buffer, linear);
  std::string value = place;
  if (launch_.exchanged.contains(buffer)) value = "__ldcg(&" + place + ")";
  else if (buffer->memory == Memory::global && !launch_.written.contains(buffer)) value = loader_of(buffer) + "(&" + place + ")";
  return t == DType::boolean ? "(" + value + " != 0)" : value;
}

void BodyEmitter::store_element(const ir::Buffer& buffer, const Expr& linear, const std::string& value) {
  const DType t = buffer->dtype;
  if (warp_fragments_.contains(buffer) && size_bytes(t) == 2) {
    if (const auto half = warp_half(buffer, linear)) line(half->first + " = lw_place16(" + half->first + ", " + std::to_string(half->second) + ", " + value + ");");
    return;
  }
  if (buffer->memory == Memory::registers && arrays_.at(buffer).per_word > 1) {
    const Array& array = arrays_.at(buffer);
    Expr local;
    const std::string at = local_index(buffer, linear, &local);
    const std::string n = std::to_string(array.per_word);
    const std::string word = array.name + "[(" + at + ") / " + n + "]";
    line(word + " = " + (array.per_word == 2 ? "lw_place16(" : "lw_place8(") + word + ", (" + at + ") % " + n + ", " + value + ");");
    return;
  }
  if (const auto it = launch_.words.find(buffer); it != launch_.words.end())
    return line("lw_publish(&" + it->second + "[" + index(linear) + "], " + to_bits(value, t) + ");");
  const std::string place = place_of(buffer, linear);
  const std::string type = t == DType::boolean ? "unsigned char" : std::string(c_type(t));
  line(is_streamed(buffer) ? "__stcs(&" + place + ", (" + type + ")(" + value + "));" : place + " = " + value + ";");
}

/// What loads an element or a vector of memory that this launch does not write.
std::string BodyEmitter::loader_of(const ir::Buffer& buffer) const {
  for (const ir::Param& p : launch_.kernel.params)
    if (p.buffer == buffer && p.cache != ir::CachePolicy::normal) return "lw_load_" + std::string(name(p.cache));
  return "__ldg";
}

/// Nobody reads it again soon: its stores are the first that the caches let go.
bool BodyEmitter::is_streamed(const ir::Buffer& buffer) const {
  return std::any_of(launch_.kernel.params.begin(), launch_.kernel.params.end(),
                     [&](const ir::Param& p) { return p.buffer == buffer && p.is_streamed; });
}

// ---------------------------------------------------------------- lanes: several elements at once

std::optional<Expr> BodyEmitter::lane_base(const Expr& linear) {
  const auto steps = lane_steps(linear);
  return steps && steps->step == 1 ? std::optional(steps->base) : std::nullopt;
}

std::optional<BodyEmitter::LaneSteps> BodyEmitter::lane_steps(const Expr& linear) {
  const Expr plain = ir::substitute(linear, lets_);
  for (const auto& [v, values] : lanes_->values)
    if (ir::uses(plain, v)) return std::nullopt;
  const auto affine = ir::as_affine(plain, {lanes_->var});
  if (!affine) return std::nullopt;
  const auto it = affine->coefficients.find(lanes_->var);
  if (it == affine->coefficients.end() || it->second == 0) return std::nullopt;
  return LaneSteps{ir::simplify(affine->rest, facts_), it->second};
}

std::int64_t BodyEmitter::access_width(const ir::Buffer& buffer, const Expr& base, std::int64_t lanes) const {
  const std::int64_t bytes = size_bytes(buffer->dtype);
  const std::int64_t widest = std::min(kWidestAccess, alignment(buffer));
  const std::int64_t divisor = facts_.divisor(base);
  std::int64_t width = 1;
  while (width * 2 * bytes <= widest && lanes % (width * 2) == 0 && divisor % (width * 2) == 0) width *= 2;
  return width;
}

std::string BodyEmitter::element_of(const WideLoad& load, DType dtype, std::int64_t i) const {
  const std::string& word = load.words[static_cast<std::size_t>(i / load.per_word)];
  if (!load.as_bits) return word;
  const std::string position = std::to_string(i % load.per_word);
  if (load.per_word == 2) {
    const std::string bits = "lw_pick16(" + word + ", " + position + ")";
    return dtype == DType::i16 ? "((short)" + bits + ")" : bits;
  }
  const std::string bits = "lw_pick8(" + word + ", " + position + ")";
  return dtype == DType::boolean ? "(" + bits + " != 0)" : "((" + std::string(c_type(dtype)) + ")" + bits + ")";
}

/// Loads that the lanes make at a distance from each other, of memory that nobody writes: all of them before the first is
/// used, since the compiler takes none past a branch of what follows. False where it cannot be.
bool BodyEmitter::load_apart(const Expr& e, const ir::Load& l, const std::string& guard) {
  constexpr std::int64_t kMostApart = 8;
  const auto steps = lane_steps(linear_index(*l.buffer, l.index));
  if (!steps || size_bytes(l.buffer->dtype) < 4 || lanes_->count > kMostApart) return false;
  WideLoad load;
  const std::string type(c_type(l.buffer->dtype));
  for (std::int64_t i = 0; i < lanes_->count; ++i) {
    const std::string value = loader_of(l.buffer) + "(&" + place_of(l.buffer, ir::simplify(steps->base + ir::int_imm(i * steps->step), facts_)) + ")";
    load.words.push_back(name_value(type, guard.empty() ? value : guard + " ? " + value + " : (" + type + ")0"));
  }
  lanes_->loads[e.get()] = load;
  kept_.push_back(e);
  return true;
}

/// Loads of neighbouring elements by the lanes become wide loads in front of the statement: of what is evaluated in any
/// case, and of the sides of a select that is the same for all lanes, under its condition.
void BodyEmitter::load_wide(const std::vector<Expr>& parts, std::string guard, bool constant_only) {
  const std::function<void(const Expr&)> visit = [&](const Expr& e) {
    if (const auto* s = ir::as<ir::Select>(e)) {
      visit(s->condition);
      if (depends_on_lane(s->condition) || touches_memory(s->condition)) return;
      const std::string outer = guard;
      const std::string condition = text(s->condition);
      guard = outer + (outer.empty() ? "" : " && ") + condition;
      visit(s->a);
      guard = outer + (outer.empty() ? "!" : " && !") + condition;
      visit(s->b);
      guard = outer;
      return;
    }
    if (const auto* x = ir::as<ir::Binary>(e); x != nullptr && e->dtype == DType::boolean && x->a->dtype == DType::boolean &&
                                               (x->op == ir::BinaryOp::and_ || x->op == ir::BinaryOp::or_))
      return visit(x->a);
    ir::map_children(e, [&](const Expr& child) {
      visit(child);
      return child;
    });
    const auto* l = ir::as<ir::Load>(e);
    if (l == nullptr || l->buffer->memory == Memory::registers || l->buffer->memory == Memory::fragment || lanes_->loads.contains(e.get())) return;
    if (const auto it = ahead_.find(e.get()); it != ahead_.end()) {
      lanes_->loads[e.get()] = it->second;
      return;
    }
    const bool constant = l->buffer->memory == Memory::global && !launch_.written.contains(l->buffer);
    if (constant_only && !constant) return;
    const auto base = lane_base(linear_index(*l->buffer, l->index));
    const std::int64_t bytes = size_bytes(l->buffer->dtype);
    const std::int64_t width = base ? access_width(l->buffer, *base, lanes_->count) : 1;
    if (width == 1 && constant && load_apart(e, *l, guard)) return;
    if (width == 1 || width * bytes < 4) return;
    WideLoad load;
    load.per_word = elements_per_word(l->buffer->dtype);
    load.as_bits = bytes < 4;
    const std::string type = load.as_bits ? c_word_type(width * bytes) : vector_type(l->buffer->dtype, width);
    for (std::int64_t i = 0; i < lanes_->count; i += width) {
      const Expr at = i == 0 ? *base : ir::simplify(*base + ir::int_imm(i), facts_);
      const std::string place = "(const " + type + "*)&" + place_of(l->buffer, at);
      const std::string name = fresh("w");
      const std::string value = launch_.exchanged.contains(l->buffer) ? "__ldcg(" + place + ")" : constant ? loader_of(l->buffer) + "(" + place + ")" : "*(" + place + ")";
      if (guard.empty()) {
        line("const " + type + " " + name + " = " + value + ";");
      } else {
        line(type + " " + name + " = {};");
        line("if (" + guard + ") " + name + " = " + value + ";");
      }
      const std::int64_t words = width / load.per_word;
      for (std::int64_t word = 0; word < words; ++word) load.words.push_back(words == 1 ? name : name + "." + kComponents[word]);
    }
    lanes_->loads[e.get()] = load;
    kept_.push_back(e);
  };
  for (const Expr& e : parts) visit(e);
}

/// The smaller or larger of halves that lie in whole words, two at a time; empty where they do not.
std::vector<std::string> BodyEmitter::choose_halves(const Expr& value, std::int64_t lanes) {
  const auto* x = ir::as<ir::Binary>(value);
  const bool chooses = x != nullptr && (x->op == ir::BinaryOp::min || x->op == ir::BinaryOp::max) && is_float(value->dtype);
  if (!chooses || elements_per_word(value->dtype) != 2) return {};
  std::vector<std::string> out;
  for (std::int64_t i = 0; i < lanes; i += 2) {
    std::string words[2];
    for (int side = 0; side < 2; ++side) {
      const Expr& e = side == 0 ? x->a : x->b;
      lanes_->now = i;
      const auto low = find_half(e);
      lanes_->now = i + 1;
      const auto high = find_half(e);
      if (!low || !high || low->second != 0 || high->second != 1 || low->first != high->first) break;
      words[side] = low->first;
    }
    if (words[0].empty() || words[1].empty()) {
      lanes_->now = 0;
      return {};
    }
    out.push_back(c_halves(x->op, value->dtype, words[0], words[1]));
  }
  lanes_->now = 0;
  return out;
}

/// The lanes' values as words: of four bytes for small elements, else one an element.
std::vector<std::string> BodyEmitter::pack_lanes(const Expr& value, std::int64_t lanes) {
  const DType t = value->dtype;
  const std::int64_t per_word = elements_per_word(t);
  if (const auto* v = ir::as<ir::VarRef>(value); v != nullptr && lanes_->halves.contains(v->var)) return lanes_->halves.at(v->var);
  const auto* cast = ir::as<ir::Cast>(value);
  const bool rounds = cast != nullptr && cast->a->dtype == DType::f32 && (t == DType::bf16 || t == DType::f16);
  const Expr& packed = rounds ? cast->a : value;
  std::vector<std::string> values, out = choose_halves(value, lanes);
  if (!out.empty()) return out;
  for (lanes_->now = 0; lanes_->now < lanes; ++lanes_->now) {
    lane_memo_.assign(1, {});
    values.push_back(text(packed));
  }
  lanes_->now = 0;
  for (std::int64_t i = 0; i < lanes; i += per_word) {
    const auto v = [&](std::int64_t k) { return values[static_cast<std::size_t>(i + k)]; };
    if (per_word == 1) out.push_back(v(0));
    else if (rounds) out.push_back(std::string(t == DType::bf16 ? "lw_pack_bf16(" : "lw_pack_f16(") + v(0) + ", " + v(1) + ")");
    else if (per_word == 2) out.push_back("lw_pack16((unsigned short)" + v(0) + ", (unsigned short)" + v(1) + ")");
    else out.push_back("lw_pack8((unsigned char)" + v(0) + ", (unsigned char)" + v(1) + ", (unsigned char)" + v(2) + ", (unsigned char)" + v(3) + ")");
  }
  return out;
}

/// Stores of neighbouring elements by the lanes as wide stores; false when they are none.
bool BodyEmitter::store_wide(const ir::Store& s) {
  const Expr linear = linear_index(*s.buffer, s.index);
  const auto base = lane_base(linear);
  if (!base) return false;
  const std::int64_t bytes = size_bytes(s.buffer->dtype);
  const std::int64_t per_word = elements_per_word(s.buffer->dtype);
  if (warp_fragments_.contains(s.buffer)) return store_warp_words(s, linear);
  if (s.buffer->memory == Memory::fragment) return false;
  if (s.buffer->memory == Memory::registers) {
    if (per_word == 1 || lanes_->count % per_word != 0) return false;
    Expr local;
    local_index(s.buffer, *base, &local);
    const auto constant = ir::as_int(local);
    if (!constant || *constant % per_word != 0) return false;
    const std::vector<std::string> words = pack_lanes(s.value, lanes_->count);
    for (std::size_t i = 0; i < words.size(); ++i)
      line(arrays_.at(s.buffer).name + "[" + std::to_string(*constant / per_word + static_cast<std::int64_t>(i)) + "] = " + words[i] + ";");
    return true;
  }
  const std::int64_t width = access_width(s.buffer, *base, lanes_->count);
  if (width == 1 || width * bytes < 4) return false;
  const std::vector<std::string> words = pack_lanes(s.value, lanes_->count);
  const std::string type = bytes < 4 ? c_word_type(width * bytes) : vector_type(s.buffer->dtype, width);
  const std::int64_t words_each = width / per_word;
  for (std::int64_t i = 0; i < lanes_->count; i += width) {
    const Expr at = i == 0 ? *base : ir::simplify(*base + ir::int_imm(i), facts_);
    std::string value;
    for (std::int64_t k = 0; k < words_each; ++k) value += (k ? ", " : "") + words[static_cast<std::size_t>(i / per_word + k)];
    if (words_each > 1) value = "make_" + type + "(" + value + ")";
    const std::string place = "(" + type + "*)&" + place_of(s.buffer, at);
    line(is_streamed(s.buffer) ? "__stcs(" + place + ", " + value + ");" : "*" + place + " = " + value + ";");
  }
  return true;
}

// ---------------------------------------------------------------- allocation

/// Asked for by a vector loop that reads with a power of two of at least a vector between its lanes.
std::optional<BodyEmitter::Swizzle> BodyEmitter::find_swizzle(const ir::Alloc& a, std::int64_t count) const {
  const std::int64_t width = std::max<std::int64_t>(1, kWidestAccess / size_bytes(a.buffer->dtype));
  std::optional<Swizzle> found;
  ir::walk(a.body, [&](const ir::Stmt& s) {
    const auto* l = ir::as<ir::Loop>(s);
    const auto lanes = l != nullptr && l->kind == ir::LoopKind::vectorize ? ir::as_int(l->extent) : std::nullopt;
    if (!lanes) return;
    ir::walk(l->body, [](const ir::Stmt&) {}, [&](const Expr& e) {
      const auto* load = ir::as<ir::Load>(e);
      if (load == nullptr || load->buffer != a.buffer) return;
      const auto affine = ir::as_affine(load->index[0], {l->var});
      if (!affine || !affine->coefficients.contains(l->var)) return;
      const std::int64_t row = affine->coefficients.at(l->var);
      const bool fits = row >= 2 * width && (row & (row - 1)) == 0 && count % (row * *lanes) == 0;
      if (fits) found = Swizzle{row * *lanes, std::min<std::int64_t>(row / width, 8), width};
    });
  }, [](const Expr&) {});
  return found;
}

Status BodyEmitter::allocate(const ir::Alloc& a) {
  const ir::Buffer& b = a.buffer;
  std::int64_t count = 1;
  for (const Expr& extent : b->shape) {
    const auto n = ir::as_int(extent);
    if (!n) return refuse("`" + b->name + "` has no constant shape", "global memory for what has a symbolic size");
    count *= std::max<std::int64_t>(*n, 1);
  }
  if (b->memory == Memory::fragment) return allocate_fragment(a);
  if ((goes_along() && !guides_.contains(b)) || ring_offsets_.contains(b)) return emit_one(a.body);
  if (outgoing_.contains(b)) return allocate_outgoing(a);
  if (b->memory == Memory::shared) {
    const std::int64_t bytes = count * size_bytes(b->dtype);
    if (launch_.block.cluster > 1 && !is_in_axis(2))
      return refuse("`" + b->name + "` would be shared by the blocks of a cluster", "registers, or shared inside the loop over the cluster");
    const std::int64_t rows = is_in_axis(1) ? launch_.block.y : 1;
    const std::string name = fresh(b->name);
    const std::string type = b->dtype == DType::boolean ? "bool" : std::string(c_type(b->dtype));
    const std::int64_t stride = (bytes + kSharedAlignment - 1) / kSharedAlignment * kSharedAlignment;
    line(type + "* const " + name + " = (" + type + "*)(lw_shared + " + std::to_string(launch_.shared_bytes) +
         (rows > 1 ? " + threadIdx.y * " + std::to_string(stride) : "") + ");");
    launch_.shared_bytes += stride * rows;
    shared_[b] = name;
    if (const auto swizzle = find_swizzle(a, count)) swizzles_[b] = *swizzle;
    return emit_one(a.body);
  }
  if (b->memory != Memory::registers) return refuse("`" + b->name + "` is allocated inside a grid in " + std::string(ir::name(b->memory)), "shared or registers");
  threads_at_alloc_[b] = threads_;
  Array array{fresh(b->name), {}, elements_per_word(b->dtype)};
  // The first access that a thread loop indexes says how it is spread; the others must agree, which is checked at each.
  LW_TRY(array.spread, find_spread(a));
  const std::int64_t held = count_held(count, array.spread);
  const std::int64_t words = (held + array.per_word - 1) / array.per_word;
  const std::string type = array.per_word > 1 ? "unsigned" : std::string(c_type(b->dtype));
  line(type + " " + array.name + "[" + std::to_string(words) + "];");
  if (is_combined(a)) launch_.words_summed = std::max(launch_.words_summed, words);
  arrays_[b] = array;
  return emit_one(a.body);
}

}  // namespace loopwright::codegen
