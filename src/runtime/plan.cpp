// Making a plan: everything is checked and computed here that `launch` would otherwise do on each call.
#include "src/runtime/plan.h"

#include <algorithm>
#include <map>

#include "src/runtime/arena.h"
#include "src/runtime/flights.h"
#include "src/runtime/tensor_bounds.h"

namespace loopwright {
namespace runtime {
namespace {

Error bad_variant(const PlanSpec& spec, std::size_t kernel, std::string found) {
  const PlanKernel& k = spec.kernels[kernel];
  return {
      ErrorCode::bad_artifact, "make the plan " + spec.name, std::move(found),
      "kernel " + std::to_string(kernel) + " (" + k.family + ", workload " + k.workload.substr(0, 12) + ")",
      "an artifact built for this workload"};
}

bool role_fits(ArgRole argument, ArgRole tensor) {
  if (tensor == ArgRole::input) return argument == ArgRole::input;
  return argument != ArgRole::workspace;
}

std::vector<SizeExpr> move_all(const std::vector<SizeExpr>& exprs, const std::vector<std::int32_t>& symbols) {
  std::vector<SizeExpr> moved;
  for (const SizeExpr& expr : exprs) moved.push_back(move_symbols(expr, symbols));
  return moved;
}

/// Corners and the middle of the plan's symbol ranges within the guard: where an artifact's idea of a tensor is
/// compared with the plan's.
std::vector<std::vector<std::int64_t>> sample_sizes(const PlanSpec& spec, const PlanKernel& kernel,
                                                    const Guard& guard) {
  std::vector<std::int64_t> low, high, middle;
  for (std::size_t s = 0; s < spec.symbols.size(); ++s) {
    std::int64_t lo = spec.symbols[s].lo, hi = spec.symbols[s].hi;
    for (std::size_t i = 0; i < kernel.symbols.size(); ++i)
      for (const SymbolGuard& g : guard.symbols)
        if (kernel.symbols[i] == static_cast<std::int32_t>(s) && g.name == kernel.symbol_names[i]) {
          lo = std::max(lo, g.lo);
          hi = std::min(hi, g.hi);
        }
    low.push_back(lo);
    high.push_back(std::max(lo, hi));
    middle.push_back(lo + (std::max(lo, hi) - lo) / 2);
  }
  return {low, middle, high};
}

class VariantLoader {
 public:
  VariantLoader(const Plan::State& state, std::size_t kernel)
      : state_(state), spec_(state.spec), kernel_(kernel) {}

  Result<VariantState> load(Variant variant) const {
    VariantState out;
    if (variant.artifact == nullptr) return bad(std::string("a variant without artifact: ") + variant.label);
    const Artifact& artifact = *variant.artifact;
    LW_CHECK(check_sizes(artifact));
    LW_CHECK(bind_symbols(artifact, out));
    out.guard = Guard::both(variant.guard, artifact.guard);
    LW_CHECK(bind_arguments(artifact, out));
    LW_TRY(out.loaded, state_.device->load(artifact));
    out.variant = std::move(variant);
    return out;
  }

 private:
  Error bad(std::string found) const { return bad_variant(spec_, kernel_, std::move(found)); }
  const PlanKernel& kernel() const { return spec_.kernels[kernel_]; }

  Status check_sizes(const Artifact& artifact) const {
    const auto sound = [&](const SizeExpr& e) {
      return e.depth() <= kMaxSpecDepth && e.symbol_count() <= static_cast<int>(artifact.symbols.size());
    };
    for (const ArtifactArg& arg : artifact.args) {
      if (arg.shape.size() != arg.strides.size())
        return bad("argument " + arg.name + " with fewer strides than dimensions");
      if (!std::all_of(arg.shape.begin(), arg.shape.end(), sound) ||
          !std::all_of(arg.strides.begin(), arg.strides.end(), sound))
        return bad("argument " + arg.name + " with a size over unknown symbols, or a too long one");
    }
    for (const Launch& launch : artifact.launches) {
      const auto* cpu = std::get_if<CpuLaunch>(&launch);
      const auto* cuda = std::get_if<CudaLaunch>(&launch);
      if ((cpu != nullptr && !(sound(cpu->extent) && sound(cpu->scratch_bytes))) ||
          (cuda != nullptr &&
           !(std::all_of(cuda->grid.begin(), cuda->grid.end(), sound) && sound(cuda->shared_bytes))))
        return bad("a launch with a size over unknown symbols, or a too long one");
    }
    return Unit{};
  }

  Status bind_symbols(const Artifact& artifact, VariantState& out) const {
    if (artifact.symbols.size() > kMaxKernelSymbols)
      return bad(std::to_string(artifact.symbols.size()) + " symbols, more than " +
                 std::to_string(kMaxKernelSymbols));
    out.takes_symbols = true;
    for (std::size_t i = 0; i < artifact.symbols.size(); ++i) {
      const auto& names = kernel().symbol_names;
      const auto it = std::find(names.begin(), names.end(), artifact.symbols[i]);
      if (it == names.end())
        return bad("a symbol " + artifact.symbols[i] + " that the workload does not have");
      out.symbols.push_back(kernel().symbols[static_cast<std::size_t>(it - names.begin())]);
      out.takes_symbols &= out.symbols.back() == static_cast<std::int32_t>(i);
    }
    return Unit{};
  }

  Status bind_arguments(const Artifact& artifact, VariantState& out) const {
    std::size_t next = 0;
    out.takes_pointers = true;
    for (const ArtifactArg& arg : artifact.args) {
      if (arg.role == ArgRole::workspace) {
        const auto address = static_cast<std::int32_t>(spec_.tensors.size() + out.workspaces.size());
        const SizeExpr bytes =
            span_bytes(move_all(arg.shape, out.symbols), move_all(arg.strides, out.symbols), arg.dtype);
        out.workspaces.push_back({address, FastSize(round_to_block(bytes)), arg.zeroed});
        out.addresses.push_back(address);
      } else {
        if (next == kernel().args.size()) break;
        out.addresses.push_back(kernel().args[next++]);
        LW_CHECK(check_argument(arg, spec_.tensors[static_cast<std::size_t>(out.addresses.back())], out));
      }
      const auto position = static_cast<std::int32_t>(out.addresses.size()) - 1;
      out.takes_pointers &= out.addresses.back() == position && position < state_.given;
    }
    if (next != kernel().args.size() || out.addresses.size() != artifact.args.size()) {
      const auto is_tensor = [](const ArtifactArg& a) { return a.role != ArgRole::workspace; };
      return bad(std::to_string(std::count_if(artifact.args.begin(), artifact.args.end(), is_tensor)) +
                 " tensor arguments where the plan gives " + std::to_string(kernel().args.size()));
    }
    return Unit{};
  }

  /// The code must not reach outside the tensor, whatever its own idea of the shape is.
  Status check_argument(const ArtifactArg& arg, const PlanTensor& tensor, const VariantState& variant) const {
    const std::string pair = "argument " + arg.name + " for tensor " + tensor.name;
    if (arg.dtype != tensor.dtype)
      return bad(pair + " with dtype " + std::string(name(arg.dtype)) + ", not " +
                 std::string(name(tensor.dtype)));
    if (!role_fits(arg.role, tensor.role)) return bad(pair + ", which it writes and the plan only reads");
    const auto shape = move_all(arg.shape, variant.symbols);
    const auto strides = move_all(arg.strides, variant.symbols);
    for (const auto& sizes : sample_sizes(spec_, kernel(), variant.guard)) {
      const ByteBounds code = find_bounds(shape, strides, arg.dtype, sizes.data());
      const ByteBounds plan = find_bounds(tensor.shape, tensor.strides, tensor.dtype, sizes.data());
      if (code.empty()) continue;
      if (code.low < plan.low || code.high > plan.high)
        return bad(pair + " reaching bytes " + std::to_string(code.low) + ".." + std::to_string(code.high) +
                   " of " + std::to_string(plan.low) + ".." + std::to_string(plan.high));
    }
    return Unit{};
  }

  const Plan::State& state_;
  const PlanSpec& spec_;
  std::size_t kernel_;
};

}  // namespace

Status load_variants(Plan::State& state, std::vector<std::vector<Variant>> variants) {
  const PlanSpec& spec = state.spec;
  if (variants.size() != spec.kernels.size())
    return Error{ErrorCode::malformed_ir, "make the plan " + spec.name,
                 std::to_string(variants.size()) + " lists of variants for " +
                     std::to_string(spec.kernels.size()) + " kernels",
                 "", "one list for each kernel"};
  for (std::size_t k = 0; k < variants.size(); ++k) {
    const PlanKernel& kernel = spec.kernels[k];
    KernelState& out = state.kernels[k];
    if (variants[k].empty())
      return Error{ErrorCode::no_variant, "make the plan " + spec.name, "no variant",
                   "kernel " + std::to_string(k) + " (" + kernel.family + ", workload " +
                       kernel.workload.substr(0, 12) + ")",
                   "tuning, or OnMiss::jit"};
    std::vector<Guard> guards;
    for (Variant& variant : variants[k]) {
      LW_TRY(VariantState loaded, VariantLoader(state, k).load(std::move(variant)));
      guards.push_back(loaded.guard);
      out.variants.push_back(std::move(loaded));
    }
    LW_TRY(out.table, VariantTable::make(guards, kernel.symbol_names, kernel.symbols));
    out.inputs = kernel.args;
  }
  return Unit{};
}

void number_flights(Plan::State& state) {
  if (state.device->target().kind == TargetKind::cpu) {
    for (std::size_t k = 0; k < state.kernels.size(); ++k) state.kernels[k].flight = static_cast<int>(k);
    return;
  }
  std::vector<Touched> touched(state.kernels.size());
  for (std::size_t k = 0; k < state.kernels.size(); ++k)
    for (const VariantState& variant : state.kernels[k].variants) {
      const auto& args = variant.variant.artifact->args;
      for (std::size_t i = 0; i < args.size(); ++i) {
        if (args[i].role == ArgRole::workspace) continue;
        auto& into = args[i].role == ArgRole::input ? touched[k].read : touched[k].written;
        into.push_back(variant.addresses[i]);
      }
    }
  const std::vector<int> flights = find_flights(touched);
  for (std::size_t k = 0; k < state.kernels.size(); ++k)
    state.kernels[k].flight = flights[k];
}

void place_buffers(Plan::State& state) {
  const PlanSpec& spec = state.spec;
  std::vector<Block> blocks;
  for (std::size_t t = static_cast<std::size_t>(state.given); t < spec.tensors.size(); ++t) {
    const PlanTensor& tensor = spec.tensors[t];
    // Lives are counted in flights: what kernels that run at the same time need has no place in common.
    Block block{span_bytes(tensor.shape, tensor.strides, tensor.dtype), static_cast<int>(spec.kernels.size()),
                0};
    for (std::size_t k = 0; k < spec.kernels.size(); ++k) {
      const auto& args = spec.kernels[k].args;
      if (std::find(args.begin(), args.end(), static_cast<std::int32_t>(t)) == args.end()) continue;
      block.first = std::min(block.first, state.kernels[k].flight);
      block.last = state.kernels[k].flight;
    }
    blocks.push_back(std::move(block));
  }
  const std::size_t tensor_blocks = blocks.size();
  std::size_t most_workspaces = 0;
  SizeExpr scratch = 0, zeroed = 0, zeroed_in_flight = 0;
  std::vector<std::size_t> owners;
  for (std::size_t k = 0; k < state.kernels.size(); ++k) {
    const int flight = state.kernels[k].flight;
    SizeExpr largest = 0, zeroed_here = 0;
    for (const VariantState& variant : state.kernels[k].variants) {
      SizeExpr sum = 0, zeroed_sum = 0;
      for (const Workspace& workspace : variant.workspaces) {
        SizeExpr& into = workspace.zeroed ? zeroed_sum : sum;
        into = SizeExpr::apply(SizeExpr::Op::add, into, workspace.bytes.expr());
      }
      largest = larger_of(largest, sum);
      zeroed_here = larger_of(zeroed_here, zeroed_sum);
      most_workspaces = std::max(most_workspaces, variant.workspaces.size());
      for (const SizeExpr& bytes : variant.loaded->scratch_bytes())
        scratch = larger_of(scratch, round_to_block(move_symbols(bytes, variant.symbols)));
    }
    const bool joins = k > 0 && flight == state.kernels[k - 1].flight;
    zeroed_in_flight = joins ? SizeExpr::apply(SizeExpr::Op::add, zeroed_in_flight, zeroed_here) : zeroed_here;
    zeroed = larger_of(zeroed, zeroed_in_flight);
    if (FastSize(largest).is_zero()) continue;
    blocks.push_back({largest, flight, flight});
    owners.push_back(k);
  }
  const ArenaLayout layout = lay_out(blocks, spec.symbols);
  for (const SizeExpr& bytes : layout.slot_bytes) state.slot_bytes.emplace_back(bytes);
  state.slot_of.assign(layout.slot_of.begin(),
                       layout.slot_of.begin() + static_cast<std::ptrdiff_t>(tensor_blocks));
  for (std::size_t i = 0; i < owners.size(); ++i)
    state.kernels[owners[i]].workspace_slot = layout.slot_of[tensor_blocks + i];
  state.zeroed_bytes = FastSize(zeroed);
  state.scratch_stride = FastSize(scratch);
  state.scratch_workers = state.scratch_stride.is_zero() ? 0 : state.device->scratch_workers();

  state.address_count = static_cast<std::int32_t>(spec.tensors.size() + most_workspaces);
  state.direct = state.kernels.size() == 1 && state.slot_bytes.empty() && state.scratch_workers == 0 &&
                 state.zeroed_bytes.is_zero() &&
                 std::all_of(state.kernels[0].variants.begin(), state.kernels[0].variants.end(),
                             [](const VariantState& v) { return v.takes_pointers; });
}

void size_tables(Plan::State& state) {
  GraphSizes sizes{.pointers = static_cast<std::size_t>(state.given), .symbols = state.spec.symbols.size()};
  std::size_t most_arguments = 0, most_symbols = 0, all_arguments = 0, all_symbols = 0;
  for (const KernelState& kernel : state.kernels) {
    std::size_t arguments = 0, symbols = 0, launches = 0;
    for (const VariantState& variant : kernel.variants) {
      arguments = std::max(arguments, variant.addresses.size());
      symbols = std::max(symbols, variant.symbols.size());
      launches = std::max(launches, variant.variant.artifact->launches.size());
    }
    most_arguments = std::max(most_arguments, arguments);
    most_symbols = std::max(most_symbols, symbols);
    all_arguments += arguments;
    all_symbols += symbols;
    sizes.launches += launches;
  }
  state.graphs = state.device->make_graphs(sizes);
  const bool all = state.graphs != nullptr;  // what is recorded lies side by side
  state.argument_count = static_cast<std::int32_t>(all ? all_arguments : most_arguments);
  state.value_count = static_cast<std::int32_t>(all ? all_symbols : most_symbols);
  const std::size_t words = static_cast<std::size_t>(state.address_count + state.argument_count + state.value_count) +
                            state.slot_bytes.size() + state.kernels.size();
  state.table_bytes = static_cast<std::int64_t>(words * sizeof(void*));
}

void find_symbol_sources(Plan::State& state) {
  const PlanSpec& spec = state.spec;
  std::vector<bool> known(spec.symbols.size(), false);
  // Which symbols an expression uses, by whether its text names them; specs are small and this runs once.
  const auto unknown_of = [&](const SizeExpr& expr) {
    std::vector<std::int32_t> unknown;
    const std::string padded = " " + expr.text() + " ";
    for (std::size_t s = 0; s < spec.symbols.size(); ++s)
      if (!known[s] && padded.find(" s" + std::to_string(s) + " ") != std::string::npos)
        unknown.push_back(static_cast<std::int32_t>(s));
    return unknown;
  };
  const auto scan = [&](bool direct) {
    bool found = false;
    for (std::int32_t t = 0; t < state.given; ++t) {
      const auto& shape = spec.tensors[static_cast<std::size_t>(t)].shape;
      for (std::size_t d = 0; d < shape.size(); ++d) {
        const auto unknown = unknown_of(shape[d]);
        if (unknown.size() != 1 || (direct && !(shape[d] == SizeExpr::symbol(unknown[0])))) continue;
        state.sources.push_back({unknown[0], t, static_cast<std::int32_t>(d), direct});
        known[static_cast<std::size_t>(unknown[0])] = true;
        found = true;
      }
    }
    return found;
  };
  scan(true);
  while (scan(false)) {}
  for (std::size_t s = 0; s < spec.symbols.size(); ++s)
    if (!known[s]) state.unsolved.push_back(static_cast<std::int32_t>(s));
}

Result<Plan> PlanAccess::make(PlanParts parts) {
  LW_CHECK(check_spec(parts.spec));
  auto state = std::make_shared<Plan::State>();
  state->spec = std::move(parts.spec);
  state->device = parts.device != nullptr ? std::move(parts.device) : shared_cpu_device();
  const auto& tensors = state->spec.tensors;
  const auto is_workspace = [](const PlanTensor& tensor) { return tensor.role == ArgRole::workspace; };
  state->given =
      static_cast<std::int32_t>(std::find_if(tensors.begin(), tensors.end(), is_workspace) - tensors.begin());
  state->kernels.resize(state->spec.kernels.size());
  LW_CHECK(load_variants(*state, std::move(parts.variants)));
  number_flights(*state);
  place_buffers(*state);
  size_tables(*state);
  find_symbol_sources(*state);
  for (std::size_t k = 0; k < state->kernels.size(); ++k) {
    if (k < parts.notes.size()) state->kernels[k].notes = std::move(parts.notes[k]);
    if (k < parts.misses.size()) state->kernels[k].misses = std::move(parts.misses[k]);
  }
  return Plan(std::move(state));
}

const Plan::State& PlanAccess::state(const Plan& plan) { return *plan.state_; }
std::shared_ptr<const Plan::State> PlanAccess::share(const Plan& plan) { return plan.state_; }

}  // namespace runtime

Result<Plan> Plan::make(PlanSpec spec, std::vector<std::vector<Variant>> variants,
                        std::vector<Match> matches) {
  for (std::size_t k = 0; k < std::min(matches.size(), variants.size()); ++k)
    for (Variant& variant : variants[k]) variant.match = matches[k];
  runtime::PlanParts parts;
  parts.spec = std::move(spec);
  parts.variants = std::move(variants);
  return runtime::PlanAccess::make(std::move(parts));
}

const PlanSpec& Plan::spec() const { return state_->spec; }

std::int64_t Plan::arena_bytes(std::span<const std::int64_t> symbols) const {
  if (symbols.size() != state_->spec.symbols.size()) return 0;
  const std::int64_t slots = state_->place_slots(symbols.data(), nullptr);
  const std::int64_t scratch =
      state_->scratch_workers == 0 ? 0 : state_->scratch_stride.evaluate(symbols.data());
  std::int64_t total = 0;
  const bool overflow = __builtin_mul_overflow(scratch, state_->scratch_workers, &total) ||
                        __builtin_add_overflow(total, slots, &total);
  return overflow ? INT64_MAX : total;
}

}  // namespace loopwright
