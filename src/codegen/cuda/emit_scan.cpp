// Scans over threads: each value of a thread gets what all values in front of it come to, and the state what all of them
// come to. A thread holds `copies` values, the k-th of them behind the (k - 1)-th of all threads.
#include <algorithm>
#include <bit>

#include "src/codegen/cuda/body_emitter.h"
#include "src/codegen/cuda/ops_text.h"
#include "src/ir/rewrite.h"

namespace loopwright::codegen {

using ir::Expr;

namespace {

constexpr std::int64_t kWarp = 32;
constexpr std::int64_t kMostWarps = 32;

}  // namespace

/// combine(a, b) under a name of its own.
std::string BodyEmitter::combined(ir::Monoid monoid, DType t, const std::string& a, const std::string& b) {
  std::vector<std::string> into{a};
  combine_values(monoid, {t}, into, {b});
  return name_value(std::string(c_type(t)), into[0]);
}

Status BodyEmitter::emit_scan(const ir::Loop& l, const ir::Combination& c) {
  const std::int64_t ways = *ir::as_int(l.extent);
  const auto* first = ir::as<ir::Load>(c.update->values[0]);
  if (first->buffer->memory != ir::Memory::registers || !arrays_.contains(first->buffer))
    return refuse("loop `" + l.var.hint + "` combines what is not in registers",
                  "partial results in registers");
  const Spread& spread = arrays_.at(first->buffer).spread;
  const auto level = std::find_if(spread.begin(), spread.end(), [&](const SpreadLevel& x) {
    return !is_in_axis(x.axis) && ways % x.threads == 0;
  });
  if (level == spread.end())
    return refuse("the values that loop `" + l.var.hint + "` combines are not spread over threads",
                  "a loop over the threads that hold them");
  ScanShape shape{level->axis, level->threads, ways / level->threads};
  const std::int64_t all[] = {launch_.block.x, launch_.block.y, launch_.block.cluster};
  const bool of_warps =
      shape.threads % kWarp == 0
          ? shape.threads <= kWarp * kMostWarps
          : shape.threads < kWarp && std::has_single_bit(static_cast<std::uint64_t>(shape.threads));
  const bool fits =
      shape.threads == all[shape.axis] && (shape.axis == 0   ? of_warps
                                           : shape.axis == 1 ? is_in_axis(0) || launch_.block.x == 1
                                                             : shape.copies == 1);
  if (!fits)
    return refuse("loop `" + l.var.hint + "` scans " + std::to_string(shape.threads) + " threads of axis " +
                      "xyc"[shape.axis],
                  "all threads of x (a power of two up to 32, or a multiple of 32), all of y inside x, or "
                  "one value of each block of the cluster");
  let_next_begin();
  return block("", [&]() -> Status {
    const ir::Var thread = ir::fresh_var(l.var.hint);
    const Expr threads = ir::int_imm(shape.threads);
    threads_[thread] = {shape.axis, shape.threads};
    names_[thread] = "(int)(" + thread_index(shape.axis) + ")";
    narrow_[thread] = true;
    facts_.bind_loop(thread, threads);
    const auto of_copy = [&](const Expr& e, std::int64_t k) {
      return ir::simplify(ir::substitute(e, {{l.var, ir::int_imm(k) * threads + ir::var(thread)}}), facts_);
    };
    const DType t = first->buffer->dtype;
    std::vector<std::string> values;
    for (std::int64_t k = 0; k < shape.copies; ++k) {
      const Expr e = of_copy(c.update->values[0], k);
      begin({e});
      values.push_back(name_value(std::string(c_type(t)), text(e)));
    }
    threads_.erase(thread);  // the exchange is of all of them
    const Expr at = linear_index(*c.update->buffers[0], c.update->index);
    std::string state = name_value(std::string(c_type(t)), load_element(c.update->buffers[0], at));
    const ir::Monoid monoid = c.update->monoid;
    const std::vector<std::string> before = shape.axis == 0 ? scan_lanes(monoid, t, values, shape, state)
                                                            : scan_slots(monoid, t, values, shape, state);
    threads_[thread] = {shape.axis, shape.threads};
    for (std::int64_t k = 0; k < shape.copies; ++k) {
      std::vector<Expr> index;
      for (const Expr& e : c.before->index) index.push_back(of_copy(e, k));
      store_once(c.before->buffer, linear_index(*c.before->buffer, index),
                 before[static_cast<std::size_t>(k)]);
    }
    threads_.erase(thread);
    store_once(c.update->buffers[0], at, state);
    return Unit{};
  });
}

/// `value` becomes what the lanes of a group up to this one come to; returns what those in front of it do.
std::string BodyEmitter::scan_group(ir::Monoid monoid, DType t, std::string& value, std::int64_t lanes,
                                    const std::string& mask, const std::string& lane) {
  const std::string type(c_type(t));
  const auto from_below = [&](std::int64_t distance) {
    return name_value(type, shuffle_text("__shfl_up_sync", t, mask, value,
                                         std::to_string(distance) + ", " + std::to_string(lanes)));
  };
  for (std::int64_t distance = 1; distance < lanes; distance *= 2) {
    const std::string sum = combined(monoid, t, from_below(distance), value);
    value = name_value(type, lane + " >= " + std::to_string(distance) + " ? " + sum + " : " + value);
  }
  const std::string neutral = text(ir::identity(monoid, {t})[0]);
  if (lanes == 1) return name_value(type, neutral);
  return name_value(type, lane + " == 0 ? " + neutral + " : " + from_below(1));
}

/// Threads side by side: exchanges inside a warp, and a slot for each warp and copy, over which every warp scans itself.
std::vector<std::string> BodyEmitter::scan_lanes(ir::Monoid monoid, DType t, std::vector<std::string> values,
                                                 const ScanShape& shape, std::string& state) {
  const std::string type(c_type(t));
  const std::int64_t lanes = std::min(shape.threads, kWarp);
  const std::string mask = lane_mask(lanes);
  const std::string lane = name_value("int", "threadIdx.x % " + std::to_string(lanes));
  const auto from_lane = [&](const std::string& value, const std::string& which) {
    return name_value(type,
                      shuffle_text("__shfl_sync", t, mask, value, which + ", " + std::to_string(lanes)));
  };
  std::vector<std::string> out;
  for (std::string& v : values) out.push_back(scan_group(monoid, t, v, lanes, mask, lane));
  if (shape.threads <= kWarp) {
    for (std::size_t k = 0; k < out.size(); ++k) {
      out[k] = combined(monoid, t, state, out[k]);
      state = combined(monoid, t, state, from_lane(values[k], std::to_string(lanes - 1)));
    }
    return out;
  }
  const std::int64_t warps = shape.threads / kWarp;
  const auto padded = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(warps)));
  const std::int64_t count = shape.copies * padded;
  const std::string slots = allocate_slots(t, count);
  if (serial_loops_ > 0) barrier();  // the slots of the last round were read
  std::string writes;
  for (std::size_t k = 0; k < values.size(); ++k)
    writes += slots + "[" + std::to_string(static_cast<std::int64_t>(k) * padded) +
              " + threadIdx.x / 32] = " + values[k] + "; ";
  line("if (" + lane + " == 31) { " + writes + "}");
  barrier();
  const std::string neutral = text(ir::identity(monoid, {t})[0]);
  for (std::int64_t from = 0; from < count; from += kWarp) {
    std::string exists =
        padded > warps ? lane + " % " + std::to_string(padded) + " < " + std::to_string(warps) : "";
    if (count - from < kWarp)
      exists += (exists.empty() ? "" : " && ") + lane + " < " + std::to_string(count - from);
    const std::string slot = slots + "[" + std::to_string(from) + " + " + lane + "]";
    std::string sums = name_value(type, exists.empty() ? slot : exists + " ? " + slot + " : " + neutral);
    const std::string before = scan_group(monoid, t, sums, kWarp, mask, lane);
    for (std::int64_t k = from / padded; k < shape.copies && k * padded < from + kWarp; ++k) {
      const std::string of_warp =
          from_lane(before, std::to_string(k * padded - from) + " + (int)(threadIdx.x / 32)");
      std::string& mine = out[static_cast<std::size_t>(k)];
      mine = combined(monoid, t, combined(monoid, t, state, of_warp), mine);
    }
    state = combined(monoid, t, state, from_lane(sums, "31"));
  }
  return out;
}

/// Threads above each other, or the blocks of a cluster: everybody goes over the slots of all.
std::vector<std::string> BodyEmitter::scan_slots(ir::Monoid monoid, DType t,
                                                 const std::vector<std::string>& values,
                                                 const ScanShape& shape, std::string& state) {
  const std::string type(c_type(t));
  const std::string me = thread_index(shape.axis);
  std::string slots, step = "1", at = "0";
  if (shape.axis == 2) {
    slots = publish_in_cluster({t}, values)[0];
  } else {
    step = std::to_string(launch_.block.x);
    at = "threadIdx.x";
    slots = fresh("slots");
    line(type + "* const " + slots + " = (" + type + "*)(lw_shared + " +
         std::to_string(launch_.shared_bytes) + ");");
    launch_.shared_bytes += (shape.copies * launch_.block.threads() * size_bytes(t) + 15) / 16 * 16;
    if (serial_loops_ > 0) barrier();
    for (std::int64_t k = 0; k < shape.copies; ++k)
      line(slots + "[(" + std::to_string(k * shape.threads) + " + " + me + ") * " + step + " + " + at +
           "] = " + values[static_cast<std::size_t>(k)] + ";");
    barrier();
  }
  std::vector<std::string> out;
  for (std::int64_t k = 0; k < shape.copies; ++k) {
    out.push_back(fresh("x"));
    line(type + " " + out.back() + " = " + state + ";");
    for (std::int64_t j = 0; j < shape.threads; ++j) {
      if (j > 0) line("if (" + me + " == " + std::to_string(j) + ") " + out.back() + " = " + state + ";");
      state = combined(monoid, t, state,
                       slots + "[" + std::to_string(k * shape.threads + j) + " * " + step + " + " + at + "]");
    }
  }
  return out;
}

}  // namespace loopwright::codegen
