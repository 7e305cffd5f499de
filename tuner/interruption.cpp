#include "tuner/interruption.h"

#include <chrono>

namespace loopwright::tuner {
namespace {

using std::chrono::milliseconds;
// Together with the commit well below a second.
constexpr milliseconds kLook{20};
constexpr milliseconds kGrace{300};  ///< for a run that ends by itself
constexpr milliseconds kWait{400};   ///< for the run's thread to leave the database

}  // namespace

Interruption::Interruption(const TuneStop& stop) : stop_(stop) {
  busy_.lock();
  if (stop_.cancel != nullptr && stop_.abandon)
    thread_ = std::jthread([this](const std::stop_token& ended) { watch(ended); });
}

Interruption::~Interruption() {
  // In this order: who takes the lock of a run that ended by itself must see that it did.
  thread_.request_stop();
  busy_.unlock();
}

void Interruption::watch(const std::stop_token& ended) {
  const auto wait = [&](milliseconds time, const auto& is_over) {
    const auto end = std::chrono::steady_clock::now() + time;
    while (!ended.stop_requested() && !is_over() && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(kLook);
  };
  while (!ended.stop_requested() && !is_cancelled()) std::this_thread::sleep_for(kLook);
  wait(kGrace, [] { return false; });
  bool away = false;
  wait(kWait, [&] { return away = busy_.try_lock(); });
  // A thread that is in the database for so long has everything committed but the last half second, as after a kill.
  if (!ended.stop_requested()) stop_.abandon(away && commit_ ? commit_() : std::vector<TuneReport>{});
  if (away) busy_.unlock();
}

}  // namespace loopwright::tuner
