// Where the threads of a block must wait for each other: derived from what each statement reads and writes.
#pragma once

#include <set>

#include "src/codegen/cuda/spread.h"
#include "src/ir/kernel.h"

namespace loopwright::codegen {

/// Threads of one block, and blocks of a cluster.
struct BlockShape {
  std::int64_t x = 1, y = 1;
  std::int64_t cluster = 1;
  std::int64_t threads() const { return x * y; }
};

/// True when the combination needs slots in shared memory, and with them a barrier.
bool needs_slots(std::int64_t ways);

/// Statements in front of which there is a barrier: of all threads, of the block inside a cluster_x loop, or of the
/// threads of one row inside a thread_y loop.
/// Memory that other threads can see is what is neither in registers nor in `constant` (never written in this launch).
std::set<const ir::StmtNode*> plan_barriers(const ir::Stmt& body, const ir::Facts& facts, const BlockShape& block);

}  // namespace loopwright::codegen
