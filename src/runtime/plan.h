// A plan made ready: tables that `launch` reads and never changes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "loopwright/runtime.h"
#include "src/runtime/device.h"
#include "src/runtime/fast_size.h"
#include "src/runtime/misses.h"
#include "src/runtime/variant_table.h"

namespace loopwright::runtime {

/// Symbols of one artifact: they are copied to the stack of the call.
inline constexpr std::size_t kMaxKernelSymbols = 16;
/// Deeper size programs are refused when a plan is made, which leaves room for what the plan builds from them.
inline constexpr int kMaxSpecDepth = 24;

/// Positions, types and references of a spec; malformed_ir with what is wrong.
Status check_spec(const PlanSpec& spec);

/// A buffer that exists only while its kernel runs.
struct Workspace {
  std::int32_t address = 0;  ///< position in the call's table of addresses
  FastSize bytes;            ///< over the plan's symbols, rounded to blocks
  bool zeroed = false;       ///< lies in MemoryKind::zeroed, not in the arena
};

struct VariantState {
  Variant variant;
  Guard guard;  ///< the variant's and the artifact's together
  std::shared_ptr<const LoadedArtifact> loaded;
  std::vector<std::int32_t>
      addresses;  ///< for each artifact argument its position in the call's table of addresses
  std::vector<std::int32_t> symbols;  ///< for each artifact symbol its position among the plan's
  std::vector<Workspace> workspaces;
  bool takes_pointers = false;  ///< the arguments are the plan's tensors in order: no table is needed
  bool takes_symbols = false;   ///< the same for the symbols
};

struct KernelState {
  std::vector<VariantState> variants;
  VariantTable table;
  int flight = 0;                     ///< see flights.h
  std::vector<std::int32_t> inputs;   ///< positions of addresses that alignment guards speak of
  std::int32_t workspace_slot = -1;   ///< slot of the arena for the variant's workspaces
  std::vector<std::string> notes;     ///< variants that exist and cannot be served, and why
  std::shared_ptr<MissTable> misses;  ///< null when nobody wants to know
};

/// Where `run` reads a symbol's value.
struct SymbolSource {
  std::int32_t symbol = 0;
  std::int32_t tensor = 0;
  std::int32_t dimension = 0;
  bool direct =
      true;  ///< the dimension is the symbol itself; else it is solved for, the other symbols being known
};

/// What a plan is made from; Plan::make gives only the first two.
struct PlanParts {
  PlanSpec spec;
  std::vector<std::vector<Variant>> variants;
  std::shared_ptr<const Device> device;            ///< null = shared_cpu_device()
  std::vector<std::vector<std::string>> notes;     ///< for each kernel, or empty
  std::vector<std::shared_ptr<MissTable>> misses;  ///< for each kernel, or empty; null = nobody wants to know
};

/// The door to a plan's inside for the runtime itself.
struct PlanAccess {
  static Result<Plan> make(PlanParts parts);
  static const Plan::State& state(const Plan& plan);
  static std::shared_ptr<const Plan::State> share(const Plan& plan);
};

/// Fills what follows from the spec and its variants. Used by PlanAccess::make.
Status load_variants(Plan::State& state, std::vector<std::vector<Variant>> variants);
void number_flights(Plan::State& state);
void place_buffers(Plan::State& state);
void size_tables(Plan::State& state);
void find_symbol_sources(Plan::State& state);

}  // namespace loopwright::runtime

namespace loopwright {

struct Plan::State {
  PlanSpec spec;
  std::shared_ptr<const runtime::Device> device;
  std::vector<runtime::KernelState> kernels;
  std::int32_t given = 0;  ///< tensors that the caller gives: the first ones of the spec

  // The arena: slots one after the other, then scratch of each worker.
  std::vector<runtime::FastSize> slot_bytes;
  std::vector<std::int32_t> slot_of;  ///< for each tensor after the given ones
  runtime::FastSize zeroed_bytes;  ///< of the flight with most zeroed workspace; every kernel leaves it zero
  runtime::FastSize scratch_stride;  ///< the largest of any launch, rounded to blocks
  std::int32_t scratch_workers = 0;  ///< 0 when no launch needs scratch

  std::int32_t address_count = 0;   ///< tensors, then the workspaces of the kernel with most of them
  std::int32_t argument_count = 0;  ///< arguments of the kernel with most of them; of all kernels where there are graphs
  std::int32_t value_count = 0;     ///< the same of symbols
  std::int64_t table_bytes = 0;     ///< of the host tables of a call that is not direct
  bool direct = false;              ///< one kernel, no arena: pointers and symbols go straight through

  std::unique_ptr<runtime::PlanGraphs> graphs;  ///< null where `launch_graph` is `launch`

  std::vector<runtime::SymbolSource> sources;  ///< in an order in which they can be solved
  std::vector<std::int32_t> unsolved;          ///< symbols that no tensor's shape determines

  ErrorCode launch_direct(void* const* pointers, const std::int64_t* symbols, void* stream) const noexcept;
  /// `recorder`: null, or what takes the launches instead of the device.
  ErrorCode launch_all(void* const* pointers, const std::int64_t* symbols, void* stream,
                       runtime::ThreadGraphs* recorder) const noexcept;
  bool in_range(const std::int64_t* symbols) const noexcept;
  /// Bytes of the slots alone, INT64_MAX when they do not fit; writes the offset of each unless `offsets` is null.
  std::int64_t place_slots(const std::int64_t* symbols, std::int64_t* offsets) const noexcept;
};

}  // namespace loopwright
