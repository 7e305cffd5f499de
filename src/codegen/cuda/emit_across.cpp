// Combining one value of each thread: exchanges between the lanes of a warp, then a slot for each warp in shared memory
// that every thread reads. One value of each block of a cluster: a slot in the shared memory of every block.
#include <algorithm>

#include "src/codegen/cuda/body_emitter.h"
#include "src/codegen/cuda/ops_text.h"
#include "src/ir/rewrite.h"

namespace loopwright::codegen {

using ir::Expr;

namespace {

constexpr std::int64_t kWarp = 32;

/// True when combine(a, b) and combine(b, a) may differ in the last places, so that lanes must agree on the order.
bool is_ordered(ir::Monoid monoid) { return monoid == ir::Monoid::welford || monoid == ir::Monoid::log_sum_exp; }

}  // namespace

/// What a lane holds of `value`, by an instruction of this name; `which` says which lane's.
std::string BodyEmitter::shuffle_text(const std::string& name, DType t, const std::string& mask, const std::string& value, const std::string& which) {
  const auto shuffle = [&](const std::string& x) { return name + "(" + mask + ", " + x + ", " + which + ")"; };
  switch (t) {
    case DType::f16:
    case DType::bf16: return "(unsigned short)" + shuffle("(unsigned)" + value);
    case DType::boolean: return "(" + shuffle("(unsigned)" + value) + " != 0)";
    case DType::i8:
    case DType::u8:
    case DType::i16: return "(" + std::string(c_type(t)) + ")" + shuffle("(int)" + value);
    default: return shuffle(value);
  }
}

/// into = combine(into, with), each of them names or short text.
void BodyEmitter::combine_values(ir::Monoid monoid, const std::vector<DType>& dtypes, std::vector<std::string>& into,
                                 const std::vector<std::string>& with) {
  std::vector<Expr> a, b;
  const auto bind_text = [&](const std::string& value, DType t) {
    const ir::Var v = ir::fresh_var("c");
    const bool is_name = value.find_first_of(" (.[") == std::string::npos;
    names_[v] = is_name ? value : name_value(std::string(c_type(t)), value);
    narrow_[v] = false;
    return ir::var(v, t);
  };
  const bool tuple = dtypes.size() > 1;
  for (std::size_t i = 0; i < dtypes.size(); ++i) {
    // A single value is used as it is, so that the text shows a sum as a sum.
    if (!tuple && monoid == ir::Monoid::sum && is_float(dtypes[0])) {
      into[0] = c_binary(ir::BinaryOp::add, dtypes[0], into[0], with[0], launch_.kernel.contract);
      return;
    }
    a.push_back(bind_text(into[i], dtypes[i]));
    b.push_back(bind_text(with[i], dtypes[i]));
  }
  const std::vector<Expr> combined = ir::combine(monoid, a, b);
  const auto lanes = std::exchange(lanes_, std::nullopt);
  const auto memo = memo_;
  memo_.assign(1, {});
  const auto uses = std::exchange(uses_, {});
  std::vector<std::string> out;
  for (const Expr& e : combined) {
    const std::string value = text(e);
    out.push_back(tuple ? name_value(std::string(c_type(e->dtype)), value) : value);
  }
  uses_ = uses;
  memo_ = memo;
  lanes_ = lanes;
  into = out;
}

Status BodyEmitter::emit_across(const ir::Loop& l) {
  const std::int64_t ways = *ir::as_int(l.extent);
  const auto combination = ir::match_combination(l);
  if (!combination) return refuse("loop `" + l.var.hint + "` across threads holds more than one update", "the loop that reduce_across or scan_across makes");
  if (combination->before != nullptr) return emit_scan(l, *combination);
  const ir::Update* u = combination->update;
  const auto* first = ir::as<ir::Load>(u->values[0]);
  if (first == nullptr || first->buffer->memory != ir::Memory::registers || !arrays_.contains(first->buffer))
    return refuse("loop `" + l.var.hint + "` combines what is not in registers", "partial results in registers");
  const Spread& spread = arrays_.at(first->buffer).spread;
  const auto level = std::find_if(spread.begin(), spread.end(), [&](const SpreadLevel& x) { return x.threads == ways && !is_in_axis(x.axis); });
  if (level == spread.end())
    return refuse("the values that loop `" + l.var.hint + "` combines are not one a thread", "a loop over the threads that hold them");
  const int axis = level->axis;
  const bool fits_warp = ways <= kWarp && (ways & (ways - 1)) == 0 && (ways == launch_.block.x || launch_.block.x % ways == 0);
  if (axis == 2 && ways != launch_.block.cluster)
    return refuse("loop `" + l.var.hint + "` combines " + std::to_string(ways) + " blocks of a cluster of " + std::to_string(launch_.block.cluster),
                  "all blocks of the cluster");
  const bool in_warps = axis == 0 && (fits_warp || (ways % kWarp == 0 && ways == launch_.block.x));
  if (!in_warps && axis != 2)
    return refuse("loop `" + l.var.hint + "` combines " + std::to_string(ways) + " threads of axis " + (axis == 0 ? "x" : "y"),
                  "all threads of x: a power of two up to 32, or a multiple of 32");
  let_next_begin();
  return block("", [&]() -> Status {
    threads_[l.var] = {axis, ways};
    names_[l.var] = "(int)(" + thread_index(axis) + ")";
    narrow_[l.var] = true;
    facts_.bind_loop(l.var, l.extent);
    begin(u->values);
    std::vector<DType> dtypes;
    std::vector<std::string> values;
    for (const Expr& e : u->values) {
      dtypes.push_back(e->dtype);
      values.push_back(fresh("x"));
      line(std::string(c_type(e->dtype)) + " " + values.back() + " = " + text(e) + ";");
    }
    threads_.erase(l.var);
    if (axis == 2) {
      emit_cluster_slots(u->monoid, dtypes, values);
    } else {
      emit_exchanges(u->monoid, dtypes, values, std::min(ways, kWarp));
      if (needs_slots(ways)) emit_slots(u->monoid, dtypes, values, ways / kWarp);
    }
    Expr linear = linear_index(*u->buffers[0], u->index);
    std::vector<std::string> state;
    for (const ir::Buffer& b : u->buffers) state.push_back(load_element(b, linear));
    combine_values(u->monoid, dtypes, state, values);
    for (std::size_t i = 0; i < state.size(); ++i) store_once(u->buffers[i], linear, state[i]);
    return Unit{};
  });
}

/// The lanes of this one's group of `ways`.
std::string BodyEmitter::lane_mask(std::int64_t ways) {
  // Rows of a warp may be in different branches: only the lanes of the row are named.
  if (ways < kWarp && launch_.block.threads() > ways)
    return name_value("unsigned", std::to_string((1ull << ways) - 1) + "u << ((threadIdx.y * " + std::to_string(launch_.block.x) +
                                      " + threadIdx.x) % 32 / " + std::to_string(ways) + " * " + std::to_string(ways) + ")");
  return launch_.block.threads() < kWarp ? std::to_string((1ull << launch_.block.threads()) - 1) + "u" : "0xffffffffu";
}

/// After it every lane of each group of `ways` holds the combination of the group.
void BodyEmitter::emit_exchanges(ir::Monoid monoid, const std::vector<DType>& dtypes, const std::vector<std::string>& values, std::int64_t ways) {
  const std::string mask = lane_mask(ways);
  const bool is_extreme = monoid == ir::Monoid::min || monoid == ir::Monoid::max;
  if (is_extreme && dtypes[0] == DType::i32 && ways == kWarp)
    return line(values[0] + (monoid == ir::Monoid::min ? " = __reduce_min_sync(" : " = __reduce_max_sync(") + mask + ", " + values[0] + ");");
  for (std::int64_t distance = ways / 2; distance > 0; distance /= 2) {
    std::vector<std::string> mine = values, others;
    for (std::size_t i = 0; i < values.size(); ++i)
      others.push_back(name_value(std::string(c_type(dtypes[i])), shuffle_text("__shfl_xor_sync", dtypes[i], mask, values[i], std::to_string(distance))));
    if (is_ordered(monoid)) {
      const std::string upper = name_value("bool", "(threadIdx.x & " + std::to_string(distance) + ") != 0");
      for (std::size_t i = 0; i < values.size(); ++i) {
        const std::string type(c_type(dtypes[i]));
        mine[i] = name_value(type, upper + " ? " + others[i] + " : " + values[i]);
        others[i] = name_value(type, upper + " ? " + values[i] + " : " + others[i]);
      }
    }
    combine_values(monoid, dtypes, mine, others);
    for (std::size_t i = 0; i < values.size(); ++i) line(values[i] + " = " + mine[i] + ";");
  }
}

/// All blocks of the cluster have begun: only then is their shared memory there. The arrival is the kernel's first
/// statement, so that what comes before this waits for nobody.
void BodyEmitter::enter_cluster() {
  if ((serial_loops_ > 0 || !conditions_.empty()) && !failure_)
    failure_ = refuse("blocks of a cluster wait for each other inside a loop or a condition", "combinations over a cluster at the top of the kernel");
  if (!launch_.meets_cluster) line("lw_cluster_wait();");
  launch_.meets_cluster = true;
}

void BodyEmitter::cluster_barrier() {
  enter_cluster();
  line("lw_cluster_arrive();");
  line("lw_cluster_wait();");
}

/// One slot for each block of the cluster in the shared memory of each, filled when it returns.
std::vector<std::string> BodyEmitter::publish_in_cluster(const std::vector<DType>& dtypes, const std::vector<std::string>& values) {
  enter_cluster();
  const std::int64_t blocks = launch_.block.cluster;
  if (launch_.block.x < blocks && !failure_)
    failure_ = refuse("blocks of " + std::to_string(launch_.block.x) + " threads in a cluster of " + std::to_string(blocks), "at least as many threads");
  std::vector<std::string> slots;
  std::string writes;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::string type(c_type(dtypes[i]));
    slots.push_back(fresh("slots"));
    line(type + "* const " + slots.back() + " = (" + type + "*)(lw_shared + " + std::to_string(launch_.shared_bytes) + ");");
    launch_.shared_bytes += (blocks * size_bytes(dtypes[i]) + 15) / 16 * 16;
    writes += "*(" + type + "*)lw_peer(" + slots.back() + " + " + thread_index(2) + ", threadIdx.x) = " + values[i] + "; ";
  }
  line("if (threadIdx.x < " + std::to_string(blocks) + (launch_.block.y > 1 ? " && threadIdx.y == 0" : "") + ") { " + writes + "}");
  cluster_barrier();
  return slots;
}

/// All blocks of the cluster combine in the same order.
void BodyEmitter::emit_cluster_slots(ir::Monoid monoid, const std::vector<DType>& dtypes, const std::vector<std::string>& values) {
  combine_slots(monoid, dtypes, values, publish_in_cluster(dtypes, values), launch_.block.cluster);
}

/// Two sets of slots in turn: who writes one of them has met everybody since the row before the last was read.
bool BodyEmitter::alternates() const { return row_ring_ && serial_loops_ == 1; }

/// Slots in shared memory: one array, or one for each row of threads.
std::string BodyEmitter::allocate_slots(DType t, std::int64_t count) {
  const std::int64_t rows = is_in_axis(1) ? launch_.block.y : 1;
  const std::int64_t stride = (count * size_bytes(t) + 15) / 16 * 16;
  const std::string name = fresh("slots"), type(c_type(t));
  line(type + "* const " + name + " = (" + type + "*)(lw_shared + " + std::to_string(launch_.shared_bytes) +
       (rows > 1       ? " + threadIdx.y * " + std::to_string(stride)
        : alternates() ? " + (" + row_ring_->round + " & 1) * " + std::to_string(stride)
                       : "") +
       ");");
  launch_.shared_bytes += stride * (alternates() ? 2 : rows);
  return name;
}

/// Lane 0 of each warp leaves its values, and every thread combines those of all warps in the same order.
void BodyEmitter::emit_slots(ir::Monoid monoid, const std::vector<DType>& dtypes, const std::vector<std::string>& values, std::int64_t warps) {
  std::vector<std::string> slots;
  for (const DType t : dtypes) slots.push_back(allocate_slots(t, warps));
  if (serial_loops_ > 0 && !alternates()) barrier();  // the slots of the last round were read
  std::string writes;
  for (std::size_t i = 0; i < values.size(); ++i) writes += slots[i] + "[threadIdx.x / 32] = " + values[i] + "; ";
  line("if (threadIdx.x % 32 == 0) { " + writes + "}");
  barrier();
  combine_slots(monoid, dtypes, values, slots, warps);
}

/// values = the first slots combined with all others.
void BodyEmitter::combine_slots(ir::Monoid monoid, const std::vector<DType>& dtypes, const std::vector<std::string>& values,
                                const std::vector<std::string>& slots, std::int64_t count) {
  for (std::size_t i = 0; i < values.size(); ++i) line(values[i] + " = " + slots[i] + "[0];");
  for (std::int64_t w = 1; w < count; ++w) {
    std::vector<std::string> mine = values, others;
    for (const std::string& s : slots) others.push_back(s + "[" + std::to_string(w) + "]");
    combine_values(monoid, dtypes, mine, others);
    for (std::size_t i = 0; i < values.size(); ++i) line(values[i] + " = " + mine[i] + ";");
  }
}

}  // namespace loopwright::codegen
