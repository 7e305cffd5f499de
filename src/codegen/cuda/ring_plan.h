// What the roles of a ring do in one iteration, as data: the text is printed from it and the simulator runs it.
//
// A ring has `depth` slots with two barriers each: `full` (one arrival, of the producer, and the bytes of the slot's
// copies) and `empty` (arrivals of the consumers' warps). Iteration i uses slot i mod depth in round i / depth. A barrier's
// phase changes when its arrivals and bytes are complete; who waits names the parity of the phase that has to be over.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loopwright/base.h"

namespace loopwright::codegen {

enum class RingAction : std::uint8_t {
  wait_empty,  ///< until the slot was released in the round before; at once in the first round
  expect,      ///< arrives at `full` and adds the bytes that have to come
  copy,        ///< the engine adds as many bytes when the copy is there
  wait_full,
  multiply,    ///< begins to read the slot
  settle,      ///< until all multiplications but those of the last `back` iterations are done
  release,     ///< arrives at `empty` of the slot used `back` iterations ago, if there was one
};

struct RingOp {
  RingAction action = RingAction::wait_empty;
  std::int64_t bytes = 0;  ///< expect, copy
  std::int64_t back = 0;   ///< settle, release
};

struct RingPlan {
  std::int64_t depth = 0;
  std::int64_t consumers = 1;          ///< warpgroups
  std::int64_t empty_arrivals = 4;     ///< of all consumers together
  std::vector<RingOp> producer;        ///< each iteration
  std::vector<RingOp> consumer;        ///< each iteration, every consumer
  std::vector<RingOp> consumer_last;   ///< behind the loop
};

/// The plan of a ring whose slots are filled by copies of so many bytes.
RingPlan plan_ring(std::int64_t depth, std::int64_t consumers, const std::vector<std::int64_t>& copy_bytes);

/// Runs producer, engine and consumers as coroutines with counted tokens for so many iterations, the engine as late as it
/// can be. compile_failed for a deadlock, a slot that is overwritten while it is read or read before it is full, bytes that
/// do not add up, and barriers that are left in the middle of a phase.
Status simulate_ring(const RingPlan& plan, std::int64_t iterations);

}  // namespace loopwright::codegen
