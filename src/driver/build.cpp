#include "src/driver/build.h"

#include "loopwright/runtime.h"
#include "src/codegen/cuda/emit.h"
#include "src/codegen/llvm/jit.h"
#include "src/driver/promote.h"
#include "src/graph/naive_kernel.h"
#include "src/lower/passes.h"
#include "src/schedule/trace.h"

namespace loopwright::driver {

Result<Job> make_job(const graph::Workload& workload) {
  LW_TRY(ir::Kernel naive, graph::naive_kernel(workload.graph));
  return Job{workload, std::move(naive)};
}

std::vector<const Template*> templates_for(const Job& job, const Target& target) {
  const Schedule naive(job.naive, target);
  std::vector<const Template*> out;
  for (const Template& t : catalogue())
    if (t.kind == target.kind && t.applies(naive)) out.push_back(&t);
  LW_BUG_IF(out.empty(), "no template applies, `general` included");
  return out;
}

Result<Scheduled> run_template(const Job& job, const Template& t, Space& space, const Target& target) {
  Schedule schedule(job.naive, target);
  t.run(schedule, space);
  if (!schedule.ok()) {
    Error error = schedule.error();
    return std::move(error).with_context(std::string("template ") + t.name + " " +
                                         print_picks(space.picks()));
  }
  return Scheduled{schedule.kernel(), t.name, t.version, space.picks(), schedule.trace()};
}

Result<Scheduled> replay(const Job& job, const std::string& trace) {
  LW_TRY(ir::Kernel kernel, schedule::replay(job.naive, trace));
  return Scheduled{std::move(kernel), "trace", 0, {}, trace};
}

Result<ir::Kernel> lower_kernel(const ir::Kernel& scheduled, const Target& target) {
  return lower::lower(scheduled, lower::LowerOptions{.target = target});
}

Result<Artifact> compile_kernel(const ir::Kernel& emittable, const Target& target) {
  if (target.kind == TargetKind::cuda) return codegen::compile_cuda(emittable, target);
  LW_TRY(const codegen::CpuTarget cpu, codegen::parse_cpu_target(target.text()));
  return codegen::compile_cpu(emittable, cpu);
}

Result<Artifact> build(const Scheduled& scheduled, const Target& target) {
  LW_TRY(const ir::Kernel emittable, lower_kernel(scheduled.kernel, target));
  return compile_kernel(emittable, target);
}

namespace {

/// On the CPU where this program can compile for it: another code generator does not share this one's mistakes.
/// Otherwise by a default schedule of the GPU, in float64.
Result<Artifact> build_gpu_reference(const Job& job, ir::Kernel kernel, const Target& target) {
  if (LOOPWRIGHT_HAS_LLVM) {
    const Target cpu = host_target();  // by the name that the runtime knows this machine by
    LW_TRY(const ir::Kernel emittable, lower_kernel(kernel, cpu));
    return compile_kernel(emittable, cpu);
  }
  const Job exact{job.workload, std::move(kernel)};
  Error last{ErrorCode::no_template, "build the float64 reference", "no template", "", ""};
  for (const Template* t : templates_for(exact, target)) {
    Space space;
    const Result<Scheduled> scheduled = run_template(exact, *t, space, target);
    Result<Artifact> artifact = scheduled.ok() ? build(*scheduled, target) : Result<Artifact>(scheduled.error());
    if (artifact.ok()) return artifact;
    last = artifact.error();
  }
  return std::move(last).with_context("float64 reference on the GPU");
}

}  // namespace

Result<Artifact> build_reference(const Job& job, const Target& target) {
  ir::Kernel kernel = promote_to_f64(job.naive);
  kernel.contract = false;
  if (target.kind == TargetKind::cuda) return build_gpu_reference(job, std::move(kernel), target);
  LW_TRY(const ir::Kernel emittable, lower_kernel(kernel, target));
  return compile_kernel(emittable, target);
}

}  // namespace loopwright::driver
