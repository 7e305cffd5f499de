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

void BuildPool::take_job(std::unique_lock<std::mutex>& lock) {
  const std::size_t i = next_++;
  ++running_;
  const auto* job = job_;
  lock.unlock();
  (*job)(i);
  lock.lock();
  --running_;
  is_done_[i] = true;
  done_.notify_all();
}

void BuildPool::begin(std::size_t count, const std::function<void(std::size_t)>& job) {
  job_ = &job;
  next_ = 0;
  count_ = count;
  is_done_.assign(count, false);
  start_.notify_all();
}

void BuildPool::wait_for_running(std::unique_lock<std::mutex>& lock) {
  next_ = count_;
  done_.wait(lock, [this] { return running_ == 0; });
  count_ = next_ = 0;
  job_ = nullptr;
}

void BuildPool::run(std::size_t count, const std::function<void(std::size_t)>& job) {
  const auto from = std::chrono::steady_clock::now();
  {
    const Interruption::Away away(interruption_);
    std::unique_lock lock(mutex_);
    begin(count, job);
    while (next_ < count_) take_job(lock);
    wait_for_running(lock);
  }
  busy_s_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
}

Result<bool> BuildPool::run_beside(std::size_t count, const std::function<void(std::size_t)>& job,
                                   const std::function<Result<bool>(std::size_t)>& take) {
  const auto while_away = [&](const auto& work) {
    const auto from = std::chrono::steady_clock::now();
    {
      const Interruption::Away away(interruption_);
      std::unique_lock lock(mutex_);
      work(lock);
    }
    busy_s_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
  };
  while_away([&](auto&) { begin(count, job); });
  Result<bool> goes_on = true;
  for (std::size_t i = 0; i < count && goes_on.ok() && *goes_on; ++i) {
    while_away([&](auto& lock) {
      while (!is_done_[i] && next_ < count_) take_job(lock);
      done_.wait(lock, [&] { return is_done_[i]; });
    });
    goes_on = take(i);
  }
  while_away([&](auto& lock) { wait_for_running(lock); });
  return goes_on;
}

void BuildPool::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    start_.wait(lock, [this] { return stop_ || next_ < count_; });
    if (stop_) return;
    while (next_ < count_) take_job(lock);
  }
}

}  // namespace loopwright::tuner
