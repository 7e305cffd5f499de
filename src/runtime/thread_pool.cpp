#include "src/runtime/thread_pool.h"

#include <immintrin.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <thread>

namespace loopwright::runtime {
namespace {

/// How long a worker looks for the next loop before it sleeps. A sleeping worker costs the caller a system call and
/// tens of microseconds until it helps; a spinning one costs the machine a core.
constexpr std::chrono::microseconds kSpinTime{50};
constexpr int kPausesBetweenClocks = 32;
/// Pieces in each worker's part: more of them even out workers of unequal speed, fewer cost less.
constexpr std::int64_t kPiecesOfPart = 4;
/// Turns of a wait for a worker that is about to finish, before the core is offered to it.
constexpr int kTurnsBeforeYield = 2000;

/// Counts forks: threads of an older generation do not exist in this process.
std::atomic<std::uint32_t> process_generation{0};
[[maybe_unused]] const int fork_handler =
    pthread_atfork(nullptr, nullptr, [] { process_generation.fetch_add(1, std::memory_order_relaxed); });

/// Workers take no signals: handlers run in threads of the program.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

struct ThreadPool::Threads {
  std::uint32_t generation = 0;
  bool complete = false;  ///< the system gave all the threads that were asked for
  std::vector<std::thread> list;
};

ThreadPool::ThreadPool(int workers)
    : workers_(std::max(1, workers)), parts_(static_cast<std::size_t>(workers_)) {}

ThreadPool::~ThreadPool() {
  if (threads_ == nullptr) return;
  if (threads_->generation != process_generation.load(std::memory_order_relaxed)) {
    static_cast<void>(threads_.release());  // they live in the parent; a join here would never end
    return;
  }
  stopping_.store(true, std::memory_order_seq_cst);
  loops_.fetch_add(1, std::memory_order_seq_cst);
  loops_.notify_all();
  for (std::thread& thread : threads_->list) thread.join();
}

/// A holder of an older generation was cut off by a fork and does not count.
bool ThreadPool::take() noexcept {
  const std::uint32_t mine = process_generation.load(std::memory_order_relaxed) + 1;
  std::uint32_t holder = taken_.load(std::memory_order_relaxed);
  return holder != mine && taken_.compare_exchange_strong(holder, mine, std::memory_order_acquire);
}

bool ThreadPool::start_threads() noexcept {
  const std::uint32_t generation = process_generation.load(std::memory_order_relaxed);
  if (threads_ != nullptr && threads_->generation == generation) return threads_->complete;
  static_cast<void>(threads_.release());  // nothing, or handles of threads that did not survive a fork
  inside_.store(0, std::memory_order_relaxed);
  sleeping_.store(0, std::memory_order_relaxed);
  open_.store(false, std::memory_order_relaxed);
  try {
    threads_ = std::make_unique<Threads>();
    threads_->generation = generation;
    const SignalsBlocked blocked;
    for (int worker = 1; worker < workers_; ++worker)
      threads_->list.emplace_back([this, worker] { serve(worker); });
    threads_->complete = true;
  } catch (const std::exception&) {
    // Callers go on alone; workers that did start help nobody, as their number is not what was planned for.
  }
  return threads_ != nullptr && threads_->complete;
}

void ThreadPool::run(std::int64_t extent, Body body, const void* context) noexcept {
  if (extent <= 0) return;
  if (workers_ == 1 || extent == 1 || !take()) {
    body(context, 0, 0, extent);
    return;
  }
  if (start_threads()) {
    publish(extent, body, context);
    take_pieces(0);
    open_.store(false, std::memory_order_seq_cst);
    for (int turn = 0; inside_.load(std::memory_order_seq_cst) != 0; ++turn) {
      if (turn < kTurnsBeforeYield) _mm_pause();
      else sched_yield();
    }
  } else {
    body(context, 0, 0, extent);
  }
  taken_.store(0, std::memory_order_release);
}

void ThreadPool::publish(std::int64_t extent, Body body, const void* context) noexcept {
  body_ = body;
  context_ = context;
  const std::int64_t workers = workers_;
  const std::int64_t part = extent / workers;
  const std::int64_t longer = extent % workers;  // the first parts have one iteration more
  piece_ = std::max<std::int64_t>(1, (part + kPiecesOfPart - 1) / kPiecesOfPart);
  std::int64_t begin = 0;
  for (std::int64_t worker = 0; worker < workers; ++worker) {
    Part& p = parts_[static_cast<std::size_t>(worker)];
    p.next.store(begin, std::memory_order_relaxed);
    begin += part + (worker < longer ? 1 : 0);
    p.end = begin;
  }
  open_.store(true, std::memory_order_seq_cst);
  loops_.fetch_add(1, std::memory_order_seq_cst);
  if (sleeping_.load(std::memory_order_seq_cst) > 0) loops_.notify_all();
}

void ThreadPool::take_pieces(int worker) noexcept {
  for (int turn = 0; turn < workers_; ++turn) {
    const int index = worker + turn < workers_ ? worker + turn : worker + turn - workers_;
    Part& part = parts_[static_cast<std::size_t>(index)];
    while (part.next.load(std::memory_order_relaxed) < part.end) {
      const std::int64_t begin = part.next.fetch_add(piece_, std::memory_order_relaxed);
      if (begin >= part.end) break;
      body_(context_, worker, begin, std::min(begin + piece_, part.end));
    }
  }
}

void ThreadPool::serve(int worker) noexcept {
  pthread_setname_np(pthread_self(), "lw-worker");
  for (std::uint32_t seen = 0;;) {
    wait_for_loop(seen);
    seen = loops_.load(std::memory_order_seq_cst);
    if (stopping_.load(std::memory_order_seq_cst)) return;
    // Announce first, then look: a caller that closes the loop either sees us inside or is seen to have closed it.
    inside_.fetch_add(1, std::memory_order_seq_cst);
    if (open_.load(std::memory_order_seq_cst)) take_pieces(worker);
    inside_.fetch_sub(1, std::memory_order_seq_cst);
  }
}

/// Returns once `loops_` differs from `seen`.
void ThreadPool::wait_for_loop(std::uint32_t seen) noexcept {
  const auto until = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int i = 0; i < kPausesBetweenClocks; ++i) {
      if (loops_.load(std::memory_order_acquire) != seen) return;
      _mm_pause();
    }
  } while (std::chrono::steady_clock::now() < until);
  sleeping_.fetch_add(1, std::memory_order_seq_cst);
  while (loops_.load(std::memory_order_seq_cst) == seen) loops_.wait(seen, std::memory_order_seq_cst);
  sleeping_.fetch_sub(1, std::memory_order_seq_cst);
}

}  // namespace loopwright::runtime
