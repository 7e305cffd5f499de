// Threads that schedule, lower and compile. They never run while something is timed: on a machine whose cores are all
// needed by a parallel kernel, a build beside a measurement would be measured (docs/tuner.md has the numbers).
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace loopwright::tuner {

class Interruption;

class BuildPool {
 public:
  /// `threads` 0 = hardware threads of this process. The caller of `run` is one of them, and away meanwhile.
  explicit BuildPool(int threads, Interruption* interruption = nullptr);
  ~BuildPool();
  BuildPool(const BuildPool&) = delete;
  BuildPool& operator=(const BuildPool&) = delete;

  /// Calls job(0..count-1), each once, on all threads; returns when all are done. A job must not throw.
  void run(std::size_t count, const std::function<void(std::size_t)>& job);
  int threads() const { return static_cast<int>(threads_.size()) + 1; }
  /// Wall time spent inside `run`.
  double busy_s() const { return busy_s_; }

 private:
  void serve();
  void take_jobs(std::unique_lock<std::mutex>& lock);
  Interruption* interruption_;
  std::mutex mutex_;
  std::condition_variable start_, done_;
  const std::function<void(std::size_t)>* job_ = nullptr;
  std::size_t next_ = 0, count_ = 0, running_ = 0;
  bool stop_ = false;
  double busy_s_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace loopwright::tuner
