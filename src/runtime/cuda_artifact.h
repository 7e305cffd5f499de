// A cubin made ready: functions of the device's context, and launch configurations of which a call fills in what it knows.
#pragma once

#include <array>
#include <vector>

#include "src/runtime/cuda_device.h"
#include "src/runtime/fast_size.h"
#include "src/runtime/tensor_maps.h"

namespace loopwright::runtime {

/// Parameters of a kernel: they are listed on the stack of the call.
inline constexpr std::size_t kMaxCudaParameters = 256;

class CudaArtifact final : public LoadedArtifact {
 public:
  struct Step {
    cuda::Function function = nullptr;
    cuda::LaunchConfig config{};  ///< without stream; grid and shared bytes when they are fixed
    std::array<FastSize, 3> grid;
    FastSize shared_bytes;
    bool fixed = false;  ///< grid and shared bytes are constants
    bool has_edge = false;  ///< the last of the attributes: it may begin before the launch in front is over
    /// Larger grids wait for the launch before: that attribute is left out.
    std::uint64_t most_overlapped = UINT64_MAX;
    std::array<cuda::LaunchAttribute, 2> attributes{};
    TensorMaps maps;
    bool overlaps_in_flight_alone = false;  ///< else it begins early behind any launch
    bool takes_overlap = false;  ///< it has a parameter behind the maps
    double part_of_block = 1;    ///< of the device that one block takes
  };

  /// bad_artifact when image and launches do not fit each other, resource_exceeded when the device cannot hold a block.
  static Result<std::shared_ptr<const CudaArtifact>> load(const CudaDriver& driver, const CudaInfo& info,
                                                          cuda::Context context, const Artifact& artifact);
  CudaArtifact(const CudaArtifact&) = delete;
  CudaArtifact& operator=(const CudaArtifact&) = delete;
  ~CudaArtifact() override;

  const std::vector<Step>& steps() const { return steps_; }
  std::size_t buffer_count() const { return buffer_count_; }
  std::size_t symbol_count() const { return symbol_count_; }

 private:
  CudaArtifact(const CudaDriver& driver, cuda::Context context) : driver_(driver), context_(context) {}
  Status add_step(const CudaInfo& info, const Artifact& artifact, const CudaLaunch& launch);

  const CudaDriver& driver_;
  cuda::Context context_;
  cuda::Library library_ = nullptr;
  std::vector<Step> steps_;
  std::size_t buffer_count_ = 0;
  std::size_t symbol_count_ = 0;
};

}  // namespace loopwright::runtime
