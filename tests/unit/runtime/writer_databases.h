// Database files around a kernel that writes a constant, so that a test sees which variant ran.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <functional>

#include "db/record.h"
#include "src/runtime/device.h"
#include "src/runtime/jit_hook.h"
#include "src/support/digest.h"
#include "tests/unit/runtime/hand_made.h"

namespace loopwright::runtime::testing {

inline const std::string kWorkload = "workload 1\nsymbol s0\nout: i64[1]\n";

template <class T>
T take(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.error().message());
  return std::move(result).value();
}

/// The same work where tf32 is allowed.
inline const std::string kLooseWorkload = "workload 1\naccuracy tf32\nsymbol s0\nout: i64[1]\n";

inline std::shared_ptr<Artifact> writer(std::uint8_t value) {
  return make_artifact(write_constant(value), {vector_arg("out", ArgRole::output, SizeExpr(1), DType::i64)},
                       1);
}

inline PlanSpec writer_spec() {
  PlanSpec spec = twice_spec(0, 1000);
  spec.name = "writer";
  spec.tensors = {vector_tensor("out", ArgRole::output, SizeExpr(1), DType::i64)};
  spec.kernels = {{sha256_hex(kWorkload), "writer", {0}, {0}, {"s0"}}};
  return spec;
}

class WriterDatabases : public ::testing::Test {
 protected:
  WriterDatabases() {
    std::string pattern = (std::filesystem::temp_directory_path() / "loopwright-lookup-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    device_ = shared_cpu_device()->fingerprint();
    toolchain_ = current_toolchain("LLVM test");
  }
  ~WriterDatabases() override {
    set_jit_hook(nullptr);
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  void with(const std::string& file, const std::function<void(db::Recorder&)>& write) const {
    db::Recorder recorder = take(db::Recorder::open(path(file)));
    take(recorder.add_workload({{}, kWorkload, "writer", "strict"}));
    write(recorder);
  }

  void add_plan(db::Recorder& recorder) const {
    db::PlanRow plan;
    plan.name = "writer";
    plan.graph_text = "graph writer\n";
    plan.plan_json = writer_spec().text();
    take(recorder.add_plan(plan));
  }
  /// `loose`: the plan of a graph that allows tf32.
  static void add_loose_plan(db::Recorder& recorder) {
    PlanSpec spec = writer_spec();
    spec.name = "loose";
    spec.kernels[0].workload = sha256_hex(kLooseWorkload);
    spec.kernels[0].strict_workload = sha256_hex(kWorkload);
    db::PlanRow plan;
    plan.name = "loose";
    plan.graph_text = "graph loose\n";
    plan.plan_json = spec.text();
    take(recorder.add_plan(plan));
  }

  /// A verified candidate with machine code that writes `value`; the winner of `range` unless it is the default.
  void add_row(db::Recorder& recorder, std::uint8_t value, const Guard* range, bool with_code = true,
               const std::string& workload_text = kWorkload) const {
    const std::string workload = sha256_hex(workload_text);
    const std::string device = take(recorder.add_device(device_));
    const std::string toolchain = take(recorder.add_toolchain(toolchain_));
    const std::string policy = take(recorder.add_policy({{}, "test", "test\n"}));
    db::RunRow run;
    run.device = device, run.toolchain = toolchain, run.policy = policy;
    const std::string run_digest = take(recorder.begin_run(run));
    db::CandidateRow candidate;
    candidate.workload = workload;
    candidate.template_name = "writer" + std::to_string(value);
    candidate.picks = "{}";
    candidate.trace = "trace " + std::to_string(value);
    candidate.is_default = range == nullptr;
    const std::string candidate_digest = take(recorder.add_candidate(candidate));
    if (with_code) take(recorder.put_artifact(candidate_digest, toolchain, *writer(value)));
    db::VerificationRow verification;
    verification.candidate = candidate_digest, verification.device = device,
    verification.toolchain = toolchain, verification.run = run_digest;
    verification.probe = take(recorder.add_probe({{}, workload, {{"s0", 5}}, "middle"}));
    verification.passed = true;
    take(recorder.add_verification(verification));
    if (range == nullptr) return;
    db::BestRow best;
    best.range = take(recorder.add_range({{}, workload, *range, 1}));
    best.device = device, best.toolchain = toolchain, best.policy = policy, best.candidate = candidate_digest,
    best.run = run_digest;
    best.median_ns = 100, best.default_median_ns = 200, best.speedup = 2;
    best.worst_loss = 0.05, best.mean_loss = 0.02;
    best.complete = best.verified = true;
    take(recorder.put_best(best));
  }

  Result<Runtime> open(std::vector<std::string> files, OnMiss on_miss = OnMiss::fallback) const {
    RuntimeOptions options;
    for (const std::string& file : files) options.databases.push_back(path(file));
    options.on_miss = on_miss;
    return Runtime::open(std::move(options));
  }

  static std::int64_t run_at(const Plan& plan, std::int64_t n) {
    std::int64_t out = -1;
    void* pointers[] = {&out};
    const ErrorCode code = plan.launch(pointers, &n);
    return code == ErrorCode::ok ? out : -static_cast<std::int64_t>(code);
  }

  std::filesystem::path folder_;
  db::DeviceRow device_;
  db::ToolchainRow toolchain_;
};

}  // namespace loopwright::runtime::testing
