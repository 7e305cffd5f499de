// A plan's kernels as one launch: CUDA graphs made of our own nodes, whose parameters are set anew where a call differs.
#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <span>
#include <vector>

#include "src/runtime/cuda_launch.h"
#include "src/runtime/launch_cost.h"

namespace loopwright::runtime {

/// Fewer launches are queued one by one.
inline constexpr std::size_t kFewestGraphLaunches = 4;
/// Of a plan and a thread; the one that was not used for longest makes room.
inline constexpr std::size_t kMostGraphs = 8;
/// Threads with higher numbers (thread_number) queue launches one by one.
inline constexpr std::size_t kMostGraphThreads = 64;
/// Calls with the same variants before a graph is made of them.
inline constexpr int kCallsBeforeGraph = 3;

/// The nodes are a chain in the order of the launches, as a stream has them; an edge is programmatic where the launch is. A
/// graph belongs to a stream, because workspace does, and to what cannot be set in a node: kernels, clusters and edges.
class CudaThreadGraphs final : public ThreadGraphs {
 public:
  CudaThreadGraphs(const CudaDevice& device, const GraphSizes& sizes);
  CudaThreadGraphs(const CudaThreadGraphs&) = delete;
  CudaThreadGraphs& operator=(const CudaThreadGraphs&) = delete;
  ~CudaThreadGraphs() override;

  bool replay(const GraphCall& call, ErrorCode& code) noexcept override;
  ErrorCode record(const LoadedArtifact& loaded, const KernelCall& call) noexcept override;
  ErrorCode launch(const GraphCall& call, bool may_replay) noexcept override;
  void start() noexcept { records_.clear(); }
  /// Of the last call that recorded; they point into its tables, which the thread's next call writes over.
  std::span<const CudaLaunchRecord> records() const { return records_; }
  /// Of the last call that recorded: nodes that had other parameters, and whether it was launched as a graph.
  std::size_t last_moved() const { return last_moved_; }
  bool last_by_graph() const { return last_by_graph_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Node {
    const CudaArtifact::Step* step = nullptr;
    bool programmatic = false;
    // What it was set to:
    std::int64_t overlap = 0;
    std::size_t words = 0;  ///< its addresses and symbols in Executable::words
    cuda::GraphNode handle = nullptr;
  };
  struct Executable {
    std::uint64_t used = 0;  ///< a larger number is later; 0: free
    void* stream = nullptr;
    std::vector<Node> nodes;
    LaunchCost cost;
    int calls = 0;
    bool refused = false;  ///< the driver made no graph of it
    cuda::Graph graph = nullptr;
    cuda::GraphExec exec = nullptr;
    std::vector<std::uint64_t> words;
    // The call whose launches the nodes have:
    bool may_replay = false;
    std::vector<void*> pointers;
    std::vector<std::int64_t> symbols;
    std::byte *arena = nullptr, *zeros = nullptr;
  };

  Executable* find(void* stream) noexcept;
  Executable& make_room() noexcept;
  void start_counting(Executable& executable, void* stream) noexcept;
  ErrorCode issue_all() const noexcept;
  ErrorCode issue_timed(Executable& executable) const noexcept;
  void build(Executable& executable) noexcept;
  cuda::Status make_nodes(Executable& executable) const;
  bool has_moved(const Executable& executable, std::size_t i) const noexcept;
  std::size_t count_moved(const Executable& executable) const noexcept;
  /// Sets one node to its record, and notes that.
  cuda::Status set_node(Executable& executable, std::size_t i) const noexcept;
  cuda::Status set_moved(Executable& executable, std::size_t moved) const noexcept;
  void note_node(Executable& executable, std::size_t i) const noexcept;
  ErrorCode launch_graph(const Executable& executable) const noexcept;
  void destroy(Executable& executable) const noexcept;

  const CudaDevice& device_;
  const CudaDriver& driver_;
  GraphSizes sizes_;
  std::vector<CudaLaunchRecord> records_;
  std::array<Executable, kMostGraphs> executables_;
  std::uint64_t uses_ = 0;
  std::size_t last_moved_ = 0;
  bool last_by_graph_ = false;
};

class CudaGraphs final : public PlanGraphs {
 public:
  CudaGraphs(const CudaDevice& device, const GraphSizes& sizes) : device_(device), sizes_(sizes) {}
  ThreadGraphs* of_thread(void* stream) noexcept override;

 private:
  const CudaDevice& device_;
  GraphSizes sizes_;
  /// By thread_number: each is looked at by the thread that has the number.
  std::array<std::unique_ptr<CudaThreadGraphs>, kMostGraphThreads> threads_;
};

}  // namespace loopwright::runtime
