// Looking tuned kernels up and running them. Needs neither compiler nor IR: link `loopwright_runtime` alone.
//
//   auto runtime = Runtime::open({.databases = {"loopwright.db"}});
//   auto plan = runtime->plan("rmsnorm");
//   plan->run({x, w, y});
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "loopwright/artifact.h"
#include "loopwright/base.h"
#include "loopwright/shape.h"
#include "loopwright/target.h"

namespace loopwright {

namespace runtime {
struct PlanAccess;
}

// ---------------------------------------------------------------- plans as data

/// One tensor of a plan. Inputs and outputs come first, in the order of the graph's declaration.
struct PlanTensor {
  std::string name;
  DType dtype = DType::f32;
  ArgRole role = ArgRole::input;  ///< `workspace` = intermediate, lives in the plan's arena
  std::vector<SizeExpr> shape;
  std::vector<SizeExpr> strides;
  bool operator==(const PlanTensor&) const = default;
};

/// One kernel of a plan: a workload, and which plan tensors and symbols are its arguments.
struct PlanKernel {
  std::string workload;            ///< digest
  std::string family;              ///< word for people
  std::vector<std::int32_t> args;  ///< plan tensor for each non-workspace argument of the artifacts
  std::vector<std::int32_t>
      symbols;  ///< plan symbol for each symbol of the workload, in the workload's order
  std::vector<std::string>
      symbol_names;  ///< the workload's own names of them (`s0`, ...), for matching guards
  std::string strict_workload =
      {};  ///< digest of the same work in strict accuracy, which serves as well; empty where it is that
  bool operator==(const PlanKernel&) const = default;
};

/// Everything needed to run a graph but the machine code. Stored in databases as text, so that a program can run a graph
/// by name without the compiler.
struct PlanSpec {
  std::string name;
  std::string graph_digest;
  std::vector<Symbol> symbols;
  std::vector<PlanTensor> tensors;
  std::vector<PlanKernel> kernels;  ///< in an order in which they may run
  bool operator==(const PlanSpec&) const = default;

  std::string text() const;  ///< JSON with a version
  static Result<PlanSpec> parse(std::string_view text);
};

/// Where a variant comes from.
enum class Origin : std::uint8_t {
  tuned,     ///< a database: measured and verified for a range of sizes
  stored,    ///< a database: a default schedule, or a tuned one outside its range
  kept,      ///< a default schedule that an earlier process compiled
  compiled,  ///< a default schedule, compiled for this plan
};
std::string_view name(Origin origin);

/// One way to run one kernel of a plan.
struct Variant {
  Guard guard;  ///< symbols by the workload's own names
  std::shared_ptr<const Artifact> artifact;
  std::string label;  ///< for people: template and picks
  double loss_mean = 0,
         loss_worst = 0;       ///< expected loss in the guard's box (0.05 = 5 % slower than the best known)
  Match match = Match::exact;  ///< untuned = the general variant that stands in outside the tuned ranges
  Origin origin = Origin::compiled;
  double median_ns = 0;  ///< what the database measured at the main sizes of the guard's box; 0: nothing
};

// ---------------------------------------------------------------- running

/// A tensor given to `run`.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::f32;
  std::span<const std::int64_t> shape;
  std::span<const std::int64_t> strides;  ///< elements; empty = dense row-major
};

/// An immutable, shareable plan. All members may be called from many threads at once.
class Plan {
 public:
  /// Checks everything (count, dtype, rank, sizes against the symbols' ranges, strides, alignment to the element,
  /// outputs that overlap inputs or each other: wrong_arguments, out_of_range, misaligned, aliasing), then runs and
  /// returns when done. Tensors in the order of `spec().tensors` (inputs, then outputs). `stream` as for `launch`.
  Status run(std::span<const TensorView> tensors, void* stream = nullptr) const;
  /// The hot call: no check of the pointers, no allocation once its thread has run the plan at sizes as large, no lock,
  /// no exception. Symbol values in the order of `spec().symbols`; strides are the plan's. ok, out_of_range (a symbol
  /// outside its range), no_variant, out_of_memory, launch_failed.
  /// On a GPU: pointers are the device's, `stream` is a CUstream (cudaStream_t) of it, null for its default stream, and
  /// the call returns when everything is queued. May be captured into a CUDA graph; what is captured on one stream
  /// shares workspace, so that its replays must not overlap. On the CPU `stream` is not looked at.
  ErrorCode launch(void* const* pointers, const std::int64_t* symbols, void* stream = nullptr) const noexcept;
  /// `launch` for calls that repeat: on a GPU the kernels of the call go as one CUDA graph where that takes the host less
  /// (docs/runtime.md, Graphs), with the same results, errors and workspace. Pointers and symbols may be others at every
  /// call; tensors are used where they are. The first calls and those that meet new sizes may allocate; no lock, no
  /// exception. On a stream that is captured, on the CPU and for plans of few kernels it is `launch`.
  ErrorCode launch_graph(void* const* pointers, const std::int64_t* symbols, void* stream = nullptr) const noexcept;

  const PlanSpec& spec() const;
  /// What serves one kernel at given sizes.
  struct Choice {
    int kernel = 0;
    std::string family, workload, label, guard;
    Match match = Match::untuned;
    double loss_mean = 0, loss_worst = 0;
    bool is_tuned = false;  ///< false: the general variant stands in
    Origin origin = Origin::compiled;
    double median_ns = 0;  ///< Variant::median_ns
  };
  /// One for each kernel, in order; no_variant when there is none for a kernel.
  Result<std::vector<Choice>> choose(std::span<const std::int64_t> symbols) const;
  /// For each kernel, which variant serves these symbol values, how it was matched, what else there is.
  Result<std::string> explain(std::span<const std::int64_t> symbols) const;
  /// Bytes of the arena at these symbol values.
  std::int64_t arena_bytes(std::span<const std::int64_t> symbols) const;

  /// For the planner and the tests. `variants[k]` are sorted by preference: the first whose guard holds serves. A
  /// `matches`, when not empty, has one entry for each kernel, which replaces that of all its variants. malformed_ir for
  /// a spec, bad_artifact for a variant that does not fit it; no_variant for a kernel without variants;
  /// unsupported_target for code that this machine cannot run.
  static Result<Plan> make(PlanSpec spec, std::vector<std::vector<Variant>> variants,
                           std::vector<Match> matches = {});

  struct State;  ///< opaque

 private:
  friend struct runtime::PlanAccess;
  explicit Plan(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

/// What happens when no tuned range holds for a call's sizes.
enum class OnMiss : std::uint8_t {
  strict,    ///< no_variant
  fallback,  ///< `default` in text: the general variant serves, and the sizes are written to `wanted`
  jit,  ///< the default schedule is compiled now; needs loopwright_compiler (see enable_jit in compile.h)
};

struct RuntimeOptions {
  std::vector<std::string> databases;  ///< most important first: user, site, shipped
  OnMiss on_miss = OnMiss::fallback;
  int workers = 0;             ///< CPU workers; 0 = the machine's, or LOOPWRIGHT_WORKERS
  std::string device = "cpu";  ///< `cpu`, `cuda` (the first GPU) or `cuda:N`
};

/// Databases plus a device. Opening never fails because of a database: what is wrong with one is in `notes`.
class Runtime {
 public:
  static Result<Runtime> open(RuntimeOptions options);
  /// By the graph's name or its digest. not_found lists what there is; no_variant names the kernels without one.
  Result<Plan> plan(const std::string& name_or_digest) const;
  /// Plan::explain, and what each database says of each kernel at these sizes: verdicts, and what else was measured.
  Result<std::string> explain(const std::string& name_or_digest, std::span<const std::int64_t> symbols) const;
  const Target& target() const;
  /// One line for each database when the runtime was opened: opened, or why not and what was done instead.
  const std::vector<std::string>& notes() const;
  /// Writes the misses since the last call into `wanted` of the first writable database; waits at most a moment for a
  /// lock and keeps the counts when it cannot write. Also done when the last copy of a Runtime goes.
  Status flush_wanted() const;
  /// Opens the databases anew, so that files that were replaced are read too. All or nothing: when one that is in use
  /// cannot be opened, nothing changes and its error comes back. Plans keep what they were made of; `plan` makes new ones.
  Status reload() const;

 private:
  struct State;
  Runtime() = default;
  std::shared_ptr<State> state_;
};

/// This machine: CPU name, features, caches, workers.
Target host_target();
/// What a device runs code for: `cpu` as above, `cuda` or `cuda:N` the GPU with its own limits. The reason when there is
/// no such GPU: no driver (and where it was looked for), an old one, no device, a capability without code generation.
Result<Target> device_target(const std::string& device);

}  // namespace loopwright
