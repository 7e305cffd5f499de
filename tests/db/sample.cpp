#include "tests/db/sample.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "src/support/digest.h"

namespace loopwright::db::test {

namespace {

constexpr UnixNs kNow = 1'700'000'000'000'000'000;

template <class T>
T take(Result<T> result) {
  if (!result.ok()) ADD_FAILURE() << result.error().message();
  return result.ok() ? *std::move(result) : T{};
}

}  // namespace

TempFolder::TempFolder(bool on_disk) {
  std::filesystem::path parent = std::filesystem::temp_directory_path();
  if (!on_disk && access("/dev/shm", W_OK) == 0) parent = "/dev/shm";
  std::string pattern = (parent / "loopwright-test-XXXXXX").string();
  path_ = mkdtemp(pattern.data());
  chmod(path_.c_str(), 0755);
}
TempFolder::~TempFolder() {
  std::error_code ignored;
  chmod(path_.c_str(), 0755);
  std::filesystem::remove_all(path_, ignored);
}

DeviceRow sample_device() {
  DeviceRow device;
  device.kind = "cpu";
  device.arch = "znver3";
  device.features = "avx avx2 fma";
  device.cores = 8;
  device.vendor = "AuthenticAMD";
  device.model = "EPYC";
  device.target = "cpu:znver3:+avx,+avx2,+fma";
  device.threads = 16;
  device.l1_bytes = 32 << 10;
  device.l2_bytes = 512 << 10;
  device.l3_bytes = 32 << 20;
  device.clock_khz = 3'400'000;
  return device;
}

ToolchainRow sample_toolchain() { return {{}, "1", "LLVM 19.1.7", "", "-O3"}; }

DeviceMatch sample_match() {
  DeviceMatch match;
  match.device = sample_device();
  match.toolchain = sample_toolchain();
  return match;
}

std::string sample_workload_text() { return "workload 1\nsymbol s0 in 1..8192\nx: bf16[s0, 2880]\ny = rms_norm(x)\n"; }

Artifact sample_artifact(std::uint8_t fill) {
  Artifact artifact;
  artifact.target = sample_device().target;
  artifact.symbols = {"s0"};
  ArtifactArg arg;
  arg.name = "x";
  arg.dtype = DType::bf16;
  arg.shape = {SizeExpr::symbol(0), SizeExpr(2880)};
  arg.strides = {SizeExpr(2880), SizeExpr(1)};
  artifact.args = {arg};
  CpuLaunch launch;
  launch.extent = SizeExpr::symbol(0);
  artifact.launches = {launch};
  artifact.image.assign(3000, fill);
  return artifact;
}

TrialRow sample_trial(const Sample& sample, const Digest& run, std::int64_t sequence) {
  TrialRow trial;
  trial.candidate = sample.candidates[0];
  trial.probe = sample.probe;
  trial.device = sample.device;
  trial.toolchain = sample.toolchain;
  trial.policy = sample.policy;
  trial.run = run;
  trial.sequence = sequence;
  trial.created_ns = kNow + sequence;
  for (int i = 0; i < 9; ++i) trial.samples_ns.push_back(1000.0 + static_cast<double>(sequence) + i * 0.25);
  return trial;
}

Sample fill_sample(Recorder& recorder) {
  Sample sample;
  sample.device = take(recorder.add_device(sample_device()));
  sample.toolchain = take(recorder.add_toolchain(sample_toolchain()));
  sample.policy = take(recorder.add_policy({{}, "rotated", "l2 rotate\nsamples 9\n"}));
  sample.workload = take(recorder.add_workload({{}, sample_workload_text(), "row_reduction", "strict"}));
  RunRow run;
  run.command = "loopwright tune rmsnorm.lw";
  run.seed = 0xFFFF'FFFF'FFFF'FFF1;
  run.generator = "1";
  run.device = sample.device;
  run.toolchain = sample.toolchain;
  run.policy = sample.policy;
  sample.run = take(recorder.begin_run(run));
  Guard small{{{"s0", 1, 64, 1}}, 1};
  Guard large{{{"s0", 65, 8192, 8}}, 16};
  for (const Guard& guard : {small, large}) {
    sample.ranges.push_back(take(recorder.add_range({{}, sample.workload, guard, 1.0})));
  }
  std::vector<Digest> probes;
  for (std::int64_t tokens : {17, 4096}) {
    ProbeRow probe{{}, sample.workload, {{"s0", tokens}}, "middle"};
    probes.push_back(take(recorder.add_probe(probe)));
  }
  sample.probe = probes.front();
  for (int i = 0; i < 3; ++i) {
    CandidateRow candidate;
    candidate.workload = sample.workload;
    candidate.template_name = "row_reduction";
    candidate.picks = "{\"rows\":" + std::to_string(1 << i) + "}";
    candidate.trace = "trace 1\nsplit i by " + std::to_string(1 << i) + " tail guard\n";
    candidate.is_default = i == 0;
    sample.candidates.push_back(take(recorder.add_candidate(candidate)));
    sample.artifacts.push_back(
        take(recorder.put_artifact(sample.candidates.back(), sample.toolchain, sample_artifact(static_cast<std::uint8_t>(i)))));
  }
  std::int64_t sequence = 0;
  for (int c = 0; c < 3; ++c) {
    for (const Digest& probe : probes) {
      TrialRow trial = sample_trial(sample, sample.run, sequence++);
      trial.candidate = sample.candidates[static_cast<std::size_t>(c)];
      trial.probe = probe;
      for (double& time : trial.samples_ns) time -= 100 * c;
      take(recorder.add_trial(trial));
    }
    VerificationRow verification;
    verification.candidate = sample.candidates[static_cast<std::size_t>(c)];
    verification.probe = probes[0];
    verification.device = sample.device;
    verification.toolchain = sample.toolchain;
    verification.run = sample.run;
    verification.seed = 7;
    verification.reference = "interpreter_f64";
    verification.max_rel_error = 1e-7;
    verification.tolerance = "rel 1e-5";
    verification.passed = true;
    verification.created_ns = kNow;
    take(recorder.add_verification(verification));
  }
  TrialRow bad = sample_trial(sample, sample.run, sequence);
  bad.candidate = sample.candidates[1];
  bad.probe = probes[1];
  bad.samples_ns.clear();
  bad.outcome = Outcome::timeout;
  bad.error_code = ErrorCode::timeout;
  bad.error = "no answer after 2000 ms; compiler said \xFF\xFE";
  take(recorder.add_trial(bad));
  for (std::size_t i = 0; i < 2; ++i) {
    BestRow best;
    best.range = sample.ranges[i];
    best.device = sample.device;
    best.toolchain = sample.toolchain;
    best.policy = sample.policy;
    best.candidate = sample.candidates[i + 1];
    best.median_ns = 900.5 - 100 * static_cast<double>(i);
    best.default_median_ns = 1000.25;
    best.speedup = best.default_median_ns / best.median_ns;
    best.worst_loss = 0.03;
    best.mean_loss = 0.01;
    best.held_out_probes = 4;
    best.complete = true;
    best.verified = true;
    best.run = sample.run;
    best.updated_ns = kNow;
    take(recorder.put_best(best));
  }
  PlanRow plan;
  plan.name = "rmsnorm";
  plan.graph_text = "graph rmsnorm\n";
  plan.plan_json = R"({"kernels":[]})";
  plan.created_ns = kNow;
  take(recorder.add_plan(plan));
  return sample;
}

Sample make_sample_file(const std::string& path) {
  auto recorder = Recorder::open(path);
  if (!recorder.ok()) {
    ADD_FAILURE() << recorder.error().message();
    return {};
  }
  return fill_sample(*recorder);
}

pid_t start_child(const std::function<int()>& body) {
  pid_t child = fork();
  if (child != 0) return child;
  int status = 99;
  try {
    status = body();
  } catch (...) {
    status = 98;
  }
  _exit(status);  // no destructors of the parent's objects, no second report of its tests
}

int wait_for(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

int run_in_child(const std::function<int()>& body) { return wait_for(start_child(body)); }

void become_nobody() {
  if (geteuid() != 0) return;
  if (setgid(65534) != 0 || setuid(65534) != 0) _exit(97);
}

std::string read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << bytes;
}

std::vector<std::string> describe_variants(const Query& query, const Digest& workload) {
  auto list = query.find_variants(workload, sample_match());
  std::vector<std::string> lines;
  if (!list.ok()) return {"error " + std::string(name(list.error().code))};
  for (const Variant& v : list->variants) {
    std::ostringstream line;
    line.precision(17);
    line << name(v.quality) << " | " << v.guard.text() << " | " << v.candidate.digest << " | " << v.candidate.picks << " | "
         << v.candidate.trace << " | " << v.best.median_ns << " | " << v.best.speedup << " | " << v.artifact;
    lines.push_back(line.str());
  }
  return lines;
}

}  // namespace loopwright::db::test
