// Threads that schedule, lower and compile. With `run` they never work while something is timed: on a machine whose cores are
// all needed by a parallel kernel, a build beside a measurement would be measured (docs/tuner.md has the numbers).
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "loopwright/base.h"

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
  /// The same, and gives the caller's thread `take(0), take(1), ...`, each as soon as its job is done and while others go on:
  /// for what is timed elsewhere. The caller takes jobs itself where it would wait. Ends early when `take` returns false or an
  /// error, once the jobs that run are over.
  Result<bool> run_beside(std::size_t count, const std::function<void(std::size_t)>& job,
                          const std::function<Result<bool>(std::size_t)>& take);
  int threads() const { return static_cast<int>(threads_.size()) + 1; }
  /// Wall time that the caller spent building or waiting for builds.
  double busy_s() const { return busy_s_; }

 private:
  void serve();
  void begin(std::size_t count, const std::function<void(std::size_t)>& job);
  void take_job(std::unique_lock<std::mutex>& lock);
  void wait_for_running(std::unique_lock<std::mutex>& lock);
  Interruption* interruption_;
  std::mutex mutex_;
  std::condition_variable start_, done_;
  const std::function<void(std::size_t)>* job_ = nullptr;
  std::size_t next_ = 0, count_ = 0, running_ = 0;
  std::vector<bool> is_done_;  ///< by job
  bool stop_ = false;
  double busy_s_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace loopwright::tuner
