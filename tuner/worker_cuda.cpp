#include "tuner/worker_cuda.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>

#include "tuner/parallel.h"

namespace loopwright::tuner {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;
namespace cuda = runtime::cuda;

constexpr std::size_t kMaxReplays = 128;
constexpr unsigned kLanes = 8;
/// Smaller copies are done before the threads have started.
constexpr std::uint64_t kLargeCopy = 8ull << 20;

double elapsed_s(Clock::time_point from) {
  return std::chrono::duration<double>(Clock::now() - from).count();
}

}  // namespace

Result<std::unique_ptr<CudaServer>> CudaServer::open(int ordinal, const Arena& arena) {
  LW_TRY(auto device, runtime::open_cuda_device(ordinal));
  std::unique_ptr<CudaServer> server(
      new CudaServer(std::static_pointer_cast<const runtime::CudaDevice>(std::move(device)), arena));
  LW_CHECK(server->start());
  return server;
}

CudaServer::CudaServer(std::shared_ptr<const runtime::CudaDevice> device, const Arena& arena)
    : device_(std::move(device)), driver_(device_->driver()), arena_(arena), clock_(driver_) {}

/// The process does nothing else: the context stays current.
Status CudaServer::start() {
  cuda::Status status = driver_.push_context(device_->context());
  if (status == cuda::kSuccess) status = clock_.open();
  stream_ = clock_.stream();
  if (status == cuda::kSuccess) return Unit{};
  return Error{ErrorCode::launch_failed, "measure on " + device_->info().name, driver_.describe(status), "",
               ""};
}

CudaServer::~CudaServer() = default;  // the process ends with it, and the driver frees what it holds

json CudaServer::describe() const {
  return {{"ok", true},
          {"name", device_->info().name},
          {"uuid", device_->info().uuid},
          {"target", device_->target().text()},
          {"l2_bytes", device_->target().l2_bytes}};
}

json CudaServer::fail(cuda::Status status, const std::string& asked) const {
  const ErrorCode code = status == cuda::kOutOfMemory      ? ErrorCode::out_of_memory
                         : status == cuda::kIllegalAddress ? ErrorCode::out_of_bounds
                                                           : ErrorCode::launch_failed;
  return {{"ok", false},
          {"code", name(code)},
          {"error", asked + ": " + driver_.describe(status)},
          {"lost", runtime::is_context_lost(status)}};
}

json CudaServer::fail(ErrorCode code) const {
  const std::string words = device_->describe_failure();
  const bool illegal = words.find("ILLEGAL_ADDRESS") != std::string::npos;
  return {{"ok", false},
          {"code", name(illegal ? ErrorCode::out_of_bounds : code)},
          {"error", words},
          {"lost", words.find("started again") != std::string::npos}};
}

cuda::Address CudaServer::find(std::uint64_t offset) const {
  auto it = blocks_.upper_bound(offset);
  if (it == blocks_.begin()) return 0;
  --it;
  return offset - it->first < it->second.bytes ? it->second.address + (offset - it->first) : 0;
}

json CudaServer::allocate(const json& command) {
  const auto offset = command.at("offset").get<std::uint64_t>();
  const auto bytes = command.at("bytes").get<std::uint64_t>();
  if (const auto known = blocks_.find(offset); known != blocks_.end() && known->second.bytes >= bytes)
    return {{"ok", true}};
  driver_.wait_stream(stream_);
  // Whatever overlaps belonged to an earlier layout.
  for (auto it = blocks_.begin(); it != blocks_.end();) {
    const bool overlaps = it->first < offset + bytes && offset < it->first + it->second.bytes;
    // Graphs hold addresses: none may outlive the blocks they were made for.
    while (overlaps && !replays_.empty()) drop_replays(replays_.begin()->first);
    if (overlaps) driver_.free(it->second.address);
    it = overlaps ? blocks_.erase(it) : std::next(it);
  }
  Block block{0, bytes};
  if (const cuda::Status status = driver_.allocate(&block.address, bytes); status != cuda::kSuccess)
    return fail(status, "allocate " + std::to_string(bytes) + " bytes");
  blocks_[offset] = block;
  return {{"ok", true}};
}

cuda::Status CudaServer::copy_range(std::uint64_t offset, std::uint64_t bytes, bool up) {
  const cuda::Address address = find(offset);
  if (address == 0 || bytes > arena_.bytes() - offset) return cuda::kInvalidValue;
  if (bytes >= kLargeCopy) return copy_large(address, arena_.at(offset), bytes, up);
  return up ? driver_.copy_to_device(address, arena_.at(offset), bytes, stream_)
            : driver_.copy_to_host(arena_.at(offset), address, bytes, stream_);
}

cuda::Status CudaServer::open_lanes() {
  while (lanes_.size() < kLanes) {
    Lane lane;
    cuda::Status status = driver_.create_stream(&lane.stream, cuda::kStreamNonBlocking);
    if (status == cuda::kSuccess) status = driver_.allocate_host(&lane.pinned, kPart, 0);
    if (status != cuda::kSuccess) return status;
    lanes_.push_back(lane);
  }
  return cuda::kSuccess;
}

/// In order with stream_: begins when what was queued there is done, and is complete at the return.
cuda::Status CudaServer::copy_large(cuda::Address address, std::uint8_t* host, std::uint64_t bytes, bool up) {
  cuda::Status status = open_lanes();
  if (status == cuda::kSuccess) status = driver_.wait_stream(stream_);
  if (status != cuda::kSuccess) return status;
  std::mutex mutex;
  std::vector<Lane> free = lanes_;
  const auto copy_part = [&](Lane& lane, std::uint64_t begin, std::uint64_t size) {
    if (up) std::memcpy(lane.pinned, host + begin, size);
    cuda::Status part = up ? driver_.copy_to_device(address + begin, lane.pinned, size, lane.stream)
                           : driver_.copy_to_host(lane.pinned, address + begin, size, lane.stream);
    if (part == cuda::kSuccess) part = driver_.wait_stream(lane.stream);
    if (!up && part == cuda::kSuccess) std::memcpy(host + begin, lane.pinned, size);
    return part;
  };
  for_each_part(
      static_cast<std::int64_t>(bytes),
      [&](std::int64_t, std::int64_t begin, std::int64_t end) {
        std::unique_lock lock(mutex);
        if (status != cuda::kSuccess) return;
        Lane lane = free.back();  // as many lanes as threads
        free.pop_back();
        lock.unlock();
        cuda::Context none = nullptr;
        cuda::Status part = driver_.push_context(device_->context());
        if (part == cuda::kSuccess) {
          part = copy_part(lane, static_cast<std::uint64_t>(begin), static_cast<std::uint64_t>(end - begin));
          driver_.pop_context(&none);
        }
        lock.lock();
        free.push_back(lane);
        if (part != cuda::kSuccess) status = part;
      },
      kLanes);
  return status;
}

json CudaServer::copy(const json& command, bool up) {
  cuda::Status status = cuda::kSuccess;
  for (const json& range : command.at("ranges"))
    if (status == cuda::kSuccess) status = copy_range(range.at(0), range.at(1), up);
  if (status == cuda::kSuccess) status = driver_.wait_stream(stream_);
  return status == cuda::kSuccess ? json{{"ok", true}}
                                  : fail(status, up ? "copy to the device" : "copy from the device");
}

/// Copies of the first set of buffers behind it.
json CudaServer::replicate(const json& command) {
  const auto offset = command.at("offset").get<std::uint64_t>();
  const auto stride = command.at("stride").get<std::uint64_t>();
  const auto sets = command.at("sets").get<std::uint64_t>();
  const cuda::Address first = find(offset);
  cuda::Status status = first != 0 ? cuda::kSuccess : cuda::kInvalidValue;
  for (std::uint64_t s = 1; s < sets && status == cuda::kSuccess; ++s)
    status = driver_.copy_on_device(first + s * stride, first, stride, stream_);
  if (status == cuda::kSuccess) status = driver_.wait_stream(stream_);
  return status == cuda::kSuccess ? json{{"ok", true}} : fail(status, "copy the buffers");
}

json CudaServer::load(const json& command) {
  const auto offset = command.at("image").get<std::uint64_t>();
  const auto bytes = command.at("image_bytes").get<std::uint64_t>();
  if (offset > arena_.bytes() || bytes > arena_.bytes() - offset)
    return {{"ok", false}, {"code", name(ErrorCode::bug)}, {"error", "image outside the arena"}};
  auto artifact = Artifact::from_parts(command.at("header").get<std::string>(),
                                       {arena_.at(offset), arena_.at(offset) + bytes});
  const auto refuse = [](const Error& e) {
    return json{{"ok", false}, {"code", name(e.code)}, {"error", e.message()}};
  };
  if (!artifact.ok()) return refuse(artifact.error());
  auto loaded = device_->load(*artifact);
  if (!loaded.ok()) return refuse(loaded.error());
  kernels_[command.at("kernel").get<std::int64_t>()] = {std::move(*artifact), std::move(*loaded)};
  return {{"ok", true}};
}

ErrorCode CudaServer::launch(const Kernel& kernel, const std::vector<std::uint64_t>& offsets,
                             const std::vector<std::int64_t>& symbols) {
  std::vector<void*> buffers;
  for (const std::uint64_t offset : offsets) buffers.push_back(reinterpret_cast<void*>(find(offset)));
  return device_->launch(*kernel.loaded,
                         {.buffers = buffers.data(), .symbols = symbols.data(), .stream = stream_});
}

/// One run between fills and copies in one order: fill, upload, launch, wait, download.
json CudaServer::run(const json& command) {
  const Kernel& kernel = kernels_.at(command.at("kernel").get<std::int64_t>());
  cuda::Status status = cuda::kSuccess;
  for (const json& f : command.value("fill", json::array())) {
    const cuda::Address address = find(f.at(0));
    if (status == cuda::kSuccess && address == 0) status = cuda::kInvalidValue;
    if (status == cuda::kSuccess)
      status = driver_.fill(address, f.at(2).get<unsigned char>(), f.at(1), stream_);
  }
  for (const json& range : command.value("upload", json::array()))
    if (status == cuda::kSuccess) status = copy_range(range.at(0), range.at(1), true);
  if (status == cuda::kSuccess) status = driver_.wait_stream(stream_);
  if (status != cuda::kSuccess) return fail(status, "prepare the buffers");
  const auto from = Clock::now();
  ErrorCode code = launch(kernel, command.at("buffers"), command.at("symbols"));
  if (code == ErrorCode::ok) code = device_->wait(stream_);
  if (code != ErrorCode::ok) return fail(code);
  const auto ns = static_cast<std::int64_t>(elapsed_s(from) * 1e9);
  for (const json& range : command.value("download", json::array()))
    if (status == cuda::kSuccess) status = copy_range(range.at(0), range.at(1), false);
  if (status == cuda::kSuccess) status = driver_.wait_stream(stream_);
  if (status != cuda::kSuccess) return fail(status, "read the results");
  return {{"ok", true}, {"ns", ns}};
}

void CudaServer::drop_replays(std::int64_t kernel) {
  for (const Replay& replay : replays_[kernel]) driver_.destroy_graph_exec(replay.exec);
  replays_.erase(kernel);
}

json CudaServer::time(const json& command) {
  const auto id = command.at("kernel").get<std::int64_t>();
  const Kernel& kernel = kernels_.at(id);
  const auto min_ns = command.at("min_ns").get<double>();
  Replay wanted{.offsets = command.at("buffers"),
                .strides = command.at("strides"),
                .symbols = command.at("symbols"),
                .sets = command.at("sets"),
                .calls = command.at("batch")};
  const auto samples = command.at("samples").get<std::size_t>();
  const auto launch_set = [&](std::int64_t set) {
    std::vector<std::uint64_t> offsets = wanted.offsets;
    for (std::size_t i = 0; i < offsets.size(); ++i) offsets[i] += static_cast<std::uint64_t>(set) * wanted.strides[i];
    return launch(kernel, offsets, wanted.symbols);
  };
  if (wanted.calls == 0) {
    double one_ns = 0;
    if (const cuda::Status status = clock_.estimate(launch_set, wanted.sets, one_ns); status != cuda::kSuccess)
      return fail(status, "time the first launches");
    if (one_ns > command.at("give_up_ns").get<double>())
      return {{"ok", true}, {"ns", json::array({one_ns})}, {"batch", 0}, {"next", 0}};
    wanted.calls = ReplayClock::count_calls(one_ns, min_ns, wanted.sets);
  }
  std::vector<Replay>& known = replays_[id];
  auto it = std::find_if(known.begin(), known.end(), [&](const Replay& r) {
    return r.offsets == wanted.offsets && r.strides == wanted.strides && r.symbols == wanted.symbols &&
           r.sets == wanted.sets && r.calls == wanted.calls;
  });
  cuda::Status status = cuda::kSuccess;
  if (it == known.end()) {
    if (known.size() >= kMaxReplays) drop_replays(id);
    status = clock_.capture(launch_set, wanted.sets, wanted.calls, wanted.exec);
    if (status != cuda::kSuccess) return fail(status, "capture the launches");
    it = replays_[id].insert(replays_[id].end(), wanted);
  }
  status = clock_.warm_up(it->exec);
  std::vector<double> ns;
  if (status == cuda::kSuccess) status = clock_.measure(it->exec, it->calls, samples, ns);
  if (status != cuda::kSuccess) return fail(status, "time the kernel");
  return {{"ok", true}, {"ns", ns}, {"batch", it->calls}, {"next", 0}};
}

json CudaServer::answer(const json& command) {
  const std::string what = command.at("command").get<std::string>();
  if (what == "allocate") return allocate(command);
  if (what == "upload") return copy(command, true);
  if (what == "download") return copy(command, false);
  if (what == "replicate") return replicate(command);
  if (what == "load") return load(command);
  if (what == "run") return run(command);
  if (what == "time") return time(command);
  if (what == "unload") {
    drop_replays(command.at("kernel"));
    kernels_.erase(command.at("kernel").get<std::int64_t>());
    return {{"ok", true}};
  }
  return {
      {"ok", false}, {"code", name(ErrorCode::unsupported)}, {"error", "no command `" + what + "` on a GPU"}};
}

}  // namespace loopwright::tuner
