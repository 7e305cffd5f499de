// The CPU of this process as a device.
#pragma once

#include "src/runtime/device.h"
#include "src/runtime/thread_pool.h"

namespace loopwright::runtime {

/// Machine code in executable memory: written, then made executable, never both at once.
class CodeMapping {
 public:
  static Result<CodeMapping> map(const std::vector<std::uint8_t>& image);
  CodeMapping(CodeMapping&& other) noexcept;
  CodeMapping& operator=(CodeMapping&& other) noexcept;
  ~CodeMapping();
  const std::byte* base() const { return base_; }

 private:
  CodeMapping() = default;
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
};

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(int workers);
  const Target& target() const override { return target_; }
  db::DeviceRow fingerprint() const override;
  Result<std::shared_ptr<const LoadedArtifact>> load(const Artifact& artifact) const override;
  std::int32_t scratch_workers() const override { return pool_.workers(); }
  std::byte* reserve(MemoryKind kind, std::int64_t bytes, void* stream) const noexcept override;
  ErrorCode launch(const LoadedArtifact& loaded, const KernelCall& call) const noexcept override;
  ErrorCode wait(void*) const noexcept override { return ErrorCode::ok; }
  Status check_memory(std::uintptr_t, std::int64_t) const override { return Unit{}; }

 private:
  Target target_;
  mutable ThreadPool pool_;
};

}  // namespace loopwright::runtime
