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
  std::string cache;                   ///< database that keeps default schedules compiled here, for the next process; empty = none
  std::string record;                  ///< database for the shapes of calls that no tuned variant serves, see write_recordings; empty = none
};
/// How a plan came about.
struct PlanReport {
  int compiled = 0;     ///< kernels whose default schedule was compiled for it
  int kept = 0;         ///< kernels whose default schedule came from PlanOptions::cache
  std::string trouble;  ///< why the cache could not be read or written, which stops nothing; empty: it could
};
/// Graph + databases → a plan that runs. Databases are only read: a tuned variant without code of this machine is left
/// out with a note until `rebuild` (tune.h) has verified it.
Result<Plan> make_plan(const Graph& graph, const PlanOptions& options, PlanReport* report = nullptr);

/// Writes what plans made with PlanOptions::record were called with since the last time as `wanted` rows: `tune_wanted`
/// (tune.h) tunes for them. What cannot be written is kept for the next time.
Status write_recordings();

/// Lets Runtime compile on a miss (OnMiss::jit) in this process.
void enable_jit();

}  // namespace loopwright
