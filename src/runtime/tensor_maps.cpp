#include "src/runtime/tensor_maps.h"

namespace loopwright::runtime {
namespace {

// CUtensorMapDataType and its neighbours.
constexpr int kMapF16 = 6, kMapF32 = 7, kMapBf16 = 9, kMapTf32 = 11;
constexpr int kNoInterleave = 0, kPromote256 = 3, kZeroBeyond = 0;

/// CUtensorMapSwizzle for rows of a box of 32, 64 or 128 bytes; 0, no exchange, for others.
int swizzle_of(std::int32_t row_bytes) { return row_bytes == 128 ? 3 : row_bytes == 64 ? 2 : row_bytes == 32 ? 1 : 0; }

constexpr int kNoType = -1;
int type_of(DType dtype, bool rounds_tf32) {
  if (rounds_tf32) return dtype == DType::f32 ? kMapTf32 : kNoType;
  return dtype == DType::bf16 ? kMapBf16 : dtype == DType::f16 ? kMapF16 : dtype == DType::f32 ? kMapF32 : kNoType;
}

Error refuse_map(std::string found, std::string works, ErrorCode code = ErrorCode::bad_artifact) {
  return {code, {}, std::move(found), {}, std::move(works)};
}

}  // namespace

Result<TensorMaps> TensorMaps::make(const CudaDriver& driver, const Artifact& artifact, const CudaLaunch& launch) {
  TensorMaps out;
  if (launch.tensor_maps.size() > kMostTensorMaps)
    return refuse_map(std::to_string(launch.tensor_maps.size()) + " tensor maps", "at most " + std::to_string(kMostTensorMaps));
  if (!launch.tensor_maps.empty() && driver.encode_tensor_map == nullptr)
    return refuse_map("a driver that makes no tensor maps", "a driver for CUDA 12.0 or newer", ErrorCode::unsupported);
  for (const TensorMap& m : launch.tensor_maps) {
    const std::size_t rank = m.shape.size(), arg = static_cast<std::size_t>(m.arg);
    const bool whole = m.arg >= 0 && arg < artifact.args.size() && rank >= 1 && rank <= kMostMapDims && m.box.size() == rank && m.strides_bytes.size() + 1 == rank;
    const int data_type = whole ? type_of(artifact.args[arg].dtype, m.rounds_tf32) : kNoType;
    if (data_type == kNoType)
      return refuse_map("a tensor map that fits no argument", "maps of bf16, f16 and f32 arguments with up to five dimensions");
    Map map;
    map.arg = arg;
    map.data_type = data_type;
    map.rank = static_cast<std::uint32_t>(rank);
    map.swizzle = swizzle_of(m.box[0] * size_bytes(artifact.args[arg].dtype));
    for (std::size_t d = 0; d < rank; ++d) {
      map.shape[d] = FastSize(m.shape[d]);
      map.box[d] = static_cast<std::uint32_t>(m.box[d]);
      if (d > 0) map.strides_bytes[d - 1] = FastSize(m.strides_bytes[d - 1]);
    }
    out.maps_.push_back(std::move(map));
  }
  return out;
}

cuda::Status TensorMaps::encode(const CudaDriver& driver, void* const* buffers, const std::int64_t* symbols,
                                EncodedMaps& out) const noexcept {
  constexpr std::uint32_t kDense[kMostMapDims] = {1, 1, 1, 1, 1};
  for (std::size_t i = 0; i < maps_.size(); ++i) {
    const Map& m = maps_[i];
    std::uint64_t shape[kMostMapDims], strides[kMostMapDims];
    // A tensor without elements has no map, and perhaps no address. Nothing is copied of it; the launch may be there for other reasons.
    static constexpr std::uintptr_t kNowhere = 256;
    void* at = buffers[m.arg];
    for (std::uint32_t d = 0; d < m.rank; ++d) {
      shape[d] = static_cast<std::uint64_t>(m.shape[d].evaluate(symbols));
      if (shape[d] == 0) shape[d] = 1, at = reinterpret_cast<void*>(kNowhere);
      if (d + 1 < m.rank) strides[d] = static_cast<std::uint64_t>(m.strides_bytes[d].evaluate(symbols));
    }
    const cuda::Status status = driver.encode_tensor_map(out[i].bytes, m.data_type, m.rank, at, shape, strides, m.box.data(), kDense,
                                                         kNoInterleave, m.swizzle, kPromote256, kZeroBeyond);
    if (status != cuda::kSuccess) return status;
  }
  return cuda::kSuccess;
}

}  // namespace loopwright::runtime
