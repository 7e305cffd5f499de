#include "src/codegen/cuda/spread.h"

#include <gtest/gtest.h>

namespace loopwright::codegen {
namespace {

using ir::int_imm;

/// A row of vectors: element = round * (threads * 8) + thread * 8 + lane.
struct Row {
  ir::Var thread = ir::fresh_var("t"), round = ir::fresh_var("r"), lane = ir::fresh_var("l");
  std::map<ir::Var, ThreadLoop> threads{{thread, {0, 128}}};
  ir::Facts facts;
  Row() {
    facts.bind_loop(thread, int_imm(128));
    facts.bind_loop(round, int_imm(3));
    facts.bind_loop(lane, int_imm(8));
  }
  ir::Expr at(std::int64_t constant = 0) const {
    return ir::var(round) * int_imm(1024) + ir::var(thread) * int_imm(8) + ir::var(lane) + int_imm(constant);
  }
};

TEST(Spread, vectors_of_a_row_belong_to_the_threads_in_turn) {
  const Row row;
  const auto found = spread_index(row.at(), row.threads, row.facts);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->spread, (Spread{{0, 8, 128}}));
  EXPECT_TRUE(ir::same(found->local, ir::simplify(ir::var(row.round) * int_imm(8) + ir::var(row.lane), row.facts)));
  EXPECT_EQ(count_held(2880, found->spread), 24);
  EXPECT_EQ(count_held(1024, found->spread), 8);
}

TEST(Spread, whole_rounds_in_the_constant_stay_with_the_thread) {
  const Row row;
  const auto found = spread_index(row.at(2048), row.threads, row.facts);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(row.facts.bounds(found->local).lo, 16);
}

TEST(Spread, an_index_that_reaches_into_the_next_thread_is_refused) {
  const Row row;
  EXPECT_FALSE(spread_index(row.at(1), row.threads, row.facts).has_value());
}

TEST(Spread, without_a_thread_every_thread_holds_all) {
  const Row row;
  const auto found = spread_index(ir::var(row.round), row.threads, row.facts);
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(found->spread.empty());
  EXPECT_EQ(count_held(100, found->spread), 100);
}

TEST(Spread, two_axes_nest) {
  Row row;
  const ir::Var down = ir::fresh_var("y");
  row.threads[down] = {1, 4};
  row.facts.bind_loop(down, int_imm(4));
  const auto found = spread_index(ir::var(down) * int_imm(1024) + ir::var(row.thread) * int_imm(8) + ir::var(row.lane), row.threads, row.facts);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->spread, (Spread{{1, 1024, 4}, {0, 8, 128}}));
  EXPECT_EQ(count_held(4096, found->spread), 8);
}

}  // namespace
}  // namespace loopwright::codegen
