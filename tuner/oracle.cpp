// What WorkerDevice verifies against: float64 kernels, run in the worker.
#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "tuner/doubt.h"
#include "tuner/measure.h"
#include "tuner/parallel.h"

namespace loopwright::tuner {

using nlohmann::json;

/// Runs the float64 kernels on the case's inputs, before any candidate has touched the case.
Status WorkerDevice::run_reference(Case& c) {
  const auto from = std::chrono::steady_clock::now();
  LW_TRY(Results expected, run_oracle("reference:" + setup_.workload, *setup_.reference, c));
  Results doubt;
  if (setup_.doubt != nullptr) {
    LW_TRY(doubt, run_oracle("doubt:" + setup_.workload, *setup_.doubt, c));
  }
  c.reference_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
  for (CaseBuffer& b : c.buffers) {
    if (b.role == ArgRole::input) continue;
    b.content->expected = std::move(expected.at(b.name));
    if (const auto at = doubt.find(doubt_name(b.name)); at != doubt.end()) b.content->doubt = std::move(at->second);
    for (const auto& o : setup_.graph->outputs()) {
      if (o.name == b.name) b.tolerance = find_tolerance(*setup_.graph, o.value, c.probe);
    }
    for (const auto& u : setup_.graph->updates()) {
      if (setup_.graph->node(u.input).name == b.name) b.tolerance = find_tolerance(*setup_.graph, u.value, c.probe);
    }
  }
  return Unit{};
}

/// It is compiled code too, so it runs in the worker; its results are copied here, where no candidate can reach them.
Result<WorkerDevice::Results> WorkerDevice::run_oracle(const std::string& key, const Artifact& oracle, Case& c) {
  Arena& arena = worker_->arena();
  const auto fail = [&](const Step& step) {
    return Error{.code = step.code, .asked = "run the float64 reference", .found = step.detail};
  };
  if (Step step = load(key, oracle); step.outcome != Outcome::ok) return fail(step);
  if (Step step = place_workspace(oracle, c.probe, false); step.outcome != Outcome::ok) return fail(step);
  std::uint64_t next = workspace_.empty() ? arena.bytes() / 4 * 3 : workspace_.back().zone_after;
  const Loaded& loaded = loaded_.at(key);
  const bool on_gpu = gpu_.has_value() && std::string_view(loaded.on) != "cpu";
  const auto symbols = symbol_values(oracle.symbols, c.probe);
  const auto span_of = [&](const ArtifactArg& arg) {
    return count_span(evaluate_all(arg.shape, symbols), evaluate_all(arg.strides, symbols));
  };
  const auto buffer_of = [&](const ArtifactArg& arg) -> const CaseBuffer& {
    const auto at = std::find_if(c.buffers.begin(), c.buffers.end(), [&](const CaseBuffer& b) { return b.name == arg.name; });
    LW_BUG_IF(at == c.buffers.end(), "the case has no buffer " + arg.name);
    return *at;
  };
  json results = json::array();
  std::vector<std::uint64_t> offsets;
  std::size_t space = 0;
  for (const ArtifactArg& arg : oracle.args) {
    if (arg.role == ArgRole::workspace) {
      offsets.push_back(workspace_[space++].data);
      continue;
    }
    if (arg.role == ArgRole::input) {
      offsets.push_back(buffer_of(arg).place.data);
      continue;
    }
    // Results go to memory of their own, in the oracle's dtype.
    next = (next + 127) / 128 * 128;
    const auto bytes = static_cast<std::uint64_t>(span_of(arg) * size_bytes(arg.dtype));
    if (next + bytes > arena.bytes()) {
      return Error{.code = ErrorCode::too_large, .asked = "run the float64 reference", .found = "its results do not fit"};
    }
    fill_poison(arg.dtype, arena.at(next), static_cast<std::int64_t>(bytes), false);
    if (arg.role == ArgRole::inout) {
      const CaseBuffer& b = buffer_of(arg);
      for (std::int64_t i = 0; i < b.span; ++i)
        write_element(arg.dtype, arena.at(next), i, read_element(b.dtype, b.content->pristine.data(), i));
    }
    if (on_gpu) {
      if (const Step step = mirror(next, std::max<std::uint64_t>(bytes, 1)); step.outcome != Outcome::ok) return fail(step);
      results.push_back(json::array({next, bytes}));
    }
    offsets.push_back(next);
    next += bytes;
  }
  json order{{"command", "run"}, {"on", loaded.on}, {"kernel", loaded.id}, {"buffers", offsets}, {"symbols", symbols}};
  if (on_gpu) {
    if (const Step step = mirror_case(c); step.outcome != Outcome::ok) return fail(step);
    if (const Step step = mirror_workspace(oracle); step.outcome != Outcome::ok) return fail(step);
    order["download"] = results;
  }
  const Step step = command(order.dump(), static_cast<std::int64_t>(settings_.reference_limit_s * 1e3));
  if (step.outcome != Outcome::ok) return fail(step);
  Results read;
  for (std::size_t a = 0; a < oracle.args.size(); ++a) {
    const ArtifactArg& arg = oracle.args[a];
    if (arg.role == ArgRole::workspace || arg.role == ArgRole::input) continue;
    const std::vector<std::int64_t> positions = list_positions(evaluate_all(arg.shape, symbols), evaluate_all(arg.strides, symbols));
    const auto count = positions.empty() ? span_of(arg) : static_cast<std::int64_t>(positions.size());
    std::vector<double>& values = read[arg.name];
    values.resize(static_cast<std::size_t>(count));
    for_each_part(count, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        values[i] = read_element(arg.dtype, arena.at(offsets[a]), positions.empty() ? i : positions[i]);
    });
  }
  return read;
}

}  // namespace loopwright::tuner
