#include "src/codegen/cuda/emit.h"

#include <algorithm>

#include "src/codegen/arguments.h"
#include "src/codegen/cuda/body_emitter.h"
#include "src/codegen/cuda/ops_text.h"
#include "src/codegen/cuda/prelude.h"
#include "src/codegen/cuda/regions.h"
#include "src/codegen/cuda/rough.h"
#include "src/codegen/cuda/slots.h"
#include "src/ir/linear.h"
#include "src/ir/rewrite.h"

namespace loopwright::codegen {
namespace {

using ir::Expr;
using ir::LoopKind;
using ir::Stmt;

constexpr std::int64_t kStaticSharedBytes = 48 << 10;  ///< more must be asked for at the launch
constexpr std::int64_t kMaxGridYz = 65535;
constexpr std::int64_t kMostOfCluster = 8;  ///< blocks; larger ones do not fit every GPU of an architecture
constexpr const char* kGridNames[] = {"blockIdx.x", "blockIdx.y", "blockIdx.z"};

struct ExprLess {
  bool operator()(const Expr& a, const Expr& b) const { return a != b && ir::compare(a, b) < 0; }
};

/// Equal expressions become one node, so that the text computes each once.
ir::Kernel share_expressions(const ir::Kernel& kernel) {
  std::set<Expr, ExprLess> known;
  ir::Kernel out = kernel;
  out.body = ir::rewrite(kernel.body, [&](const Expr& e) { return *known.insert(e).first; }, [](const Stmt& s) { return s; });
  return out;
}

BlockShape find_block(const Stmt& s) {
  BlockShape block;
  ir::walk(s, [&](const Stmt& x) {
    const auto* l = ir::as<ir::Loop>(x);
    const auto axis = l == nullptr ? std::nullopt : thread_axis(l->kind);
    if (!axis) return;
    auto& threads = *axis == 0 ? block.x : *axis == 1 ? block.y : block.cluster;
    threads = std::max(threads, ir::as_int(l->extent).value_or(1));
  }, [](const Expr&) {});
  return block;
}

class KernelEmitter {
 public:
  KernelEmitter(const ir::Kernel& kernel, const Target& target, const std::string& entry)
      : kernel_(kernel), target_(target), entry_(entry), rough_(find_rough(kernel)) {}

  Result<CudaText> emit() {
    LW_TRY(const RegionPlan plan, plan_regions(kernel_));
    for (const ir::Param& p : kernel_.params) LW_CHECK(add_buffer(p.buffer, p.role));
    for (const ir::Buffer& w : plan.workspaces) LW_CHECK(add_buffer(w, ArgRole::workspace));
    for (const Region& r : plan.regions) LW_CHECK(add_meeting(r));
    for (std::size_t i = 0; i < plan.regions.size(); ++i) LW_CHECK(emit_region(plan.regions[i], meetings_[i]));
    return std::move(out_);
  }

 private:
  Error exceed(const std::string& what, std::int64_t found, std::int64_t limit) const {
    return Error{ErrorCode::resource_exceeded, "compiling kernel `" + kernel_.name + "` for " + target_.text(),
                 what + ": " + std::to_string(found), "", "at most " + std::to_string(limit)};
  }

  Status add_buffer(const ir::Buffer& b, ArgRole role) {
    LW_TRY(ArtifactArg arg, make_arg(kernel_, *b, role));
    out_.args.push_back(std::move(arg));
    buffers_.push_back(b);
    pointers_[b] = "p" + std::to_string(buffers_.size() - 1) + "_" + b->name;
    return Unit{};
  }

  /// How the blocks of a region meet the one that goes on.
  struct Meeting {
    std::string counter;                     ///< how many have arrived; empty without one
    std::map<ir::Buffer, std::string> words;  ///< else a word for each block
  };

  static BlockShape find_shape(const Region& r) {
    BlockShape block = find_block(r.body);
    if (!r.last) return block;
    const BlockShape last = find_block(r.last->body);
    return {std::max(block.x, last.x), std::max(block.y, last.y), std::max(block.cluster, last.cluster)};
  }

  Status add_meeting(const Region& r) {
    Meeting meeting;
    for (const ir::Buffer& b : find_slots(r, find_shape(r))) {
      ArtifactArg arg{"words_" + b->name, DType::i64, ArgRole::workspace, {}, {1}, true};
      LW_TRY(const SizeExpr count, to_size(b->shape[0], kernel_, "the blocks of a grid"));
      arg.shape.push_back(count);
      meeting.words[b] = arg.name;
      meeting_parameters_.push_back({"unsigned long long", arg.name});
      out_.args.push_back(std::move(arg));
    }
    if (r.last && meeting.words.empty()) {
      LW_TRY(meeting.counter, add_counter(r));
    }
    meetings_.push_back(std::move(meeting));
    return Unit{};
  }

  /// How many blocks have arrived: one count, or one for each block of grid x.
  Result<std::string> add_counter(const Region& r) {
    ArtifactArg arg{"arrivals" + std::to_string(meetings_.size()), DType::i32, ArgRole::workspace, {1}, {1}, true};
    if (r.last->per_column) {
      LW_TRY(arg.shape[0], to_size(r.last->extent, kernel_, "the extent of a grid"));
    }
    meeting_parameters_.push_back({"unsigned", arg.name});
    out_.args.push_back(arg);
    return arg.name;
  }

  /// The blocks that an SM should hold. Without this ptxas puts loads behind the uses of earlier ones, to save registers;
  /// with it, it uses the registers that this number leaves.
  static std::string fewest_blocks(const LaunchContext& launch) {
    constexpr std::int64_t kRegistersOfSm = 65536, kFewWords = 16, kMostBlocks = 16;
    // A ring shares out registers itself. Where a thread needs few, ptxas has to be told how many there are.
    if (launch.consumers > 0) return launch.settles && launch.consumers > 1 ? ", 1" : "";
    // Many sums are what a thread's registers are for: one more register than half a multiprocessor's share halves the warps.
    constexpr std::int64_t kManySums = 32, kBesideMany = 64;
    if (launch.words_summed >= kManySums)
      return ", " + std::to_string(std::clamp<std::int64_t>(kRegistersOfSm / (launch.block.threads() * (launch.words_summed + kBesideMany)), 1, kMostBlocks));
    if (launch.words_held > 0) {
      constexpr std::int64_t kBesideFragments = 56;
      const std::int64_t words = std::max(launch.words_held, launch.words_ahead) + kBesideFragments;
      return ", " + std::to_string(std::clamp<std::int64_t>(kRegistersOfSm / (launch.block.threads() * words), 1, kMostBlocks));
    }
    if (launch.words_ahead < kFewWords) return {};
    // Rows of a cluster are few and long: registers are worth more than blocks.
    constexpr std::int64_t kBesideSums = 40;
    const std::int64_t other_registers = std::max<std::int64_t>(launch.block.cluster > 1 ? 96 : 48, launch.words_summed + kBesideSums);
    return ", " + std::to_string(std::clamp<std::int64_t>(kRegistersOfSm / (launch.block.threads() * (launch.words_ahead + other_registers)), 1, kMostBlocks));
  }

  /// A ring has a warpgroup more, which feeds it.
  static std::int64_t count_threads(const LaunchContext& launch) {
    return launch.block.threads() + (launch.consumers > 0 ? launch.block.x : 0);
  }

  /// What a tensor map says of its argument.
  Status complete_maps(LaunchContext& launch) const {
    for (std::size_t i = 0; i < launch.maps.size(); ++i) {
      TensorMap& m = launch.maps[i];
      m.arg = static_cast<std::int32_t>(std::find(buffers_.begin(), buffers_.end(), launch.map_sources[i]) - buffers_.begin());
      const ArtifactArg& arg = out_.args[static_cast<std::size_t>(m.arg)];
      for (std::size_t d = arg.shape.size(); d-- > 0;) {
        m.shape.push_back(arg.shape[d]);
        if (d + 1 < arg.shape.size())
          m.strides_bytes.push_back(SizeExpr::apply(SizeExpr::Op::mul, arg.strides[d], SizeExpr(std::int64_t{size_bytes(arg.dtype)})));
      }
    }
    return Unit{};
  }

  static std::string pointer_type(const ir::Buffer& b, const std::set<ir::Buffer>& written) {
    const std::string type = b->dtype == DType::boolean ? "unsigned char" : std::string(c_type(b->dtype));
    return (written.contains(b) ? "" : "const ") + type + "*";
  }

  /// Whether the grid can be small enough for a launch that begins while the one before it ends.
  bool may_overlap(const Region& r) const {
    if (target_.capability < 90) return false;
    std::int64_t fewest = 1;
    for (const auto& axis : r.grid)
      if (axis) fewest = std::min(fewest, std::int64_t{1} << 32) * std::clamp<std::int64_t>(ir::Facts(kernel_).bounds(axis->extent).lo, 1, 1 << 30);
    return fewest <= kMostOverlappedBlocks * target_.workers;
  }

  /// Nothing is read or written before the grid in front is over, unless the plan says that this launch (its first) touches
  /// nothing of it. The next grid is let in where threads meet for the first time, else behind the wait: blocks of it that
  /// wait here cannot take the places of those that end, and then some SMs get more of them than others. It is never let in
  /// in front of a wait that comes first: all that was launched earlier is over by then.
  std::string overlap(const LaunchContext& launch, bool counts, bool takes_overlap) const {
    std::string out = takes_overlap ? "  if (lw_overlap & 1) lw_see_earlier();\n  else lw_await_previous();\n  if (lw_overlap & 2) lw_let_next_begin();\n" : "  lw_await_previous();\n";
    if (launch.holds_next || counts) out += "  lw_let_next_begin();\n";
    const auto hold_back = [&](const std::string& type, const std::string& name) { out += "  " + name + " = (" + type + ")lw_behind(" + name + ");\n"; };
    for (const ir::Buffer& b : buffers_) hold_back(pointer_type(b, launch.written), pointers_.at(b));
    for (const MeetingParameter& p : meeting_parameters_) hold_back(p.type + "*", p.name);
    return out;
  }

  std::string signature(const std::string& name, const LaunchContext& launch, bool takes_overlap) const {
    const std::set<ir::Buffer>& written = launch.written;
    std::string out = "extern \"C\" __global__ void __launch_bounds__(" + std::to_string(count_threads(launch)) + fewest_blocks(launch) +
                      ") " + name + "(";
    for (const ir::Buffer& b : buffers_) out += pointer_type(b, written) + " __restrict__ " + pointers_.at(b) + ", ";
    for (const MeetingParameter& p : meeting_parameters_) out += p.type + "* __restrict__ " + p.name + ", ";
    for (const ir::SymbolParam& s : kernel_.symbols) out += "const long long s_" + s.symbol.name + ", ";
    for (std::size_t i = 0; i < launch.maps.size(); ++i) out += "const __grid_constant__ lw_tensor_map m" + std::to_string(i) + ", ";
    if (takes_overlap) out += "const long long lw_overlap, ";
    if (out.ends_with(", ")) out.resize(out.size() - 2);
    return out + ") {\n";
  }

  void bind_symbols(BodyEmitter& body) const {
    for (const ir::SymbolParam& s : kernel_.symbols) {
      const ir::Interval range = ir::Facts(kernel_).bounds(ir::var(s.var));
      const bool narrow = range.lo >= INT32_MIN && range.hi <= INT32_MAX;
      body.bind_symbol(s, narrow ? "((int)s_" + s.symbol.name + ")" : "s_" + s.symbol.name);
    }
  }

  Status emit_region(const Region& r, const Meeting& meeting) {
    const std::string name = entry_ + (out_.launches.empty() ? "" : "_" + std::to_string(out_.launches.size()));
    const BlockShape block = find_shape(r);
    if (r.last && block.cluster > 1)
      return Error{ErrorCode::compile_failed, "compiling kernel `" + kernel_.name + "` for " + target_.text(), "a loop over a cluster beside a last block", "",
                   "one of them"};
    const std::int64_t most_of_cluster = target_.capability >= 90 ? kMostOfCluster : 1;
    if (block.cluster > most_of_cluster) return exceed("blocks of a cluster", block.cluster, most_of_cluster);
    if (has_ring(r.body) && target_.arch != "sm_90a")
      return Error{ErrorCode::unsupported_target, "compiling kernel `" + kernel_.name + "` for " + target_.text(), "it has a ring for the tensor cores of Hopper", "", "cuda:sm_90a, or a schedule without `ring`"};
    if (has_row_ring(r.body) && target_.capability < 90)
      return Error{ErrorCode::unsupported_target, "compiling kernel `" + kernel_.name + "` for " + target_.text(), "it has a ring of rows that a copy engine fills", "",
                   "capability 9.0 and above, or a schedule without `ring`"};
    if (has_async_ring(r.body) && target_.capability < 80)
      return Error{ErrorCode::unsupported_target, "compiling kernel `" + kernel_.name + "` for " + target_.text(), "its threads copy without waiting", "",
                   "capability 8.0 and above, or a schedule without `ring .. async`"};
    const bool has_policies = std::any_of(kernel_.params.begin(), kernel_.params.end(), [](const ir::Param& p) { return p.cache != ir::CachePolicy::normal; });
    if (has_policies && target_.capability < 80)
      return Error{ErrorCode::unsupported_target, "compiling kernel `" + kernel_.name + "` for " + target_.text(), "its loads have cache policies", "",
                   "capability 8.0 and above, or a schedule without `cache`"};
    if (block.threads() > target_.max_threads_per_block) return exceed("threads of a block", block.threads(), target_.max_threads_per_block);
    if (block.y > 14 && block.x > 32) return exceed("rows of threads that wait on their own", block.y, 14);
    LaunchContext launch{kernel_, block, {}, {}, pointers_, meeting.words, rough_};
    if (has_ring(r.body)) launch.consumers = block.y;
    find_written(r, launch);
    CudaLaunch out;
    // A ring takes all the shared memory there is: its blocks come late in any case, and those let in by it crowd elsewhere.
    const bool overlaps = may_overlap(r);
    out.programmatic_dependent = overlaps && launch.consumers == 0;
    out.takes_overlap = overlaps && out_.launches.empty();
    // Blocks that count themselves end at very different times: the next ones get even shares while all are still there.
    launch.holds_next = out.programmatic_dependent && meeting.counter.empty();
    BodyEmitter body(launch);
    bind_symbols(body);
    for (std::size_t axis = 0; axis < 3; ++axis) {
      if (!r.grid[axis]) continue;
      const bool shares = axis == 0 && block.cluster > 1;
      const std::string name = std::string("(int)") + (shares ? "(blockIdx.x / " + std::to_string(block.cluster) + ")" : kGridNames[axis]);
      body.bind(r.grid[axis]->var, name, r.grid[axis]->extent);
      const Expr blocks = shares ? r.grid[axis]->extent * ir::int_imm(block.cluster) : r.grid[axis]->extent;
      LW_TRY(out.grid[axis], to_size(blocks, kernel_, "the extent of a grid"));
      const std::int64_t largest = ir::Facts(kernel_).bounds(blocks).hi;
      const std::int64_t limit = axis == 0 ? INT32_MAX : kMaxGridYz;
      if (largest > limit) return exceed("blocks of grid " + std::string(1, "xyz"[axis]), largest, limit);
    }
    if (!r.grid[0] && block.cluster > 1) {
      LW_TRY(out.grid[0], to_size(ir::int_imm(block.cluster), kernel_, "the extent of a grid"));
    }
    LW_CHECK(body.emit(r.body));
    std::string text = body.take();
    if (r.last) {
      LW_TRY(const std::string last, emit_last(r, meeting, launch));
      text += last;
    }
    if (launch.shared_bytes > target_.l1_bytes) return exceed("bytes of shared memory", launch.shared_bytes, target_.l1_bytes);
    const bool is_static = launch.shared_bytes <= kStaticSharedBytes;
    std::string head = signature(name, launch, out.takes_overlap);
    if (launch.shared_bytes > 0)
      head += std::string("  ") + (is_static ? "" : "extern ") + "__shared__ __align__(" + (launch.consumers > 0 ? "1024" : "16") + ") unsigned char lw_shared[" +
              (is_static ? std::to_string(launch.shared_bytes) : "") + "];\n";
    if (launch.meets_cluster) head += "  lw_cluster_begin();\n";
    if (out.programmatic_dependent || out.takes_overlap) head += overlap(launch, !meeting.counter.empty(), out.takes_overlap);
    out_.functions += head + text + (out.takes_overlap ? "  if (lw_overlap & 1) lw_await_previous();\n}\n" : "}\n");
    out.entry = name;
    out.block = {static_cast<std::int32_t>(block.x), static_cast<std::int32_t>(count_threads(launch) / block.x), 1};
    out.cluster[0] = static_cast<std::int32_t>(block.cluster);
    LW_CHECK(complete_maps(launch));
    out.tensor_maps = std::move(launch.maps);
    out.shared_bytes = is_static ? 0 : launch.shared_bytes;
    out_.launches.push_back(std::move(out));
    return Unit{};
  }

  void find_written(const Region& r, LaunchContext& launch) const {
    const auto add = [&](const Stmt& s, std::set<ir::Buffer>& into) {
      for (const ir::Buffer& b : ir::buffers_of(s).written)
        if (b->memory == ir::Memory::global) into.insert(b);
    };
    add(r.body, launch.written);
    if (!r.last) return;
    std::set<ir::Buffer> first = launch.written;
    add(r.last->body, launch.written);
    for (const ir::Buffer& b : ir::buffers_of(r.last->body).read)
      if (first.contains(b)) launch.exchanged.insert(b);
  }

  /// The block that arrives last goes on; all others are done.
  static std::string wait_by_counter(const LastBlock& last, const std::string& counter, LaunchContext& launch) {
    const std::int64_t flag = launch.shared_bytes;
    launch.shared_bytes += 16;
    const std::string place = last.per_column ? "&" + counter + "[blockIdx.x]" : counter;
    const std::string all = last.per_column ? "gridDim.y * gridDim.z" : "gridDim.x * gridDim.y * gridDim.z";
    return "  unsigned* const is_last = (unsigned*)(lw_shared + " + std::to_string(flag) + ");\n  __syncthreads();\n" +
           "  if (threadIdx.x + threadIdx.y == 0) {\n    *is_last = lw_arrive(" + place + ") == " + all +
           " - 1;\n    if (*is_last) *(" + place + ") = 0;\n  }\n  __syncthreads();\n  if (!*is_last) return;\n  __threadfence();\n";
  }

  /// The last block of the grid takes what all have left into its shared memory, and goes on.
  std::string wait_by_words(LaunchContext& launch) const {
    std::string out = "  if (blockIdx.x != gridDim.x - 1) return;\n";
    for (const ir::Buffer& buffer : buffers_) {  // in the order of the arguments: equal kernels, equal text
      if (!launch.words.contains(buffer)) continue;
      const std::int64_t count = *ir::as_int(buffer->shape[0]);
      const std::string type(c_type(buffer->dtype)), name = "taken_" + buffer->name;
      out += "  " + type + "* const " + name + " = (" + type + "*)(lw_shared + " + std::to_string(launch.shared_bytes) + ");\n" +
             take_words(launch.words.at(buffer), name, buffer->dtype, count, launch.block);
      launch.shared_bytes += (count * size_bytes(buffer->dtype) + 15) / 16 * 16;
      launch.pointers[buffer] = name;
      launch.exchanged.erase(buffer);
    }
    launch.words.clear();
    return out + "  __syncthreads();\n";
  }

  Result<std::string> emit_last(const Region& r, const Meeting& meeting, LaunchContext& launch) const {
    const LastBlock& last = *r.last;
    const bool column = last.per_column;
    const std::string out = meeting.words.empty() ? wait_by_counter(last, meeting.counter, launch) : wait_by_words(launch);
    BodyEmitter body(launch);
    bind_symbols(body);
    if (column || ir::as_int(last.extent) == 1) {
      body.bind(last.var, column ? "(int)blockIdx.x" : "0", last.extent);
      LW_CHECK(body.emit(last.body));
    } else {
      LW_CHECK(body.emit(ir::loop(last.var, last.extent, last.body)));
    }
    return out + body.take();
  }

  const ir::Kernel& kernel_;
  const Target& target_;
  const std::string& entry_;
  const std::set<const ir::ExprNode*> rough_;
  CudaText out_;
  std::vector<ir::Buffer> buffers_;  ///< in the order of CudaText::args
  std::map<ir::Buffer, std::string> pointers_;
  std::vector<Meeting> meetings_;         ///< of each region
  struct MeetingParameter {
    std::string type, name;
  };
  std::vector<MeetingParameter> meeting_parameters_;
};

}  // namespace

Result<CudaText> emit_cuda(const ir::Kernel& kernel, const Target& target, const std::string& entry) {
  const ir::Kernel shared = share_expressions(kernel);
  return KernelEmitter(shared, target, entry).emit();
}

std::string cuda_program(const std::string& functions) { return cuda_prelude(functions) + functions; }

}  // namespace loopwright::codegen
