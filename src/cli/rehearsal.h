// A graph on random data, with what must come out.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "loopwright/artifact.h"
#include "loopwright/graph.h"
#include "loopwright/runtime.h"

namespace loopwright::cli {

/// Random inputs at one shape, room for the outputs, and the float64 results to compare with.
class Rehearsal {
 public:
  static Result<Rehearsal> make(const Graph& graph, const PlanSpec& spec, const Bindings& bindings,
                                std::uint64_t seed);

  /// Fresh inputs and poisoned outputs, then one checked run.
  Status run(const Plan& plan);
  /// Addresses and symbol values for Plan::launch on the data of the last run.
  std::vector<void*> pointers();
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
  struct Tensor {
    PlanTensor spec;
    std::vector<std::int64_t> shape, strides, positions;
    std::int64_t span = 0;
    std::vector<std::uint8_t> data, pristine;
    Value value;  ///< what an output or a written input holds afterwards
  };
  Status compute_reference();
  /// Results of a float64 kernel on the inputs, by tensor, row-major.
  using Results = std::map<std::string, std::vector<double>>;
  Result<Results> run_oracle(const Artifact& oracle);

  std::shared_ptr<const Graph> graph_;
  Bindings bindings_;
  std::uint64_t seed_ = 1;
  std::vector<std::int64_t> symbols_;
  std::vector<Tensor> tensors_;
  Results expected_, doubt_;  ///< by tensor, see tuner/case.h
};

}  // namespace loopwright::cli
