#include "src/codegen/cuda/ring_plan.h"

#include <gtest/gtest.h>

namespace loopwright::codegen {
namespace {

RingPlan sound(std::int64_t depth = 3, std::int64_t consumers = 2) { return plan_ring(depth, consumers, {8192, 16384}); }

std::string reason(const RingPlan& plan, std::int64_t iterations, std::int64_t tiles = 1) {
  const Status s = simulate_ring(plan, iterations, tiles);
  return s.ok() ? "" : s.error().found;
}

TEST(RingPlan, holds_for_any_length_depth_and_number_of_consumers) {
  for (std::int64_t depth = 2; depth <= 8; ++depth)
    for (std::int64_t consumers = 1; consumers <= 3; ++consumers)
      for (std::int64_t iterations = 0; iterations <= 4 * depth + 1; ++iterations)
        EXPECT_EQ(reason(sound(depth, consumers), iterations), "") << depth << " " << consumers << " " << iterations;
}

TEST(RingPlan, goes_on_from_tile_to_tile) {
  for (std::int64_t depth = 2; depth <= 5; ++depth)
    for (std::int64_t consumers = 1; consumers <= 3; ++consumers)
      for (std::int64_t iterations = 0; iterations <= 2 * depth + 1; ++iterations)
        for (std::int64_t tiles = 0; tiles <= 7; ++tiles) EXPECT_EQ(reason(sound(depth, consumers), iterations, tiles), "") << depth << " " << consumers << " " << iterations << " " << tiles;
}

TEST(RingPlan, consumers_take_turns_at_tiles_of_their_own) {
  for (std::int64_t depth = 2; depth <= 5; ++depth)
    for (std::int64_t turns = 2; turns <= 3; ++turns)
      for (std::int64_t iterations = 1; iterations <= 4 * depth + 1; ++iterations)
        for (std::int64_t tiles = 0; tiles <= 9; ++tiles) EXPECT_EQ(reason(plan_ring(depth, turns, {8192}, turns), iterations, tiles), "") << depth << " " << turns << " " << iterations << " " << tiles;
}

TEST(RingPlan, consumers_that_settle_release_what_they_have_read) {
  for (std::int64_t depth = 2; depth <= 4; ++depth)
    for (std::int64_t consumers = 1; consumers <= 3; ++consumers)
      for (std::int64_t iterations = 0; iterations <= 4 * depth + 1; ++iterations)
        for (std::int64_t tiles = 1; tiles <= 5; ++tiles)
          EXPECT_EQ(reason(plan_ring(depth, consumers, {49152, 49152}, 1, Pace::settled), iterations, tiles), "") << depth << " " << consumers << " " << iterations << " " << tiles;
  RingPlan early = plan_ring(2, 2, {8192}, 1, Pace::settled);
  std::swap(early.consumer[2], early.consumer[3]);
  EXPECT_NE(reason(early, 5), "");
}

TEST(RingPlan, who_does_not_wait_for_the_turn_takes_an_older_round_for_its_own) {
  RingPlan p = plan_ring(3, 2, {8192}, 2);
  p.consumer_first.clear();
  std::erase_if(p.consumer_last, [](const RingOp& op) { return op.action == RingAction::pass_turn; });
  EXPECT_NE(reason(p, 6, 4), "");
}

TEST(RingPlan, a_turn_that_nobody_passes_on_is_a_deadlock) {
  RingPlan p = plan_ring(3, 2, {8192}, 2);
  std::erase_if(p.consumer_last, [](const RingOp& op) { return op.action == RingAction::pass_turn; });
  EXPECT_NE(reason(p, 2, 3).find("waits for ever"), std::string::npos) << reason(p, 2, 3);
}

TEST(RingPlan, a_turn_is_passed_on_once) {
  RingPlan p = plan_ring(3, 2, {8192}, 2);
  p.consumer.push_back({RingAction::pass_turn, 0, 0});
  EXPECT_NE(reason(p, 4, 4), "");
}

TEST(RingPlan, the_last_slot_of_a_tile_is_released) {
  RingPlan p = sound();
  std::erase_if(p.consumer_last, [](const RingOp& op) { return op.action == RingAction::release; });
  EXPECT_NE(reason(p, 4, 3).find("the producer waits for ever"), std::string::npos) << reason(p, 4, 3);
}

TEST(RingPlan, a_missing_release_is_a_deadlock) {
  RingPlan p = sound();
  std::erase_if(p.consumer, [](const RingOp& op) { return op.action == RingAction::release; });
  EXPECT_NE(reason(p, 9).find("the producer waits for ever in iteration 3"), std::string::npos) << reason(p, 9);
}

TEST(RingPlan, too_many_expected_bytes_are_a_deadlock) {
  RingPlan p = sound();
  for (RingOp& op : p.producer)
    if (op.action == RingAction::expect) op.bytes += 16;
  EXPECT_NE(reason(p, 9).find("waits for ever"), std::string::npos) << reason(p, 9);
}

TEST(RingPlan, too_few_expected_bytes_are_found) {
  RingPlan p = sound();
  for (RingOp& op : p.producer)
    if (op.action == RingAction::expect) op.bytes = 8192;
  EXPECT_NE(reason(p, 9).find("not full"), std::string::npos) << reason(p, 9);
}

TEST(RingPlan, a_slot_is_not_filled_while_it_is_read) {
  RingPlan p = sound();
  std::erase_if(p.producer, [](const RingOp& op) { return op.action == RingAction::wait_empty; });
  EXPECT_NE(reason(p, 9), "");
}

TEST(RingPlan, a_slot_is_not_released_while_the_tensor_cores_read_it) {
  RingPlan p = sound();
  for (RingOp& op : p.consumer) op.back = 0;
  for (RingOp& op : p.consumer)
    if (op.action == RingAction::settle) op.back = 1;
  EXPECT_NE(reason(p, 9).find("released while it is read"), std::string::npos) << reason(p, 9);
}

TEST(RingPlan, a_read_waits_for_its_copies) {
  RingPlan p = sound();
  std::erase_if(p.consumer, [](const RingOp& op) { return op.action == RingAction::wait_full; });
  EXPECT_NE(reason(p, 9).find("reads a slot that is not full"), std::string::npos) << reason(p, 9);
}

TEST(RingPlan, arrivals_are_counted) {
  RingPlan p = sound();
  p.empty_arrivals = 4;
  EXPECT_NE(reason(p, 9), "");
  p.empty_arrivals = 12;
  EXPECT_NE(reason(p, 9), "");
}

}  // namespace
}  // namespace loopwright::codegen
