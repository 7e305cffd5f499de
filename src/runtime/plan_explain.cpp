// Answers for people: which variant serves, and why not another.
#include <cinttypes>
#include <cstdio>

#include "src/runtime/plan.h"

namespace loopwright {
namespace {

Status check_symbols(const Plan::State& state, std::span<const std::int64_t> symbols) {
  const auto& expected = state.spec.symbols;
  if (symbols.size() != expected.size())
    return Error{ErrorCode::wrong_arguments, "explain the plan " + state.spec.name,
                 std::to_string(symbols.size()) + " symbol values", "",
                 std::to_string(expected.size()) + " values, in the order of the plan's symbols"};
  for (std::size_t i = 0; i < symbols.size(); ++i)
    if (symbols[i] < expected[i].lo || symbols[i] > expected[i].hi)
      return Error{
          ErrorCode::out_of_range, "explain the plan " + state.spec.name,
          expected[i].name + " = " + std::to_string(symbols[i]), "",
          expected[i].name + " in " + std::to_string(expected[i].lo) + ".." + std::to_string(expected[i].hi)};
  return Unit{};
}

/// Addresses are not known here; allocators give 64-byte alignment to buffers that matter.
constexpr std::uint64_t kAssumedAddress = 64;

std::string loss_text(const Variant& variant) {
  if (variant.match == Match::untuned) return "not tuned";
  char text[96];
  std::snprintf(text, sizeof text, "loss %.1f %% mean, %.1f %% worst", 100 * variant.loss_mean,
                100 * variant.loss_worst);
  return text;
}

Bindings bind(const PlanKernel& kernel, std::span<const std::int64_t> symbols) {
  Bindings values;
  for (std::size_t i = 0; i < kernel.symbols.size(); ++i)
    values[kernel.symbol_names[i]] = symbols[static_cast<std::size_t>(kernel.symbols[i])];
  return values;
}

std::string symbol_text(const PlanSpec& spec, const PlanKernel& kernel,
                        std::span<const std::int64_t> symbols) {
  std::string out;
  for (std::size_t i = 0; i < kernel.symbols.size(); ++i) {
    const auto s = static_cast<std::size_t>(kernel.symbols[i]);
    out += (i == 0 ? " at " : ", ") + kernel.symbol_names[i] + " = " + spec.symbols[s].name + " = " +
           std::to_string(symbols[s]);
  }
  return out;
}

void add_kernel(std::string& out, const Plan::State& state, std::size_t k,
                std::span<const std::int64_t> symbols) {
  const PlanKernel& spec = state.spec.kernels[k];
  const runtime::KernelState& kernel = state.kernels[k];
  const int served = kernel.table.choose(symbols.data(), kAssumedAddress);
  const Bindings values = bind(spec, symbols);
  out += "kernel " + std::to_string(k) + ": " + spec.family + ", workload " + spec.workload.substr(0, 12) +
         symbol_text(state.spec, spec, symbols) + "\n";
  for (std::size_t v = 0; v < kernel.variants.size(); ++v) {
    const runtime::VariantState& variant = kernel.variants[v];
    const bool serves = static_cast<int>(v) == served;
    const char* reason = serves                        ? "serves"
                         : variant.guard.holds(values) ? "would hold, less preferred"
                                                       : "does not hold";
    out += std::string(serves ? "  > " : "    ") + std::string(name(variant.variant.match)) + "  " +
           variant.guard.text() + "  " + variant.variant.label + "  (" + loss_text(variant.variant) +
           "): " + reason + "\n";
  }
  if (served < 0) out += "  nothing serves these sizes: no_variant\n";
  for (const std::string& note : kernel.notes) out += "    not considered: " + note + "\n";
}

}  // namespace

std::string_view name(Origin origin) {
  switch (origin) {
    case Origin::tuned: return "tuned";
    case Origin::stored: return "stored default";
    case Origin::kept: return "kept default";
    case Origin::compiled: return "default";
  }
  return "";
}

Result<std::vector<Plan::Choice>> Plan::choose(std::span<const std::int64_t> symbols) const {
  LW_CHECK(check_symbols(*state_, symbols));
  std::vector<Choice> choices;
  for (std::size_t k = 0; k < state_->kernels.size(); ++k) {
    const PlanKernel& spec = state_->spec.kernels[k];
    const int served = state_->kernels[k].table.choose(symbols.data(), kAssumedAddress);
    if (served < 0)
      return Error{
          ErrorCode::no_variant, "choose variants of the plan " + state_->spec.name, "no guard holds",
          "kernel " + std::to_string(k) + " (" + spec.family + ")" + symbol_text(state_->spec, spec, symbols),
          "sizes within the tuned ranges, or a general variant"};
    const runtime::VariantState& variant = state_->kernels[k].variants[static_cast<std::size_t>(served)];
    Choice choice;
    choice.kernel = static_cast<int>(k);
    choice.family = spec.family;
    choice.workload = spec.workload;
    choice.label = variant.variant.label;
    choice.guard = variant.guard.text();
    choice.match = variant.variant.match;
    choice.loss_mean = variant.variant.loss_mean;
    choice.loss_worst = variant.variant.loss_worst;
    choice.is_tuned = choice.match != Match::untuned;
    choice.origin = variant.variant.origin;
    choice.median_ns = variant.variant.median_ns;
    choices.push_back(std::move(choice));
  }
  return choices;
}

Result<std::string> Plan::explain(std::span<const std::int64_t> symbols) const {
  LW_CHECK(check_symbols(*state_, symbols));
  std::string out = "plan " + state_->spec.name + ", graph " + state_->spec.graph_digest.substr(0, 12) +
                    ", arena " + std::to_string(arena_bytes(symbols)) +
                    " bytes, buffers taken as aligned to 64 bytes\n";
  for (std::size_t k = 0; k < state_->kernels.size(); ++k) add_kernel(out, *state_, k, symbols);
  return out;
}

}  // namespace loopwright
