// The live view of a tuning run on standard error.
#pragma once

#include <string>

#include "loopwright/tune.h"

namespace loopwright::cli {

/// On a terminal: a few lines drawn over themselves. Otherwise: a line at every change of workload or phase, at every new
/// best, and at most every ten seconds. With `json`: one JSON object a line, with the same rules as the plain mode.
class ProgressView {
 public:
  enum class Mode { live, plain, json };
  explicit ProgressView(Mode mode) : mode_(mode) {}
  ~ProgressView();
  /// live where standard error is a terminal, else plain; json when asked.
  static Mode choose(bool json, bool plain);

  void update(const TuneProgress& progress);
  /// Leaves the last state on the screen and goes below it.
  void finish();

 private:
  void draw(const TuneProgress& p);
  bool is_worth_a_line(const TuneProgress& p) const;

  Mode mode_;
  int drawn_lines_ = 0;
  TuneProgress last_;
  double last_line_s_ = -1e9;
};

}  // namespace loopwright::cli
