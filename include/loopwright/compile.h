// From a graph to machine code, and every form in between.
#pragma once

#include <string>
#include <vector>

#include "loopwright/artifact.h"
#include "loopwright/base.h"
#include "loopwright/graph.h"
#include "loopwright/runtime.h"
#include "loopwright/schedule.h"
#include "loopwright/target.h"

namespace loopwright {

/// What `show` prints.
enum class Form : std::uint8_t { graph, groups, naive, scheduled, trace, flat, emittable, source, assembly };

struct ShowOptions {
  Target target;
  int group = -1;             ///< -1 = all
  std::string template_name;  ///< empty = the first that applies
  Picks picks;                ///< missing ones take their default
  std::string trace;          ///< when given, replayed instead of a template
};
/// Text of one form of a graph's kernels.
Result<std::string> show(const Graph& graph, Form form, const ShowOptions& options);

struct PlanOptions {
  Target target;
  std::vector<std::string> databases;  ///< tuned variants come from here, most important first
  OnMiss on_miss = OnMiss::jit;        ///< jit: kernels without a tuned variant use the default schedule, compiled now
  std::string device;                  ///< `cuda:1`; empty = the first of the target's kind
};
/// Graph + databases → a plan that runs. Databases are only read: a tuned variant without code of this machine is left
/// out with a note until `rebuild` (tune.h) has verified it.
Result<Plan> make_plan(const Graph& graph, const PlanOptions& options);

/// Lets Runtime compile on a miss (OnMiss::jit) in this process.
void enable_jit();

}  // namespace loopwright
