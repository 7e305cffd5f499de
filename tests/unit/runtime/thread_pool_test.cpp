#include "src/runtime/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <numeric>
#include <set>
#include <thread>

namespace loopwright::runtime {
namespace {

/// Counts how often each iteration ran.
struct Counter {
  explicit Counter(std::int64_t extent) : runs(static_cast<std::size_t>(extent)) {}
  std::vector<std::atomic<int>> runs;
  std::atomic<int> outside{0};
  int workers = 0;

  static void body(const void* context, int worker, std::int64_t begin, std::int64_t end) noexcept {
    auto& self = *static_cast<Counter*>(const_cast<void*>(context));
    if (worker < 0 || worker >= self.workers || begin >= end) self.outside.fetch_add(1);
    for (std::int64_t i = begin; i < end; ++i)
      self.runs[static_cast<std::size_t>(i)].fetch_add(1, std::memory_order_relaxed);
  }
  bool all(int times) const {
    for (const auto& count : runs)
      if (count.load() != times) return false;
    return outside.load() == 0;
  }
};

TEST(ThreadPool, RunsEachIterationOnce) {
  for (const int workers : {1, 2, 3, 8}) {
    ThreadPool pool(workers);
    for (const std::int64_t extent : {0, 1, 2, 3, 7, 8, 9, 31, 64, 1000, 4097}) {
      Counter counter(extent);
      counter.workers = workers;
      pool.run(extent, Counter::body, &counter);
      EXPECT_TRUE(counter.all(1)) << workers << " workers, extent " << extent;
    }
  }
}

TEST(ThreadPool, OneWorkerStaysOnTheCallingThread) {
  ThreadPool pool(1);
  std::thread::id seen;
  pool.run(
      100,
      [](const void* context, int, std::int64_t, std::int64_t) noexcept {
        *static_cast<std::thread::id*>(const_cast<void*>(context)) = std::this_thread::get_id();
      },
      &seen);
  EXPECT_EQ(seen, std::this_thread::get_id());
}

TEST(ThreadPool, AnotherThreadTakesPartInALongLoop) {
  ThreadPool pool(2);
  std::atomic<int> workers_seen{0};
  pool.run(
      2,
      [](const void* context, int worker, std::int64_t, std::int64_t) noexcept {
        auto& seen = *static_cast<std::atomic<int>*>(const_cast<void*>(context));
        seen.fetch_or(1 << worker);
        const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
        while (seen.load() != 3 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
      },
      &workers_seen);
  EXPECT_EQ(workers_seen.load(), 3);
}

TEST(ThreadPool, SleepingWorkersWakeUp) {
  ThreadPool pool(3);
  for (int round = 0; round < 5; ++round) {
    Counter counter(300);
    counter.workers = 3;
    pool.run(300, Counter::body, &counter);
    EXPECT_TRUE(counter.all(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // far longer than workers spin
  }
}

TEST(ThreadPool, ManyThreadsMayCallAtOnce) {
  ThreadPool pool(3);
  std::vector<std::thread> callers;
  std::atomic<int> bad{0};
  for (int t = 0; t < 6; ++t)
    callers.emplace_back([&] {
      for (int round = 0; round < 300; ++round) {
        Counter counter(50);
        counter.workers = 3;
        pool.run(50, Counter::body, &counter);
        if (!counter.all(1)) bad.fetch_add(1);
      }
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(bad.load(), 0);
}

TEST(ThreadPool, ALoopInsideALoopRunsAlone) {
  ThreadPool pool(2);
  struct Nested {
    ThreadPool* pool;
    Counter inner{64};
  } nested{&pool};
  nested.inner.workers = 2;
  pool.run(
      8,
      [](const void* context, int, std::int64_t begin, std::int64_t end) noexcept {
        auto& self = *static_cast<Nested*>(const_cast<void*>(context));
        for (std::int64_t i = begin; i < end; ++i) self.pool->run(64, Counter::body, &self.inner);
      },
      &nested);
  EXPECT_TRUE(nested.inner.all(8));
}

TEST(ThreadPool, StartsAndStopsQuickly) {
  for (int round = 0; round < 50; ++round) {
    ThreadPool pool(4);
    Counter counter(16);
    counter.workers = 4;
    if (round % 2 == 0) pool.run(16, Counter::body, &counter);
    EXPECT_TRUE(counter.all(round % 2 == 0 ? 1 : 0));
  }
}

#if defined(__SANITIZE_THREAD__)
#define LW_WITH_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define LW_WITH_TSAN 1
#endif
#endif
#ifndef LW_WITH_TSAN
TEST(ThreadPool, WorksInAForkedChild) {
  ThreadPool pool(3);
  Counter before(100);
  before.workers = 3;
  pool.run(100, Counter::body, &before);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);
    int bad = 0;
    {
      Counter counter(1000);
      counter.workers = 3;
      for (int round = 0; round < 20; ++round) pool.run(1000, Counter::body, &counter);
      bad = counter.all(20) ? 0 : 1;
    }
    _exit(bad);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  pool.run(100, Counter::body, &before);
  EXPECT_TRUE(before.all(2)) << "the parent goes on";
}

TEST(ThreadPool, AChildForkedWithinALoopIsNotBlocked) {
  ThreadPool pool(2);
  std::atomic<int> status{-1};
  struct Context {
    ThreadPool* pool;
    std::atomic<int>* status;
  } context{&pool, &status};
  pool.run(
      2,
      [](const void* raw, int, std::int64_t begin, std::int64_t) noexcept {
        if (begin != 0) return;
        const auto& self = *static_cast<const Context*>(raw);
        const pid_t child = fork();
        if (child == 0) {
          alarm(20);
          Counter counter(100);
          counter.workers = 2;
          self.pool->run(100, Counter::body, &counter);
          _exit(counter.all(1) ? 0 : 1);
        }
        int result = 0;
        waitpid(child, &result, 0);
        self.status->store(result);
      },
      &context);
  EXPECT_EQ(status.load(), 0);
}
#endif

}  // namespace
}  // namespace loopwright::runtime
