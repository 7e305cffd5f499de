#include "src/runtime/arena.h"

#include <gtest/gtest.h>

#include <random>

#include "src/runtime/device.h"
#include "tests/unit/runtime/hand_made.h"

namespace loopwright::runtime {
namespace {

using testing::symbol;
using Op = SizeExpr::Op;

std::vector<std::int64_t> offsets_at(const ArenaLayout& layout, const std::int64_t* symbols,
                                     std::int64_t& total) {
  std::vector<std::int64_t> starts;
  total = 0;
  for (const SizeExpr& bytes : layout.slot_bytes) {
    starts.push_back(total);
    total += bytes.evaluate(symbols);
  }
  return starts;
}

TEST(Arena, BlocksOfDisjointLivesShareASlot) {
  const SizeExpr n = SizeExpr::apply(Op::mul, symbol(0), 4);
  const ArenaLayout layout = lay_out({{n, 0, 1}, {n, 1, 2}, {n, 2, 3}, {n, 3, 4}}, {{"n", 1, 1000}});
  EXPECT_EQ(layout.slot_bytes.size(), 2U);
  EXPECT_EQ(layout.slot_of[0], layout.slot_of[2]);
  EXPECT_EQ(layout.slot_of[1], layout.slot_of[3]);
}

TEST(Arena, ASmallBlockReusesALargeSlot) {
  const ArenaLayout layout = lay_out({{SizeExpr(10), 0, 0}, {SizeExpr(5000), 1, 1}}, {});
  ASSERT_EQ(layout.slot_bytes.size(), 1U);
  EXPECT_EQ(layout.slot_bytes[0].evaluate(nullptr), 5120) << "5000 rounded to whole blocks";
}

TEST(Arena, LiveBlocksNeverOverlapAtAnySizes) {
  std::mt19937 random(11);
  const auto draw = [&](std::int64_t lo, std::int64_t hi) {
    return std::uniform_int_distribution<std::int64_t>(lo, hi)(random);
  };
  for (int round = 0; round < 200; ++round) {
    const std::vector<Symbol> symbols = {{"a", 0, 100}, {"b", 0, 100}};
    std::vector<Block> blocks;
    for (std::int64_t b = draw(1, 12); b > 0; --b) {
      SizeExpr bytes = SizeExpr::apply(Op::mul, symbol(static_cast<int>(draw(0, 1))), draw(1, 64));
      if (draw(0, 2) == 0) bytes = SizeExpr::apply(Op::mul, bytes, symbol(static_cast<int>(draw(0, 1))));
      bytes = SizeExpr::apply(Op::add, bytes, draw(0, 300));
      const int first = static_cast<int>(draw(0, 8));
      blocks.push_back({bytes, first, first + static_cast<int>(draw(0, 3))});
    }
    const ArenaLayout layout = lay_out(blocks, symbols);
    for (int probe = 0; probe < 20; ++probe) {
      const std::int64_t values[] = {draw(0, 100), draw(0, 100)};
      std::int64_t total = 0;
      const auto starts = offsets_at(layout, values, total);
      for (std::size_t i = 0; i < blocks.size(); ++i) {
        const auto slot_i = static_cast<std::size_t>(layout.slot_of[i]);
        ASSERT_EQ(starts[slot_i] % kBlockAlignment, 0);
        ASSERT_LE(blocks[i].bytes.evaluate(values), layout.slot_bytes[slot_i].evaluate(values));
        for (std::size_t j = 0; j < i; ++j) {
          const bool both_live = blocks[i].first <= blocks[j].last && blocks[j].first <= blocks[i].last;
          ASSERT_FALSE(both_live && layout.slot_of[i] == layout.slot_of[j]) << "round " << round;
        }
      }
    }
  }
}

TEST(Arena, SpanCountsToTheLastElement) {
  const std::int64_t n = 400;
  EXPECT_EQ(span_bytes({symbol(0), SizeExpr(400)}, {SizeExpr(800), SizeExpr(2)}, DType::i64).evaluate(&n),
            (399 * 800 + 399 * 2 + 1) * 8);
  EXPECT_EQ(span_bytes({}, {}, DType::f32).evaluate(nullptr), 4) << "a scalar is one element";
  const std::int64_t zero = 0;
  EXPECT_GE(span_bytes({symbol(0), SizeExpr(4)}, {SizeExpr(4), SizeExpr(1)}, DType::f32).evaluate(&zero), 0);
}

TEST(Arena, SymbolsMoveToTheirPlaces) {
  const SizeExpr expr = SizeExpr::parse("s0 64 ceil_div s1 mul").value();
  EXPECT_EQ(move_symbols(expr, {3, 1}).text(), "s3 64 ceil_div s1 mul");
}

}  // namespace
}  // namespace loopwright::runtime
