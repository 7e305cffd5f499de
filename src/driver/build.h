// Joins the layers for one workload: template → scheduled kernel → lowered kernel → artifact.
#pragma once

#include <string>

#include "loopwright/artifact.h"
#include "loopwright/schedule.h"
#include "src/graph/workload.h"
#include "src/ir/kernel.h"

namespace loopwright::driver {

/// A workload with its naive kernel made once.
struct Job {
  graph::Workload workload;
  ir::Kernel naive;
};
Result<Job> make_job(const graph::Workload& workload);

/// A candidate after its template ran.
struct Scheduled {
  ir::Kernel kernel;  ///< Level::scheduled; `guard` is what the variant assumes
  std::string template_name;
  std::int32_t template_version = 0;
  Picks picks;        ///< every pick the template asked for
  std::string trace;
};
/// The templates that apply, in order of preference; never empty.
std::vector<const Template*> templates_for(const Job& job, const Target& target);
/// The rejection of a step or requirement is the Error.
Result<Scheduled> run_template(const Job& job, const Template& t, Space& space, const Target& target);
/// The same kernel from its stored trace.
Result<Scheduled> replay(const Job& job, const std::string& trace);

/// Scheduled → emittable.
Result<ir::Kernel> lower_kernel(const ir::Kernel& scheduled, const Target& target);
/// Emittable → machine code.
Result<Artifact> compile_kernel(const ir::Kernel& emittable, const Target& target);
/// Both.
Result<Artifact> build(const Scheduled& scheduled, const Target& target);

/// The workload computed in float64: inputs as stored, every float operation and every float output in f64.
/// The oracle of the tuner's verification. Its argument order is the workload's.
Result<Artifact> build_reference(const Job& job, const Target& target);

}  // namespace loopwright::driver
