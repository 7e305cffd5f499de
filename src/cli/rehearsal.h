// A graph on random data, with what must come out.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "loopwright/artifact.h"
#include "loopwright/graph.h"
#include "loopwright/runtime.h"
#include "src/cli/gpu_tensors.h"

namespace loopwright::cli {

/// Random inputs at one shape, room for the outputs, and the float64 results to compare with. Tensors are made and
/// judged on the host; a plan of a GPU gets copies in its memory.
class Rehearsal {
 public:
  static Result<Rehearsal> make(const Graph& graph, const Plan& plan, const Bindings& bindings, std::uint64_t seed);

  /// Fresh inputs and poisoned outputs, then one checked run of the plan that it was made for.
  Status run();
  const Plan& plan() const { return plan_; }
  /// Null on the CPU.
  const std::shared_ptr<const runtime::CudaDevice>& gpu() const { return gpu_; }
  /// Addresses and symbol values for Plan::launch on the data of the last run.
  std::vector<void*> pointers();
  /// The tensors of the last run, `sets` times in the GPU's memory.
  Result<GpuTensors> copy_to_gpu(std::int64_t sets) const;
  /// Of inputs and outputs.
  std::int64_t bytes() const;
  const std::vector<std::int64_t>& symbols() const { return symbols_; }

  struct Output {
    std::string name;
    double max_abs = 0, max_rel = 0;  ///< max_rel: of |reference| + the reference's root mean square
    std::string tolerance;
    bool passed = false;
    std::string detail;
  };
  /// The outputs of the last run, written inputs included, against the whole graph computed in float64.
  Result<std::vector<Output>> compare();

 private:
  explicit Rehearsal(const Plan& plan) : plan_(plan) {}
  struct Tensor {
    PlanTensor spec;
    std::vector<std::int64_t> shape, strides, positions;
    std::int64_t span = 0;
    std::vector<std::uint8_t> data, pristine;
    std::int64_t bytes() const { return span * size_bytes(spec.dtype); }
    Value value;  ///< what an output or a written input holds afterwards
  };
  Status compute_reference();
  /// Results of a float64 kernel on the inputs, by tensor, row-major.
  using Results = std::map<std::string, std::vector<double>>;
  Result<Results> run_oracle(const Artifact& oracle);
  Status launch_unchecked();

  Plan plan_;
  std::shared_ptr<const runtime::CudaDevice> gpu_;
  std::optional<GpuTensors> on_gpu_;  ///< of the runs
  std::shared_ptr<const Graph> graph_;
  Bindings bindings_;
  std::uint64_t seed_ = 1;
  std::vector<std::int64_t> symbols_;
  std::vector<Tensor> tensors_;
  Results expected_, doubt_;  ///< by tensor, see tuner/case.h
};

}  // namespace loopwright::cli
