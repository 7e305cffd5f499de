#include "tuner/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tuner/parallel.h"

namespace loopwright::tuner {
namespace {

using nlohmann::json;

constexpr std::uint64_t kArenaBytes = 64ull << 30;
constexpr std::uint64_t kImageAt = 1ull << 20;
constexpr std::uint64_t kImageEnd = 128ull << 20;
constexpr std::size_t kMaxLoaded = 64;


}  // namespace

std::string MeasureSettings::text() const {
  if (on_gpu())
    return fmt::format(
        "{{\"buffers\":\"{}\",\"clock\":\"events around graph replays\",\"finals\":\"interleaved\",\"max_sets\":{},"
        "\"replay_min_ns\":{},\"rotate_bytes\":{},\"statistic\":\"median\",\"version\":1}}",
        reuse_buffers ? "reused" : "rotated", max_sets, static_cast<std::int64_t>(min_sample_ns),
        rotate_bytes == 0 ? std::string("\"3*l2\"") : std::to_string(rotate_bytes));
  return fmt::format(
      "{{\"batch_min_ns\":{},\"clock\":\"steady\",\"finals\":\"interleaved\",\"max_batch\":{},\"max_sets\":{},"
      "\"rotate_bytes\":{},\"statistic\":\"median\",\"version\":1}}",
      static_cast<std::int64_t>(min_sample_ns), max_batch, max_sets,
      rotate_bytes == 0 ? std::string("\"2*l3\"") : std::to_string(rotate_bytes));
}

MeasureSettings gpu_settings(const std::string& device, bool reuse_buffers) {
  MeasureSettings settings;
  settings.device = device;
  settings.reuse_buffers = reuse_buffers;
  settings.min_sample_ns = 200e3;
  settings.max_sets = 256;
  settings.max_case_bytes = 8ll << 30;
  return settings;
}

MeasureSettings complete_settings(MeasureSettings settings, const Target& target) {
  if (settings.rotate_bytes != 0) return settings;
  const std::int64_t last = std::max(target.l3_bytes, target.l2_bytes);
  settings.rotate_bytes = (settings.on_gpu() ? 3 : 2) * last;
  // A machine that does not say how large its last cache is gets a guess that is large for most.
  if (last == 0) settings.rotate_bytes = 64 << 20;
  return settings;
}

std::int64_t count_sets(const MeasureSettings& settings, std::uint64_t set_bytes) {
  const auto wanted = settings.rotate_bytes / std::max<std::int64_t>(static_cast<std::int64_t>(set_bytes), 1) + 1;
  return settings.reuse_buffers ? 1 : std::clamp<std::int64_t>(wanted, 1, settings.max_sets);
}

std::int64_t read_clock_khz() {
  if (std::ifstream file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq"); file) {
    std::int64_t khz = 0;
    if (file >> khz) return khz;
  }
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("cpu MHz")) continue;
    const auto colon = line.find(':');
    if (colon != std::string::npos) return static_cast<std::int64_t>(std::atof(line.c_str() + colon + 1) * 1000);
  }
  return 0;
}

Result<std::unique_ptr<WorkerDevice>> WorkerDevice::start(const std::string& worker_path, const Target& target,
                                                          MeasureSettings settings) {
  std::unique_ptr<WorkerDevice> device(new WorkerDevice(std::move(settings), target));
  LW_TRY(const std::string program, find_worker(worker_path));
  LW_TRY(device->worker_, Worker::start(program, kArenaBytes));
  if (device->settings_.on_gpu()) {
    device->gpu_.emplace();
    // An older worker that was killed may still be going: its device is given back by then.
    if (const auto ready = device->ensure_worker(); !ready.ok()) return ready.error();
  }
  device->settings_ = complete_settings(std::move(device->settings_), target);
  return device;
}

std::int64_t WorkerDevice::limit_ms() const {
  if (default_ns_ <= 0) return static_cast<std::int64_t>(settings_.first_limit_s * 1e3);
  return static_cast<std::int64_t>(
      std::max(settings_.min_limit_s * 1e3, settings_.hang_factor * default_ns_ * 1e-6));
}

void WorkerDevice::set_default_time(double default_ns) { default_ns_ = default_ns; }

WorkerDevice::Step WorkerDevice::command(const std::string& text, std::int64_t timeout_ms) {
  const Reply reply = worker_->call(text, timeout_ms);
  if (reply.answer == Answer::timeout) {
    return {Outcome::timeout, ErrorCode::timeout, fmt::format("no answer within {} ms; the worker was killed", timeout_ms), {}};
  }
  if (reply.answer == Answer::died) {
    if (reply.faulted_in_arena) {
      return {Outcome::out_of_bounds, ErrorCode::out_of_bounds,
              fmt::format("touched a forbidden page at offset {:#x}", reply.fault_offset), {}};
    }
    return {Outcome::crash, ErrorCode::crash, fmt::format("the worker died by signal {} ({})", reply.signal,
                                                          reply.signal > 0 ? strsignal(reply.signal) : "it exited"), {}};
  }
  const json answer = json::parse(reply.text, nullptr, false);
  if (answer.is_discarded()) return {Outcome::crash, ErrorCode::crash, "the worker's answer is no JSON", {}};
  if (answer.value("ok", false)) return {Outcome::ok, ErrorCode::ok, {}, reply.text};
  const ErrorCode code = parse_error_code(answer.value("code", "bug")).value_or(ErrorCode::bug);
  if (answer.value("lost", false)) {
    // Nothing more can be done on the device by that process; the next command starts another.
    worker_->stop();
    const bool reached_out = code == ErrorCode::out_of_bounds;
    return {reached_out ? Outcome::out_of_bounds : Outcome::crash, reached_out ? code : ErrorCode::crash,
            answer.value("error", ""), {}};
  }
  return {code == ErrorCode::out_of_memory ? Outcome::resource : Outcome::launch_error, code, answer.value("error", ""), {}};
}

Status WorkerDevice::ensure_worker() {
  if (!worker_->is_alive()) {
    LW_CHECK(worker_->respawn());
    ++respawns_;
  }
  if (known_generation_ == worker_->generation()) return Unit{};
  known_generation_ = worker_->generation();
  loaded_.clear();
  suspect_.clear();
  if (gpu_) {
    const Step opened = open_gpu();
    if (opened.outcome == Outcome::ok) return Unit{};
    known_generation_ = -1;
    return Error{.code = opened.code, .asked = "measure on " + settings_.device, .found = opened.detail,
                 .works = "a GPU that answers and has memory left; nvidia-smi may say more"};
  }
  json zones = json::array();
  for (const Case& c : cases_) {
    if (!c.prepared) continue;
    for (const CaseBuffer& b : c.buffers) {
      zones.push_back({b.place.zone_before, kZoneBytes});
      zones.push_back({b.place.zone_after, kZoneBytes});
    }
  }
  if (zones.empty()) return Unit{};
  const Step step = command(json{{"command", "guard"}, {"on", true}, {"zones", zones}}.dump(), 10000);
  if (step.outcome != Outcome::ok) {
    return Error{.code = step.code, .asked = "guard buffers in the worker", .found = step.detail};
  }
  return Unit{};
}

WorkerDevice::Step WorkerDevice::load(const std::string& key, const Artifact& artifact) {
  if (const auto status = ensure_worker(); !status.ok()) {
    return {Outcome::launch_error, status.error().code, status.error().message(), {}};
  }
  if (const auto known = loaded_.find(key); known != loaded_.end()) {
    known->second.used = ++uses_;
    return {};
  }
  if (artifact.image.size() > kImageEnd - kImageAt) {
    return {Outcome::resource, ErrorCode::resource_exceeded, fmt::format("{} bytes of code", artifact.image.size()), {}};
  }
  if (loaded_.size() >= kMaxLoaded) {
    const auto oldest = std::min_element(loaded_.begin(), loaded_.end(),
                                         [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
    release(std::string(oldest->first));
  }
  std::memcpy(worker_->arena().at(kImageAt), artifact.image.data(), artifact.image.size());
  const int id = next_kernel_++;
  const char* on = gpu_ && artifact.target.starts_with("cpu:") ? "cpu" : "";
  Step step = command(json{{"command", "load"},
                           {"on", on},
                           {"kernel", id},
                           {"header", artifact.header_text()},
                           {"image", kImageAt},
                           {"image_bytes", artifact.image.size()}}
                          .dump(),
                      10000);
  if (step.outcome == Outcome::ok) loaded_[key] = {id, ++uses_, on};
  return step;
}

void WorkerDevice::release(const std::string& candidate_digest) {
  const auto known = loaded_.find(candidate_digest);
  if (known == loaded_.end()) return;
  if (worker_->is_alive() && known_generation_ == worker_->generation()) {
    command(json{{"command", "unload"}, {"on", known->second.on}, {"kernel", known->second.id}}.dump(), 10000);
  }
  loaded_.erase(known);
}

Status WorkerDevice::open(const Setup& setup) {
  setup_ = setup;
  default_ns_ = 0;
  cases_.clear();
  timed_ = {};
  workspace_.clear();
  faults_.clear();
  // A new process has none of the old one's forbidden pages, and the old buffers' memory goes back.
  if (next_place_ != 0) {
    LW_CHECK(worker_->respawn());
    worker_->arena().release(kImageEnd, worker_->arena().bytes() - kImageEnd);
  }
  next_place_ = kImageEnd;
  plan_cases();
  return Unit{};
}

// ---------------------------------------------------------------- workspace

/// Workspace is laid out anew for each candidate, in the last quarter of the arena, between known bytes.
WorkerDevice::Step WorkerDevice::place_workspace(const Artifact& artifact, const Bindings& probe, bool second) {
  workspace_.clear();
  Arena& arena = worker_->arena();
  std::uint64_t next = round_up(arena.bytes() / 4 * 3, kPageBytes);
  const auto symbols = symbol_values(artifact.symbols, probe);
  for (const ArtifactArg& arg : artifact.args) {
    if (arg.role != ArgRole::workspace) continue;
    const auto shape = evaluate_all(arg.shape, symbols);
    const std::int64_t bytes = count_span(shape, evaluate_all(arg.strides, symbols)) * size_bytes(arg.dtype);
    if (bytes < 0 || bytes > settings_.max_case_bytes) {
      return {Outcome::resource, ErrorCode::too_large, fmt::format("{} bytes of workspace", bytes), {}};
    }
    GuardedBuffer place{.front = next, .data = round_up(next + kCanaryBytes, 128), .bytes = static_cast<std::uint64_t>(bytes)};
    place.zone_after = round_up(place.data + place.bytes + kCanaryBytes, 128);
    next = place.zone_after;
    if (next > arena.bytes()) return {Outcome::resource, ErrorCode::too_large, "workspace larger than the arena", {}};
    paint_canaries(arena, place);
    if (arg.zeroed) std::memset(arena.at(place.data), 0, place.bytes);
    else fill_poison(arg.dtype, arena.at(place.data), bytes, second);
    workspace_.push_back(place);
  }
  return {};
}

// ---------------------------------------------------------------- timing

WorkerDevice::Step WorkerDevice::prepare_timing(const Bindings& probe) {
  if (timed_.valid && timed_.probe == probe) return {};
  if (count_case_bytes(*setup_.reference, probe) > settings_.max_case_bytes) {
    return {Outcome::resource, ErrorCode::too_large, "the probe needs more memory than the tuner gives one", {}};
  }
  Arena& arena = worker_->arena();
  const std::uint64_t begin = round_up(arena.bytes() / 2, kPageBytes);
  if (timed_.end > begin) arena.release(begin, timed_.end - begin);
  timed_ = {};
  timed_.probe = probe;
  timed_.buffers = make_case_buffers(*setup_.reference, *setup_.naive, probe, Draw::normal, setup_.seed);
  std::uint64_t next = begin + kCanaryBytes;
  const std::uint64_t alignment = gpu_ ? 256 : 64;  // what allocators of the device give
  for (const CaseBuffer& b : timed_.buffers) {
    timed_.offsets.push_back(next);
    next = round_up(next + static_cast<std::uint64_t>(b.span * size_bytes(b.dtype)) + kCanaryBytes, alignment);
  }
  timed_.stride = round_up(next - begin, alignment);
  timed_.sets = count_sets(settings_, timed_.stride);
  timed_.end = begin + timed_.stride * static_cast<std::uint64_t>(timed_.sets);
  if (timed_.end > arena.bytes() / 4 * 3) return {Outcome::resource, ErrorCode::too_large, "buffers larger than the arena", {}};
  std::memset(arena.at(begin), kCanary, timed_.stride);
  for (std::size_t i = 0; i < timed_.buffers.size(); ++i) {
    const CaseBuffer& b = timed_.buffers[i];
    if (!b.content->pristine.empty()) copy_parts(arena.at(timed_.offsets[i]), b.content->pristine.data(), b.content->pristine.size());
  }
  for (std::int64_t s = 1; s < timed_.sets && !gpu_; ++s) {
    std::memcpy(arena.at(begin + timed_.stride * static_cast<std::uint64_t>(s)), arena.at(begin), timed_.stride);
  }
  timed_.valid = true;
  return {};
}

/// The timed runs used other buffers than the verified ones: their inputs and the bytes around them must be unchanged.
WorkerDevice::Step WorkerDevice::check_timing(const Candidate& candidate) {
  const Arena& arena = worker_->arena();
  if (gpu_) {
    // Copies back cost more than the launches: once for each candidate and probe.
    if (!gpu_->timed.insert(candidate.digest).second) return {};
    const std::uint64_t begin = round_up(arena.bytes() / 2, kPageBytes);
    const json ranges = json::array({json::array({begin, timed_.stride})});
    const Step copied = command(json{{"command", "download"}, {"ranges", ranges}}.dump(), 60000);
    if (copied.outcome != Outcome::ok) return copied;
  }
  for (std::size_t i = 0; i < timed_.buffers.size(); ++i) {
    const CaseBuffer& b = timed_.buffers[i];
    const std::uint64_t at = timed_.offsets[i];
    const auto bytes = static_cast<std::uint64_t>(b.span * size_bytes(b.dtype));
    const std::uint64_t after = i + 1 < timed_.offsets.size() ? timed_.offsets[i + 1] : at + bytes + kCanaryBytes;
    const GuardedBuffer place{.zone_after = after, .front = at - kCanaryBytes, .data = at, .bytes = bytes};
    if (const auto broken = find_broken_canary(arena, place)) {
      return {Outcome::out_of_bounds, ErrorCode::out_of_bounds,
              fmt::format("{} changed byte {} of {} while it was timed", candidate.template_name, *broken, b.name), {}};
    }
    if (b.role == ArgRole::input && !equal_parts(arena.at(at), b.content->pristine.data(), b.content->pristine.size())) {
      return {Outcome::out_of_bounds, ErrorCode::out_of_bounds, "input " + b.name + " was changed while it was timed", {}};
    }
  }
  return {};
}

Samples WorkerDevice::time(const Candidate& candidate, const Bindings& probe, int count, double give_up_ns) {
  const auto fail = [](const Step& step) {
    return Samples{.outcome = step.outcome, .code = step.code, .detail = step.detail};
  };
  if (Step step = load(candidate.digest, *candidate.artifact); step.outcome != Outcome::ok) return fail(step);
  const bool fresh = !(timed_.valid && timed_.probe == probe);
  if (Step step = prepare_timing(probe); step.outcome != Outcome::ok) return fail(step);
  const std::uint64_t begin = round_up(worker_->arena().bytes() / 2, kPageBytes);
  if (gpu_ && (fresh || !gpu_->mirrored.contains(begin))) {
    if (Step step = mirror_timed(begin); step.outcome != Outcome::ok) return fail(step);
  } else if (fresh) {
    command(json{{"command", "populate"}, {"offset", begin}, {"bytes", timed_.end - begin}}.dump(), 60000);
  }
  if (Step step = place_workspace(*candidate.artifact, probe, false); step.outcome != Outcome::ok) return fail(step);
  if (Step step = mirror_workspace(*candidate.artifact); step.outcome != Outcome::ok) return fail(step);
  std::vector<std::uint64_t> offsets, strides;
  std::size_t tensor = 0, space = 0;
  for (const ArtifactArg& arg : candidate.artifact->args) {
    const bool is_workspace = arg.role == ArgRole::workspace;
    offsets.push_back(is_workspace ? workspace_[space++].data : timed_.offsets[tensor++]);
    strides.push_back(is_workspace ? 0 : timed_.stride);
  }
  auto symbols = symbol_values(candidate.artifact->symbols, probe);
  const double slow_ns = default_ns_ > 0 ? default_ns_ : settings_.first_limit_s * 1e9;
  const std::int64_t timeout_ms =
      2 * limit_ms() + static_cast<std::int64_t>((count + 10) * std::max(settings_.min_sample_ns * 4, slow_ns * 4) * 1e-6);
  Samples samples;
  const Nvml::Reading before = gpu_ ? gpu_->nvml.read() : Nvml::Reading{read_clock_khz(), false};
  const Step step = command(json{{"command", "time"},
                                 {"kernel", loaded_.at(candidate.digest).id},
                                 {"buffers", offsets},
                                 {"strides", strides},
                                 {"sets", timed_.sets},
                                 {"first", timed_.next},
                                 {"symbols", symbols},
                                 {"samples", count},
                                 {"batch", timed_.batches[candidate.digest]},
                                 {"min_ns", static_cast<std::int64_t>(settings_.min_sample_ns)},
                                 {"max_batch", settings_.max_batch},
                                 {"give_up_ns", static_cast<std::int64_t>(std::min(give_up_ns, 1e18))}}
                                .dump(),
                            timeout_ms);
  if (step.outcome != Outcome::ok) return fail(step);
  const Nvml::Reading after = gpu_ ? gpu_->nvml.read() : Nvml::Reading{read_clock_khz(), false};
  samples.clock_before_khz = before.clock_khz;
  samples.clock_after_khz = after.clock_khz;
  samples.throttled = after.throttled;
  const json answer = json::parse(step.reply);
  samples.ns = answer.at("ns").get<std::vector<double>>();
  timed_.next = answer.at("next").get<std::int64_t>();
  timed_.batches[candidate.digest] = answer.at("batch").get<std::int64_t>();
  if (const Step check = check_timing(candidate); check.outcome != Outcome::ok) {
    timed_.valid = false;
    return fail(check);
  }
  return samples;
}

}  // namespace loopwright::tuner
