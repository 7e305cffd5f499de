// The live view of a tuning run on standard error.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "loopwright/tune.h"

namespace loopwright::cli {

/// On a terminal: a few lines drawn over themselves, twice a second too, so that the clock goes on during a long
/// compilation. Otherwise: a line at every change of workload or phase, at every new
/// best, and at most every ten seconds. With `json`: one JSON object a line, with the same rules as the plain mode.
class ProgressView {
 public:
  enum class Mode { live, plain, json };
  explicit ProgressView(Mode mode);
  ~ProgressView();
  /// live where standard error is a terminal that can move its cursor (TERM says so), else plain; json when asked.
  static Mode choose(bool json, bool plain);

  void update(const TuneProgress& progress);
  /// Leaves the last state on the screen and goes below it.
  void finish();

 private:
  void draw(const TuneProgress& p);
  bool is_worth_a_line(const TuneProgress& p) const;
  void redraw(const std::stop_token& ended);

  Mode mode_;
  std::mutex mutex_;                              ///< guards what follows
  std::condition_variable_any wake_;
  bool has_last_ = false;
  std::chrono::steady_clock::time_point told_{};  ///< when `last_` came
  int drawn_lines_ = 0;
  std::size_t drawn_width_ = 0;                   ///< of the widest of them
  TuneProgress last_;
  double last_line_s_ = -1e9;
  std::jthread clock_;                            ///< of the live mode; ends first
};

}  // namespace loopwright::cli
