#include "src/cli/rehearsal.h"

#include <unistd.h>

#include "src/cli/output.h"
#include "src/driver/build.h"
#include "src/runtime/plan.h"
#include "tuner/case.h"
#include "tuner/doubt.h"
#include "tuner/tolerance.h"
#include "tuner/values.h"

namespace loopwright::cli {
namespace {

constexpr std::int64_t kAlignment = 64;

template <class Bytes>  // const or not
auto* align(Bytes& data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data.data());
  return data.data() + (kAlignment - address % kAlignment) % kAlignment;
}

/// out_of_memory before the machine swaps or the allocation throws.
Status check_memory(double bytes, const std::string& asked) {
  const double there = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  if (bytes <= there) return Unit{};
  return Error{ErrorCode::out_of_memory, asked,
               "it needs " + format_bytes(static_cast<std::int64_t>(bytes)) + ", this machine has " +
                   format_bytes(static_cast<std::int64_t>(there)),
               "", "a smaller graph, or smaller symbols (--symbol)"};
}

/// One launch on the CPU. `buffers` in the order of the arguments.
Status launch_on_cpu(const Artifact& oracle, const std::vector<std::int64_t>& symbols, std::vector<void*>& buffers) {
  const auto device = runtime::shared_cpu_device();
  LW_TRY(const auto loaded, device->load(oracle));
  std::int64_t scratch_bytes = 0;
  for (const SizeExpr& s : loaded->scratch_bytes())
    scratch_bytes = std::max(scratch_bytes, s.evaluate(symbols.data()));
  scratch_bytes =
      (scratch_bytes + runtime::kBlockAlignment - 1) / runtime::kBlockAlignment * runtime::kBlockAlignment;
  std::byte* scratch = device->reserve(runtime::MemoryKind::arena, scratch_bytes * device->scratch_workers(), nullptr);
  if (scratch_bytes > 0 && scratch == nullptr)
    return Error{ErrorCode::out_of_memory, "scratch of the reference",
                 std::to_string(scratch_bytes) + " bytes", "", "a smaller --symbol"};
  const ErrorCode code = device->launch(*loaded, {buffers.data(), symbols.data(), scratch, scratch_bytes});
  if (code != ErrorCode::ok) return Error{code, "the float64 reference", "it did not run", "", ""};
  return Unit{};
}

/// The same with copies of the buffers in a GPU's memory; `bytes` of each.
Status launch_on_gpu(const std::shared_ptr<const runtime::CudaDevice>& gpu, const Artifact& oracle,
                     const std::vector<std::int64_t>& symbols, const std::vector<void*>& buffers,
                     const std::vector<std::int64_t>& bytes) {
  LW_TRY(const auto loaded, gpu->load(oracle));
  LW_TRY(const GpuTensors tensors, GpuTensors::make(gpu, bytes, 1));
  for (std::size_t i = 0; i < buffers.size(); ++i) LW_CHECK(tensors.upload(i, buffers[i]));
  const std::vector<void*> at = tensors.pointers();
  ErrorCode code = gpu->launch(*loaded, {.buffers = at.data(), .symbols = symbols.data()});
  if (code == ErrorCode::ok) code = gpu->wait(nullptr);
  if (code != ErrorCode::ok) return Error{code, "the float64 reference", gpu->describe_failure(), gpu->info().name, ""};
  for (std::size_t i = 0; i < buffers.size(); ++i) LW_CHECK(tensors.download(i, buffers[i]));
  return Unit{};
}

/// What a graph's output or written input holds after a run.
Value value_of(const Graph& graph, const std::string& tensor) {
  for (const Graph::Output& o : graph.outputs())
    if (o.name == tensor) return o.value;
  for (const Graph::Update& u : graph.updates())
    if (graph.node(u.input).name == tensor) return u.value;
  return {};
}

}  // namespace

Result<Rehearsal> Rehearsal::make(const Graph& graph, const Plan& plan, const Bindings& bindings, std::uint64_t seed) {
  const PlanSpec& spec = plan.spec();
  Rehearsal r(plan);
  r.gpu_ = std::dynamic_pointer_cast<const runtime::CudaDevice>(runtime::PlanAccess::state(plan).device);
  r.graph_ = std::make_shared<Graph>(graph);
  r.bindings_ = bindings;
  r.seed_ = seed;
  for (const Symbol& s : spec.symbols) r.symbols_.push_back(bindings.at(s.name));
  LW_TRY(const driver::Job job, driver::make_job(graph::make_workload(graph)));
  const auto ranges = tuner::find_index_ranges(job.naive, bindings);
  double bytes = 0;
  for (const PlanTensor& t : spec.tensors) {
    const auto span = tuner::count_span(tuner::evaluate_all(t.shape, r.symbols_), tuner::evaluate_all(t.strides, r.symbols_));
    // As it is, and pristine or in float64.
    bytes += static_cast<double>(span) * static_cast<double>(size_bytes(t.dtype) + (t.role == ArgRole::output ? 8 : size_bytes(t.dtype)));
  }
  LW_CHECK(check_memory(bytes, "run " + graph.name() + " on random data"));
  for (const PlanTensor& t : spec.tensors) {
    if (t.role == ArgRole::workspace) continue;
    Tensor tensor{.spec = t};
    tensor.shape = tuner::evaluate_all(t.shape, r.symbols_);
    tensor.strides = tuner::evaluate_all(t.strides, r.symbols_);
    tensor.positions = tuner::list_positions(tensor.shape, tensor.strides);
    tensor.span = tuner::count_span(tensor.shape, tensor.strides);
    tensor.data.resize(static_cast<std::size_t>(tensor.span * size_bytes(t.dtype) + kAlignment));
    tensor.value = value_of(graph, t.name);
    if (t.role != ArgRole::output) {
      const auto range = ranges.find(t.name);
      tensor.pristine.resize(static_cast<std::size_t>(tensor.span * size_bytes(t.dtype)));
      tuner::fill_random(t.dtype, tensor.pristine.data(), tensor.span, tuner::Draw::normal,
                         seed * 1000 + r.tensors_.size(), range == ranges.end() ? nullptr : &range->second);
    }
    r.tensors_.push_back(std::move(tensor));
  }
  return r;
}

Status Rehearsal::run() {
  std::vector<TensorView> views;
  for (Tensor& t : tensors_) {
    std::uint8_t* data = align(t.data);
    if (t.spec.role == ArgRole::output) tuner::fill_poison(t.spec.dtype, data, t.bytes(), false);
    else std::copy(t.pristine.begin(), t.pristine.end(), data);
  }
  if (gpu_ != nullptr && !on_gpu_) {
    LW_TRY(on_gpu_, copy_to_gpu(1));
  } else if (gpu_ != nullptr) {
    for (std::size_t i = 0; i < tensors_.size(); ++i) LW_CHECK(on_gpu_->upload(i, align(tensors_[i].data)));
  }
  const std::vector<void*> at = pointers();
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    views.push_back({at[i], tensors_[i].spec.dtype, tensors_[i].shape, tensors_[i].strides});
  Status status = plan_.run(views);
  // No tensor's shape determines some symbol: its value is ours to say, and these views fit by construction.
  if (!status.ok() && status.error().code == ErrorCode::bad_symbol) status = launch_unchecked();
  LW_CHECK(status);
  for (std::size_t i = 0; i < tensors_.size() && gpu_ != nullptr; ++i)
    LW_CHECK(on_gpu_->download(i, align(tensors_[i].data)));
  return Unit{};
}

Status Rehearsal::launch_unchecked() {
  const auto& device = *runtime::PlanAccess::state(plan_).device;
  ErrorCode code = plan_.launch(pointers().data(), symbols_.data());
  if (code == ErrorCode::ok) code = device.wait(nullptr);
  if (code == ErrorCode::ok) return Unit{};
  return Error{code, "launch " + plan_.spec().name, std::string(name(code)), device.describe_failure(), "other values of --symbol"};
}

std::vector<void*> Rehearsal::pointers() {
  if (on_gpu_) return on_gpu_->pointers();
  std::vector<void*> out;
  for (Tensor& t : tensors_) out.push_back(align(t.data));
  return out;
}

Result<GpuTensors> Rehearsal::copy_to_gpu(std::int64_t sets) const {
  std::vector<std::int64_t> bytes;
  for (const Tensor& t : tensors_) bytes.push_back(t.bytes());
  LW_TRY(GpuTensors out, GpuTensors::make(gpu_, bytes, sets));
  for (std::size_t i = 0; i < tensors_.size(); ++i) LW_CHECK(out.upload(i, align(tensors_[i].data)));
  LW_CHECK(out.replicate());
  return out;
}

std::int64_t Rehearsal::bytes() const {
  std::int64_t sum = 0;
  for (const Tensor& t : tensors_) sum += t.bytes();
  return sum;
}

Result<Rehearsal::Results> Rehearsal::run_oracle(const Artifact& oracle) {
  const std::vector<std::int64_t> symbols = tuner::symbol_values(oracle.symbols, bindings_);
  double bytes = 0;
  for (const ArtifactArg& arg : oracle.args)
    bytes += static_cast<double>(tuner::count_span(tuner::evaluate_all(arg.shape, symbols), tuner::evaluate_all(arg.strides, symbols))) *
             static_cast<double>(size_bytes(arg.dtype));
  LW_CHECK(check_memory(bytes, "compute " + graph_->name() + " in float64"));
  std::vector<std::vector<std::uint8_t>> memory(oracle.args.size());
  std::vector<void*> buffers;
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < oracle.args.size(); ++i) {
    const ArtifactArg& arg = oracle.args[i];
    const auto shape = tuner::evaluate_all(arg.shape, symbols),
               strides = tuner::evaluate_all(arg.strides, symbols);
    const std::int64_t span = tuner::count_span(shape, strides);
    sizes.push_back(span * size_bytes(arg.dtype));
    memory[i].resize(static_cast<std::size_t>(sizes.back() + kAlignment));
    buffers.push_back(align(memory[i]));
    if (arg.role == ArgRole::output || arg.role == ArgRole::workspace) continue;
    const auto t = std::find_if(tensors_.begin(), tensors_.end(), [&](const Tensor& x) { return x.spec.name == arg.name; });
    LW_BUG_IF(t == tensors_.end(), "the plan has no tensor " + arg.name);
    for (std::int64_t e = 0; e < span; ++e)
      tuner::write_element(arg.dtype, buffers[i], e, tuner::read_element(t->spec.dtype, t->pristine.data(), e));
  }
  if (oracle.target.starts_with("cpu:")) LW_CHECK(launch_on_cpu(oracle, symbols, buffers));
  else LW_CHECK(launch_on_gpu(gpu_, oracle, symbols, buffers, sizes));
  Results results;
  for (std::size_t i = 0; i < oracle.args.size(); ++i) {
    const ArtifactArg& arg = oracle.args[i];
    if (arg.role != ArgRole::output && arg.role != ArgRole::inout) continue;
    const auto shape = tuner::evaluate_all(arg.shape, symbols);
    const auto positions = tuner::list_positions(shape, tuner::evaluate_all(arg.strides, symbols));
    std::int64_t count = 1;
    for (const std::int64_t d : shape) count *= d;
    std::vector<double>& values = results[arg.name];
    for (std::int64_t e = 0; e < count; ++e)
      values.push_back(tuner::read_element(arg.dtype, buffers[i], positions.empty() ? e : positions[e]));
  }
  return results;
}

Status Rehearsal::compute_reference() {
  // A build without code generation for the CPU computes it on the plan's GPU, see driver::build_reference.
  const Target& target = runtime::PlanAccess::state(plan_).device->target();
  LW_TRY(const driver::Job job, driver::make_job(graph::make_workload(*graph_)));
  LW_TRY(const Artifact reference, driver::build_reference(job, target));
  LW_TRY(expected_, run_oracle(reference));
  LW_TRY(const auto doubt, tuner::build_doubt(*graph_, target));
  if (doubt != nullptr) {
    LW_TRY(doubt_, run_oracle(*doubt));
  }
  return Unit{};
}

Result<std::vector<Rehearsal::Output>> Rehearsal::compare() {
  if (expected_.empty()) LW_CHECK(compute_reference());
  std::vector<Output> out;
  for (Tensor& t : tensors_) {
    if (t.spec.role == ArgRole::input) continue;
    const tuner::Tolerance tolerance = tuner::find_tolerance(*graph_, t.value, bindings_);
    const tuner::Deviation d =
        tuner::compare_output(t.spec.dtype, align(t.data), t.positions, expected_.at(t.spec.name),
                              doubt_[tuner::doubt_name(t.spec.name)], tolerance);
    Output o{t.spec.name, d.max_abs, d.max_rel, tolerance.text(), d.passed, ""};
    if (!d.passed)
      o.detail = std::to_string(d.outside) + " elements outside; element " + std::to_string(d.first) +
                 " is " + std::to_string(d.found) + ", expected " + std::to_string(d.expected);
    out.push_back(std::move(o));
  }
  return out;
}

}  // namespace loopwright::cli
