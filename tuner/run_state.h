// What a run must know to go on in another process; stored with the run as JSON.
#pragma once

#include <map>
#include <string>

#include "loopwright/tune.h"

namespace loopwright::tuner {

struct RunState {
  TuneOptions options;
  std::string graph_name, graph_text;
  double elapsed_s = 0;
  std::map<std::string, std::int64_t> ended_searches;  ///< see RunContext

  std::string text() const;
  /// unsupported for another version, syntax for damaged text.
  static Result<RunState> parse(const std::string& text);
};

}  // namespace loopwright::tuner
