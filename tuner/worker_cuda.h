// The worker's half of measurement on a GPU: device memory that mirrors parts of the shared arena, and launches on it.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "src/runtime/cuda_device.h"
#include "tuner/protocol.h"
#include "tuner/replay_clock.h"

namespace loopwright::tuner {

/// Everything the parent names by an offset in the arena has the same place in a block of the mirror. Not for several
/// threads. After an answer with `lost` the process can do nothing more on the device.
class CudaServer {
 public:
  static Result<std::unique_ptr<CudaServer>> open(int ordinal, const Arena& arena);
  CudaServer(const CudaServer&) = delete;
  CudaServer& operator=(const CudaServer&) = delete;
  ~CudaServer();

  /// Commands allocate, upload, replicate, load, unload, run, time.
  nlohmann::json answer(const nlohmann::json& command);
  nlohmann::json describe() const;

 private:
  struct Block {
    runtime::cuda::Address address = 0;
    std::uint64_t bytes = 0;
  };
  struct Kernel {
    Artifact artifact;
    std::shared_ptr<const runtime::LoadedArtifact> loaded;
  };
  /// A CUDA graph of `calls` launches, one set of buffers after another.
  struct Replay {
    std::vector<std::uint64_t> offsets, strides;
    std::vector<std::int64_t> symbols;
    std::int64_t sets = 1, calls = 1;
    runtime::cuda::GraphExec exec = nullptr;
  };

  CudaServer(std::shared_ptr<const runtime::CudaDevice> device, const Arena& arena);
  nlohmann::json allocate(const nlohmann::json& command);
  nlohmann::json copy(const nlohmann::json& command, bool up);
  nlohmann::json replicate(const nlohmann::json& command);
  nlohmann::json load(const nlohmann::json& command);
  nlohmann::json run(const nlohmann::json& command);
  nlohmann::json time(const nlohmann::json& command);
  Status start();
  void drop_replays(std::int64_t kernel);
  ErrorCode launch(const Kernel& kernel, const std::vector<std::uint64_t>& offsets,
                   const std::vector<std::int64_t>& symbols);
  /// Zero when no block holds the offset.
  runtime::cuda::Address find(std::uint64_t offset) const;
  runtime::cuda::Status copy_range(std::uint64_t offset, std::uint64_t bytes, bool up);
  runtime::cuda::Status copy_large(runtime::cuda::Address address, std::uint8_t* host, std::uint64_t bytes, bool up);
  runtime::cuda::Status open_lanes();
  nlohmann::json fail(runtime::cuda::Status status, const std::string& asked) const;
  nlohmann::json fail(ErrorCode code) const;

  std::shared_ptr<const runtime::CudaDevice> device_;
  const runtime::CudaDriver& driver_;
  const Arena& arena_;
  ReplayClock clock_;
  runtime::cuda::Stream stream_ = nullptr;  ///< the clock's
  /// What a thread copies large ranges through: the arena's pages are not pinned, and copies to such pages are slow.
  struct Lane {
    runtime::cuda::Stream stream = nullptr;
    void* pinned = nullptr;  ///< kPart bytes
  };
  std::vector<Lane> lanes_;
  std::map<std::uint64_t, Block> blocks_;
  std::map<std::int64_t, Kernel> kernels_;
  std::map<std::int64_t, std::vector<Replay>> replays_;  ///< by kernel
};

}  // namespace loopwright::tuner
