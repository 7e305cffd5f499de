// Ending a run at once although its thread is inside a compiler or waits for a candidate.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "loopwright/tune.h"

namespace loopwright::tuner {

/// The run's thread holds a lock except while it is in an `Away`, where it touches neither the database nor the run's
/// records. Once the run is cancelled and has not ended by itself, a thread of this class takes the lock in such a moment,
/// commits, and calls TuneStop::abandon.
class Interruption {
 public:
  /// Takes the lock for the calling thread.
  explicit Interruption(const TuneStop& stop);
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  const std::atomic<bool>* cancel() const { return stop_.cancel; }
  bool is_cancelled() const { return stop_.cancel != nullptr && stop_.cancel->load(std::memory_order_relaxed); }
  /// Commits what there is and says what was done so far, called with the lock held. Changed by the run's thread alone.
  void set_commit(std::function<std::vector<TuneReport>()> commit) { commit_ = std::move(commit); }

  /// While it lives, the run may be committed by the other thread. Not nested.
  class Away {
   public:
    explicit Away(Interruption* interruption) : interruption_(interruption) {
      if (interruption_ != nullptr) interruption_->busy_.unlock();
    }
    ~Away() {
      if (interruption_ != nullptr) interruption_->busy_.lock();
    }
    Away(const Away&) = delete;
    Away& operator=(const Away&) = delete;

   private:
    Interruption* interruption_;
  };

 private:
  void watch(const std::stop_token& ended);

  TuneStop stop_;
  std::timed_mutex busy_;
  std::function<std::vector<TuneReport>()> commit_;
  std::jthread thread_;
};

}  // namespace loopwright::tuner
