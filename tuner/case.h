// One set of inputs on which candidates are verified, with what must come out.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "loopwright/artifact.h"
#include "src/ir/kernel.h"
#include "tuner/protocol.h"
#include "tuner/tolerance.h"
#include "tuner/values.h"

namespace loopwright::tuner {

/// A region of the arena: pages that nobody may touch, known bytes, the buffer, known bytes, pages that nobody may touch.
struct GuardedBuffer {
  std::uint64_t zone_before = 0, zone_after = 0;  ///< each kZoneBytes long
  std::uint64_t front = 0;                        ///< known bytes from here to `data`
  std::uint64_t data = 0;
  std::uint64_t bytes = 0;                        ///< known bytes from data + bytes to zone_after
};
inline constexpr std::uint64_t kPageBytes = 4096;
inline constexpr std::uint64_t kZoneBytes = 16 * kPageBytes;
inline constexpr std::uint64_t kCanaryBytes = 256;
inline constexpr std::uint8_t kCanary = 0xC5;
constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t to) { return (value + to - 1) / to * to; }

/// How buffers lie in front of the pages behind them.
enum class Placement : std::uint8_t {
  aligned,  ///< to 64 bytes; up to 63 known bytes between the end and the page
  exact,    ///< the end is the end of the page, so addresses are aligned to the element alone
};
/// Takes room from `next`, which moves on.
GuardedBuffer place_buffer(std::uint64_t& next, std::uint64_t bytes, std::int64_t element_bytes, Placement placement);

/// Elements that a shape with strides spans in memory (1 past the last), and where each element is (row-major).
std::int64_t count_span(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides);
std::vector<std::int64_t> list_positions(const std::vector<std::int64_t>& shape,
                                         const std::vector<std::int64_t>& strides);  ///< empty when dense
std::vector<std::int64_t> evaluate_all(const std::vector<SizeExpr>& sizes, const std::vector<std::int64_t>& symbols);
/// Values for `artifact.symbols`.
std::vector<std::int64_t> symbol_values(const std::vector<std::string>& names, const Bindings& probe);

/// Kept where no candidate can reach it; shared by cases that differ in their places alone.
struct CaseContent {
  std::vector<std::uint8_t> pristine;  ///< of inputs and inouts: what is there before a run
  std::vector<double> expected;        ///< of outputs and inouts, row-major
  std::vector<double> doubt;           ///< how far each may be off besides (tuner/doubt.h); empty: nowhere
};

struct CaseBuffer {
  std::string name;
  DType dtype = DType::f32;
  ArgRole role = ArgRole::input;
  std::int64_t span = 0;                  ///< elements
  std::vector<std::int64_t> positions;    ///< of outputs and inouts, when not dense
  std::shared_ptr<CaseContent> content = std::make_shared<CaseContent>();
  Tolerance tolerance;
  GuardedBuffer place;
};

struct Case {
  Bindings probe;
  std::int64_t seed = 0;
  Draw draw = Draw::normal;
  Placement placement = Placement::aligned;
  std::vector<CaseBuffer> buffers;  ///< the artifact's arguments without workspace
  bool is_final = false;            ///< one of Setup::final_probes
  bool prepared = false;
  bool usable = true;               ///< false: too large, or the reference takes too long
  double reference_s = 0;
  double best_run_ns = 0;           ///< the fastest launch of a candidate that passed; 0 = none yet
  std::int64_t bytes = 0;
};

/// Buffers of the arguments that are not workspace, sized for the probe, with random inputs; no places, no expectations.
/// Shapes are the reference's, dtypes the kernel's (the reference has float64 where the kernel writes floats).
std::vector<CaseBuffer> make_case_buffers(const Artifact& reference, const ir::Kernel& naive, const Bindings& probe,
                                          Draw draw, std::uint64_t seed);
/// Bytes of all those buffers, without making them.
std::int64_t count_case_bytes(const Artifact& reference, const Bindings& probe);

/// Writes known bytes around a buffer.
void paint_canaries(Arena& arena, const GuardedBuffer& place);
/// The offset of the first known byte that changed, relative to the buffer (negative: before it).
std::optional<std::int64_t> find_broken_canary(const Arena& arena, const GuardedBuffer& place);

}  // namespace loopwright::tuner
