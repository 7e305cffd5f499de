// loopwright-worker: loads artifacts and runs them on memory shared with the tuner. It holds no reference result and
// makes no judgement, because a candidate may overwrite anything in this process; the tuner judges from outside.
//
// Commands (JSON, see docs/tuner.md): open, guard, load, unload, populate, run, time, and those of worker_cuda.h. After
// `open` of a GPU everything goes there but commands with `on` = `cpu`. Everything is done by one thread; the CPU's own
// workers run the parallel loops.
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "src/runtime/device.h"
#include "tuner/protocol.h"
#include "tuner/worker_cuda.h"

namespace loopwright::tuner {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

Arena arena;

/// Async-signal-safe: leaves a note in the shared page and ends the process.
void report_fault(int signal, siginfo_t* info, void*) {
  FaultReport report;
  report.signal = static_cast<std::uint32_t>(signal);
  const auto* address = static_cast<const std::uint8_t*>(info->si_addr);
  if ((signal == SIGSEGV || signal == SIGBUS) && address >= arena.at(0) && address < arena.at(arena.bytes())) {
    report.inside_arena = 1;
    report.offset = static_cast<std::uint64_t>(address - arena.at(0));
  }
  std::memcpy(arena.at(0), &report, sizeof report);
  _exit(kFaultExit);
}

void install_fault_report() {
  static std::uint8_t stack[64 << 10];
  stack_t alternate{};
  alternate.ss_sp = stack;
  alternate.ss_size = sizeof stack;
  ::sigaltstack(&alternate, nullptr);
  struct sigaction action {};
  action.sa_sigaction = report_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESETHAND;
  for (int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE}) ::sigaction(signal, &action, nullptr);
}

/// What a test device asks the worker to do wrong (tuner/fault_device.h). `value` is what the fault needs.
struct Fault {
  std::string kind;
  std::uint64_t offset = 0, bytes = 0;
};

/// A loaded artifact with what a launch needs.
struct Kernel {
  Artifact artifact;
  std::shared_ptr<const runtime::LoadedArtifact> loaded;
};

struct Call {
  std::vector<void*> buffers;
  std::vector<std::int64_t> symbols;
};

class Server {
 public:
  Server() : device_(runtime::shared_cpu_device()) {}
  json answer(const json& command);

 private:
  json load(const json& command);
  json run(const json& command);
  json time(const json& command);
  json guard(const json& command);
  json open(const json& command);
  json answer_here(const json& command, const std::string& what);
  ErrorCode launch(const Kernel& kernel, const Call& call) const;
  void misbehave(const Fault& fault);

  std::shared_ptr<const runtime::Device> device_;
  std::unique_ptr<CudaServer> gpu_;
  std::map<std::int64_t, Kernel> kernels_;
  std::uint64_t runs_ = 0;
};

json fail(ErrorCode code, const std::string& text) { return {{"ok", false}, {"code", name(code)}, {"error", text}}; }

std::int64_t elapsed_ns(Clock::time_point from) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - from).count();
}

json Server::load(const json& command) {
  const auto offset = command.at("image").get<std::uint64_t>();
  const auto bytes = command.at("image_bytes").get<std::uint64_t>();
  if (offset > arena.bytes() || bytes > arena.bytes() - offset) return fail(ErrorCode::bug, "image outside the arena");
  std::vector<std::uint8_t> image(arena.at(offset), arena.at(offset) + bytes);
  auto artifact = Artifact::from_parts(command.at("header").get<std::string>(), std::move(image));
  if (!artifact.ok()) return fail(artifact.error().code, artifact.error().message());
  auto loaded = device_->load(*artifact);
  if (!loaded.ok()) return fail(loaded.error().code, loaded.error().message());
  kernels_[command.at("kernel").get<std::int64_t>()] = {std::move(*artifact), std::move(*loaded)};
  return {{"ok", true}};
}

/// Pages that no candidate may touch.
json Server::guard(const json& command) {
  for (const json& zone : command.at("zones")) {
    const auto offset = zone.at(0).get<std::uint64_t>();
    const auto bytes = zone.at(1).get<std::uint64_t>();
    if (::mprotect(arena.at(offset), bytes, command.at("on").get<bool>() ? PROT_NONE : PROT_READ | PROT_WRITE) != 0) {
      return fail(ErrorCode::out_of_memory, std::string("mprotect: ") + std::strerror(errno));
    }
  }
  return {{"ok", true}};
}

ErrorCode Server::launch(const Kernel& kernel, const Call& call) const {
  std::int64_t stride = 0;
  for (const SizeExpr& bytes : kernel.loaded->scratch_bytes()) {
    stride = std::max(stride, bytes.evaluate(call.symbols.data()));
  }
  stride = (stride + runtime::kBlockAlignment - 1) / runtime::kBlockAlignment * runtime::kBlockAlignment;
  std::byte* scratch = nullptr;
  if (stride > 0) {
    scratch = device_->reserve(runtime::MemoryKind::arena, stride * device_->scratch_workers(), nullptr);
    if (scratch == nullptr) return ErrorCode::out_of_memory;
  }
  return device_->launch(*kernel.loaded, {.buffers = call.buffers.data(),
                                          .symbols = call.symbols.data(),
                                          .scratch = scratch,
                                          .scratch_stride_bytes = stride});
}

void Server::misbehave(const Fault& fault) {
  if (fault.kind == "hang") {
    for (;;) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  if (fault.kind == "crash") ::raise(SIGSEGV);
  std::uint8_t* at = arena.at(fault.offset);
  if (fault.kind == "out_of_bounds") std::memset(at + fault.bytes, 0x55, 1);
  if (fault.kind == "wrong_result") {
    for (std::uint64_t i = 0; i < std::min<std::uint64_t>(fault.bytes, 64); ++i) at[i] ^= 0x42;
  }
  if (fault.kind == "nondeterministic" && fault.bytes > 0) at[0] = static_cast<std::uint8_t>((at[0] & 0xfe) | (runs_ & 1));
}

json Server::run(const json& command) {
  const Kernel& kernel = kernels_.at(command.at("kernel").get<std::int64_t>());
  Call call;
  for (const json& offset : command.at("buffers")) call.buffers.push_back(arena.at(offset.get<std::uint64_t>()));
  call.symbols = command.at("symbols").get<std::vector<std::int64_t>>();
  const auto from = Clock::now();
  const ErrorCode code = launch(kernel, call);
  const std::int64_t ns = elapsed_ns(from);
  if (code != ErrorCode::ok) return fail(code, "the launch was refused");
  return {{"ok", true}, {"ns", ns}};
}

/// Samples of the time of one launch. Sets of buffers are used in turn, so that what one launch leaves in the caches is
/// not what the next one reads.
json Server::time(const json& command) {
  const Kernel& kernel = kernels_.at(command.at("kernel").get<std::int64_t>());
  const auto offsets = command.at("buffers").get<std::vector<std::uint64_t>>();
  const auto strides = command.at("strides").get<std::vector<std::uint64_t>>();
  const auto sets = command.at("sets").get<std::int64_t>();
  const auto min_ns = command.at("min_ns").get<std::int64_t>();
  const auto give_up_ns = command.at("give_up_ns").get<std::int64_t>();
  const auto max_batch = command.at("max_batch").get<std::int64_t>();
  std::int64_t wanted = command.at("samples").get<std::int64_t>();
  std::int64_t set = command.at("first").get<std::int64_t>() % sets;
  std::vector<Call> calls(static_cast<std::size_t>(sets));
  for (std::int64_t s = 0; s < sets; ++s) {
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      calls[s].buffers.push_back(arena.at(offsets[i] + strides[i] * static_cast<std::uint64_t>(s)));
    }
    calls[s].symbols = command.at("symbols").get<std::vector<std::int64_t>>();
  }
  ErrorCode code = ErrorCode::ok;
  const auto launch_next = [&] {
    if (const ErrorCode c = launch(kernel, calls[set]); c != ErrorCode::ok) code = c;
    set = (set + 1) % sets;
  };
  // Warm-up: code pages, branch predictors and threads, then, unless it is known, an estimate for the length of a batch.
  launch_next();
  std::int64_t batch = command.at("batch").get<std::int64_t>();
  if (batch == 0) {
    const auto warm_from = Clock::now();
    std::int64_t warm_runs = 0, warm_ns = 0;
    while (code == ErrorCode::ok && warm_runs < 8 && warm_ns < min_ns) {
      launch_next();
      ++warm_runs;
      warm_ns = elapsed_ns(warm_from);
    }
    const std::int64_t one_ns = std::max<std::int64_t>(warm_ns / std::max<std::int64_t>(warm_runs, 1), 1);
    batch = std::clamp<std::int64_t>((min_ns + one_ns - 1) / one_ns, 1, max_batch);
    if (one_ns > give_up_ns) wanted = 1;
  }
  std::vector<double> samples;
  while (code == ErrorCode::ok && static_cast<std::int64_t>(samples.size()) < wanted) {
    const auto from = Clock::now();
    for (std::int64_t i = 0; i < batch; ++i) launch_next();
    samples.push_back(static_cast<double>(elapsed_ns(from)) / static_cast<double>(batch));
  }
  if (code != ErrorCode::ok) return fail(code, "the launch was refused");
  return {{"ok", true}, {"ns", samples}, {"batch", batch}, {"next", set}};
}

json Server::open(const json& command) {
  const auto ordinal = runtime::parse_cuda_name(command.at("device").get<std::string>());
  if (!ordinal) return fail(ErrorCode::bad_argument, "no such device");
  auto opened = CudaServer::open(*ordinal, arena);
  if (!opened.ok()) return fail(opened.error().code, opened.error().message());
  gpu_ = std::move(*opened);
  return gpu_->describe();
}

json Server::answer(const json& command) {
  const std::string what = command.at("command").get<std::string>();
  if (what == "open") return open(command);
  const bool on_gpu = gpu_ != nullptr && command.value("on", "") != "cpu";
  json reply = on_gpu ? gpu_->answer(command) : answer_here(command, what);
  if (what == "run") ++runs_;
  if (what == "run" && command.contains("fault") && reply.at("ok").get<bool>()) {
    const json& f = command.at("fault");
    misbehave({f.at("kind"), f.at("offset"), f.at("bytes")});
  }
  return reply;
}

json Server::answer_here(const json& command, const std::string& what) {
  if (what == "load") return load(command);
  if (what == "run") return run(command);
  if (what == "time") return time(command);
  if (what == "guard") return guard(command);
  if (what == "unload") {
    kernels_.erase(command.at("kernel").get<std::int64_t>());
    return {{"ok", true}};
  }
  if (what == "populate") {
    // Page faults belong to nobody's time.
    ::madvise(arena.at(command.at("offset").get<std::uint64_t>()), command.at("bytes").get<std::uint64_t>(),
              MADV_POPULATE_WRITE);
    return {{"ok", true}};
  }
  return fail(ErrorCode::unsupported, "no command `" + what + "`");
}

int serve(pid_t parent) {
  // The worker must not outlive the tuner, whatever ends it; the parent may have gone before prctl took effect.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) return 1;
  ::signal(SIGINT, SIG_IGN);
  if (!arena.attach(kWorkerArena)) return 2;
  install_fault_report();
  Server server;
  send_message(kWorkerSocket, "{\"protocol\":" + std::to_string(kProtocolVersion) + "}");
  std::string text;
  while (receive_message(kWorkerSocket, -1, text) == Received::message) {
    json reply;
    try {
      reply = server.answer(json::parse(text));
    } catch (const std::exception& e) {
      reply = fail(ErrorCode::bug, e.what());
    }
    if (!send_message(kWorkerSocket, reply.dump())) break;
  }
  // Threads of the device may be in any state after a bad candidate: nothing is torn down.
  _exit(0);
}

}  // namespace
}  // namespace loopwright::tuner

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "loopwright-worker is started by the tuner; it takes no commands of its own\n");
    return 64;
  }
  return loopwright::tuner::serve(static_cast<pid_t>(std::atol(arguments[1])));
}
