// What the roles of a ring do in one iteration, as data: the text is printed from it and the simulator runs it.
//
// The ring goes on from one tile of the result to the next: iterations are counted over all tiles of a block. All consumers
// work on every tile, or, with turns, each has tiles of its own: consumer c those with the number c modulo the turns. A
// parity tells only neighbouring rounds of a slot apart, so a consumer may look at the ring only when the one before it has
// seen all of its tile: a barrier for each consumer, `turn`, hands that on (four arrivals, of the warps that had the turn).
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

/// Each consumer is a warpgroup, or a single warp where threads read the slots; warps arrive at barriers one by one.
inline constexpr std::int64_t kWarpsOfGroup = 4;

enum class RingAction : std::uint8_t {
  wait_empty,  ///< until the slot was released in the round before; at once in the first round
  expect,      ///< arrives at `full` and adds the bytes that have to come
  copy,        ///< the engine adds as many bytes when the copy is there
  wait_full,
  multiply,    ///< begins to read the slot
  settle,      ///< until all multiplications but those of the last `back` iterations are done
  release,     ///< arrives at `empty` of the slot used `back` iterations ago, if that was for this tile
  take_turn,   ///< until the consumer before this one has passed the turn on; the first consumer begins
  pass_turn,
};

struct RingOp {
  RingAction action = RingAction::wait_empty;
  std::int64_t bytes = 0;  ///< expect, copy
  std::int64_t back = 0;   ///< settle, release
};

struct RingPlan {
  std::int64_t depth = 0;
  std::int64_t consumers = 1;
  std::int64_t empty_arrivals = 4;     ///< of all consumers together
  std::vector<RingOp> producer;        ///< each iteration
  std::int64_t turns = 1;              ///< consumers that have tiles of their own
  std::vector<RingOp> consumer_first;  ///< in front of the iterations of a tile
  std::vector<RingOp> consumer;        ///< each iteration, every consumer
  std::vector<RingOp> consumer_last;   ///< behind the iterations of a tile
  std::int64_t warps = kWarpsOfGroup;  ///< of a consumer
};

/// How a consumer goes on behind the multiplications of an iteration.
enum class Pace : std::uint8_t {
  overlapped,  ///< with the next iteration's; they end while those are under way
  settled,     ///< with arithmetic on their sums, once they have ended
};

/// The plan of a ring whose slots are filled by copies of so many bytes. `turns`: 1, or all consumers.
RingPlan plan_ring(std::int64_t depth, std::int64_t consumers, const std::vector<std::int64_t>& copy_bytes, std::int64_t turns = 1, Pace pace = Pace::overlapped);

/// The plan of a ring whose slots so many warps read, one of which fills them: iteration i + depth behind its own release of i.
RingPlan plan_row_ring(std::int64_t depth, std::int64_t warps, const std::vector<std::int64_t>& copy_bytes);

/// Runs producer, engine and consumers as coroutines with counted tokens for so many tiles of so many iterations each, the
/// engine as late as it can be. compile_failed for a deadlock, a slot that is overwritten while it is read or read before it is full, bytes that
/// do not add up, and barriers that are left in the middle of a phase.
Status simulate_ring(const RingPlan& plan, std::int64_t iterations, std::int64_t tiles = 1);

}  // namespace loopwright::codegen
