// Artifacts from a few bytes of x86-64 machine code, and plans around them: tests of the runtime need no compiler.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "loopwright/runtime.h"

namespace loopwright::runtime::testing {

using Code = std::vector<std::uint8_t>;

// Each is `void entry(const CpuCall* rdi, int64_t begin rsi, int64_t end rdx)`, position-independent and leaf unless said.

/// float: b1[i] = b0[i] + b0[i]
inline const Code kTwice = {0x48, 0x8b, 0x07,              // mov rax, [rdi]        buffers
                            0x48, 0x8b, 0x08,              // mov rcx, [rax]
                            0x48, 0x8b, 0x40, 0x08,        // mov rax, [rax + 8]
                            0x48, 0x39, 0xd6,              // cmp rsi, rdx
                            0x7d, 0x13,                    // jge end
                            0xf3, 0x0f, 0x10, 0x04, 0xb1,  // movss xmm0, [rcx + rsi*4]
                            0xf3, 0x0f, 0x58, 0xc0,        // addss xmm0, xmm0
                            0xf3, 0x0f, 0x11, 0x04, 0xb0,  // movss [rax + rsi*4], xmm0
                            0x48, 0xff, 0xc6,              // inc rsi
                            0xeb, 0xe8,                    // jmp cmp
                            0xc3};                         // ret
/// float: b0[i] = b0[i] + b0[i]
inline const Code kTwiceInPlace = {0x48, 0x8b, 0x07, 0x48, 0x8b, 0x00, 0x48, 0x39, 0xd6, 0x7d, 0x13,
                                   0xf3, 0x0f, 0x10, 0x04, 0xb0, 0xf3, 0x0f, 0x58, 0xc0, 0xf3, 0x0f,
                                   0x11, 0x04, 0xb0, 0x48, 0xff, 0xc6, 0xeb, 0xe8, 0xc3};
/// float: b2[i] = b0[i] + b1[i]
inline const Code kSum = {0x48, 0x8b, 0x07, 0x48, 0x8b, 0x08, 0x48, 0x8b, 0x78, 0x08, 0x48, 0x8b, 0x40, 0x10,
                          0x48, 0x39, 0xd6, 0x7d, 0x14, 0xf3, 0x0f, 0x10, 0x04, 0xb1, 0xf3, 0x0f, 0x58, 0x04,
                          0xb7, 0xf3, 0x0f, 0x11, 0x04, 0xb0, 0x48, 0xff, 0xc6, 0xeb, 0xe7, 0xc3};
/// float: b1[i] = b0[i] (a workspace); b2[i] = b1[i] + b1[i]
inline const Code kTwiceThroughWorkspace = {0x48, 0x8b, 0x07, 0x48, 0x8b, 0x08, 0x48, 0x8b, 0x78,
                                            0x08, 0x4c, 0x8b, 0x40, 0x10, 0x48, 0x39, 0xd6, 0x7d,
                                            0x24, 0xf3, 0x0f, 0x10, 0x04, 0xb1,  // movss xmm0, [rcx + rsi*4]
                                            0x48, 0x8d, 0x04, 0xb7,              // lea rax, [rdi + rsi*4]
                                            0xf3, 0x0f, 0x11, 0x00,              // movss [rax], xmm0
                                            0xf3, 0x0f, 0x10, 0x00,              // movss xmm0, [rax]
                                            0xf3, 0x0f, 0x10, 0x08,              // movss xmm1, [rax]
                                            0xf3, 0x0f, 0x58, 0xc1,              // addss xmm0, xmm1
                                            0xf3, 0x41, 0x0f, 0x11, 0x04, 0xb0,  // movss [r8 + rsi*4], xmm0
                                            0x48, 0xff, 0xc6, 0xeb, 0xd7, 0xc3};
/// float: scratch[0] = b0[i]; scratch[15] = scratch[0]; b1[i] = scratch[15]. Needs 64 bytes of scratch.
inline const Code kCopyThroughScratch = {
    0x48, 0x8b, 0x0f,        // mov rcx, [rdi]        buffers
    0x48, 0x8b, 0x47, 0x10,  // mov rax, [rdi + 16]   scratch
    0x4c, 0x8b, 0x01, 0x48, 0x8b, 0x49, 0x08, 0x48, 0x39,
    0xd6, 0x7d, 0x22, 0xf3, 0x41, 0x0f, 0x10, 0x04, 0xb0,  // movss xmm0, [r8 + rsi*4]
    0xf3, 0x0f, 0x11, 0x00,                                // movss [rax], xmm0
    0xf3, 0x0f, 0x10, 0x00,                                // movss xmm0, [rax]
    0xf3, 0x0f, 0x11, 0x40, 0x3c,                          // movss [rax + 60], xmm0
    0xf3, 0x0f, 0x10, 0x40, 0x3c,                          // movss xmm0, [rax + 60]
    0xf3, 0x0f, 0x11, 0x04, 0xb1,                          // movss [rcx + rsi*4], xmm0
    0x48, 0xff, 0xc6, 0xeb, 0xd9, 0xc3};
/// double: b1[i] = exp(b0[i]), through the first callee
inline const Code kCallExp = {0x48, 0x8b, 0x07, 0x41, 0x56, 0x41, 0x55, 0x41, 0x54, 0x55, 0x48,
                              0x89, 0xd5, 0x53, 0x4c, 0x8b, 0x20, 0x48, 0x89, 0xf3, 0x4c, 0x8b,
                              0x68, 0x08, 0x48, 0x8b, 0x47, 0x18,  // mov rax, [rdi + 24]   callees
                              0x4c, 0x8b, 0x30, 0x48, 0x39, 0xeb, 0x7d, 0x15, 0xf2, 0x41, 0x0f,
                              0x10, 0x04, 0xdc, 0x41, 0xff, 0xd6,  // call r14
                              0xf2, 0x41, 0x0f, 0x11, 0x44, 0xdd, 0x00, 0x48, 0xff, 0xc3, 0xeb,
                              0xe6, 0x5b, 0x5d, 0x41, 0x5c, 0x41, 0x5d, 0x41, 0x5e, 0xc3};
/// i64: b0[i] = symbols[i]
inline const Code kWriteSymbols = {0x48, 0x8b, 0x07, 0x48, 0x8b, 0x00, 0x48, 0x39,
                                   0xd6, 0x7d, 0x11, 0x48, 0x8b, 0x4f, 0x08,  // mov rcx, [rdi + 8]    symbols
                                   0x48, 0x8b, 0x0c, 0xf1, 0x48, 0x89, 0x0c, 0xf0,
                                   0x48, 0xff, 0xc6, 0xeb, 0xea, 0xc3};
/// Returns at once.
inline const Code kNothing = {0xc3};
/// i64: b0[0] = `value`
inline Code write_constant(std::uint8_t value) {
  return {0x48, 0x8b, 0x07,                  // mov rax, [rdi]
          0x48, 0x8b, 0x00,                  // mov rax, [rax]
          0x48, 0xc7, 0x00, value, 0, 0, 0,  // mov qword [rax], value
          0xc3};
}

inline SizeExpr symbol(int position) { return SizeExpr::symbol(position); }

/// A dense argument of one dimension.
inline ArtifactArg vector_arg(std::string name, ArgRole role, SizeExpr size, DType dtype = DType::f32) {
  return {std::move(name), dtype, role, {std::move(size)}, {SizeExpr(std::int64_t{1})}};
}

/// Code with one launch over `extent`, for any x86-64.
inline std::shared_ptr<Artifact> make_artifact(const Code& code, std::vector<ArtifactArg> args,
                                               SizeExpr extent, std::vector<std::string> symbols = {"s0"}) {
  auto artifact = std::make_shared<Artifact>();
  artifact->target = "cpu:x86-64";
  artifact->symbols = std::move(symbols);
  artifact->args = std::move(args);
  CpuLaunch launch;
  launch.extent = std::move(extent);
  artifact->launches = {launch};
  artifact->image = code;
  return artifact;
}

inline Variant variant_of(std::shared_ptr<const Artifact> artifact, Guard guard = {},
                          std::string label = "hand-made") {
  Variant variant;
  variant.guard = std::move(guard);
  variant.artifact = std::move(artifact);
  variant.label = std::move(label);
  return variant;
}

inline Guard bounds(std::int64_t lo, std::int64_t hi, std::int64_t multiple_of = 1, std::string name = "s0") {
  Guard guard;
  guard.symbols.push_back({std::move(name), lo, hi, multiple_of});
  return guard;
}

inline PlanTensor vector_tensor(std::string name, ArgRole role, SizeExpr size, DType dtype = DType::f32) {
  return {std::move(name), dtype, role, {std::move(size)}, {SizeExpr(std::int64_t{1})}};
}

/// y[i] = 2 x[i] over n in lo..hi, one kernel with one symbol.
inline PlanSpec twice_spec(std::int64_t lo = 1, std::int64_t hi = 1000) {
  PlanSpec spec;
  spec.name = "twice";
  spec.graph_digest = std::string(64, 'a');
  spec.symbols = {{"n", lo, hi}};
  spec.tensors = {vector_tensor("x", ArgRole::input, symbol(0)),
                  vector_tensor("y", ArgRole::output, symbol(0))};
  spec.kernels = {{std::string(64, 'b'), "elementwise", {0, 1}, {0}, {"s0"}}};
  return spec;
}
/// x → t1 → t2 → … → y, each the double of the one before: `kernels` kernels with intermediates of s0 floats.
inline PlanSpec chain_spec(int kernels, std::int64_t hi) {
  PlanSpec spec = twice_spec(0, hi);
  spec.name = "chain";
  spec.kernels.clear();
  for (int k = 1; k < kernels; ++k)
    spec.tensors.push_back(vector_tensor("t" + std::to_string(k), ArgRole::workspace, symbol(0)));
  for (int k = 0; k < kernels; ++k)
    spec.kernels.push_back(
        {"w", "elementwise", {k == 0 ? 0 : k + 1, k == kernels - 1 ? 1 : k + 2}, {0}, {"s0"}});
  return spec;
}

inline std::shared_ptr<Artifact> twice_artifact() {
  return make_artifact(
      kTwice, {vector_arg("x", ArgRole::input, symbol(0)), vector_arg("y", ArgRole::output, symbol(0))},
      symbol(0));
}

inline Plan twice_plan(std::int64_t lo = 1, std::int64_t hi = 1000) {
  return Plan::make(twice_spec(lo, hi), {{variant_of(twice_artifact())}}).value();
}

/// A dense view whose shape lives here.
template <class T>
struct Held {
  std::vector<T> data;
  std::vector<std::int64_t> shape;
  Held(std::vector<T> values)
      : data(std::move(values)), shape{static_cast<std::int64_t>(data.size())} {}  // NOLINT
  TensorView view(DType dtype) { return {data.data(), dtype, shape, {}}; }
};

}  // namespace loopwright::runtime::testing
