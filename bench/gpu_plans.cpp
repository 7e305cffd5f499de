// Host time of a plan's call: its kernels' bare launches, Plan::launch, and Plan::launch_graph with addresses that stay and
// addresses that move, in turn in one run, with default schedules. Outputs of every way are compared with the first one's, and that
// one's with float64.
//
// Usage: bench_gpu_plans [cuda:N] [FILE.lw SYMBOL=VALUE]. Without a file: a chain of 20 kernels, and the expert with 37 tokens
// of ../graphs/moe_expert.lw beside the program or examples/moe_expert.lw.
#include <fmt/format.h>

#include <cstring>
#include <filesystem>

#include "bench/support/host_time.h"
#include "loopwright/compile.h"
#include "src/cli/rehearsal.h"
#include "src/runtime/cuda_graphs.h"
#include "src/runtime/plan.h"

namespace {

using namespace loopwright;
namespace cuda = runtime::cuda;

constexpr int kRounds = 200;
constexpr double kOwnLimitNs = 250, kGraphLimitNs = 1000;

[[noreturn]] void give_up(const std::string& why) {
  fmt::print(stderr, "{}\n", why);
  std::exit(1);
}
template <class T>
T need(Result<T> result) {
  if (!result.ok()) give_up(result.error().message());
  return std::move(*result);
}
void need(cuda::Status status, const runtime::CudaDriver& driver) {
  if (status != cuda::kSuccess) give_up(driver.describe(status));
}

/// Norms over columns and rows in turn, which no kernel can do together: 19 and what follows the last.
std::string write_chain() {
  std::string text = "graph chain\nsymbol rows in 1..4096\ninput x0: f32[rows, 64]\ninput w: f32[64]\n";
  for (int i = 0; i < 19; ++i)
    text += fmt::format(
        "m{0} = mean(mul(x{0}, x{0}), axes=[{2}], keepdim=true)\nx{1} = mul(mul(x{0}, rsqrt(add(m{0}, "
        "1e-5))), w)\n",
        i, i + 1, i % 2);
  return text + "output x19\n";
}

/// The launches of one call, ready for the driver.
class BareLaunches {
 public:
  BareLaunches(const runtime::CudaDevice& device, std::span<const runtime::CudaLaunchRecord> records)
      : device_(device) {
    for (const runtime::CudaLaunchRecord& record : records) {
      auto one = std::make_unique<One>();
      one->buffers.assign(record.buffers, record.buffers + record.artifact->buffer_count());
      one->symbols.assign(record.symbols, record.symbols + record.artifact->symbol_count());
      one->record = record;
      one->record.buffers = one->buffers.data();
      one->record.symbols = one->symbols.data();
      need(one->parameters.fill(device.driver(), device.context(), one->record), device.driver());
      all_.push_back(std::move(one));
    }
  }
  int launch() const {
    int failures = 0;
    for (const auto& one : all_)
      failures |= device_.driver().launch(&one->record.config, one->record.step->function,
                                          one->parameters.list(), nullptr);
    return failures;
  }
  std::size_t count() const { return all_.size(); }
  std::size_t count_edges() const {
    std::size_t edges = 0;
    for (const auto& one : all_) edges += one->record.programmatic ? 1 : 0;
    return edges;
  }

 private:
  struct One {
    runtime::CudaLaunchRecord record;
    std::vector<void*> buffers;
    std::vector<std::int64_t> symbols;
    runtime::LaunchParameters parameters;
  };
  const runtime::CudaDevice& device_;
  std::vector<std::unique_ptr<One>> all_;
};

/// One plan's ways to be called. Tensors lie in two places each.
class PlanCalls {
 public:
  PlanCalls(std::string name, const Graph& graph, const std::string& device, const Bindings& sizes)
      : name_(std::move(name)),
        plan_(need(make_plan(graph, {.target = need(device_target(device)), .device = device}))),
        rehearsal_(need(cli::Rehearsal::make(graph, plan_, sizes, 1))),
        gpu_(*rehearsal_.gpu()),
        current_(gpu_.driver(), gpu_.context()),
        symbols_(rehearsal_.symbols()) {
    need(gpu_.driver().create_stream(&stream_, cuda::kStreamNonBlocking), gpu_.driver());
    if (const Status ran = rehearsal_.run(); !ran.ok()) give_up(ran.error().message());
    outputs_ = need(rehearsal_.compare());
    tensors_.emplace(need(rehearsal_.copy_to_gpu(2)));
    here_ = tensors_->pointers(0);
    there_ = tensors_->pointers(1);
    const auto& state = runtime::PlanAccess::state(plan_);
    if (state.graphs == nullptr)
      give_up(name_ + ": no graphs: too few launches, or a driver that makes none");
    graphs_ = static_cast<runtime::CudaThreadGraphs*>(state.graphs->of_thread(stream_));
    if (plan_.launch_graph(here_.data(), symbols_.data(), stream_) != ErrorCode::ok)
      give_up(gpu_.describe_failure());
    bare_ = std::make_unique<BareLaunches>(gpu_, graphs_->records());
  }
  PlanCalls(const PlanCalls&) = delete;
  PlanCalls& operator=(const PlanCalls&) = delete;
  ~PlanCalls() {
    if (exec_ != nullptr) gpu_.driver().destroy_graph_exec(exec_);
    gpu_.driver().destroy_stream(stream_);
  }

  /// Whether all figures are within their limits.
  bool measure() {
    capture();
    add("bare launches", [this] { return bare_->launch(); });
    add("Plan::launch", [this] { return call(here_, false); });
    add("bare cuGraphLaunch", [this] { return gpu_.driver().launch_graph(exec_, stream_); });
    const std::size_t fixed = add("launch_graph, all stays", [this] { return call(here_, true); });
    const std::size_t input = add_moving("launch_graph, one input moves", [](ArgRole role, std::size_t t) {
      return role == ArgRole::input && t == 0;
    });
    const std::size_t outputs = add_moving("launch_graph, outputs move",
                                           [](ArgRole role, std::size_t) { return role == ArgRole::output; });
    const std::size_t everything =
        add_moving("launch_graph, everything moves", [](ArgRole, std::size_t) { return true; });
    const std::size_t sizes =
        symbols_.empty() ? 0
                         : add("launch_graph, two sizes in turn", [this] { return call_sizes_in_turn(); });
    check_results();
    bench::time_calls(gpu_, stream_, kRounds, calls_);
    print();

    const auto ns = [&](std::size_t i) { return calls_[i].quantile(0.5); };
    const double own = (ns(1) - ns(0)) / static_cast<double>(bare_->count()), checks = ns(fixed) - ns(2);
    fmt::print("own host time a kernel beyond bare launches: {:.0f} ns (at most {:.0f}): {}\n", own,
               kOwnLimitNs, own <= kOwnLimitNs ? "ok" : "TOO SLOW");
    fmt::print("a graph's call beyond cuGraphLaunch: {:.0f} ns (at most {:.0f}): {}\n", checks, kGraphLimitNs,
               checks <= kGraphLimitNs ? "ok" : "TOO SLOW");
    for (const std::size_t i : {input, outputs, everything, sizes}) {
      const Moved moved = i > 0 ? count_moved(i) : Moved{};
      if (moved.nodes > 0)
        fmt::print("{}: {} nodes are set a call, {:.0f} ns each with recording the call, {}\n",
                   calls_[i].name, moved.nodes, (ns(i) - ns(fixed)) / static_cast<double>(moved.nodes),
                   moved.by_graph ? "by graph" : "launched one by one");
    }
    bool right = own <= kOwnLimitNs && checks <= kGraphLimitNs;
    for (const auto& o : outputs_) {
      fmt::print("{}: max error against float64 {:.3g} (rel {:.3g}), tolerance {}: {}\n", o.name, o.max_abs,
                 o.max_rel, o.tolerance, o.passed ? "ok" : "WRONG");
      right = right && o.passed;
    }
    fmt::print("\n");
    return right;
  }

 private:
  using Pointers = std::vector<void*>;
  struct Moved {
    std::size_t nodes = 0;
    bool by_graph = false;
  };

  int call(const Pointers& pointers, bool graph) {
    const ErrorCode code = graph ? plan_.launch_graph(pointers.data(), symbols_.data(), stream_)
                                 : plan_.launch(pointers.data(), symbols_.data(), stream_);
    return code == ErrorCode::ok ? 0 : 1;
  }
  int call_sizes_in_turn() {
    // One less of every symbol that may be less: all of the tensors' memory is used the same way.
    std::vector<std::int64_t> symbols = symbols_;
    turn_ = !turn_;
    for (std::size_t s = 0; s < symbols.size() && turn_; ++s)
      symbols[s] = std::max(plan_.spec().symbols[s].lo, symbols[s] - 1);
    return plan_.launch_graph(here_.data(), symbols.data(), stream_) == ErrorCode::ok ? 0 : 1;
  }
  std::size_t add(std::string name, std::function<int()> call) {
    calls_.push_back({std::move(name), std::move(call), static_cast<int>(bare_->count()), {}});
    return calls_.size() - 1;
  }
  template <class Moves>
  std::size_t add_moving(std::string name, Moves moves) {
    Pointers other = here_;
    for (std::size_t t = 0; t < other.size(); ++t)
      if (moves(plan_.spec().tensors[t].role, t)) other[t] = there_[t];
    return add(std::move(name), [this, other, first = false]() mutable {
      first = !first;
      return call(first ? other : here_, true);
    });
  }
  /// Of the next call of one way, in a row of such calls.
  Moved count_moved(std::size_t i) {
    for (int k = 0; k < 2 * runtime::kCallsBeforeGraph; ++k)
      if (calls_[i].call() != 0) give_up(gpu_.describe_failure());
    wait();
    return {graphs_->last_moved(), graphs_->last_by_graph()};
  }
  void wait() {
    if (gpu_.wait(stream_) != ErrorCode::ok) give_up(gpu_.describe_failure());
  }
  void capture() {
    cuda::Graph graph = nullptr;
    const runtime::CudaDriver& driver = gpu_.driver();
    need(driver.begin_capture(stream_, cuda::kCaptureRelaxed), driver);
    const int failures = bare_->launch();
    need(driver.end_capture(stream_, &graph), driver);
    if (failures != 0) give_up(name_ + ": bare launches cannot be captured");
    need(driver.instantiate(&exec_, graph, 0), driver);
    driver.destroy_graph(graph);
  }
  std::vector<std::uint8_t> read_outputs(const Pointers& from) {
    std::vector<std::uint8_t> all;
    for (std::size_t t = 0; t < from.size(); ++t) {
      if (plan_.spec().tensors[t].role == ArgRole::input) continue;
      std::int64_t bytes = size_bytes(plan_.spec().tensors[t].dtype);
      for (const SizeExpr& size : plan_.spec().tensors[t].shape) bytes *= size.evaluate(symbols_.data());
      const std::size_t at = all.size();
      all.resize(at + static_cast<std::size_t>(bytes));
      need(gpu_.driver().copy_to_host(all.data() + at, reinterpret_cast<cuda::Address>(from[t]),
                                      static_cast<std::size_t>(bytes), stream_),
           gpu_.driver());
      wait();
      need(gpu_.driver().fill(reinterpret_cast<cuda::Address>(from[t]), 0x7f, static_cast<std::size_t>(bytes),
                              stream_),
           gpu_.driver());
    }
    return all;
  }
  /// Every way once with addresses that stay where they are and, while it moves them, at their other place.
  void check_results() {
    read_outputs(here_), read_outputs(there_);
    if (call(here_, false) != 0) give_up(gpu_.describe_failure());
    const std::vector<std::uint8_t> right = read_outputs(here_), empty = read_outputs(there_);
    for (bench::HostCall& c : calls_) {
      if (c.name.ends_with("in turn")) continue;
      for (int k = 0; k < 2 * runtime::kCallsBeforeGraph; ++k) {
        if (c.call() != 0) give_up(c.name + ": " + gpu_.describe_failure());
        const std::vector<std::uint8_t> one = read_outputs(here_), other = read_outputs(there_);
        const bool same = (one == right && other == empty) || (one == empty && other == right);
        if (!same) give_up(fmt::format("{}, {}: results differ from Plan::launch", name_, c.name));
      }
    }
  }
  void print() const {
    fmt::print("{}: {} launches a call, {} with a programmatic edge, {} rounds in turn\n\n", name_,
               bare_->count(), bare_->count_edges(), kRounds);
    fmt::print("{:<36} {:>10} {:>8} {:>8} {:>14}\n", "call", "median us", "p10", "p90", "ns a kernel");
    for (const bench::HostCall& c : calls_)
      fmt::print("{:<36} {:>10.2f} {:>8.2f} {:>8.2f} {:>14.0f}\n", c.name, c.quantile(0.5) / 1e3,
                 c.quantile(0.1) / 1e3, c.quantile(0.9) / 1e3, c.quantile(0.5) / c.launches);
    fmt::print("\n");
  }

  std::string name_;
  Plan plan_;
  cli::Rehearsal rehearsal_;
  const runtime::CudaDevice& gpu_;
  runtime::CurrentContext current_;
  std::vector<std::int64_t> symbols_;
  cuda::Stream stream_ = nullptr;
  cuda::GraphExec exec_ = nullptr;
  std::vector<cli::Rehearsal::Output> outputs_;
  std::optional<cli::GpuTensors> tensors_;
  Pointers here_, there_;
  runtime::CudaThreadGraphs* graphs_ = nullptr;
  std::unique_ptr<BareLaunches> bare_;
  std::vector<bench::HostCall> calls_;
  bool turn_ = false;
};

std::filesystem::path find_expert() {
  const auto beside =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "../graphs/moe_expert.lw";
  return std::filesystem::exists(beside) ? beside : std::filesystem::path("examples/moe_expert.lw");
}

}  // namespace

int main(int argc, char** argv) {
  std::string device = "cuda:0", file;
  Bindings sizes;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const std::size_t equals = word.find('=');
    if (word.starts_with("cuda")) device = word;
    else if (equals != std::string::npos)
      sizes[word.substr(0, equals)] = std::atoll(word.c_str() + equals + 1);
    else file = word;
  }
  const auto opened = need(runtime::open_device(device));
  const auto gpu = std::dynamic_pointer_cast<const runtime::CudaDevice>(opened);
  if (gpu == nullptr) give_up(device + " is no GPU");
  fmt::print("{}, driver for CUDA {}\n\n", gpu->info().name, gpu->driver().version_text());
  bool right = true;
  if (file.empty()) {
    const Graph chain = need(Graph::parse(write_chain(), "chain"));
    right = PlanCalls("20 norms", chain, device, {{"rows", 64}}).measure();
    sizes = {{"tokens", 37}};
    file = find_expert();
  }
  const Graph graph = need(Graph::load(file));
  right = PlanCalls(graph.name(), graph, device, sizes).measure() && right;
  return right ? 0 : 3;
}
