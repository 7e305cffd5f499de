#include "src/runtime/cuda_graphs.h"

#include <algorithm>
#include <cstring>

#include "src/runtime/thread_memory.h"

namespace loopwright::runtime {
namespace {

double ns_since(std::chrono::steady_clock::time_point from) noexcept {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - from).count();
}

/// What is done for a graph is no part of what any thread captures meanwhile.
class NotCaptured {
 public:
  explicit NotCaptured(const CudaDriver& driver) noexcept : driver_(driver) {
    driver_.exchange_capture_mode(&mode_);
  }
  NotCaptured(const NotCaptured&) = delete;
  NotCaptured& operator=(const NotCaptured&) = delete;
  ~NotCaptured() { driver_.exchange_capture_mode(&mode_); }

 private:
  const CudaDriver& driver_;
  int mode_ = cuda::kCaptureRelaxed;
};

cuda::KernelNode node_of(const CudaLaunchRecord& record, LaunchParameters& parameters) noexcept {
  cuda::KernelNode node{};
  node.function = record.step->function;
  std::copy_n(record.config.grid, 3, node.grid);
  std::copy_n(record.config.block, 3, node.block);
  node.shared_bytes = record.config.shared_bytes;
  node.parameters = parameters.list();
  return node;
}

std::size_t count_words(const CudaLaunchRecord& record) noexcept {
  return record.artifact->buffer_count() + record.artifact->symbol_count();
}

}  // namespace

CudaThreadGraphs::CudaThreadGraphs(const CudaDevice& device, const GraphSizes& sizes)
    : device_(device), driver_(device.driver()), sizes_(sizes) {
  // All that a call needs later, so that none allocates but those that make a graph.
  records_.reserve(sizes.launches);
  for (Executable& executable : executables_) {
    executable.nodes.reserve(sizes.launches);
    executable.pointers.resize(sizes.pointers);
    executable.symbols.resize(sizes.symbols);
  }
}

CudaThreadGraphs::~CudaThreadGraphs() {
  for (Executable& executable : executables_) destroy(executable);
}

void CudaThreadGraphs::destroy(Executable& executable) const noexcept {
  if (executable.graph != nullptr || executable.exec != nullptr) {
    const CurrentContext current(driver_, device_.context());
    const NotCaptured not_captured(driver_);
    // What is queued of it still runs.
    if (executable.exec != nullptr) driver_.destroy_graph_exec(executable.exec);
    if (executable.graph != nullptr) driver_.destroy_graph(executable.graph);
  }
  executable.exec = nullptr;
  executable.graph = nullptr;
  executable.may_replay = false;
}

bool CudaThreadGraphs::replay(const GraphCall& call, ErrorCode& code) noexcept {
  for (Executable& e : executables_) {
    if (!e.may_replay || e.stream != call.stream || e.arena != call.arena || e.zeros != call.zeros ||
        !std::equal(e.symbols.begin(), e.symbols.end(), call.symbols) ||
        !std::equal(e.pointers.begin(), e.pointers.end(), call.pointers) || !e.cost.prefers_replay())
      continue;
    e.used = ++uses_;
    code = launch_graph(e);
    return true;
  }
  return false;
}

ErrorCode CudaThreadGraphs::record(const LoadedArtifact& loaded, const KernelCall& call) noexcept {
  return for_each_launch(static_cast<const CudaArtifact&>(loaded), call, [&](const CudaLaunchRecord& record) {
    records_.push_back(record);  // there is room
    return ErrorCode::ok;
  });
}

ErrorCode CudaThreadGraphs::launch(const GraphCall& call, bool may_replay) noexcept {
  last_by_graph_ = false;
  if (records_.size() < kFewestGraphLaunches) return issue_all();
  Executable* const found = find(call.stream);
  Executable& e = found != nullptr ? *found : make_room();
  if (found == nullptr) start_counting(e, call.stream);
  e.used = ++uses_;
  if (e.exec == nullptr) {
    if (e.refused) return issue_all();
    // The first call of a kernel loads it, so that its time says nothing.
    const ErrorCode code = e.calls == 0 ? issue_all() : issue_timed(e);
    if (++e.calls >= kCallsBeforeGraph && code == ErrorCode::ok) build(e);
    return code;
  }
  const std::size_t moved = last_moved_ = count_moved(e);
  if (!e.cost.prefers_graph(moved)) return issue_timed(e);
  e.may_replay = false;
  if (moved > 0 && set_moved(e, moved) != cuda::kSuccess) {
    destroy(e);
    e.refused = true;
    return issue_all();
  }
  const auto from = Clock::now();
  const ErrorCode code = launch_graph(e);
  e.cost.note_replay(ns_since(from));
  last_by_graph_ = true;
  e.may_replay = may_replay && code == ErrorCode::ok;
  std::copy_n(call.pointers, sizes_.pointers, e.pointers.begin());
  std::copy_n(call.symbols, sizes_.symbols, e.symbols.begin());
  e.arena = call.arena;
  e.zeros = call.zeros;
  return code;
}

CudaThreadGraphs::Executable* CudaThreadGraphs::find(void* stream) noexcept {
  const auto same = [](const Node& node, const CudaLaunchRecord& record) {
    return node.step == record.step && node.programmatic == record.programmatic;
  };
  for (Executable& e : executables_)
    if (e.used > 0 && e.stream == stream &&
        std::equal(e.nodes.begin(), e.nodes.end(), records_.begin(), records_.end(), same))
      return &e;
  return nullptr;
}

/// What is a graph already stays before what may become one.
CudaThreadGraphs::Executable& CudaThreadGraphs::make_room() noexcept {
  return *std::min_element(
      executables_.begin(), executables_.end(), [](const Executable& a, const Executable& b) {
        return std::pair(a.exec != nullptr, a.used) < std::pair(b.exec != nullptr, b.used);
      });
}

void CudaThreadGraphs::start_counting(Executable& e, void* stream) noexcept {
  destroy(e);
  e.stream = stream;
  e.cost = {};
  e.calls = 0;
  e.refused = false;
  e.nodes.resize(records_.size());  // there is room
  for (std::size_t i = 0; i < records_.size(); ++i) {
    e.nodes[i].step = records_[i].step;
    e.nodes[i].programmatic = records_[i].programmatic;
  }
}

ErrorCode CudaThreadGraphs::issue_all() const noexcept {
  for (const CudaLaunchRecord& record : records_)
    if (const ErrorCode code = issue(driver_, device_.context(), record); code != ErrorCode::ok) return code;
  return ErrorCode::ok;
}

ErrorCode CudaThreadGraphs::issue_timed(Executable& e) const noexcept {
  const auto from = Clock::now();
  const ErrorCode code = issue_all();
  e.cost.note_plain(ns_since(from));
  return code;
}

void CudaThreadGraphs::build(Executable& e) noexcept {
  const CurrentContext current(driver_, device_.context());
  const NotCaptured not_captured(driver_);
  cuda::Status status = current.status();
  try {
    if (status == cuda::kSuccess) status = make_nodes(e);
  } catch (const std::exception&) {  // host memory
    status = cuda::kOutOfMemory;
  }
  // What setting a node takes has to be known before the first call that may have to.
  for (int again = 0; again < 2 && status == cuda::kSuccess; ++again) {
    const auto from = Clock::now();
    for (std::size_t i = 0; i < e.nodes.size() && status == cuda::kSuccess; ++i) status = set_node(e, i);
    e.cost.note_patches(ns_since(from), e.nodes.size());
  }
  if (status == cuda::kSuccess) return;
  destroy(e);
  e.refused = true;
}

cuda::Status CudaThreadGraphs::make_nodes(Executable& e) const {
  cuda::Status status = driver_.create_graph(&e.graph, 0);
  std::size_t words = 0;
  LaunchParameters parameters;
  for (std::size_t i = 0; i < records_.size() && status == cuda::kSuccess; ++i) {
    const CudaLaunchRecord& record = records_[i];
    if ((status = parameters.fill(driver_, device_.context(), record)) != cuda::kSuccess) break;
    const cuda::KernelNode node = node_of(record, parameters);
    status = driver_.add_kernel_node(&e.nodes[i].handle, e.graph, nullptr, 0, &node);
    const std::size_t attributes = record.step->config.attribute_count - (record.step->has_edge ? 1 : 0);
    for (std::size_t a = 0; a < attributes && status == cuda::kSuccess; ++a) {
      const cuda::LaunchAttribute& attribute = record.step->attributes[a];
      status = driver_.set_node_attribute(e.nodes[i].handle, static_cast<int>(attribute.id), attribute.bytes);
    }
    e.nodes[i].words = words;
    words += count_words(record);
  }
  if (status != cuda::kSuccess) return status;
  std::vector<cuda::GraphNode> nodes;
  std::vector<cuda::GraphEdge> edges;
  for (const Node& node : e.nodes) {
    nodes.push_back(node.handle);
    cuda::GraphEdge edge{};
    if (node.programmatic) edge.kind = edge.from_port = cuda::GraphEdge::programmatic;
    edges.push_back(edge);
  }
  status = driver_.add_edges(e.graph, nodes.data(), nodes.data() + 1, edges.data() + 1, nodes.size() - 1);
  if (status == cuda::kSuccess) status = driver_.instantiate(&e.exec, e.graph, 0);
  e.words.resize(words);
  return status;
}

bool CudaThreadGraphs::has_moved(const Executable& e, std::size_t i) const noexcept {
  const CudaLaunchRecord& record = records_[i];
  const Node& node = e.nodes[i];
  const std::size_t buffers = record.artifact->buffer_count(), symbols = record.artifact->symbol_count();
  const std::uint64_t* words = e.words.data() + node.words;
  // Grid, shared memory and maps follow from these.
  return node.overlap != record.overlap || std::memcmp(words, record.buffers, buffers * sizeof *words) != 0 ||
         !std::equal(record.symbols, record.symbols + symbols,
                     reinterpret_cast<const std::int64_t*>(words + buffers));
}

std::size_t CudaThreadGraphs::count_moved(const Executable& e) const noexcept {
  std::size_t moved = 0;
  for (std::size_t i = 0; i < records_.size(); ++i) moved += has_moved(e, i) ? 1 : 0;
  return moved;
}

cuda::Status CudaThreadGraphs::set_node(Executable& e, std::size_t i) const noexcept {
  const CudaLaunchRecord& record = records_[i];
  LaunchParameters parameters;
  cuda::Status status = parameters.fill(driver_, device_.context(), record);
  if (status != cuda::kSuccess) return status;
  const cuda::KernelNode node = node_of(record, parameters);
  status = call_in_context(driver_, device_.context(),
                           [&] { return driver_.set_exec_node(e.exec, e.nodes[i].handle, &node); });
  if (status == cuda::kSuccess) note_node(e, i);
  return status;
}

void CudaThreadGraphs::note_node(Executable& e, std::size_t i) const noexcept {
  const CudaLaunchRecord& record = records_[i];
  const std::size_t buffers = record.artifact->buffer_count();
  e.nodes[i].overlap = record.overlap;
  std::uint64_t* words = e.words.data() + e.nodes[i].words;
  std::memcpy(words, record.buffers, buffers * sizeof *words);
  std::copy_n(record.symbols, record.artifact->symbol_count(), words + buffers);
}

cuda::Status CudaThreadGraphs::set_moved(Executable& e, std::size_t moved) const noexcept {
  const auto from = Clock::now();
  for (std::size_t i = 0; i < records_.size(); ++i) {
    if (!has_moved(e, i)) continue;
    if (const cuda::Status status = set_node(e, i); status != cuda::kSuccess) return status;
  }
  e.cost.note_patches(ns_since(from), moved);
  return cuda::kSuccess;
}

ErrorCode CudaThreadGraphs::launch_graph(const Executable& e) const noexcept {
  const cuda::Status status = call_in_context(driver_, device_.context(), [&] {
    return driver_.launch_graph(e.exec, static_cast<cuda::Stream>(e.stream));
  });
  if (status == cuda::kSuccess) [[likely]]
    return ErrorCode::ok;
  last_cuda_failure() = status;
  return status == cuda::kOutOfMemory ? ErrorCode::out_of_memory : ErrorCode::launch_failed;
}

ThreadGraphs* CudaGraphs::of_thread(void* stream) noexcept {
  const auto number = static_cast<std::size_t>(thread_number());
  if (number >= kMostGraphThreads) return nullptr;
  // What is captured must not change with the nodes of a graph of ours.
  int capturing = 0;
  const CudaDriver& driver = device_.driver();
  const cuda::Status status = call_in_context(driver, device_.context(), [&] {
    return driver.is_capturing(static_cast<cuda::Stream>(stream), &capturing);
  });
  if (status != cuda::kSuccess || capturing != 0) return nullptr;
  std::unique_ptr<CudaThreadGraphs>& mine = threads_[number];
  if (mine == nullptr) {
    try {
      mine = std::make_unique<CudaThreadGraphs>(device_, sizes_);
    } catch (const std::exception&) {  // host memory
      return nullptr;
    }
  }
  mine->start();
  return mine.get();
}

}  // namespace loopwright::runtime
