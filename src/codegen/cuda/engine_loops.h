// What the texts of rings and of fragments share.
#pragma once

#include <vector>

#include "src/ir/nodes.h"

namespace loopwright::codegen {

inline constexpr std::int64_t kGroup = 128;    ///< threads of a warpgroup
inline constexpr std::int64_t kTileRows = 64;  ///< of one instruction

/// All loops of a kind in a statement, outer ones first.
std::vector<const ir::Loop*> loops_of(const ir::Stmt& s, ir::LoopKind kind);
/// Elements of a buffer of constant shape.
std::int64_t count_of(const ir::BufferInfo& b);

}  // namespace loopwright::codegen
