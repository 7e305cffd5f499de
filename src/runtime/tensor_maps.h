// Tensor maps of a launch, encoded by the driver for the addresses and sizes of one call.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "loopwright/artifact.h"
#include "src/runtime/cuda_driver.h"
#include "src/runtime/fast_size.h"

namespace loopwright::runtime {

inline constexpr std::size_t kMostTensorMaps = 8;
inline constexpr std::size_t kMostMapDims = 5;

/// CUtensorMap.
struct alignas(64) EncodedMap {
  std::byte bytes[128];
};
using EncodedMaps = std::array<EncodedMap, kMostTensorMaps>;

class TensorMaps {
 public:
  TensorMaps() = default;
  /// bad_artifact or unsupported with only `found` and `works` filled.
  static Result<TensorMaps> make(const CudaDriver& driver, const Artifact& artifact, const CudaLaunch& launch);
  std::size_t size() const { return maps_.size(); }
  /// Fills the first `size()` of `out`. Does not allocate.
  cuda::Status encode(const CudaDriver& driver, void* const* buffers, const std::int64_t* symbols, EncodedMaps& out) const noexcept;

 private:
  struct Map {
    std::size_t arg = 0;
    int data_type = 0, swizzle = 0;
    std::uint32_t rank = 0;
    std::array<FastSize, kMostMapDims> shape;
    std::array<FastSize, kMostMapDims> strides_bytes;  ///< one less
    std::array<std::uint32_t, kMostMapDims> box{};
  };
  std::vector<Map> maps_;
};

}  // namespace loopwright::runtime
