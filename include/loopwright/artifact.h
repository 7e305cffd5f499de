// A compiled kernel: machine code and all that is needed to launch it without the compiler.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "loopwright/base.h"
#include "loopwright/shape.h"

namespace loopwright {

enum class ArgRole : std::uint8_t { input = 0, output = 1, inout = 2, workspace = 3 };
std::string_view name(ArgRole role);
std::optional<ArgRole> parse_arg_role(std::string_view text);

/// One buffer argument, in the order in which the machine code expects addresses.
struct ArtifactArg {
  std::string name;
  DType dtype = DType::f32;
  ArgRole role = ArgRole::input;
  std::vector<SizeExpr> shape;    ///< elements
  std::vector<SizeExpr> strides;  ///< elements; always given, one for each dimension
  bool zeroed = false;            ///< workspace that is zero before the first launch and that every launch leaves zero
  bool operator==(const ArtifactArg&) const = default;
};

/// One parallel loop on the CPU: the entry at `entry_offset` in the image is called on chunks of [0, extent).
/// Launches of an artifact run one after the other, with a barrier between them.
struct CpuLaunch {
  std::uint64_t entry_offset = 0;
  SizeExpr extent = 1;         ///< iterations of the parallel loop; 1 for a serial nest
  SizeExpr scratch_bytes = 0;  ///< private memory of each worker, 64-byte aligned
  bool operator==(const CpuLaunch&) const = default;
};

/// How the copy engine of a CUDA device sees an argument. Rows of a box have 32, 64 or 128 bytes; in shared memory they lie
/// one behind the other, and the 16-byte units of a row are exchanged: their number (1, 2 or 3 bits of the offset, from
/// the fifth on) xor the bits of the offset from the eighth on. Zero is read beyond the tensor, nothing is written there.
struct TensorMap {
  std::int32_t arg = 0;                   ///< position in Artifact::args
  std::vector<SizeExpr> shape;            ///< elements, innermost dimension first; at most 5
  std::vector<SizeExpr> strides_bytes;    ///< of the dimensions behind the first: multiples of 16
  std::vector<std::int32_t> box;          ///< elements of each dimension that one copy takes
  bool rounds_tf32 = false;               ///< f32 elements are rounded to tf32 on their way
  bool operator==(const TensorMap&) const = default;
};

/// One kernel launch on a CUDA device. Parameters of the entry: the address of each of Artifact::args in order, then each
/// of Artifact::symbols in order as int64, then the encoded tensor maps of 128 bytes each, then an int64 where the launch
/// takes overlap.
struct CudaLaunch {
  std::string entry;
  std::array<SizeExpr, 3> grid{1, 1, 1};
  std::array<std::int32_t, 3> block{1, 1, 1};
  std::array<std::int32_t, 3> cluster{1, 1, 1};
  SizeExpr shared_bytes = 0;
  /// It waits itself for the launch in front before it touches memory, and may begin earlier: with a grid of at most
  /// kMostOverlappedBlocks for each multiprocessor; larger ones lose by it.
  bool programmatic_dependent = false;
  /// Its last parameter is a sum of bits. 1: it touches nothing of the launches that still run, begins while they do, and
  /// waits for them only before it ends, so that whoever waits for it has waited for them. 2: the next launch may begin at
  /// once.
  bool takes_overlap = false;
  std::vector<TensorMap> tensor_maps;
  bool operator==(const CudaLaunch&) const = default;
};
inline constexpr std::int64_t kMostOverlappedBlocks = 16;
using Launch = std::variant<CpuLaunch, CudaLaunch>;

/// What the CPU entry receives beside its range. Layout is part of the artifact format (kArtifactVersion).
struct CpuCall {
  void* const* buffers;         ///< in the order of Artifact::args
  const std::int64_t* symbols;  ///< in the order of Artifact::symbols
  void* scratch;                ///< CpuLaunch::scratch_bytes of this worker
  const void* const* callees;   ///< functions of kCpuCallees, in that order
};
using CpuEntry = void (*)(const CpuCall*, std::int64_t begin, std::int64_t end);

/// Functions that CPU code may call through CpuCall::callees: double(double), or double(double, double) for the last
/// three. Append only. Everything else is emitted inline.
inline constexpr std::array<const char*, 20> kCpuCallees = {
    "exp",  "exp2", "log",  "log2", "log1p", "expm1", "sin",  "cos", "tan",   "asin",
    "acos", "atan", "sinh", "cosh", "tanh",  "erf",   "cbrt", "pow", "atan2", "fmod"};

inline constexpr std::int32_t kArtifactVersion = 1;

/// Position-independent machine code with its launches. Immutable once made; safe to share between threads.
struct Artifact {
  std::string target;                ///< Target::text of what it was compiled for; the device must satisfy it
  std::vector<std::string> symbols;  ///< order of symbol values
  std::vector<ArtifactArg> args;     ///< order of buffer addresses
  Guard guard;                       ///< what the code assumes
  std::vector<Launch> launches;
  std::vector<std::uint8_t> image;  ///< CPU: flat code and constants, entry by offset; CUDA: cubin
  bool operator==(const Artifact&) const = default;

  /// Everything but `image` as JSON text with a version, and back. bad_artifact when malformed or of another version.
  std::string header_text() const;
  static Result<Artifact> from_parts(std::string_view header_text, std::vector<std::uint8_t> image);
};

}  // namespace loopwright
