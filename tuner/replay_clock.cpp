#include "tuner/replay_clock.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace loopwright::tuner {
namespace {

namespace cuda = runtime::cuda;
using ReplayTime = std::chrono::steady_clock;

/// Launches of one graph: more make its launch slow and its numbers no better.
constexpr std::int64_t kMaxCalls = 1024;
constexpr std::size_t kEvents = 66;
constexpr double kWarmUpS = 3e-3;

}  // namespace

cuda::Status ReplayClock::open() {
  cuda::Status status = driver_.create_stream(&stream_, cuda::kStreamNonBlocking);
  while (status == cuda::kSuccess && events_.size() < kEvents) {
    cuda::Event event = nullptr;
    status = driver_.create_event(&event, 0);
    if (status == cuda::kSuccess) events_.push_back(event);
  }
  return status;
}

ReplayClock::~ReplayClock() {
  for (const cuda::Event event : events_) driver_.destroy_event(event);
  if (stream_ != nullptr) driver_.destroy_stream(stream_);
}

cuda::Status ReplayClock::capture(const Launch& launch, std::int64_t sets, std::int64_t calls, cuda::GraphExec& exec) {
  cuda::Graph graph = nullptr;
  cuda::Status status = driver_.begin_capture(stream_, cuda::kCaptureRelaxed);
  if (status != cuda::kSuccess) return status;
  ErrorCode code = ErrorCode::ok;
  for (std::int64_t call = 0; call < calls && code == ErrorCode::ok; ++call) code = launch(call % sets);
  status = driver_.end_capture(stream_, &graph);
  if (status == cuda::kSuccess && code != ErrorCode::ok) status = cuda::kInvalidValue;
  if (status == cuda::kSuccess) status = driver_.instantiate(&exec, graph, 0);
  if (graph != nullptr) driver_.destroy_graph(graph);
  return status;
}

cuda::Status ReplayClock::warm_up(cuda::GraphExec exec) {
  const auto from = ReplayTime::now();
  cuda::Status status = cuda::kSuccess;
  do {
    status = driver_.launch_graph(exec, stream_);
    if (status == cuda::kSuccess) status = driver_.wait_stream(stream_);
  } while (status == cuda::kSuccess && std::chrono::duration<double>(ReplayTime::now() - from).count() < kWarmUpS);
  return status;
}

/// The first replay of a queue is not timed: while it runs the host gets ahead, so that no event waits for the host.
cuda::Status ReplayClock::measure(cuda::GraphExec exec, std::int64_t calls, std::size_t samples, std::vector<double>& ns) {
  cuda::Status status = cuda::kSuccess;
  while (samples > 0 && status == cuda::kSuccess) {
    const std::size_t count = std::min(samples, events_.size() - 1);
    status = driver_.launch_graph(exec, stream_);
    for (std::size_t i = 0; i <= count && status == cuda::kSuccess; ++i) {
      status = driver_.record_event(events_[i], stream_);
      if (status == cuda::kSuccess && i < count) status = driver_.launch_graph(exec, stream_);
    }
    if (status == cuda::kSuccess) status = driver_.wait_stream(stream_);
    for (std::size_t i = 0; i < count && status == cuda::kSuccess; ++i) {
      float ms = 0;
      status = driver_.elapsed_ms(&ms, events_[i], events_[i + 1]);
      ns.push_back(static_cast<double>(ms) * 1e6 / static_cast<double>(calls));
    }
    samples -= count;
  }
  return status;
}

cuda::Status ReplayClock::estimate(const Launch& launch, std::int64_t sets, double& one_ns) {
  const std::int64_t calls = std::min<std::int64_t>(sets, 4);
  cuda::GraphExec exec = nullptr;
  std::vector<double> ns;
  cuda::Status status = capture(launch, sets, calls, exec);
  if (status == cuda::kSuccess) status = measure(exec, calls, 1, ns);
  if (exec != nullptr) driver_.destroy_graph_exec(exec);
  if (status == cuda::kSuccess) one_ns = ns.front();
  return status;
}

std::int64_t ReplayClock::count_calls(double one_ns, double min_ns, std::int64_t sets) {
  constexpr double kLeastNs = 200;  // an estimate below is the clock's resolution
  const auto enough = static_cast<std::int64_t>(std::ceil(min_ns / std::max(one_ns, kLeastNs)));
  const std::int64_t rounds = std::max<std::int64_t>(1, (enough + sets - 1) / sets);
  return std::max<std::int64_t>(1, std::min(rounds * sets, std::max(sets, kMaxCalls)));
}

}  // namespace loopwright::tuner
