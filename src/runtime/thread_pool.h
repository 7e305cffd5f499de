// Workers for the parallel loops of CPU kernels.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace loopwright::runtime {

/// Runs one loop at a time on all workers; the calling thread is worker 0. A loop called while another one runs is run
/// by its caller alone: both go on, and nobody waits. Threads start with the first loop, spin shortly after the last
/// one and then sleep. After a fork the child starts threads of its own.
class ThreadPool {
 public:
  /// Called for disjoint pieces that cover [0, extent). `worker` is in [0, workers).
  using Body = void (*)(const void* context, int worker, std::int64_t begin, std::int64_t end) noexcept;

  /// `workers` counts the calling thread; with 1 there never is a thread.
  explicit ThreadPool(int workers);
  /// No loop may be running.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int workers() const { return workers_; }
  /// Returns when every piece is done. Each worker begins with its own part of the range, the same in every call of
  /// the same extent, so that caches stay warm, and then takes pieces left in the parts of others.
  void run(std::int64_t extent, Body body, const void* context) noexcept;

 private:
  struct Threads;
  struct alignas(128) Part {
    std::atomic<std::int64_t> next{0};  ///< first iteration that nobody has taken
    std::int64_t end = 0;
  };

  bool take() noexcept;
  bool start_threads() noexcept;
  void publish(std::int64_t extent, Body body, const void* context) noexcept;
  void take_pieces(int worker) noexcept;
  void serve(int worker) noexcept;
  void wait_for_loop(std::uint32_t seen) noexcept;

  const int workers_;
  std::unique_ptr<Threads> threads_;  ///< changed only by who holds `taken_`

  // Written by the caller of a loop while nobody is inside, read by workers that are inside.
  Body body_ = nullptr;
  const void* context_ = nullptr;
  std::int64_t piece_ = 1;
  std::vector<Part> parts_;

  alignas(128) std::atomic<std::uint32_t> taken_{0};  ///< 0, or process generation + 1 of the loop that runs
  alignas(128) std::atomic<std::uint32_t> loops_{0};  ///< grows with each loop; workers wait for it
  std::atomic<bool> open_{false};                     ///< workers may enter the current loop
  std::atomic<bool> stopping_{false};
  alignas(128) std::atomic<std::int32_t> inside_{0};    ///< workers that may touch the loop's data
  alignas(128) std::atomic<std::int32_t> sleeping_{0};  ///< workers that need a wake-up call
};

}  // namespace loopwright::runtime
