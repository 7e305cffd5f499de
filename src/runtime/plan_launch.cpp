// The hot path. Nothing here allocates, locks, throws or looks at a string.
#include <algorithm>

#include "src/runtime/plan.h"
#include "src/runtime/thread_memory.h"

namespace loopwright {

using runtime::KernelCall;
using runtime::KernelState;
using runtime::VariantState;

namespace {

std::uint64_t join_addresses(const KernelState& kernel, void* const* addresses) noexcept {
  std::uint64_t bits = 0;
  for (const std::int32_t i : kernel.inputs) bits |= reinterpret_cast<std::uintptr_t>(addresses[i]);
  return bits;
}

/// Whether somebody wants to know.
bool count_miss(const KernelState& kernel, const PlanKernel& spec, const std::int64_t* symbols) noexcept {
  if (kernel.misses == nullptr || spec.symbols.size() > runtime::kMaxKernelSymbols) return false;
  std::int64_t values[runtime::kMaxKernelSymbols] = {};
  for (std::size_t i = 0; i < spec.symbols.size(); ++i) values[i] = symbols[spec.symbols[i]];
  kernel.misses->add(values);
  return true;
}

/// Null when no guard holds. `counted`: set when every such call has to be counted.
const VariantState* choose_variant(const KernelState& kernel, const PlanKernel& spec, void* const* addresses,
                                   const std::int64_t* symbols, bool& counted) noexcept {
  const std::uint64_t bits = kernel.table.needs_addresses() ? join_addresses(kernel, addresses) : 0;
  const int index = kernel.table.choose(symbols, bits);
  if (index < 0) {
    count_miss(kernel, spec, symbols);
    return nullptr;
  }
  const VariantState& variant = kernel.variants[static_cast<std::size_t>(index)];
  if (variant.variant.match == Match::untuned) [[unlikely]]
    counted |= count_miss(kernel, spec, symbols);
  return &variant;
}

const std::int64_t* gather_symbols(const VariantState& variant, const std::int64_t* symbols,
                                   std::int64_t* into) noexcept {
  if (variant.takes_symbols) return symbols;
  for (std::size_t i = 0; i < variant.symbols.size(); ++i) into[i] = symbols[variant.symbols[i]];
  return into;
}

}  // namespace

bool Plan::State::in_range(const std::int64_t* symbols) const noexcept {
  int outside = 0;  // no branch for each symbol: all are inside nearly always
  for (std::size_t i = 0; i < spec.symbols.size(); ++i)
    outside |=
        static_cast<int>(symbols[i] < spec.symbols[i].lo) | static_cast<int>(symbols[i] > spec.symbols[i].hi);
  return outside == 0;
}

std::int64_t Plan::State::place_slots(const std::int64_t* symbols, std::int64_t* offsets) const noexcept {
  std::int64_t total = 0;
  for (std::size_t s = 0; s < slot_bytes.size(); ++s) {
    if (offsets != nullptr) offsets[s] = total;
    const std::int64_t bytes = std::max<std::int64_t>(0, slot_bytes[s].evaluate(symbols));
    if (__builtin_add_overflow(total, bytes, &total)) return INT64_MAX;
  }
  return total;
}

ErrorCode Plan::State::launch_direct(void* const* pointers, const std::int64_t* symbols,
                                     void* stream) const noexcept {
  const KernelState& kernel = kernels[0];
  bool counted = false;
  const VariantState* variant = choose_variant(kernel, spec.kernels[0], pointers, symbols, counted);
  if (variant == nullptr) return ErrorCode::no_variant;
  std::int64_t values[runtime::kMaxKernelSymbols];
  return device->launch(*variant->loaded,
                        {pointers, gather_symbols(*variant, symbols, values), nullptr, 0, stream});
}

ErrorCode Plan::State::launch_all(void* const* pointers, const std::int64_t* symbols, void* stream,
                                  runtime::ThreadGraphs* recorder) const noexcept {
  std::byte* tables = runtime::reserve_thread_memory(runtime::ThreadBlock::tables, table_bytes);
  if (tables == nullptr) return ErrorCode::out_of_memory;
  auto** addresses = reinterpret_cast<void**>(tables);
  auto** chosen = addresses + address_count;
  auto** buffers = chosen + kernels.size();
  auto* slots = reinterpret_cast<std::int64_t*>(buffers + argument_count);
  auto* values = slots + slot_bytes.size();

  const std::int64_t slots_end = place_slots(symbols, slots);
  const std::int64_t stride =
      scratch_workers == 0 ? 0 : std::max<std::int64_t>(0, scratch_stride.evaluate(symbols));
  std::int64_t total = 0;
  if (__builtin_mul_overflow(stride, scratch_workers, &total) ||
      __builtin_add_overflow(total, slots_end, &total) || slots_end == INT64_MAX)
    return ErrorCode::out_of_memory;
  std::byte* arena = total == 0 ? nullptr : device->reserve(runtime::MemoryKind::arena, total, stream);
  const std::int64_t zeroed_total = std::max<std::int64_t>(0, zeroed_bytes.evaluate(symbols));
  std::byte* zeros =
      zeroed_total == 0 ? nullptr : device->reserve(runtime::MemoryKind::zeroed, zeroed_total, stream);
  if ((arena == nullptr && total > 0) || (zeros == nullptr && zeroed_total > 0))
    return ErrorCode::out_of_memory;
  const runtime::GraphCall graph_call{pointers, symbols, arena, zeros, stream};
  ErrorCode code = ErrorCode::ok;
  if (recorder != nullptr && recorder->replay(graph_call, code)) return code;

  std::copy_n(pointers, given, addresses);
  for (std::size_t i = 0; i < slot_of.size(); ++i)
    addresses[static_cast<std::size_t>(given) + i] = arena + slots[slot_of[i]];
  // All choices before the first launch: a plan runs as a whole or not at all.
  bool counted = false;
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    const VariantState* variant = choose_variant(kernels[k], spec.kernels[k], addresses, symbols, counted);
    if (variant == nullptr) return ErrorCode::no_variant;
    chosen[k] = const_cast<VariantState*>(variant);
  }
  runtime::Flight flight;
  std::byte* zeroed = zeros;
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    const auto& variant = *static_cast<const VariantState*>(chosen[k]);
    auto* workspace = kernels[k].workspace_slot < 0 ? nullptr : arena + slots[kernels[k].workspace_slot];
    if (k > 0 && kernels[k].flight != kernels[k - 1].flight) {
      flight.filled = 0;
      zeroed = zeros;
    }
    for (const runtime::Workspace& w : variant.workspaces) {
      std::byte*& next = w.zeroed ? zeroed : workspace;
      addresses[w.address] = next;
      next += std::max<std::int64_t>(0, w.bytes.evaluate(symbols));
    }
    void* const* arguments = addresses;
    if (!variant.takes_pointers) {
      for (std::size_t i = 0; i < variant.addresses.size(); ++i) buffers[i] = addresses[variant.addresses[i]];
      arguments = buffers;
    }
    flight.goes_on = k + 1 < kernels.size() && kernels[k].flight == kernels[k + 1].flight;
    const KernelCall call{arguments, gather_symbols(variant, symbols, values), arena + slots_end, stride,
                          stream, &flight};
    code = recorder == nullptr ? device->launch(*variant.loaded, call) : recorder->record(*variant.loaded, call);
    if (code != ErrorCode::ok) return code;
    if (recorder != nullptr) {
      buffers += variant.addresses.size();
      values += variant.symbols.size();
    }
  }
  return recorder == nullptr ? ErrorCode::ok : recorder->launch(graph_call, !counted);
}

ErrorCode Plan::launch(void* const* pointers, const std::int64_t* symbols, void* stream) const noexcept {
  const State& state = *state_;
  if (!state.in_range(symbols)) return ErrorCode::out_of_range;
  return state.direct ? state.launch_direct(pointers, symbols, stream)
                      : state.launch_all(pointers, symbols, stream, nullptr);
}

ErrorCode Plan::launch_graph(void* const* pointers, const std::int64_t* symbols, void* stream) const noexcept {
  const State& state = *state_;
  runtime::ThreadGraphs* recorder = state.graphs == nullptr ? nullptr : state.graphs->of_thread(stream);
  if (recorder == nullptr) return launch(pointers, symbols, stream);
  if (!state.in_range(symbols)) return ErrorCode::out_of_range;
  return state.launch_all(pointers, symbols, stream, recorder);
}

}  // namespace loopwright
