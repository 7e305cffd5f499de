#include "tuner/build_pool.h"

#include <chrono>
#include <system_error>

#include "tuner/interruption.h"

namespace loopwright::tuner {

BuildPool::BuildPool(int threads, Interruption* interruption) : interruption_(interruption) {
  if (threads <= 0) threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  try {
    for (int i = 1; i < threads; ++i) threads_.emplace_back([this] { serve(); });
  } catch (const std::system_error&) {
    // The system has no more threads to give: those that started do the work.
  }
}

BuildPool::~BuildPool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  start_.notify_all();
  for (std::thread& t : threads_) t.join();
}

void BuildPool::take_jobs(std::unique_lock<std::mutex>& lock) {
  while (next_ < count_) {
    const std::size_t i = next_++;
    ++running_;
    const auto* job = job_;
    lock.unlock();
    (*job)(i);
    lock.lock();
    --running_;
  }
}

void BuildPool::run(std::size_t count, const std::function<void(std::size_t)>& job) {
  const auto from = std::chrono::steady_clock::now();
  {
    const Interruption::Away away(interruption_);
    std::unique_lock lock(mutex_);
    job_ = &job;
    next_ = 0;
    count_ = count;
    start_.notify_all();
    take_jobs(lock);
    done_.wait(lock, [this] { return running_ == 0; });
    count_ = next_ = 0;
    job_ = nullptr;
  }
  busy_s_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
}

void BuildPool::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    start_.wait(lock, [this] { return stop_ || next_ < count_; });
    if (stop_) return;
    take_jobs(lock);
    if (running_ == 0) done_.notify_all();
  }
}

}  // namespace loopwright::tuner
