// The steps of a schedule as text, both ways, and replay.
//
//   trace 1
//   split y_0 by 8, 4 tail guard -> y_0_o y_0_1 y_0_i
//   parallel y_0_o
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/schedule/steps/all_steps.h"

namespace loopwright::schedule {

/// Raised when the same trace gives another kernel than before, or does not parse any more.
inline constexpr std::int64_t kTraceVersion = 1;

/// A step with the names of the loops that it made.
struct TracedStep {
  Step step;
  std::vector<std::string> made;
};

/// One line without the newline: `split i by 8 tail guard`, without what it made.
std::string text(const Step& step);
std::string text(const TracedStep& step);
/// The version line, then one step a line.
std::string print_trace(const std::vector<TracedStep>& steps);
/// trace_version for a text of another version, bad_trace with the line otherwise. What a step made may be left out.
Result<std::vector<TracedStep>> parse_trace(std::string_view text);

/// Applies a step; a rejection says what was asked and in which kernel.
Result<Applied> apply_step(const ir::Kernel& k, const Step& step);
/// The kernel after all steps. bad_trace with the number of the line, the step and the reason when a step is rejected or
/// makes other loops than the trace says.
Result<ir::Kernel> replay(const ir::Kernel& naive, const std::vector<TracedStep>& steps);
/// Parses and replays.
Result<ir::Kernel> replay(const ir::Kernel& naive, std::string_view trace);

}  // namespace loopwright::schedule
