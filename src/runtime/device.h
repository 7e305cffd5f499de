// A live device: where artifacts become callable. One pair of files a kind: cpu_device and cuda_device.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "db/query.h"
#include "loopwright/artifact.h"
#include "loopwright/target.h"

namespace loopwright::runtime {

/// Version of code generation as a whole. Raise it when machine code or numbers of an older generator should no longer
/// be served as equals; databases store it with every number and every binary.
inline constexpr std::string_view kGeneratorVersion = "1";

/// An artifact that one device can launch. Immutable; lives as long as somebody holds it.
class LoadedArtifact {
 public:
  virtual ~LoadedArtifact() = default;
  /// Private memory of one worker for each launch, over Artifact::symbols; zero where a launch needs none.
  const std::vector<SizeExpr>& scratch_bytes() const { return scratch_bytes_; }

 protected:
  std::vector<SizeExpr> scratch_bytes_;
};

/// Calls that touch nothing of each other's (flights.h), on a device that runs launches at the same time.
struct Flight {
  double filled = 0;     ///< the device's: what part of it the launches take that are in flight; 0 before the first one
  bool goes_on = false;  ///< the next call belongs to it
};

/// What one call of an artifact needs. Lengths are known from the artifact; nothing is checked.
struct KernelCall {
  void* const* buffers = nullptr;         ///< in the order of Artifact::args
  const std::int64_t* symbols = nullptr;  ///< in the order of Artifact::symbols
  std::byte* scratch = nullptr;           ///< of the first worker, kBlockAlignment-aligned
  std::int64_t scratch_stride_bytes = 0;  ///< from one worker's scratch to the next
  void* stream = nullptr;  ///< CUDA: a CUstream of this device, null for its default stream; CPU: unused
  Flight* flight = nullptr;  ///< null: the call waits for everything in front of it
};

/// Memory that a device keeps for a thread, on a GPU for a thread and a stream.
enum class MemoryKind : std::uint8_t {
  arena,   ///< content is lost when it grows
  zeroed,  ///< zero when new; who uses it leaves it zero
};
inline constexpr int kMemoryKinds = 2;

/// Alignment of arenas, of the blocks in them and of scratch: two cache lines, because cores fetch lines in pairs.
inline constexpr std::int64_t kBlockAlignment = 128;

/// What two calls of a plan have to have in common so that their launches are the same.
struct GraphCall {
  void* const* pointers = nullptr;        ///< GraphSizes::pointers of them
  const std::int64_t* symbols = nullptr;  ///< GraphSizes::symbols
  std::byte* arena = nullptr;
  std::byte* zeros = nullptr;
  void* stream = nullptr;
};
/// At most, in a call of a plan.
struct GraphSizes {
  std::size_t pointers = 0, symbols = 0;
  std::size_t launches = 0;
};

/// A plan's graphs of one thread. A call either replays, or records all of its kernels in order and launches.
class ThreadGraphs {
 public:
  virtual ~ThreadGraphs() = default;
  /// Hot. Launches the graph that holds the launches of this very call; `code` says how that went. False when there is none.
  virtual bool replay(const GraphCall& call, ErrorCode& code) noexcept = 0;
  /// Notes launches instead of queueing them; what `call` points to has to stay until `launch`. launch_failed for a grid
  /// that cannot be.
  virtual ErrorCode record(const LoadedArtifact& loaded, const KernelCall& call) noexcept = 0;
  /// Queues what was noted since the last launch, by a graph or one by one. `may_replay`: calls with the same GraphCall need
  /// not record.
  virtual ErrorCode launch(const GraphCall& call, bool may_replay) noexcept = 0;
};

/// A plan's graphs of all threads.
class PlanGraphs {
 public:
  virtual ~PlanGraphs() = default;
  /// The calling thread's, ready to record; null where launches on this stream have to be queued one by one.
  virtual ThreadGraphs* of_thread(void* stream) noexcept = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const Target& target() const = 0;
  /// Identity for the database. Stable between calls and processes on an unchanged machine.
  virtual db::DeviceRow fingerprint() const = 0;
  /// bad_artifact when it does not hold together, unsupported_target when this device cannot run it.
  virtual Result<std::shared_ptr<const LoadedArtifact>> load(const Artifact& artifact) const = 0;
  /// How many workers may use scratch at the same time.
  virtual std::int32_t scratch_workers() const = 0;
  /// Memory of the calling thread (and stream) on this device, at least `bytes`, kBlockAlignment-aligned. It stays until
  /// the same thread asks for more, so an arena's content must not be needed from one plan to the next. Null when there
  /// is none left.
  virtual std::byte* reserve(MemoryKind kind, std::int64_t bytes, void* stream) const noexcept = 0;
  /// Hot. Runs all launches of `loaded`, which came from this device's `load`. ok or launch_failed. On a GPU it returns
  /// when they are queued.
  virtual ErrorCode launch(const LoadedArtifact& loaded, const KernelCall& call) const noexcept = 0;
  /// For a plan whose calls are launched by graphs; null where this device would gain nothing. The device must outlive it.
  virtual std::unique_ptr<PlanGraphs> make_graphs(const GraphSizes&) const { return nullptr; }
  /// Returns when everything launched on the stream is done; launch_failed when something in it failed.
  virtual ErrorCode wait(void* stream) const noexcept = 0;
  /// Whether kernels of this device can use `bytes` bytes from `address` on. wrong_arguments with only `found` and
  /// `works` filled when not.
  virtual Status check_memory(std::uintptr_t address, std::int64_t bytes) const = 0;
  /// What went wrong in the calling thread's last `reserve`, `launch` or `wait`, in the driver's words; empty when there
  /// is no more to say than the code.
  virtual std::string describe_failure() const { return {}; }
};

/// This process's CPU with the machine's workers (see host_target). Made on first use; its threads start with the
/// first parallel launch.
std::shared_ptr<const Device> shared_cpu_device();
/// The same with a number of workers of its own; 0 = as above.
std::shared_ptr<const Device> make_cpu_device(int workers);

/// A GPU by its ordinal, shared by all of the process that use it at the same time. not_found, unsupported or
/// unsupported_target with the reason when it cannot be used.
Result<std::shared_ptr<const Device>> open_cuda_device(int ordinal);
/// The ordinal in `cuda` (0) or `cuda:N`; empty for another text.
std::optional<int> parse_cuda_name(std::string_view name);
/// `cpu`, `cuda` or `cuda:N`; bad_argument for another text. `workers` is for the CPU.
Result<std::shared_ptr<const Device>> open_device(const std::string& name, int workers = 0);
/// The device that code for `target` runs on: the CPU, or the GPU with ordinal 0.
Result<std::shared_ptr<const Device>> open_device_for(const Target& target);

/// What builds artifacts in this version of Loopwright; `compiler` is the code generator's own name and version, empty
/// when the caller (a program without compiler) cannot say.
db::ToolchainRow current_toolchain(std::string compiler);

/// Whether code compiled for `code` (a Target::text) runs on `device`: same kind; same architecture or a generic one
/// below it; no feature that `device` lacks. The reason when it does not.
Status check_runs_on(const Target& device, const std::string& code);

}  // namespace loopwright::runtime
