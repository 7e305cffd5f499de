// The verification half of WorkerDevice: nothing is timed before it passed here.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>

#include "tuner/measure.h"
#include "tuner/parallel.h"

namespace loopwright::tuner {
namespace {

using nlohmann::json;

/// Beyond this a reference run is not repeated with a second seed at the same probe.
constexpr double kSlowReferenceS = 3;
constexpr std::int64_t kMaxRememberedBytes = 512ll << 20;

std::string name_case(const std::string& workload, const Case& c) {
  std::string name = workload + " " + std::to_string(c.seed);
  for (const auto& [symbol, value] : c.probe) name += " " + symbol + "=" + std::to_string(value);
  return name;
}

double read_run_ns(const std::string& reply) { return json::parse(reply).value("ns", 0.0); }

}  // namespace

void WorkerDevice::remember(const Case& c) {
  std::int64_t bytes = 0;
  for (const CaseBuffer& b : c.buffers) {
    bytes += static_cast<std::int64_t>(b.content->pristine.size() + (b.content->expected.size() + b.content->doubt.size()) * sizeof(double));
  }
  if (remembered_bytes_ + bytes > kMaxRememberedBytes) {
    remembered_.clear();
    remembered_bytes_ = 0;
  }
  if (bytes > kMaxRememberedBytes) return;
  remembered_bytes_ += bytes;
  remembered_[name_case(setup_.workload, c)] = {c.buffers, c.reference_s};
}

void WorkerDevice::plan_cases() {
  std::int64_t seed = static_cast<std::int64_t>(setup_.seed % 1000000) * 16 + 1;
  const auto add = [&](const Bindings& probe, Draw draw, Placement placement) {
    cases_.push_back({.probe = probe, .seed = seed, .draw = draw, .placement = placement});
  };
  for (std::size_t i = 0; i < setup_.verify_probes.size(); ++i) {
    const bool is_main = i + 1 == setup_.verify_probes.size();
    const Bindings& probe = setup_.verify_probes[i];
    if (is_main) {
      add(probe, Draw::normal, Placement::aligned);
      ++seed;
      // One of these two: buffers aligned to the element alone, for candidates that do not ask for more.
      add(probe, Draw::positive, Placement::exact);
      add(probe, Draw::positive, Placement::aligned);
    } else {
      const Draw draw = i % 2 == 0 ? Draw::normal : Draw::positive;
      add(probe, draw, Placement::exact);
      add(probe, draw, Placement::aligned);
    }
    ++seed;
  }
  for (const Bindings& probe : setup_.final_probes) {
    for (const Placement placement : {Placement::exact, Placement::aligned}) {
      add(probe, Draw::normal, placement);
      cases_.back().is_final = true;
    }
    ++seed;
  }
}

bool WorkerDevice::can_use(const Candidate& candidate, const Case& c) const {
  const Guard& guard = candidate.artifact->guard;
  if (!guard.holds(c.probe)) return false;
  if (guard.alignment_bytes <= 1) {
    // Exact placement shows more; the aligned twin of the same seed would show nothing new.
    if (c.placement == Placement::exact) return true;
    for (const Case& other : cases_) {
      if (&other != &c && other.seed == c.seed && other.placement == Placement::exact) return false;
    }
    return true;
  }
  return c.placement == Placement::aligned;
}

Status WorkerDevice::prepare(Case& c) {
  if (c.prepared || !c.usable) return Unit{};
  c.bytes = count_case_bytes(*setup_.reference, c.probe);
  if (c.bytes > settings_.max_case_bytes) {
    c.usable = false;
    return Unit{};
  }
  for (const Case& other : cases_) {
    const bool same_probe = other.prepared && other.probe == c.probe && other.seed != c.seed;
    if (same_probe && other.reference_s > kSlowReferenceS) c.usable = false;
  }
  if (!c.usable) return Unit{};
  const Case* twin = nullptr;
  for (const Case& other : cases_) {
    if (other.prepared && other.seed == c.seed && other.probe == c.probe) twin = &other;
  }
  const auto known = remembered_.find(name_case(setup_.workload, c));
  const bool has_contents = twin != nullptr || known != remembered_.end();
  c.buffers = twin != nullptr              ? twin->buffers
              : known != remembered_.end() ? known->second.buffers
                                           : make_case_buffers(*setup_.reference, *setup_.naive, c.probe, c.draw,
                                                               static_cast<std::uint64_t>(c.seed));
  if (known != remembered_.end()) c.reference_s = known->second.reference_s;
  LW_CHECK(ensure_worker());
  Arena& arena = worker_->arena();
  json zones = json::array();
  for (CaseBuffer& b : c.buffers) {
    b.place = place_buffer(next_place_, static_cast<std::uint64_t>(b.span * size_bytes(b.dtype)), size_bytes(b.dtype),
                           c.placement);
    if (next_place_ > arena.bytes() / 2) {
      c.usable = false;
      return Unit{};
    }
    if (gpu_) {
      // A GPU has no forbidden pages of this size: known bytes lie there instead.
      b.place.front = b.place.zone_before;
      b.place.zone_after += kZoneBytes;
    } else {
      zones.push_back({b.place.zone_before, kZoneBytes});
      zones.push_back({b.place.zone_after, kZoneBytes});
    }
    paint_canaries(arena, b.place);
    copy_parts(arena.at(b.place.data), b.content->pristine.data(), b.content->pristine.size());
  }
  if (!has_contents) {
    LW_CHECK(run_reference(c));
    remember(c);
  }
  if (!zones.empty()) {
    // The reference may have needed a new process, which was told of the cases prepared so far.
    const Step step = command(json{{"command", "guard"}, {"on", true}, {"zones", zones}}.dump(), 10000);
    if (step.outcome != Outcome::ok) {
      return Error{.code = step.code, .asked = "guard buffers in the worker", .found = step.detail};
    }
  }
  c.prepared = true;
  return Unit{};
}

std::vector<std::uint64_t> WorkerDevice::case_offsets(const Artifact& artifact, const Case& c) const {
  std::vector<std::uint64_t> offsets;
  std::size_t tensor = 0, space = 0;
  for (const ArtifactArg& arg : artifact.args) {
    offsets.push_back(arg.role == ArgRole::workspace ? workspace_[space++].data : c.buffers[tensor++].place.data);
  }
  return offsets;
}

WorkerDevice::Step WorkerDevice::run_once(const Candidate& candidate, Case& c, bool second) {
  const Artifact& artifact = *candidate.artifact;
  if (Step step = load(candidate.digest, artifact); step.outcome != Outcome::ok) return step;
  if (Step step = place_workspace(artifact, c.probe, second); step.outcome != Outcome::ok) return step;
  if (Step step = mirror_case(c); step.outcome != Outcome::ok) return step;
  if (Step step = mirror_workspace(artifact); step.outcome != Outcome::ok) return step;
  Arena& arena = worker_->arena();
  for (CaseBuffer& b : c.buffers) {
    if (b.role == ArgRole::output && !gpu_) fill_poison(b.dtype, arena.at(b.place.data), static_cast<std::int64_t>(b.place.bytes), second);
    if (b.role == ArgRole::inout) copy_parts(arena.at(b.place.data), b.content->pristine.data(), b.content->pristine.size());
  }
  json order{{"command", "run"},
             {"kernel", loaded_.at(candidate.digest).id},
             {"buffers", case_offsets(artifact, c)},
             {"symbols", symbol_values(artifact.symbols, c.probe)}};
  if (gpu_) {
    order["fill"] = order["upload"] = order["download"] = json::array();
    for (const CaseBuffer& b : c.buffers) {
      // All ones is NaN in every float type; see fill_poison.
      if (b.role == ArgRole::output && b.place.bytes > 0)
        order["fill"].push_back(json::array({b.place.data, b.place.bytes, second ? 0xAA : 0xFF}));
      if (b.role == ArgRole::inout) order["upload"].push_back(json::array({b.place.data, b.place.bytes}));
      order["download"].push_back(json::array({b.place.front, b.place.zone_after - b.place.front}));
    }
    for (const GuardedBuffer& w : workspace_)
      order["download"].push_back(json::array({w.front, w.zone_after - w.front}));
  }
  if (const auto fault = faults_.find(candidate.digest); fault != faults_.end()) {
    for (const CaseBuffer& b : c.buffers) {
      if (b.role != ArgRole::input && b.place.bytes > 0) {
        order["fault"] = {{"kind", fault->second.kind}, {"offset", b.place.data}, {"bytes", b.place.bytes}};
      }
    }
  }
  suspect_ = suspect_.empty() || suspect_ == candidate.digest ? candidate.digest : "several";
  Step step = command(order.dump(), limit_ms());
  if (step.outcome != Outcome::ok) return step;
  Step around = check_surroundings(artifact, c);
  around.reply = std::move(step.reply);
  return around;
}

/// An earlier candidate may have left this process in a bad state: a crash or a hang counts when it happens again in a
/// process that ran nothing else.
WorkerDevice::Step WorkerDevice::run_retried(const Candidate& candidate, Case& c, bool second) {
  const bool alone = suspect_.empty() || suspect_ == candidate.digest;
  Step step = run_once(candidate, c, second);
  const bool ended = step.outcome == Outcome::crash || step.outcome == Outcome::timeout;
  if (ended && !alone && !worker_->is_alive()) step = run_once(candidate, c, second);
  return step;
}

WorkerDevice::Step WorkerDevice::check_surroundings(const Artifact& artifact, const Case& c) const {
  Arena& arena = worker_->arena();
  const auto fail = [](std::string detail) { return Step{Outcome::out_of_bounds, ErrorCode::out_of_bounds, std::move(detail), {}}; };
  Step step;
  for (const CaseBuffer& b : c.buffers) {
    if (const auto broken = find_broken_canary(arena, b.place)) {
      step = fail(fmt::format("changed byte {} of {}, which has {} bytes", *broken, b.name, b.place.bytes));
      paint_canaries(arena, b.place);
    }
    if (b.role == ArgRole::input && !equal_parts(arena.at(b.place.data), b.content->pristine.data(), b.content->pristine.size())) {
      step = fail("changed input " + b.name);
      copy_parts(arena.at(b.place.data), b.content->pristine.data(), b.content->pristine.size());
    }
  }
  std::size_t space = 0;
  for (const ArtifactArg& arg : artifact.args) {
    if (arg.role != ArgRole::workspace) continue;
    const GuardedBuffer& w = workspace_[space++];
    if (const auto broken = find_broken_canary(arena, w)) {
      step = fail(fmt::format("changed byte {} of a workspace of {} bytes", *broken, w.bytes));
    }
    const std::uint8_t* begin = arena.at(w.data);
    if (arg.zeroed && std::any_of(begin, begin + w.bytes, [](std::uint8_t b) { return b != 0; })) {
      step = {Outcome::wrong_result, ErrorCode::wrong_result, "left workspace other than zero that has to be zero", {}};
    }
  }
  return step;
}

bool WorkerDevice::check_outputs(const Case& c, CaseResult& result) const {
  bool passed = true;
  for (const CaseBuffer& b : c.buffers) {
    if (b.role == ArgRole::input) continue;
    const std::uint8_t* data = worker_->arena().at(b.place.data);
    const Deviation d = compare_output(b.dtype, data, b.positions, b.content->expected, b.content->doubt, b.tolerance);
    result.max_abs_error = std::max(result.max_abs_error, d.max_abs);
    result.max_rel_error = std::max(result.max_rel_error, d.max_rel);
    if (result.tolerance.empty() || !b.tolerance.is_exact()) result.tolerance = b.tolerance.text();
    if (d.passed) continue;
    passed = false;
    result.detail = fmt::format("{} of {} elements of {} are off ({}); the first is number {}: {} instead of {}",
                                d.outside, b.content->expected.size(), b.name, b.tolerance.text(), d.first, d.found, d.expected);
  }
  return passed;
}

bool WorkerDevice::is_hopeless(double run_ns, const Case& c) const {
  return c.best_run_ns > 0 && run_ns > settings_.hopeless_ns && run_ns > settings_.hopeless_factor * c.best_run_ns;
}

CaseResult WorkerDevice::verify_case(const Candidate& candidate, Case& c, Depth depth, Verdict& verdict) {
  CaseResult result{.probe = c.probe, .seed = c.seed};
  const auto fail = [&](Outcome outcome, ErrorCode code, const std::string& detail) {
    verdict.outcome = outcome;
    verdict.code = code;
    verdict.detail = detail;
    result.detail = detail;
    return result;
  };
  Step step = run_retried(candidate, c, false);
  result.red_zones_clean = step.outcome != Outcome::out_of_bounds;
  if (step.outcome != Outcome::ok) return fail(step.outcome, step.code, step.detail);
  if (!check_outputs(c, result)) return fail(Outcome::wrong_result, ErrorCode::wrong_result, result.detail);
  double run_ns = read_run_ns(step.reply);
  std::size_t at = 0;
  for (const CaseBuffer& b : c.buffers) at += b.role == ArgRole::input ? 0 : b.place.bytes;
  first_output_.resize(at);
  at = 0;
  for (const CaseBuffer& b : c.buffers) {
    if (b.role == ArgRole::input) continue;
    copy_parts(first_output_.data() + at, worker_->arena().at(b.place.data), b.place.bytes);
    at += b.place.bytes;
  }
  step = run_retried(candidate, c, true);
  result.red_zones_clean = step.outcome != Outcome::out_of_bounds;
  if (step.outcome != Outcome::ok) return fail(step.outcome, step.code, step.detail);
  run_ns = std::min(run_ns, read_run_ns(step.reply));
  at = 0;
  for (const CaseBuffer& b : c.buffers) {
    if (b.role == ArgRole::input) continue;
    const std::uint8_t* data = worker_->arena().at(b.place.data);
    // Gaps of a strided output keep the poison, which differs between the two runs.
    const std::int64_t width = size_bytes(b.dtype);
    if (b.positions.empty()) {
      result.repeatable = result.repeatable && equal_parts(data, first_output_.data() + at, b.place.bytes);
    }
    for (const std::int64_t p : b.positions) {
      if (std::memcmp(data + p * width, first_output_.data() + at + p * width, static_cast<std::size_t>(width)) != 0) {
        result.repeatable = false;
      }
    }
    at += b.place.bytes;
  }
  if (!result.repeatable) {
    return fail(Outcome::nondeterministic, ErrorCode::nondeterministic, "two runs on the same inputs differ");
  }
  result.passed = true;
  // A search has no use for what cannot win, and the rest of its trial would cost as much as many good ones. With symbols
  // it may still win elsewhere.
  if (depth == Depth::quick && c.probe.empty() && is_hopeless(run_ns, c)) {
    return fail(Outcome::timeout, ErrorCode::timeout,
                fmt::format("given up: {:.3g} ms where the best takes {:.3g} ms", run_ns * 1e-6, c.best_run_ns * 1e-6));
  }
  if (c.best_run_ns == 0 || run_ns < c.best_run_ns) c.best_run_ns = run_ns;
  return result;
}

Verdict WorkerDevice::verify(const Candidate& candidate, Depth depth) {
  Verdict verdict;
  if (candidate.artifact->guard.alignment_bytes > 64) {
    verdict.outcome = Outcome::rejected;
    verdict.code = ErrorCode::unsupported;
    verdict.detail = fmt::format("assumes {}-byte alignment, the tuner gives 64", candidate.artifact->guard.alignment_bytes);
    return verdict;
  }
  for (Case& c : cases_) {
    if (c.is_final ? depth == Depth::quick : depth == Depth::rest) continue;
    if (!can_use(candidate, c)) continue;
    if (const auto status = prepare(c); !status.ok()) {
      verdict.outcome = Outcome::launch_error;
      verdict.code = status.error().code;
      verdict.detail = status.error().message();
      return verdict;
    }
    if (!c.usable) continue;
    verdict.cases.push_back(verify_case(candidate, c, depth, verdict));
    if (verdict.outcome != Outcome::ok) {
      // Whatever wrote where it should not may have harmed the process as well.
      if (verdict.outcome == Outcome::out_of_bounds && worker_->is_alive()) {
        if (const auto fresh = worker_->respawn(); fresh.ok()) ++respawns_;
      }
      return verdict;
    }
  }
  if (verdict.cases.empty() && depth != Depth::rest) {
    verdict.outcome = Outcome::rejected;
    verdict.code = ErrorCode::unsupported;
    verdict.detail = "no probe fits the guard " + candidate.artifact->guard.text();
  }
  return verdict;
}

}  // namespace loopwright::tuner
