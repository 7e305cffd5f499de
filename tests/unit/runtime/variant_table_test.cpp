#include "src/runtime/variant_table.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/unit/runtime/hand_made.h"

namespace loopwright::runtime {
namespace {

using testing::bounds;

int choose_slowly(const std::vector<Guard>& guards, const Bindings& values, std::uint64_t address_bits) {
  for (std::size_t v = 0; v < guards.size(); ++v)
    if (guards[v].holds(values) && address_bits % static_cast<std::uint64_t>(guards[v].alignment_bytes) == 0)
      return static_cast<int>(v);
  return -1;
}

TEST(VariantTable, BoundsAreInclusive) {
  const auto table = VariantTable::make({bounds(1, 64), bounds(65, 128)}, {"s0"}, {0}).value();
  const auto at = [&](std::int64_t value) { return table.choose(&value, 0); };
  EXPECT_EQ(at(0), -1);
  EXPECT_EQ(at(1), 0);
  EXPECT_EQ(at(64), 0);
  EXPECT_EQ(at(65), 1);
  EXPECT_EQ(at(128), 1);
  EXPECT_EQ(at(129), -1);
}

TEST(VariantTable, TheFirstThatHoldsWins) {
  const auto table =
      VariantTable::make({bounds(0, INT64_MAX, 8), bounds(10, 20), Guard{}}, {"s0"}, {0}).value();
  const auto at = [&](std::int64_t value) { return table.choose(&value, 0); };
  EXPECT_EQ(at(16), 0);
  EXPECT_EQ(at(17), 1);
  EXPECT_EQ(at(21), 2);
  EXPECT_EQ(at(INT64_MAX), 2);
}

TEST(VariantTable, AlignmentIsThatOfTheWorstAddress) {
  Guard aligned;
  aligned.alignment_bytes = 64;
  const auto table = VariantTable::make({aligned, Guard{}}, {}, {}).value();
  EXPECT_TRUE(table.needs_addresses());
  EXPECT_EQ(table.choose(nullptr, 128 | 64), 0);
  EXPECT_EQ(table.choose(nullptr, 128 | 32), 1);
  EXPECT_FALSE(VariantTable::make({Guard{}}, {}, {}).value().needs_addresses());
}

TEST(VariantTable, BadGuardsAreRefused) {
  Guard odd;
  odd.alignment_bytes = 12;
  EXPECT_EQ(VariantTable::make({odd}, {}, {}).error().code, ErrorCode::bad_artifact);
  EXPECT_EQ(VariantTable::make({bounds(1, 2, 1, "elsewhere")}, {"s0"}, {0}).error().code,
            ErrorCode::bad_artifact);
  EXPECT_EQ(VariantTable::make({bounds(1, 2, 0)}, {"s0"}, {0}).error().code, ErrorCode::bad_artifact);
}

TEST(VariantTable, AgreesWithAScanOverRandomGuards) {
  std::mt19937 random(7);
  const auto draw = [&](std::int64_t lo, std::int64_t hi) {
    return std::uniform_int_distribution<std::int64_t>(lo, hi)(random);
  };
  for (int round = 0; round < 300; ++round) {
    const std::vector<std::string> names = {"a", "b", "c"};
    const std::vector<std::int32_t> positions = {2, 0, 1};
    std::vector<Guard> guards;
    for (std::int64_t v = draw(1, round % 10 == 0 ? 150 : 12); v > 0; --v) {
      Guard guard;
      for (const std::string& name : names) {
        if (draw(0, 2) == 0) continue;
        const std::int64_t lo = draw(0, 40);
        guard.symbols.push_back(
            {name, lo, draw(0, 4) == 0 ? INT64_MAX : lo + draw(-2, 30), draw(0, 2) == 0 ? draw(2, 6) : 1});
      }
      guard.alignment_bytes = std::int64_t{1} << draw(0, 4);
      guards.push_back(guard);
    }
    const auto table = VariantTable::make(guards, names, positions).value();
    for (int probe = 0; probe < 60; ++probe) {
      const std::int64_t symbols[] = {draw(0, 80), draw(0, 80), draw(0, 80)};
      const std::uint64_t bits = static_cast<std::uint64_t>(draw(0, 15));
      const Bindings values = {{"a", symbols[2]}, {"b", symbols[0]}, {"c", symbols[1]}};
      ASSERT_EQ(table.choose(symbols, bits), choose_slowly(guards, values, bits)) << "round " << round;
    }
  }
}

}  // namespace
}  // namespace loopwright::runtime
